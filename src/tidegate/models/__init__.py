"""Models: providers, their errors, token counters, windows and prices."""
