"""What stands in the SQLite file and what of it is to be believed. Nothing here locks, begins or changes anything."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.store.errors import Broken
from tidegate.store.memory import missing
from tidegate.store.sqlite_batches import Batches, Place
from tidegate.store.sqlite_file import Step, damage_aside, is_damage
from tidegate.store.sqlite_rows import (
    MOST_LOOSE,
    NUMBERS,
    PACKED,
    Chunk,
    Damaged,
    Entry,
    chunk_of,
    key,
    number_of,
    opened,
    time_of,
)
from tidegate.store.sqlite_statements import CHUNK, ENTRY

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
    """What has come with others, and is not packed, is found in the `batches`, all else at its place. Whoever asks has
    looked at the batches first."""

    def __init__(self, db: sqlite3.Connection, step: Step) -> None:
        self._db = db
        self._step = step
        self.batches = Batches(db)
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
        self.mended.add(entry.id)
        packed = self.packed(entry.id)
        arrived = self.batches.of(entry.id, packed)
        last = self._last(*span_of(entry.id))
        head = max(_end(last) if last else 0, _end_of(arrived))
        if not arrived:
            packed = head
        sums = self.sums(entry.id, packed)
        return Entry(entry.id, entry.name, head, packed, sums.loose, sums.size, *map(_time, entry[6:]))

    def packed(self, session: int) -> int:
        """Up to where a session is packed, by its rows: all that it has in batches before that is dead."""
        ask = f"{CHUNK} id BETWEEN ? AND ? AND mark = {PACKED} ORDER BY id DESC LIMIT 1"
        found = self._db.execute(ask, span_of(session)).fetchone()
        return _end(chunk_of(found)) if found else 0

    def _grown(self, entry: Entry, surely: bool) -> Entry:
        """With what stands behind it. Whoever looks must see one state: if rows were packed meanwhile, the log would
        seem to end before them."""
        self._step("entry read")
        torn = self.batches.torn
        if torn and surely:
            raise Broken("There is damage in what many sessions said at once.", "Let the doctor repair the folder.")
        try:
            found = self._counted(entry)
        except sqlite3.DatabaseError as fault:
            if surely or not is_damage(fault):
                raise
            found = entry._replace(head=self._at_least(entry))
        return found._replace(head=found.head + 1) if torn else found

    def _at_least(self, entry: Entry) -> int:
        """Where a log ends of which a page is damaged. If there may be more, one more: who reads on is told."""
        last = self._found("max", (key(entry.id, entry.head), key(entry.id, entry.packed + MOST_LOOSE)))
        arrived = self.batches.of(entry.id, entry.head)
        return max(entry.head, number_of(last or 0), _end_of(arrived)) + (last is None)

    def _found(self, which: str, span: tuple[int, int]) -> int | None:
        """The first or the last row there, 0 if there is none, None if that cannot be known."""
        found: list[int] = []
        with damage_aside():
            ask = f"SELECT coalesce({which}(id), 0) FROM placed WHERE id > ? AND id <= ?"
            found += self._db.execute(ask, span).fetchone()
        return found[0] if found else None

    def _counted(self, entry: Entry) -> Entry:
        """A row that lies further away than one can be is not of this log."""
        span = (key(entry.id, entry.head), key(entry.id, entry.packed + MOST_LOOSE))
        ask = "SELECT max(id), total(length(data)), min(mark) FROM placed WHERE id > ? AND id <= ?"
        last, size, mark = self._db.execute(ask, span).fetchone()
        arrived = [place for place in self.batches.of(entry.id, entry.head) if place.id <= span[1]]
        if last is None and not arrived:
            return entry
        size = int(size) + sum(place.size for place in arrived)
        chunk = self._last(last, last) if last is not None else None
        return entry._replace(
            head=max(_end(chunk) if chunk else number_of(last or 0), _end_of(arrived)),
            loose=entry.loose + size,
            size=entry.size + size,
            used=max(entry.used, time_of(mark), *(time_of(place.mark) for place in arrived)),
        )

    def _last(self, low: int, high: int) -> Chunk | None:
        """Of the rows that begin there."""
        found = self._db.execute(f"{CHUNK} id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1", (low, high)).fetchone()
        return chunk_of(found) if found else None

    def sums(self, session: int, packed: int) -> Sums:
        ask = "SELECT total(length(data)), total(length(data) * (id > ?)) FROM placed WHERE id BETWEEN ? AND ?"
        size, loose = self._db.execute(ask, (key(session, packed), *span_of(session))).fetchone()
        arrived = sum(place.size for place in self.batches.of(session, packed))
        return Sums(int(size) + arrived, int(loose) + arrived)

    def between(self, session: int, first: int, last: int) -> list[Chunk]:
        chunks = {place.first: self.batches.chunk(place) for place in self.batches.of(session, first - 1)}
        rows = self._db.execute(f"{CHUNK} id BETWEEN ? AND ?", (key(session, first), key(session, last)))
        chunks |= {chunk.first: chunk for chunk in map(chunk_of, rows)}
        return [chunks[number] for number in sorted(chunks) if number <= last]

    def by_id(self, session: int) -> Entry | None:
        row = self._db.execute(f"{ENTRY} WHERE id = ?", (session,)).fetchone()
        return None if row is None else self._entry(row)

    def again(self, entry: Entry) -> Entry:
        """The same session as it is now."""
        found = self.by_id(entry.id)
        if found is None:
            raise missing(entry.name)
        return found

    def batch(self, entry: Entry, number: int) -> Batch:
        """The entry must be of this look."""
        chunks: dict[int, Chunk] = {}
        last = NUMBERS
        for some, whole in (self._placed(entry.id, number), self._arrived(entry, number)):
            for chunk in some:
                chunks.setdefault(chunk.first, chunk)
            last = last if whole else min(last, some[-1].first)
        firsts = sorted(first for first in chunks if first <= last)
        before = sum(first <= number for first in firsts)
        return Batch([chunks[first] for first in firsts[max(0, before - 1) :]], entry.head)

    def _placed(self, session: int, number: int) -> tuple[list[Chunk], bool]:
        """From the last row on that begins at a number or before it. And whether that was all that can be read."""
        (low, high), here = span_of(session), key(session, number)
        chunks: list[Chunk] = []
        size = 0
        with damage_aside():  # what stands before it can be read; who asks for what is behind it is told
            rows = self._db.execute(
                f"{CHUNK} id >= coalesce((SELECT max(id) FROM placed WHERE id BETWEEN ? AND ?), ?)"
                " AND id <= ? ORDER BY id",
                (low, here, here, high),
            )
            for found in rows:
                chunks.append(chunk_of(found))
                size += len(found[-1]) if isinstance(found[-1], bytes) else 0
                if size >= READ_AT_ONCE:
                    rows.close()
                    return chunks, False
        return chunks, True

    def _arrived(self, entry: Entry, number: int) -> tuple[list[Chunk], bool]:
        """The same of what lives in batches."""
        places = self.batches.of(entry.id, entry.packed)
        before = sum(place.first <= number for place in places)
        chunks: list[Chunk] = []
        size = 0
        for place in places[max(0, before - 1) :]:
            chunks.append(self.batches.chunk(place))
            size += place.size
            if size >= READ_AT_ONCE:
                return chunks, False
        return chunks, True

    def around(self, entry: Entry, number: int) -> Chunk | None:
        """The row in which a number should be: the last one that begins at it or before it. At its place: whoever
        changes a session brings all of it there first."""
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
        arrived = self.batches.of(entry.id, max(entry.packed, number))
        return min(self._next(entry.id, number, head), arrived[0].first if arrived else head + 1)

    def _next(self, session: int, number: int, head: int) -> int:
        """A page of the tree may be gone: look behind it."""
        for beyond in range(number, head):
            found = self._found("min", (key(session, beyond), span_of(session)[1]))
            if found is not None:
                return min(number_of(found), head + 1) if found else head + 1
        return head + 1


def _end(chunk: Chunk) -> int:
    """Where the log ends if the entry does not know. A damaged row's own word is taken, if it can be: all it decides
    is how many records are named as damaged."""
    try:
        held = len(opened(chunk))
    except Damaged:
        held = _held(chunk.held)
    return chunk.first + held - 1


def _end_of(arrived: Sequence[Place]) -> int:
    """The same. What a batch says is taken, right or wrong: if the record is damaged, there is nothing better."""
    return arrived[-1].first + _held(arrived[-1].held) - 1 if arrived else 0


def _held(said: object) -> int:
    return said if isinstance(said, int) and 1 <= said <= 2 * MOST_LOOSE else 1


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
