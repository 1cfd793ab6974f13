"""Adapters to other systems."""
