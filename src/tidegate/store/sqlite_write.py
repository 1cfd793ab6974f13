"""What changes in the SQLite file, as part of a transaction that the store begins and commits."""

import sqlite3
from collections.abc import Callable, Sequence

from tidegate.core.errors import TidegateError
from tidegate.store.memory import stale_head_error
from tidegate.store.sqlite_batches import Row
from tidegate.store.sqlite_file import Step, is_damage
from tidegate.store.sqlite_line import Fate, Outcome, Pending
from tidegate.store.sqlite_living import Living
from tidegate.store.sqlite_read import Rows
from tidegate.store.sqlite_rows import (
    MOST_LOOSE,
    PACK_BYTES,
    PACK_RECORDS,
    PACKED,
    Chunk,
    Damaged,
    Entry,
    check_of,
    framed,
    key,
    mark_of,
    opened,
    seal,
)
from tidegate.store.sqlite_statements import INSERT, REMOVE, SAVE
from tidegate.store.sqlite_tail import NextRow, Tail

KNOWN = 4096
"""Entries of sessions that are kept in mind."""
FRESH = 64
"""Sessions whose loose records are kept in mind, too: they need not be read and checked to be packed."""
TOGETHER = 4
"""From so many appends in a commit on, what is loose becomes a batch. Each at its place would be in the midst of a
page, and cost four of them."""
LARGE = 16 * 1024
"""Bytes of a row that is at its place in any case."""


class Changes:
    """Appends write rows and nothing else. A session's entry is written when it is made and when its rows are packed;
    in between `Rows` finds by the rows what it would be, and here it is kept in mind.

    What is in mind is believed as long as no other connection has changed the file, and unless it is `doubtful`
    whether it was committed: so from `begun` on until the store says otherwise. `INSERT_BEHIND` asks for less.
    """

    def __init__(self, db: sqlite3.Connection, rows: Rows, clock: Callable[[], float], step: Step) -> None:
        self._db = db
        self._rows = rows
        self._batches = rows.batches
        self._clock = clock
        self._step = step
        self.known: dict[str, Tail] = {}
        self.ahead: set[str] = set()
        """Sessions that are, of their entries in the file."""
        self._held = 0  # of those known, who may have fresh records
        self._waiting: list[Row] = []  # to be inserted all at once
        self._arriving: list[Row] = []
        self._together = False  # whether loose ones go there
        self.living = Living(db, rows, step)
        self._packs = 0  # that may still be made in this commit
        self._version = -1
        self.doubtful = False

    def refresh(self) -> None:
        """At the begin of a transaction: what is in mind from here on is what is in the file."""
        batches = self._rows.batches
        batches.look()
        if self.doubtful or batches.version != self._version or len(self.known) > KNOWN:
            self.forget()
            self._version = batches.version

    def begun(self, appends: int) -> None:
        self.refresh()
        self._waiting.clear()
        self._arriving.clear()
        self._together = appends >= TOGETHER and self._rows.batches.usable
        self._packs = 1 + appends // PACK_RECORDS
        self.doubtful = True

    def committed(self) -> None:
        self.doubtful = self._rows.batches.unsure = False

    def forget(self) -> None:
        self.known.clear()
        self.living.packed.clear()
        self.ahead.clear()
        self._held = 0

    def next_row(self, tail: Tail, record: bytes) -> NextRow | None:
        """What `INSERT_BEHIND` wants, for an append that writes a loose row and nothing else. None for any other."""
        batches = self._batches
        if not tail.last or self.doubtful or batches.unsure or not batches.whole or self._rows.mended:
            return None
        first, data = tail.head + 1, framed((record,))
        if first >= tail.room or tail.loose + len(data) >= PACK_BYTES:
            return None
        base, mark = tail.base, mark_of(self._clock())
        return (base + first, mark, check_of(first, 1, mark, data), data, tail.beyond, tail.last, batches.last)

    def append_all(self, batch: Sequence[Pending], fate: Fate) -> None:
        """Each gets its outcome as part of this fate."""
        known, outcomes = self.known, fate.outcomes
        for place, each in enumerate(batch):
            tail = known.get(each.session)
            outcome: Outcome = self._grow(tail, each) if tail is not None and tail.head == each.after else 0
            if not outcome:
                try:
                    outcome = self._append(each, tail)
                except TidegateError as refusal:
                    outcome = refusal
            outcomes.append(outcome)
            each.fate, each.place = fate, place

    def _grow(self, tail: Tail, each: Pending) -> int:
        """One loose record more and nothing else. Gives the new head, or 0 if it takes more than that."""
        if len(each.chunks) != 1 or self._rows.mended:
            return 0
        first, held, mark, check, data = each.chunks[0]
        loose = tail.loose + len(data)
        full = (first >= tail.room or loose >= PACK_BYTES) and self._is_full(first - tail.packed, loose)
        if full or held != 1 or mark == PACKED:
            return 0
        tail.last = self._put((tail.base + first, 1, mark, check, data))
        tail.mark, tail.loose, tail.head = mark, loose, first
        if tail.fresh is not None:
            tail.fresh.append(each.records[0])
        self.ahead.add(each.session)
        return first

    def _put(self, row: Row) -> int:
        """A loose row, where those of this commit go. Gives it as the last of its session, if it is at its place."""
        if self._together and len(row[4]) < LARGE:
            self._arriving.append(row)
            return 0
        self._waiting.append(row)
        return row[0]

    def _append(self, each: Pending, tail: Tail | None) -> int:
        """Nothing is written before all that can refuse it was asked: beside others in one transaction it leaves
        no trace."""
        session = each.session
        entry = tail.now() if tail else self._rows.find(session, surely=True)
        head = entry.head if entry else 0
        if each.after != head:
            raise stale_head_error(session, each.after, head)
        if not each.chunks:
            return head
        fresh = [] if head and entry and entry.packed == head else tail.fresh if tail else None
        if entry is None:
            entry, fresh = self.save(self._added(self.begin(session, each.now), each)), []
        elif each.chunks[0].mark == PACKED:  # the full ones stand first
            entry, fresh = self.save(self._added(self._pack(entry, fresh), each)), []
        else:
            entry = self._added(entry, each)
            self.ahead.add(session)
            if entry.id in self._rows.mended:
                self.save(entry)
        last = self._add(entry, each)
        if fresh is not None and each.chunks[-1].mark != PACKED:
            fresh += each.records[-each.chunks[-1].held :]
        if self._is_full(entry.head - entry.packed, entry.loose):
            first = entry.packed + 1
            entry = self.save(self._pack(entry, fresh))
            last, fresh = key(entry.id, first), []
        self._remember(Tail(entry, last, fresh))
        return entry.head

    def _is_full(self, records: int, size: int) -> bool:
        """Is that so much that it is to be packed now? If too many are, some wait, but not for ever."""
        if records < PACK_RECORDS and size < PACK_BYTES:
            return False
        return self._packs > 0 or records >= MOST_LOOSE or size >= 2 * PACK_BYTES

    def _remember(self, tail: Tail) -> None:
        if tail.entry.name not in self.known and tail.fresh is not None:
            self._held += 1
            if self._held > FRESH:
                self._held = 1
                for other in self.known.values():
                    other.fresh = None
        self.known[tail.entry.name] = tail
        self.living.packed[tail.entry.id] = tail.entry.packed

    def insert_waiting(self) -> None:
        if self._waiting:
            self._db.executemany(INSERT, self._waiting)
        if self._arriving:
            self._add_batch()
        if self._waiting or self._arriving:
            self._waiting.clear()
            self._arriving.clear()
            self._step("rows inserted")

    def _add_batch(self) -> None:
        try:
            self.living.make_room()
            self._rows.batches.add(self._arriving)
        except sqlite3.DatabaseError as fault:
            self._rows.batches.spoilt = self._rows.batches.spoilt or is_damage(fault)
            raise

    def begin(self, session: str, now: float) -> Entry:
        values = (session, now, now)
        made = self._db.execute("INSERT INTO sessions VALUES (NULL, ?, 0, 0, 0, 0, ?, ?, 0)", values)
        self._step("session made")
        return Entry(made.lastrowid or 0, session, 0, 0, 0, 0, now, now)

    def _added(self, entry: Entry, each: Pending) -> Entry:
        """As it is with these."""
        packed, loose, size = entry.packed, entry.loose, entry.size
        for chunk in each.chunks:
            size += len(chunk.data)
            if chunk.mark == PACKED:
                packed = chunk.last
            else:
                loose += len(chunk.data)
        return Entry(entry.id, entry.name, each.chunks[-1].last, packed, loose, size, entry.created, each.now)

    def _add(self, entry: Entry, each: Pending) -> int:
        """Gives the last row, or 0 if that is not at its place."""
        last = 0
        for chunk in each.chunks:
            row = (key(entry.id, chunk.first), *chunk[1:])
            if chunk.mark == PACKED:
                self._waiting.append(row)
                last = row[0]
            else:
                last = self._put(row)
        return last

    def _pack(self, entry: Entry, fresh: list[bytes] | None) -> Entry:
        """One compressed row in place of the loose ones, wherever they are; in a batch they are dead from here on. What
        is damaged stays as it is, at its place: it would get a new seal."""
        self._packs -= 1
        first, last = key(entry.id, entry.packed + 1), key(entry.id, entry.head)
        done = entry._replace(packed=entry.head, loose=0)
        records = self._loose_records(entry, fresh)
        if not records:
            self.living.settle(self._rows.batches.of(entry.id, entry.packed))
            return done
        packed = seal(entry.packed + 1, records, PACKED)
        self._step("pack sealed")
        self._db.execute(REMOVE, (first, last))
        for rows in (self._waiting, self._arriving):
            rows[:] = [row for row in rows if not first <= row[0] <= last]
        self._step("loose rows removed")
        self.insert(entry.id, packed)
        self._step("packed row inserted")
        return done._replace(size=entry.size + len(packed.data) - entry.loose)

    def _loose_records(self, entry: Entry, fresh: list[bytes] | None) -> list[bytes]:
        """Of a session, or none of them if one is damaged."""
        many = entry.head - entry.packed
        if fresh is not None and len(fresh) == many:
            return fresh
        self.insert_waiting()
        try:
            loose = self._rows.between(entry.id, entry.packed + 1, entry.head)
            records = [record for chunk in loose for record in opened(chunk)]
        except Damaged:
            return []
        return records if len(records) == many else []

    def insert(self, session: int, chunk: Chunk) -> None:
        self._db.execute(INSERT, (key(session, chunk.first), *chunk[1:]))

    def settle(self) -> None:
        """Entries as they are now: a row that is lost from the end of a log is missed from here on."""
        self.begun(0)
        for session in list(self.ahead):
            self.save(self.known[session].now())

    def save(self, entry: Entry) -> Entry:
        self._db.execute(SAVE, (*entry[2:], entry.check(), entry.id))
        self.ahead.discard(entry.name)
        self._rows.mended.discard(entry.id)
        self._step("session updated")
        return entry
