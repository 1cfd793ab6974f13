"""Output to a terminal: colors, progress, tables, signals."""
