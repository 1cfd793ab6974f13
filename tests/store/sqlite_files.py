"""Stores on disk for the tests of the SQLite store."""

import asyncio
import hashlib
import random
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.migrations import MIGRATIONS
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


# --- earlier formats: written with SQL alone, so that nothing here changes when the store does ------------------------

FORMATS = ("sessions_and_chunks", "marked_chunks", "placed_and_arrived", "batches_and_members", "written_anew")
"""What these formats note of themselves in the file, the first one first."""
_STEPS = (
    (
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, head INTEGER NOT NULL,"
        " packed INTEGER NOT NULL, loose INTEGER NOT NULL, size INTEGER NOT NULL, created REAL NOT NULL,"
        " used REAL NOT NULL, sum INTEGER NOT NULL)",
        "CREATE TABLE chunks (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, packed INTEGER NOT NULL,"
        " sum BLOB NOT NULL, data BLOB NOT NULL)",
    ),
    ("ALTER TABLE chunks RENAME COLUMN packed TO mark",),
    (
        "ALTER TABLE chunks RENAME TO placed",
        "CREATE TABLE arrived (turn INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, own INTEGER NOT NULL,"
        " count INTEGER NOT NULL, mark INTEGER NOT NULL, sum BLOB NOT NULL, data BLOB NOT NULL)",
        "CREATE VIEW chunks AS SELECT id, count, mark, sum, data FROM placed"
        " UNION ALL SELECT id, count, mark, sum, data FROM arrived",
    ),
    (
        "CREATE TABLE batches (turn INTEGER PRIMARY KEY, heads BLOB NOT NULL, data BLOB NOT NULL)",
        "CREATE TABLE members (turn INTEGER PRIMARY KEY, ids BLOB NOT NULL)",
        "DROP VIEW chunks",
        "DROP TABLE arrived",
        "CREATE VIEW chunks AS SELECT id, count, mark, sum, data FROM placed",
    ),
    ("ALTER TABLE sessions RENAME COLUMN sum TO seal",),
)


def old_format(folder: Path, number: int, sessions: dict[str, int]) -> Path:
    """A store of format 1 to 5: rows of 64 records, and a row for each that is left."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA application_id={0x54696465}")
        db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)")
        for place, (name, statements) in enumerate(zip(FORMATS[:number], _STEPS, strict=False), 1):
            for statement in statements:
                db.execute(statement)
            db.execute("INSERT INTO migrations VALUES (?, ?)", (name, float(place)))
        for session, (name, head) in enumerate(sessions.items(), 1):
            _insert_session(db, "placed" if number > 2 else "chunks", session, name, head)
        db.commit()
    return folder / FILE


def _insert_session(db: sqlite3.Connection, table: str, session: int, name: str, head: int) -> None:
    packed = head // 64 * 64
    spans = [(first, 64, 1) for first in range(1, packed, 64)]
    spans += [(first, 1, 0) for first in range(packed + 1, head + 1)]
    size = loose = 0
    for first, count, pack in spans:
        data = msgspec.msgpack.encode([noise(number) for number in range(first, first + count)])
        data = zlib.compress(data, 3) if pack else data
        check = hashlib.sha256(b"%d %d %d " % (first, count, pack) + data).digest()
        db.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", ((session << 36) + first, count, pack, check, data))
        size += len(data)
        loose += 0 if pack else len(data)
    entry = (session, name, head, packed, loose, size, 1e9, 1.5e9 + session)
    check_of_entry = zlib.crc32(repr(entry).encode())
    db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*entry, check_of_entry))
