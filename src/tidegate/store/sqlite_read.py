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
from tidegate.store.sqlite_statements import CHUNK, ENTRY, SOUND, TABLES, UNINDEXED
from tidegate.store.store import Broken

READ_AT_ONCE = 1024 * 1024


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

    def find(self, session: str, *, surely: bool = False) -> Entry | None:
        """`surely`: where the log ends must be known, to go on there."""
        try:
            row = self._db.execute(f"{ENTRY} WHERE name = ?", (session,)).fetchone()
        except UnicodeEncodeError:  # no such name was ever let in
            return None
        return None if row is None else self._entry(row, surely=surely)

    def known(self, session: str) -> Entry:
        entry = self.find(session)
        if entry is None:
            raise missing(session)
        return entry

    def entries(self) -> list[Entry]:
        """The last used first."""
        entries = [self._entry(row) for row in self._db.execute(ENTRY).fetchall()]
        return sorted(entries, key=lambda entry: (entry.used, entry.id), reverse=True)

    def _entry(self, row: Sequence[object], *, surely: bool = False) -> Entry:
        """As it would be if every append had written it. One that fails its checksum is made anew from the rows."""
        entry = Entry(*row[:-1])  # type: ignore[arg-type] # the columns, in order
        if entry.check() == row[-1]:
            return self._grown(entry, surely)
        last = self._last(*span_of(entry.id))
        head = _end(last) if last else 0
        self.mended.add(entry.id)
        return Entry(entry.id, entry.name, head, head, 0, self.sums(entry.id, head).size, *map(_time, entry[6:]))

    def _grown(self, entry: Entry, surely: bool) -> Entry:
        """With what stands behind it. Whoever looks must see one state: if rows were packed meanwhile, the log would
        seem to end before them."""
        self._step("entry read")
        try:
            return self._counted(entry)
        except sqlite3.DatabaseError as fault:
            if surely or not is_damage(fault):
                raise
            return entry._replace(head=self._at_least(entry))

    def _at_least(self, entry: Entry) -> int:
        """Where a log ends of which a page is damaged. If there may be more, one more: who reads on is told."""
        span = (key(entry.id, entry.head), key(entry.id, entry.packed + PACK_RECORDS))
        found = [self._found("max", table, span) for table in TABLES]
        return max([entry.head, *(number_of(last) for last in found if last)]) + (None in found)

    def _found(self, which: str, table: str, span: tuple[int, int]) -> int | None:
        """The first or the last row there, 0 if there is none, None if that cannot be known. It may be the index over
        what has arrived that is damaged: then the table itself is asked."""
        for way in (table, f"{table} NOT INDEXED"):
            with damage_aside():
                ask = f"SELECT coalesce({which}(id), 0) FROM {way} WHERE id > ? AND id <= ?"
                return int(self._db.execute(ask, span).fetchone()[0])
        return None

    def _counted(self, entry: Entry) -> Entry:
        """A row that lies further away than one can be is not of this log."""
        span = (key(entry.id, entry.head), key(entry.id, entry.packed + PACK_RECORDS))
        ask = "SELECT max(id), total(length(data)), min(mark) FROM {} WHERE id > ? AND id <= ?"
        sums = [self._db.execute(ask.format(table), span).fetchone() for table in TABLES]
        places = [last for last, _, _ in sums if last is not None]
        if not places:
            return entry
        last, size = max(places), sum(int(size) for _, size, _ in sums)
        chunk = self._last(last, last)
        return entry._replace(
            head=_end(chunk) if chunk else number_of(last),
            loose=entry.loose + size,
            size=entry.size + size,
            used=max(entry.used, *(time_of(mark) for _, _, mark in sums)),
        )

    def _last(self, low: int, high: int) -> Chunk | None:
        """Of the rows that begin there."""
        ask = f"{CHUNK} {{}} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
        found = [self._db.execute(ask.format(source), (low, high)).fetchone() for source in SOUND]
        return max((chunk_of(row) for row in found if row), key=_first, default=None)

    def sums(self, session: int, packed: int) -> Sums:
        ask = "SELECT total(length(data)), total(length(data) * (id > ?)) FROM {} WHERE id BETWEEN ? AND ?"
        span = (key(session, packed), *span_of(session))
        found = [self._db.execute(ask.format(table), span).fetchone() for table in TABLES]
        return Sums(sum(int(size) for size, _ in found), sum(int(loose) for _, loose in found))

    def between(self, session: int, first: int, last: int) -> list[Chunk]:
        span = (key(session, first), key(session, last))
        ask = f"{CHUNK} {{}} WHERE id BETWEEN ? AND ?"
        rows = [row for source in SOUND for row in self._db.execute(ask.format(source), span)]
        return sorted(map(chunk_of, rows), key=_first)

    def again(self, entry: Entry) -> Entry:
        """The same session as it is now."""
        row = self._db.execute(f"{ENTRY} WHERE id = ?", (entry.id,)).fetchone()
        if row is None:
            raise missing(entry.name)
        return self._entry(row)

    def batch(self, entry: Entry, number: int) -> Batch:
        """The entry must be of this look."""
        chunks: dict[int, Chunk] = {}
        last = NUMBERS
        for source in SOUND:
            some, whole = self._some(source, entry.id, number)
            for chunk in some:
                chunks.setdefault(chunk.first, chunk)
            last = last if whole else min(last, some[-1].first)
        firsts = sorted(first for first in chunks if first <= last)
        before = sum(first <= number for first in firsts)
        return Batch([chunks[first] for first in firsts[max(0, before - 1) :]], entry.head)

    def _some(self, source: str, session: int, number: int) -> tuple[list[Chunk], bool]:
        """From the last row on that begins at a number or before it. And whether that was all that can be read."""
        (low, high), here = span_of(session), key(session, number)
        chunks: list[Chunk] = []
        size, damaged = 0, True
        with damage_aside():  # what stands before it can be read; who asks for what is behind it is told
            rows = self._db.execute(
                f"{CHUNK} {source} WHERE id >= coalesce((SELECT max(id) FROM {source} WHERE id BETWEEN ? AND ?), ?)"
                " AND id <= ? ORDER BY id",
                (low, here, here, high),
            )
            for found in rows:
                chunks.append(chunk_of(found))
                size += len(found[-1]) if isinstance(found[-1], bytes) else 0
                if size >= READ_AT_ONCE:
                    rows.close()
                    return chunks, False
            damaged = False
        return chunks + (self._unindexed(session, number) if damaged else []), True

    def _unindexed(self, session: int, number: int) -> list[Chunk]:
        """What the table still gives of what has arrived, up to a damaged page."""
        chunks: list[Chunk] = []
        with damage_aside():
            span = (key(session, number - PACK_RECORDS), span_of(session)[1])
            chunks.extend(map(chunk_of, self._db.execute(f"{UNINDEXED} WHERE id BETWEEN ? AND ? AND own = id", span)))
        return chunks

    def around(self, entry: Entry, number: int) -> Chunk | None:
        """The row in which a number should be: the last one that begins at it or before it."""
        return self._last(key(entry.id, 1), key(entry.id, number))

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
        """The first number of the next row that can be found."""
        head = max(entry.head, number)
        return min(self._next(table, entry.id, number, head) for table in TABLES)

    def _next(self, table: str, session: int, number: int, head: int) -> int:
        """A page of the tree may be gone: look behind it."""
        for beyond in range(number, head):
            found = self._found("min", table, (key(session, beyond), span_of(session)[1]))
            if found is not None:
                return min(number_of(found), head + 1) if found else head + 1
        return head + 1


def _first(chunk: Chunk) -> int:
    return chunk.first


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
