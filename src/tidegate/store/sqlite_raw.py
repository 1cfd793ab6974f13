"""Rows of a SQLite store as they lie in the file, believed or not: what is kept of them before they are replaced."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.store.errors import Broken
from tidegate.store.sqlite_batches import Batches
from tidegate.store.sqlite_file import damage_aside, plain_errors
from tidegate.store.sqlite_rows import key
from tidegate.store.sqlite_statements import CHUNK


def raw_rows(path: Path, session: str, first: int, last: int) -> list[bytes]:
    """Every row that begins at one of these records: its columns as MessagePack. None of those that cannot be had."""
    rows: list[tuple[object, ...]] = []
    with closing(_opened(path)) as db, damage_aside():
        found = db.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchone()
        if found is not None:
            span = (key(found[0], first), key(found[0], last))
            with damage_aside():
                rows += db.execute(f"{CHUNK} id BETWEEN ? AND ? ORDER BY id", span)
            batches = Batches(db)
            batches.look()
            arrived = batches.of(found[0], first - 1)
            rows += [(place.id, *batches.chunk(place)[1:]) for place in arrived if place.first <= last]
    return [msgspec.msgpack.encode(row) for row in rows]


def sessions_of_rows(db: sqlite3.Connection) -> set[int]:
    """The sessions of which there is something, whether or not they have an entry."""
    found: set[int] = set()
    with damage_aside():
        found.update(session for (session,) in db.execute("SELECT DISTINCT id >> 36 FROM placed"))
    batches = Batches(db)
    batches.look()
    return found | batches.sessions()


def structure(path: Path) -> list[str]:
    """What SQLite itself finds wrong with the file, in its words; nothing if all is well. NotKept if it cannot look."""
    try:
        with plain_errors(path.name), closing(_opened(path)) as db:
            said = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
    except Broken as damage:
        return [str(damage.args[0])]
    return [" ".join(line.split()) for line in said if line != "ok"]


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=30, uri=True)
    db.text_factory = lambda text: text.decode("utf-8", "replace")
    return db
