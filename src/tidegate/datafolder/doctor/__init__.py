"""Finds damage in a data folder and repairs it."""
