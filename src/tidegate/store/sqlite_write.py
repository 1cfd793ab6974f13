"""What changes in the SQLite file, as part of a transaction that the store begins and commits."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from tidegate.store.memory import check_fork, check_numbers, stale
from tidegate.store.sqlite_file import Step
from tidegate.store.sqlite_line import Pending
from tidegate.store.sqlite_read import Rows, span_of
from tidegate.store.sqlite_rows import (
    LOOSE,
    NUMBERS,
    PACK_BYTES,
    PACK_RECORDS,
    PACKED,
    Chunk,
    Damaged,
    Entry,
    check_of,
    cut,
    framed,
    key,
    mark_of,
    opened,
    seal,
)
from tidegate.store.sqlite_statements import INSERT, INSERT_ARRIVED, REMOVE, SAVE, SOUND
from tidegate.store.sqlite_tail import Tail

KNOWN = 4096
"""Entries of sessions that are kept in mind."""
FRESH = 64
"""Sessions whose loose records are kept in mind, too: they need not be read and checked to be packed."""
FRAME = 6
"""Bytes that a row holds beside its one record, at most."""
TOGETHER = 4
"""From so many appends in a commit on, loose rows are kept in the order in which they come. Each at its place would be
in the midst of a page, and cost four of them."""
Row = tuple[int, int, int, bytes, bytes]
NextRow = tuple[int, int, int, bytes, bytes, int, int]


class Changes:
    """Appends write rows and nothing else. A session's entry is written when it is made and when its rows are packed;
    in between `Rows` finds by the rows what it would be, and here it is kept in mind.

    What is in mind is believed as long as no other connection has changed the file, and unless it is `doubtful`
    whether it was committed: so from `begun` on until the store says otherwise. `INSERT_BEHIND` asks for less.
    """

    def __init__(self, db: sqlite3.Connection, rows: Rows, clock: Callable[[], float], step: Step) -> None:
        self._db = db
        self._rows = rows
        self._clock = clock
        self._step = step
        self._known: dict[str, Tail] = {}
        self._ahead: set[str] = set()  # of their entries in the file
        self._held = 0  # of those known, who may have fresh records
        self._waiting: list[Row] = []  # to be inserted all at once
        self._arriving: list[Row] = []
        self._loose = self._waiting  # where loose ones go: one of these two
        self._version = -1
        self.doubtful = False

    def begun(self, appends: int) -> None:
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if self.doubtful or version != self._version or len(self._known) > KNOWN:
            self._forget()
            self._version = version
        self._waiting.clear()
        self._arriving.clear()
        self._loose = self._waiting if appends < TOGETHER else self._arriving
        self.doubtful = True

    @property
    def ahead(self) -> bool:
        return bool(self._ahead)

    def _forget(self) -> None:
        self._known.clear()
        self._ahead.clear()
        self._held = 0

    def next_row(self, session: str, after: int, record: bytes) -> NextRow | None:
        """What `INSERT_BEHIND` wants, for an append that writes a loose row and nothing else. None for any other."""
        tail = self._known.get(session)
        if tail is None or self.doubtful or tail.head != after or not tail.last or self._rows.mended:
            return None
        first = after + 1
        if first - tail.entry.packed >= PACK_RECORDS or tail.loose + len(record) + FRAME >= PACK_BYTES:
            return None
        mark = mark_of(self._clock())
        data = framed((record,))
        return (tail.base + first, 1, mark, check_of(first, 1, mark, data), data, tail.base + NUMBERS + 1, tail.last)

    def knows(self, session: str) -> bool:
        return session in self._known

    def grown(self, session: str, row: NextRow, record: bytes) -> int:
        """The row is written. Gives the new head."""
        tail = self._known[session]
        tail.last, _, tail.mark, _, data, _, _ = row
        return self._grow(tail, len(data), record)

    def _grow(self, tail: Tail, size: int, record: bytes) -> int:
        tail.loose += size
        if tail.fresh is not None:
            tail.fresh.append(record)
        tail.head += 1
        self._ahead.add(tail.entry.name)
        return tail.head

    def append(self, each: Pending) -> int:
        """Nothing is written before all that can refuse it was asked: beside others in one transaction it leaves
        no trace."""
        session = each.session
        tail = self._known.get(session)
        if tail is not None and len(each.chunks) == 1 and each.after == tail.head:
            chunk = each.chunks[0]
            if self._only_grows(tail, chunk):
                row = (tail.base + chunk.first, *chunk[1:])
                self._loose.append(row)
                tail.last, tail.mark = self._last(row[0]), chunk.mark
                return self._grow(tail, len(chunk.data), each.records[0])
        entry = tail.now() if tail else self._rows.find(session, surely=True)
        head = entry.head if entry else 0
        if each.after != head:
            raise stale(session, each.after, head)
        if not each.chunks:
            return head
        fresh = [] if head and entry and entry.packed == head else tail.fresh if tail else None
        if entry is None:
            entry, fresh = self._save(self._add(self._begin(session, each.now), each)), []
        elif each.chunks[0].mark == PACKED:  # the full ones stand first
            entry, fresh = self._save(self._add(self._pack(entry, fresh), each)), []
        else:
            entry = self._add(entry, each)
            self._ahead.add(session)
            if entry.id in self._rows.mended:
                self._save(entry)
        last = key(entry.id, each.chunks[-1].first)
        if each.chunks[-1].mark != PACKED:
            last = self._last(last)
        if fresh is not None and each.chunks[-1].mark != PACKED:
            fresh += each.records[-each.chunks[-1].held :]
        if entry.head - entry.packed >= PACK_RECORDS or entry.loose >= PACK_BYTES:
            first = entry.packed + 1
            entry = self._save(self._pack(entry, fresh))
            last, fresh = key(entry.id, first), []
        self._remember(Tail(entry, last, fresh))
        return entry.head

    def _only_grows(self, tail: Tail, chunk: Chunk) -> bool:
        """Will it be one loose record more, and nothing else?"""
        room = chunk.first - tail.entry.packed < PACK_RECORDS and tail.loose + len(chunk.data) < PACK_BYTES
        return room and chunk.held == 1 and chunk.mark != PACKED and not self._rows.mended

    def _remember(self, tail: Tail) -> None:
        if tail.entry.name not in self._known and tail.fresh is not None:
            self._held += 1
            if self._held > FRESH:
                self._held = 1
                for other in self._known.values():
                    other.fresh = None
        self._known[tail.entry.name] = tail

    def _last(self, loose: int) -> int:
        return loose if self._loose is self._waiting else 0

    def insert_waiting(self) -> None:
        if self._waiting or self._arriving:
            self._db.executemany(INSERT, self._waiting)
            self._db.executemany(INSERT_ARRIVED, self._arriving)
            self._waiting.clear()
            self._arriving.clear()
            self._step("rows inserted")

    def _begin(self, session: str, now: float) -> Entry:
        values = (session, now, now)
        made = self._db.execute("INSERT INTO sessions VALUES (NULL, ?, 0, 0, 0, 0, ?, ?, 0)", values)
        self._step("session made")
        return Entry(made.lastrowid or 0, session, 0, 0, 0, 0, now, now)

    def _add(self, entry: Entry, each: Pending) -> Entry:
        packed, loose, size = entry.packed, entry.loose, entry.size
        for chunk in each.chunks:
            row = (key(entry.id, chunk.first), *chunk[1:])
            size += len(chunk.data)
            if chunk.mark == PACKED:
                self._waiting.append(row)
                packed = chunk.last
            else:
                self._loose.append(row)
                loose += len(chunk.data)
        return Entry(entry.id, entry.name, each.chunks[-1].last, packed, loose, size, entry.created, each.now)

    def _pack(self, entry: Entry, fresh: list[bytes] | None) -> Entry:
        """One compressed row in place of the loose ones. What is damaged stays as it is: it would get a new seal."""
        self.insert_waiting()
        done = entry._replace(packed=entry.head, loose=0)
        try:
            records = self._loose_records(entry, fresh)
        except Damaged:
            return done
        if not records or len(records) != entry.head - entry.packed:
            return done
        packed = seal(entry.packed + 1, records, PACKED)
        self._step("pack sealed")
        self._remove(key(entry.id, entry.packed + 1), key(entry.id, entry.head))
        self._step("loose rows removed")
        self._insert(entry.id, packed)
        self._step("packed row inserted")
        return done._replace(size=entry.size + len(packed.data) - entry.loose)

    def _loose_records(self, entry: Entry, fresh: list[bytes] | None) -> list[bytes]:
        if fresh is not None and len(fresh) == entry.head - entry.packed:
            return fresh
        loose = self._rows.between(entry.id, entry.packed + 1, entry.head)
        return [record for chunk in loose for record in opened(chunk)]

    def fork(self, session: str, at: int, new: str) -> None:
        entry = self._rows.known(session)
        check_fork(session, at, entry.head, new, self._rows.find(new) is not None)
        last = self._rows.holding(entry, at)
        made = self._begin(new, float(self._clock()))
        for source in SOUND:
            self._db.execute(
                f"INSERT INTO placed SELECT id + ?, count, mark, sum, data FROM {source} WHERE id >= ? AND id < ?",
                (key(made.id - entry.id, 0), key(entry.id, 1), key(entry.id, last.first)),
            )
        self._step("rows copied")
        self._insert(made.id, seal(last.first, opened(last)[: at - last.first + 1], last.mark))
        self._recount(made._replace(head=at, packed=at if last.mark == PACKED else min(entry.packed, at)))
        self._step("fork noted")

    def delete(self, session: str, head: int | None) -> None:
        entry = self._rows.known(session)
        if head is not None and head != entry.head:
            raise stale(session, head, entry.head)
        self._forget()
        self._remove(*span_of(entry.id))
        self._step("rows deleted")
        self._db.execute("DELETE FROM sessions WHERE id = ?", (entry.id,))
        self._step("session deleted")

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        entry = self._rows.known(session)
        check_numbers(session, changes, entry.head)
        self._forget()
        done = 0
        for number in sorted(changes):
            if number > done:
                done = self._rewrite_around(entry, number, changes)
                self._step("row rewritten")
        self._recount(entry)
        self._step("rewriting noted")

    def _rewrite_around(self, entry: Entry, number: int, changes: Mapping[int, bytes]) -> int:
        """The row that holds a number, with all that changes in it. Gives its last number.

        What cannot be read can only be replaced whole: from where the last good row ended to where the next begins.
        """
        chunk = self._rows.around(entry, number)
        first, why = 1, "they are not there"
        if chunk is not None:
            try:
                records = opened(chunk)
            except Damaged as fault:
                first, why = chunk.first, str(fault)
            else:
                first = chunk.first + len(records)
                if number < first:
                    changed = [changes.get(place, record) for place, record in enumerate(records, chunk.first)]
                    self._replace(entry.id, chunk.last, [seal(chunk.first, changed, chunk.mark)])
                    return chunk.last
        last = self._rows.next_after(entry, number) - 1
        if not all(place in changes for place in range(first, last + 1)):
            raise self._rows.damage(entry, first, f"{why}; only all of them can be replaced")
        self._replace(entry.id, last, cut(first, [changes[place] for place in range(first, last + 1)], LOOSE))
        return last

    def _replace(self, session: int, last: int, chunks: Sequence[Chunk]) -> None:
        self._remove(key(session, chunks[0].first), key(session, last))
        for chunk in chunks:
            self._insert(session, chunk)

    def _remove(self, low: int, high: int) -> None:
        for remove in REMOVE:
            self._db.execute(remove, (low, high))

    def _insert(self, session: int, chunk: Chunk) -> None:
        self._db.execute(INSERT, (key(session, chunk.first), *chunk[1:]))

    def _recount(self, entry: Entry) -> None:
        sums = self._rows.sums(entry.id, entry.packed)
        self._save(entry._replace(size=sums.size, loose=sums.loose))

    def settle(self) -> None:
        """Entries as they are now: a row that is lost from the end of a log is missed from here on."""
        self.begun(0)
        for session in list(self._ahead):
            self._save(self._known[session].now())

    def _save(self, entry: Entry) -> Entry:
        self._db.execute(SAVE, (*entry[2:], entry.check(), entry.id))
        self._ahead.discard(entry.name)
        self._rows.mended.discard(entry.id)
        self._step("session updated")
        return entry
