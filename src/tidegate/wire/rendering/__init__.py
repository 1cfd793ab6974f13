"""What the renderers of all dialects share."""
