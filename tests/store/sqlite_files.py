"""Stores on disk for the tests of the SQLite store."""

import asyncio
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.tables import MIGRATIONS
from tidegate.store.store import AsyncAppendStore

FILE = "tidegate.db"


def noise(number: int, session: str = "") -> bytes:
    """A record that no compression makes smaller, and that tells its number."""
    rng = random.Random(f"{session} {number}") if session else random.Random(number)
    return b"record %d " % number + rng.randbytes(100 + number % 200)


def together(store: AsyncAppendStore, after: dict[str, int], records: Sequence[bytes] | None = None) -> list[int]:
    """One append for each session, all in one commit: these records, or the next one."""

    async def act() -> list[int]:
        told = (
            store.append_async(name, head, [noise(head + 1, name)] if records is None else records)
            for name, head in after.items()
        )
        return await asyncio.gather(*told)

    return asyncio.run(act())


def open_with_connection(folder: Path) -> tuple[SqliteStore, sqlite3.Connection]:
    """A store, and the connection that it uses, which a migration of the caller is given."""
    connections: list[sqlite3.Connection] = []

    def keep_connection(db: sqlite3.Connection) -> None:
        connections.append(db)

    SqliteStore(folder).close()  # a new file is made by another connection
    store = SqliteStore(folder, migrations=(*MIGRATIONS, keep_connection))
    return store, connections[0]


def filled(folder: Path, sessions: dict[str, int]) -> Path:
    store = SqliteStore(folder)
    for name, head in sessions.items():
        store.append(name, 0, [noise(number) for number in range(1, head + 1)])
    store.close()
    return folder / FILE


def change(folder: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount != 0, f"nothing was changed by {statement}"
