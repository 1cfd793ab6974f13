"""Measures of a request: what it keeps, what it costs, whether it is valid."""
