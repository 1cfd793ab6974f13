"""The store in PostgreSQL: `store` keeps the sessions, `connection` opens and migrates, `statements` is the SQL."""

from tidegate.store.postgres.store import MAX_RECORD, PostgresStore

__all__ = ["MAX_RECORD", "PostgresStore"]
