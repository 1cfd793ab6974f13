"""Appends in one transaction. A trigger compares and swaps the head of each session: see `migrations.py`."""

import sqlite3
from collections.abc import Sequence

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.store.group_commit import Append
from tidegate.store.memory import stale_head_error
from tidegate.store.sqlite.connection import Database, transact
from tidegate.store.sqlite.rows import PACK_BYTES, PACK_RECORDS, SessionRow, digest_recent, row_id
from tidegate.store.sqlite.tables import Tables

MAX_PACKS = 64
"""Sessions packed in one transaction, about 1 ms each, so that no append waits for hundreds of sessions."""
MAX_CACHED_BYTES = 32 * 1024 * 1024
_TAIL_BYTES = 1024  # of a cached session, without its records
_INSERT = "INSERT INTO recent_rows VALUES (NULL, ?, ?, ?, ?)"
_MORE_ROWS = ", (NULL, ?, ?, ?, ?)"
_MAX_ALONE = 8
"""Records that are written with one statement: each number of them is another statement, which SQLite prepares once."""


class _OutdatedCache(Exception):
    """Another process has changed what is cached here: the transaction must be repeated."""


class _Tail(msgspec.Struct):
    """The end of a session as this process wrote it last: how many records are recent, their bytes, and what they are.

    `records` is None if one of them is damaged.
    """

    session: int
    head: int
    count: int
    size: int
    records: list[bytes] | None

    def is_full(self, count: int, size: int) -> bool:
        """Return whether the session is to be packed after this many more records and bytes."""
        return self.count + count >= PACK_RECORDS or self.size + size >= PACK_BYTES

    def add(self, records: list[bytes], size: int) -> None:
        self.head += len(records)
        self.count += len(records)
        self.size += size
        if self.records is not None:
            self.records += records


class Appends:
    def __init__(self, db: Database, tables: Tables) -> None:
        self._db = db
        self._tables = tables
        self._cache: dict[str, _Tail] = {}
        self._cached_bytes = 0
        self._is_valid = False  # whether the cache holds what was committed, not what was rolled back
        self._rows: list[tuple[int, float, bytes, bytes]] = []
        self._packs = 0

    def invalidate(self) -> None:
        self._is_valid = False

    def release(self, session: str) -> None:
        tail = self._cache.pop(session, None)
        if tail is not None:
            self._cached_bytes -= _TAIL_BYTES + tail.size

    def write(self, batch: Sequence[Append]) -> list[int | Exception]:
        """Write appends in one transaction. Return for each the new head, or why it was refused."""
        if not self._is_valid or self._cached_bytes > MAX_CACHED_BYTES:
            self._cache, self._cached_bytes = {}, 0
        if len(batch) == 1 and self._write_alone(batch[0]):
            return [batch[0].after + len(batch[0].records)]
        outcomes: list[int | Exception] = []
        self._is_valid = False
        try:
            transact(self._db, lambda: self._write_batch(batch, outcomes))
        except _OutdatedCache:
            return self.write(batch)
        self._is_valid = True
        return outcomes

    def _write_alone(self, append: Append) -> bool:
        """Write few records with one statement, which is a transaction. Return False if one statement is not enough."""
        tail, records = self._cache.get(append.session), append.records
        if tail is None or tail.head != append.after or self._db.in_transaction:
            return False
        size = sum(map(len, records))
        if not 1 <= len(records) <= _MAX_ALONE or tail.is_full(len(records), size):
            return False
        values: list[object] = []
        for row, record in enumerate(records, row_id(tail.session, tail.head + 1)):
            values += row, append.time, digest_recent(row, record), record
        self._is_valid = False
        self._db.step("begun")
        try:
            self._db.execute(_INSERT + _MORE_ROWS * (len(records) - 1), values)
        except sqlite3.IntegrityError:  # another process has changed the session
            return False
        tail.add(records, size)
        self._cached_bytes += size
        self._is_valid = True
        return True

    def _write_batch(self, batch: Sequence[Append], outcomes: list[int | Exception]) -> None:
        self._rows, self._packs = [], MAX_PACKS
        for append in batch:
            try:
                outcomes.append(self._append(append))
            except TidegateError as refusal:
                outcomes.append(refusal)
        self._flush()

    def _append(self, append: Append) -> int:
        records = append.records
        tail = self._cache.get(append.session)
        if tail is None or tail.head != append.after or not records:
            self._flush()
            session = self._tables.find(append.session)
            head = session.head if session else 0
            if append.after != head:
                raise stale_head_error(append.session, append.after, head)
            if not records:
                return head
            # Nothing was written so far: an append that is refused leaves no trace among the others.
            tail = self._load(session or self._tables.create(append.session, append.time))
        size = sum(map(len, records))
        if tail.is_full(len(records), size) and self._packs:
            return self._pack(tail, append)
        row = row_id(tail.session, tail.head)
        for record in records:
            row += 1
            self._rows.append((row, append.time, digest_recent(row, record), record))
        tail.add(records, size)
        self._cached_bytes += size
        return tail.head

    def _load(self, session: SessionRow) -> _Tail:
        self._tables.save(session)  # it may have been rebuilt
        records = self._tables.read_recent_records(session)
        size = sum(map(len, records or ()))
        tail = _Tail(session.id, session.head, session.head - session.packed, size, records)
        self._cache[session.name] = tail
        self._cached_bytes += _TAIL_BYTES + size
        return tail

    def _pack(self, tail: _Tail, append: Append) -> int:
        """Pack the recent records and the new ones, from memory unless one is damaged."""
        self._flush()
        self._packs -= 1
        session = self._tables.get(append.session)
        if (session.id, session.head, session.packed) != (tail.session, tail.head, tail.head - tail.count):
            raise _OutdatedCache
        packed = self._tables.pack(session, append.records, tail.records)
        self._tables.save(packed._replace(used=append.time))
        self._cached_bytes -= tail.size
        tail.head, tail.count, tail.size, tail.records = packed.head, 0, 0, []
        return packed.head

    def _flush(self) -> None:
        """Insert the rows of the appends since the last call."""
        if self._rows:
            try:
                self._db.executemany(_INSERT, self._rows)
            except sqlite3.IntegrityError:  # another process has changed a session
                raise _OutdatedCache from None
            self._db.step("rows inserted")
            self._rows = []
