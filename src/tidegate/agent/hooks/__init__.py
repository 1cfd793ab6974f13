"""Hooks: conditions and actions at the start and end of turns."""
