"""Screens and panels that open over the conversation."""
