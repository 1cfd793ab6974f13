"""A live log: the library's face."""
