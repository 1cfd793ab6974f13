"""Readers for the session files of coding agents."""
