"""Requests of clients: read without loss, edited by splices into their own bytes."""
