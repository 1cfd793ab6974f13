"""Policies: what they are and how their files are read."""
