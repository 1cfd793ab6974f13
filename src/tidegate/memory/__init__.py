"""Long-term memory: notes that people can read and edit, and search over them and over the logs."""
