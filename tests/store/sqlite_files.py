"""Stores on disk for the tests of the SQLite store."""

import asyncio
import hashlib
import random
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_file import sessions_and_chunks
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


def filled(folder: Path, sessions: dict[str, int]) -> Path:
    store = SqliteStore(folder)
    for name, head in sessions.items():
        store.append(name, 0, [noise(number) for number in range(1, head + 1)])
    store.close()
    return folder / FILE


def first_version(folder: Path, sessions: dict[str, int]) -> Path:
    """A store as the first version of the file was: every append wrote the session's entry, loose rows tell no time.

    Written with SQL alone, so that nothing here changes when the store does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(folder / FILE)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA application_id={0x54696465}")
    db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)")
    sessions_and_chunks(db)
    db.execute("INSERT INTO migrations VALUES ('sessions_and_chunks', 1.0)")
    for session, (name, head) in enumerate(sessions.items(), 1):
        packed = head // 64 * 64
        spans = [(first, 64, 1) for first in range(1, packed, 64)]
        spans += [(first, 1, 0) for first in range(packed + 1, head + 1)]
        for first, count, pack in spans:
            data = msgspec.msgpack.encode([noise(number) for number in range(first, first + count)])
            data = zlib.compress(data, 3) if pack else data
            check = hashlib.sha256(b"%d %d %d " % (first, count, pack) + data).digest()
            db.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", ((session << 36) + first, count, pack, check, data))
        span = (session << 36, (session + 1) << 36, packed + (session << 36))
        size, loose = db.execute(
            "SELECT total(length(data)), total(length(data) * (id > ?3)) FROM chunks WHERE id > ?1 AND id < ?2", span
        ).fetchone()
        entry = (session, name, head, packed, int(loose), int(size), 1e9, 1.5e9 + session)
        check_of_entry = zlib.crc32(repr(entry).encode())
        db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*entry, check_of_entry))
    db.commit()
    db.close()
    return folder / FILE
