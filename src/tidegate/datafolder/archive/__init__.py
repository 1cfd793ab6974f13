"""A session as one portable file."""
