"""What stands in the SQLite file and what of it is to be believed. Nothing here locks, begins or changes anything."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.store.memory import missing
from tidegate.store.sqlite_file import Step, damage_aside, is_damage
from tidegate.store.sqlite_rows import (
    NUMBERS,
    PACK_RECORDS,
    Chunk,
    Damaged,
    Entry,
    chunk_of,
    key,
    number_of,
    opened,
    time_of,
)
from tidegate.store.store import Broken

READ_AT_ONCE = 1024 * 1024
ENTRY = "SELECT id, name, head, packed, loose, size, created, used, sum FROM sessions"
CHUNK = "SELECT id, count, mark, sum, data FROM chunks"


class Batch(NamedTuple):
    """Chunks from the one that holds a number on, and the head when they were read."""

    chunks: list[Chunk]
    head: int


class Sums(NamedTuple):
    """Bytes of a session's rows: all of them, and those of the loose ones."""

    size: int
    loose: int


def span_of(session: int) -> tuple[int, int]:
    return key(session, 0), key(session, NUMBERS)


class Rows:
    def __init__(self, db: sqlite3.Connection, step: Step) -> None:
        self._db = db
        self._step = step
        self.mended: set[int] = set()
        """Sessions whose entry was found damaged, for whoever writes next."""

    def find(self, session: str) -> Entry | None:
        try:
            row = self._db.execute(f"{ENTRY} WHERE name = ?", (session,)).fetchone()
        except UnicodeEncodeError:  # no such name was ever let in
            return None
        return None if row is None else self._entry(row)

    def known(self, session: str) -> Entry:
        entry = self.find(session)
        if entry is None:
            raise missing(session)
        return entry

    def entries(self) -> list[Entry]:
        """The last used first."""
        entries = [self._entry(row) for row in self._db.execute(ENTRY).fetchall()]
        return sorted(entries, key=lambda entry: (entry.used, entry.id), reverse=True)

    def _entry(self, row: Sequence[object]) -> Entry:
        """As it would be if every append had written it. One that fails its checksum is made anew from the rows."""
        entry = Entry(*row[:-1])  # type: ignore[arg-type] # the columns, in order
        if entry.check() == row[-1]:
            return self._grown(entry)
        span = span_of(entry.id)
        last = self._db.execute(f"{CHUNK} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1", span).fetchone()
        head = _end(chunk_of(last)) if last else 0
        self.mended.add(entry.id)
        return Entry(entry.id, entry.name, head, head, 0, self.sums(entry.id, head).size, *map(_time, entry[6:]))

    def _grown(self, entry: Entry) -> Entry:
        """With what stands behind it. Whoever looks must see one state: if rows were packed meanwhile, the log would
        seem to end before them."""
        self._step("entry read")
        try:
            return self._counted(entry)
        except sqlite3.DatabaseError as fault:
            if not is_damage(fault):
                raise
            return entry._replace(head=entry.head + 1)  # there may be more: who reads on or appends is told

    def _counted(self, entry: Entry) -> Entry:
        """A row that lies further away than one can be is not of this log."""
        last, size, mark = self._db.execute(
            "SELECT max(id), total(length(data)), min(mark) FROM chunks WHERE id > ? AND id <= ?",
            (key(entry.id, entry.head), key(entry.id, entry.packed + PACK_RECORDS)),
        ).fetchone()
        if last is None:
            return entry
        row = self._db.execute(f"{CHUNK} WHERE id = ?", (last,)).fetchone()
        return entry._replace(
            head=_end(chunk_of(row)),
            loose=entry.loose + int(size),
            size=entry.size + int(size),
            used=max(entry.used, time_of(mark)),
        )

    def sums(self, session: int, packed: int) -> Sums:
        size, loose = self._db.execute(
            "SELECT total(length(data)), total(length(data) * (id > ?)) FROM chunks WHERE id BETWEEN ? AND ?",
            (key(session, packed), *span_of(session)),
        ).fetchone()
        return Sums(int(size), int(loose))

    def between(self, session: int, first: int, last: int) -> list[Chunk]:
        span = (key(session, first), key(session, last))
        return [chunk_of(row) for row in self._db.execute(f"{CHUNK} WHERE id BETWEEN ? AND ? ORDER BY id", span)]

    def again(self, entry: Entry) -> Entry:
        """The same session as it is now."""
        row = self._db.execute(f"{ENTRY} WHERE id = ?", (entry.id,)).fetchone()
        if row is None:
            raise missing(entry.name)
        return self._entry(row)

    def batch(self, entry: Entry, number: int) -> Batch:
        """The entry must be of this look."""
        (low, high), here = span_of(entry.id), key(entry.id, number)
        chunks: list[Chunk] = []
        size = 0
        with damage_aside():  # what stands before it can be read; who asks for what is behind it is told
            rows = self._db.execute(
                f"{CHUNK} WHERE id >= coalesce((SELECT max(id) FROM chunks WHERE id BETWEEN ? AND ?), ?) AND id <= ?"
                " ORDER BY id",
                (low, here, here, high),
            )
            for found in rows:
                chunks.append(chunk_of(found))
                size += len(found[-1]) if isinstance(found[-1], bytes) else 0
                if size >= READ_AT_ONCE:
                    break
            rows.close()
        return Batch(chunks, entry.head)

    def around(self, entry: Entry, number: int) -> Chunk | None:
        """The row in which a number should be: the last one that begins at it or before it."""
        row = self._db.execute(
            f"{CHUNK} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1", (key(entry.id, 1), key(entry.id, number))
        ).fetchone()
        return None if row is None else chunk_of(row)

    def holding(self, entry: Entry, number: int) -> Chunk:
        """The chunk that holds a record, checked: a fork ends with a row that was read, the others are copied blind."""
        chunk = self.around(entry, number)
        if chunk is not None:
            try:
                opened(chunk)
            except Damaged as fault:
                raise self.damage(entry, chunk.first, str(fault)) from fault
            if number <= chunk.last:
                return chunk
        raise self.damage(entry, number, "they are not there")

    def damage(self, entry: Entry, first: int, why: str) -> Broken:
        """From this record up to the next row: how many a damaged row held is not to be believed."""
        last = self.next_after(entry, first) - 1
        cause = f"Records {first} to {last} of session {entry.name!r} are damaged: {why}."
        return Broken(cause, f"All others can be read; go on from record {last + 1}.", first, last)

    def next_after(self, entry: Entry, number: int) -> int:
        """The first number of the next row that can be found. A page of the tree may be gone: look behind it."""
        head = max(entry.head, number)
        for beyond in range(number, head):
            with damage_aside():
                span = (key(entry.id, beyond), span_of(entry.id)[1])
                (found,) = self._db.execute("SELECT min(id) FROM chunks WHERE id > ? AND id <= ?", span).fetchone()
                return head + 1 if found is None else min(number_of(found), head + 1)
        return head + 1


def _end(chunk: Chunk) -> int:
    """Where the log ends if the entry does not know. A damaged row's own word is taken, if it can be: all it decides
    is how many records are named as damaged."""
    try:
        held = len(opened(chunk))
    except Damaged:
        held = chunk.held if isinstance(chunk.held, int) and 1 <= chunk.held <= PACK_RECORDS else 1
    return chunk.first + held - 1


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
