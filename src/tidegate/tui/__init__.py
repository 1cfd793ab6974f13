"""The full-screen terminal app, and the plain one for terminals that cannot draw it."""
