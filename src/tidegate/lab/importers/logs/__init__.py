"""Readers for logs of requests, spans and messages."""
