"""Texts: clipping, facts, rules and secrets in them."""
