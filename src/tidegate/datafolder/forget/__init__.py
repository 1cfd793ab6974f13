"""Remove words or whole sessions from everything that holds them."""
