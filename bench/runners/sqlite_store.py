"""SQLite itself, as safe as it can be: WAL, synchronous=FULL, one INSERT of the given bytes for each append."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bench_conversation import make_message
from command_runner import Job, serve_commands


class Raw:
    def open(self, folder: str) -> Job:
        def job() -> None:
            self.db = sqlite3.connect(Path(folder) / "raw.db", isolation_level=None)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, data BLOB)")

        return job

    def append(self, first: int, count: int, size: int) -> Job:
        records = [make_message(index)["content"][:size].encode() for index in range(first, first + count)]

        def job() -> None:
            for record in records:
                self.db.execute("INSERT INTO records (data) VALUES (?)", (record,))

        return job


if __name__ == "__main__":
    serve_commands(Raw())
