"""Where a log ends in the SQLite file, for whoever opens it and for whoever asks whether others wrote meanwhile."""

import sqlite3
from contextlib import suppress
from typing import NamedTuple

from tidegate.store.sqlite_file import Step, damage_aside
from tidegate.store.sqlite_read import Rows
from tidegate.store.sqlite_rows import MOST_LOOSE, Chunk, Damaged, Entry, chunk_of, key, opened
from tidegate.store.sqlite_statements import CHUNK, ENTRY

_LAST = f"{CHUNK} id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"


class End(NamedTuple):
    """The last number, and the record there; None if it must be read as any other."""

    head: int
    record: bytes | None = None


class _Seen(NamedTuple):
    """A head, without its record, and the state of the file in which it was: by the changes of others, and by ours."""

    session: str
    version: int
    changes: int
    head: int


class Ends:
    """An entry tells of all that is behind it, for who writes there. For the end alone the last row is enough."""

    def __init__(self, db: sqlite3.Connection, rows: Rows, step: Step) -> None:
        self._db = db
        self._rows = rows
        self._step = step
        self._seen = _Seen("", -1, -1, 0)

    def seen(self, session: str) -> End | None:
        """Where it was when we looked last, if the file is as it was: most who ask have asked before."""
        seen, db = self._seen, self._db
        if seen.session != session or seen.changes != db.total_changes or db.in_transaction:
            return None
        (version,) = db.execute("PRAGMA data_version").fetchone()
        return End(seen.head) if version == seen.version else None

    def look(self, session: str) -> End:
        """In a snapshot, with the batches looked at."""
        end = self._by_last(session)
        if end is None:
            entry = self._rows.find(session)
            return End(entry.head if entry else 0)
        batches = self._rows.batches
        if not batches.unsure:
            self._seen = _Seen(session, batches.version, self._db.total_changes, end.head)
        return end

    def _by_last(self, session: str) -> End | None:
        """None where anything is not as it should be: then more must be looked at."""
        with suppress(Damaged, UnicodeEncodeError), damage_aside():
            row = self._db.execute(f"{ENTRY} WHERE name = ?", (session,)).fetchone()
            if row is None:
                return End(0)
            entry = Entry(*row[:-1])
            self._step("entry read")
            if entry.is_sealed_by(row[-1]) and not self._rows.batches.torn:
                last = self._last(entry)
                records = opened(last) if last else []
                if last and records and (last.first > entry.head or last.last == entry.head):
                    return End(last.last, records[-1])
        return None

    def _last(self, entry: Entry) -> Chunk | None:
        """The last row at its place, or what came with others behind it."""
        beyond = entry.packed + MOST_LOOSE
        found = self._db.execute(_LAST, (key(entry.id, 1), key(entry.id, beyond))).fetchone()
        placed = chunk_of(found) if found else None
        arrived = self._rows.batches.of(entry.id, placed.first if placed else 0)
        if not arrived:
            return placed
        return self._rows.batches.chunk(arrived[-1]) if entry.packed < arrived[-1].first <= beyond else None
