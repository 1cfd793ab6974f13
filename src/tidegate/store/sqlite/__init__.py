"""The store on one machine: one SQLite file in a data folder, for many threads, tasks and processes."""

from tidegate.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
