"""Slash commands, used by the terminal app and the command line."""
