"""Shortening of old tool results, line by line."""
