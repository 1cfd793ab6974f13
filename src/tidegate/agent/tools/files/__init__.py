"""File tools, confined to the workspace."""
