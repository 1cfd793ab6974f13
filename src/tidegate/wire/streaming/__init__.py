"""Streams of a provider's answer, and the messages they carry."""
