"""Compare policies and other tools on the same recordings."""
