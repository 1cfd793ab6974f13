"""What a comparison found, as data and as text."""
