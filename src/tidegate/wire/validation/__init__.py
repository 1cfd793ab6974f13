"""What the validators of all dialects share."""
