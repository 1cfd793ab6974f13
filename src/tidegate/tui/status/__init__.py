"""What the app says about the window and about its work."""
