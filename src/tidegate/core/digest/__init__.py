"""The summary that needs no model."""
