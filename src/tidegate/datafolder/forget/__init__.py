"""Removes words, messages or whole sessions from the log and everything derived from it."""
