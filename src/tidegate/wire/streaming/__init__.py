"""Streams of a provider's answer: reading, assembling and, for fakes, encoding them."""
