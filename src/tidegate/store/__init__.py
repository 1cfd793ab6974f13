"""Stores: the logs of sessions in memory, in SQLite or in PostgreSQL, behind one interface."""
