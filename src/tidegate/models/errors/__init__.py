"""What providers refuse and why, read from their answers."""
