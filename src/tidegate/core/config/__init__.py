"""YAML files with positions, and the values in them."""
