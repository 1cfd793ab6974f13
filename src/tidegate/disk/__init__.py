"""Files in a folder: confined, written whole, private. Store, memory and session stand on it."""
