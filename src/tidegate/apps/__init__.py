"""The faces for people: the command line and the demo."""
