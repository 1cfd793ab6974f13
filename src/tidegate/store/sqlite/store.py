"""The store over one SQLite file. The package's docstring explains the format and the promises."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput, NotKept, TidegateError
from tidegate.store.errors import DamagedData
from tidegate.store.group_commit import Append, GroupCommit
from tidegate.store.memory import check_fork_request, check_record_numbers, check_session_name, stale_head_error
from tidegate.store.sqlite import connection
from tidegate.store.sqlite.connection import (
    FILE,
    Database,
    Migration,
    Step,
    read_transaction,
    roll_back,
    transact,
    translate_error,
    translate_errors,
    truncate_wal,
)
from tidegate.store.sqlite.rows import (
    PACK_BYTES,
    PACK_RECORDS,
    Damaged,
    SessionRow,
    digest_recent,
    open_row,
    pack_row,
    pack_rows,
    row_id,
)
from tidegate.store.sqlite.tables import MIGRATIONS, READ_ROWS, Tables, row_id_span
from tidegate.store.store import SessionInfo, SessionPage

_ALL = "the list of sessions"
_CHECK_SECONDS = 0.3
READERS_WAIT = 1.0
"""Seconds to wait for readers after the file was vacuumed."""


def _make_info(session: SessionRow) -> SessionInfo:
    return SessionInfo(session.name, session.head, session.created, session.used, session.size)


def _is_occupied(folder: Path) -> bool:
    """Whether something other than a folder is there. Asked once: another process may be making the folder."""
    try:
        return not stat.S_ISDIR(os.stat(folder).st_mode)
    except OSError:
        return False


class SqliteStore:
    """A store in one SQLite file. Threads and tasks may share it. A forked process must open its own.

    `limit` caps the database file, in bytes; an append that would exceed it is refused as a whole.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        timeout: float = 30.0,
        limit: int | None = None,
        clock: Callable[[], float] = time.time,
        migrations: Sequence[Migration] = MIGRATIONS,
        step: Step = str,
    ) -> None:
        self.path = Path(folder) / FILE
        if _is_occupied(self.path.parent):
            raise BadInput(f"{self.path.parent} is not a folder.", "Give the folder that is to hold the data.")
        self._clock = clock
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._db = connection.open_file(self.path, timeout=timeout, migrations=migrations, step=step)
        if limit is not None:
            page = self._db.execute("PRAGMA page_size").fetchone()[0]
            self._db.execute(f"PRAGMA max_page_count={max(1, limit // page)}").close()
        self._file_id = self._read_file_id()
        self._tables = Tables(self._db)
        self._appends = Appends(self._db, self._tables)
        self._vacuum = Vacuum(self._db, timeout)
        self._commits = GroupCommit(self._lock, self._write)
        self._timeout = timeout
        self._reader: connection.Database | None = None
        self._reader_lock = threading.Lock()
        self._is_closed = False

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        return self._commits.commit(self._make_append(session, after, records))

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """Append without blocking the event loop. Waiting tasks and threads share a commit."""
        return await self._commits.commit_async(self._make_append(session, after, records))

    def _make_append(self, session: str, after: int, records: Sequence[bytes]) -> Append:
        self._check_process()
        if self._db.writer:
            connection.check_free(self._db)
        check_session_name(session)
        return Append(session, after, list(map(bytes, records)), float(self._clock()))

    def _read_file_id(self) -> tuple[int, int]:
        """What identifies the file behind the name now; zeros if there is none."""
        try:
            status = os.stat(self.path)
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino

    def _check_file(self) -> None:
        """NotKept if the file was deleted or replaced: SQLite would write to a file that nobody can open any more."""
        if self._read_file_id() != self._file_id:
            raise NotKept(
                f"{self.path} was deleted or replaced while it was open; nothing was written.",
                "Restore it, or start again with a new data folder.",
            )

    def check(self) -> None:
        self._check_process()
        self._check_file()
        with translate_errors(str(self.path)), closing(sqlite3.connect(self.path, timeout=_CHECK_SECONDS)) as link:
            link.execute("BEGIN IMMEDIATE")
            link.rollback()

    def _write(self, batch: list[Append]) -> None:
        """Write appends in one transaction. If that fails, each gets its own: one must not harm the others."""
        try:
            self._check_file()
            outcomes = self._appends.write(batch)
        except (OverflowError, sqlite3.Error, TidegateError) as fault:
            for append in batch:
                if len(batch) == 1 or connection.is_busy(fault):
                    append.outcome = translate_error(fault, self._describe(append.session))
                else:
                    self._write([append])
        else:
            for append, outcome in zip(batch, outcomes, strict=True):
                append.outcome = outcome
            self._db.step("committed")

    def fork(self, session: str, at: int, new: str) -> None:
        check_session_name(new)
        now = float(self._clock())
        self._change(session, lambda: fork_session(self._db, self._tables, session, at, new, now))

    def delete(self, session: str, head: int | None = None) -> None:
        def work() -> None:
            row = self._tables.get(session)
            if head is not None and head != row.head:
                raise stale_head_error(session, head, row.head)
            self._tables.delete(row)
            self._vacuum.request()

        try:
            self._change(session, work)
        finally:
            # Also if there is no such session: a caller that was killed here before repeats the call.
            with suppress(TidegateError):
                self._run_vacuum(session, "The session is deleted")

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        """Replace records, and remove the old ones from the disk. Without changes only the latter, if it is due.

        While others read for long, the old records stay in the write-ahead log until a later checkpoint.
        """

        def work() -> None:
            rewrite_session(self._db, self._tables, session, copies)
            self._vacuum.request()

        copies = {number: bytes(record) for number, record in changes.items()}
        self._change(session, work)
        self._run_vacuum(session, "The records are rewritten")

    def _change(self, session: str, work: Callable[[], object]) -> None:
        with self._lock_session(session):
            self._appends.invalidate()
            transact(self._db, work)
        self._db.step("committed")

    @contextmanager
    def clean_up_once(self) -> Iterator[None]:
        """Run VACUUM once, at the end of this block, for all deletions in it."""
        with self._vacuum.postpone():
            yield
        self._run_vacuum("all sessions", "The sessions are deleted")

    def _run_vacuum(self, session: str, success: str) -> None:
        """Wait for other writers as long as an append does. Eight busy ones let nobody in for some seconds."""
        try:
            with self._lock_session(session):
                connection.check_free(self._db)
                self._vacuum.run(self._timeout, READERS_WAIT)
        except (DamagedData, NotKept) as refusal:
            cause = f"{success}; what stood there may still be in the file: {refusal.args[0]}"
            raise NotKept(cause, "Try again when the disk has recovered or fewer processes write.") from refusal

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        with self._lock_session(session), read_transaction(self._db):
            return self._read_records(self._tables.get(session), max(1, start))

    def _read_records(self, session: SessionRow, number: int) -> Iterator[bytes]:
        """Yield records, some rows at a time. No transaction is open between them, so others may write meanwhile.

        The first read is of one row, because recall reads single events; later ones are of more and more rows.
        """
        most_rows = 1
        while number <= session.head:
            with self._lock_session(session.name), read_transaction(self._db):
                session = self._tables.refresh(session)
                records = self._tables.read(session, number, most_rows)
            yield from records
            number += len(records)
            most_rows = min(2 * most_rows, READ_ROWS)

    def head(self, session: str) -> int:
        if self._commits.has_event_loop():
            return self._read_committed_head(session)
        with self._lock_session(session), read_transaction(self._db):
            row = self._tables.find(session)
            return row.head if row else 0

    def _read_committed_head(self, session: str) -> int:
        """Return the head over a connection of its own, which does not wait for the commit of other sessions."""
        self._check_process()
        with self._reader_lock, translate_errors(self._describe(session)):
            if self._is_closed:
                raise sqlite3.ProgrammingError
            if self._reader is None:
                self._reader = connection.open_reader(self.path, self._timeout)
            row = Tables(self._reader).find(session)  # one statement, which needs no transaction
            return row.head if row else 0

    def sessions(self) -> list[SessionInfo]:
        with self._lock_session(_ALL), read_transaction(self._db):
            return list(map(_make_info, self._tables.list_sessions()))

    def list_page(self, first: int, count: int) -> SessionPage:
        with self._lock_session(_ALL), read_transaction(self._db):
            page = self._tables.list_page(first, count)
            return SessionPage(list(map(_make_info, page)), self._tables.count_sessions())

    def list_names(self, prefix: str) -> list[str]:
        ask = "SELECT name FROM sessions WHERE name >= ? AND name < ? ORDER BY used DESC, id DESC"
        with self._lock_session(_ALL), read_transaction(self._db):
            return [name for (name,) in self._db.execute(ask, (prefix, prefix + chr(0x10FFFF)))]

    def release(self, session: str) -> None:
        with self._lock:
            self._appends.release(session)

    def close(self) -> None:
        if self._process == os.getpid():
            self._commits.close()
            with self._reader_lock:
                self._is_closed = True
                if self._reader is not None:
                    self._reader.close()
            with self._lock:
                if self._vacuum.due:
                    with suppress(TidegateError), translate_errors(str(self.path)):
                        self._vacuum.run(0, 0)
                self._db.close()

    @contextmanager
    def _lock_session(self, session: str) -> Iterator[None]:
        self._check_process()
        with self._lock, translate_errors(self._describe(session)):
            yield

    def _check_process(self) -> None:
        if self._process != os.getpid():
            cause = f"{self.path} was opened before this process was forked."
            raise BadInput(cause, "Open the store in the new process.")

    def _describe(self, session: str) -> str:
        return f"session {session!r} in {self.path}"


# --- fork, rewrite, and VACUUM ---------------------------------------------------------------------------------------
# Changes to a log other than at its end. VACUUM removes what was there from the disk.


def fork_session(db: Database, tables: Tables, session: str, at: int, new: str, now: float) -> None:
    """Copy the rows before the one that holds record `at` as they are, and that one up to the record."""
    source = tables.get(session)
    check_fork_request(session, at, source.head, new, tables.find(new) is not None)
    source = tables.save(tables.pack(source))
    row = tables.find_row_before(source, at)
    first = row.first if row else 1
    records = tables.read(source, first)[: at - first + 1]
    if first + len(records) <= at:
        raise tables.make_damage_error(source, first + len(records), "they are not there")
    copy = tables.create(new, now)
    db.execute(
        "INSERT INTO packed_rows SELECT id + ?, count, mark, sum, data FROM packed_rows WHERE id >= ? AND id < ?",
        (row_id(copy.id - source.id, 0), row_id(source.id, 1), row_id(source.id, first)),
    )
    db.step("rows copied")
    tables.insert(copy, [pack_row(first, records)])
    tables.save(tables.with_measured_size(copy._replace(head=at, packed=at)))


def rewrite_session(db: Database, tables: Tables, name: str, changes: Mapping[int, bytes]) -> None:
    session = tables.get(name)
    check_record_numbers(name, changes, session.head)
    if not changes:
        return
    session = tables.pack(session)
    last_number = 0
    for number in sorted(changes):
        if number > last_number:
            last_number = _rewrite_row(db, tables, session, number, changes)
            db.step("row rewritten")
    tables.save(tables.with_measured_size(session))


def _rewrite_row(db: Database, tables: Tables, session: SessionRow, number: int, changes: Mapping[int, bytes]) -> int:
    """Rewrite the row that holds a number, with all changes in it. Return its last number.

    Damaged records can only be replaced together: from where the last good row ends to where the next one starts.
    """
    row = tables.find_row_before(session, number)
    records: list[bytes] = []
    first, why = row.first if row else 1, "they are not there"
    try:
        records = open_row(row) if row else []
    except Damaged as fault:
        why = str(fault)
    if number < first + len(records):
        last = first + len(records) - 1
        records = [changes.get(place, record) for place, record in enumerate(records, first)]
    else:
        first, last = first + len(records), tables.find_next_number(session, number) - 1
        if not all(place in changes for place in range(first, last + 1)):
            raise tables.make_damage_error(session, first, f"{why}; only all of them can be replaced")
        records = [changes[place] for place in range(first, last + 1)]
    db.execute("DELETE FROM packed_rows WHERE id BETWEEN ? AND ?", row_id_span(session, first, last))
    tables.insert(session, pack_rows(first, records))
    return last


class Vacuum:
    """Rewrites the file after something was removed, so that no copy of it remains.

    SQLite leaves copies of rows on free pages and in the unused part of pages that it splits or joins, even with
    `secure_delete`. As long as a record exists, they reveal nothing that the record does not. When it is forgotten, all
    copies must be removed, and only VACUUM finds all of them.

    `user_version` in the file says whether a VACUUM is due: an odd number means yes, also after a crash. It only ever
    grows, so that a slow process does not take a new request for the one it has just served.
    """

    def __init__(self, db: Database, timeout: float) -> None:
        self._db = db
        self._timeout = timeout
        self._postponed = 0
        self.due = False
        """Whether this process has requested a VACUUM that was not run yet."""

    def request(self) -> None:
        """Part of the transaction that removes something."""
        self._set("user_version", (self._version() + 1 | 1) % (1 << 31))
        self._db.step("vacuum requested")
        self.due = True

    def run(self, writers: float, readers: float) -> None:
        """Run it if it is due. Wait up to this many seconds for other writers, and for readers.

        While a reader is at work, the old pages stay in the write-ahead log until a later checkpoint.
        """
        if self._postponed:
            return
        self._set("busy_timeout", int(writers * 1000))
        try:
            roll_back(self._db)
            version = self._version()
            if version % 2:
                self._db.execute("VACUUM")
                self._db.step("file vacuumed")
                transact(self._db, lambda: self._mark_done(version))
            self._set("busy_timeout", int(readers * 1000))
            truncate_wal(self._db)
            self.due = False
        finally:
            self._set("busy_timeout", int(self._timeout * 1000))

    @contextmanager
    def postpone(self) -> Iterator[None]:
        self._postponed += 1
        try:
            yield
        finally:
            self._postponed -= 1

    def _mark_done(self, version: int) -> None:
        if self._version() == version:
            self._set("user_version", (version + 1) % (1 << 31))

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _set(self, pragma: str, value: int) -> None:
        self._db.execute(f"PRAGMA {pragma}={value}").close()


# --- appends ---------------------------------------------------------------------------------------------------------
# Appends in one transaction. A trigger compares and swaps the head of each session: see `migrations.py`.


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
        row = self._tables.pack(session, append.records, tail.records)
        self._tables.save(row._replace(used=append.time))
        self._cached_bytes -= tail.size
        tail.head, tail.count, tail.size, tail.records = row.head, 0, 0, []
        return row.head

    def _flush(self) -> None:
        """Insert the rows of the appends since the last call."""
        if self._rows:
            try:
                self._db.executemany(_INSERT, self._rows)
            except sqlite3.IntegrityError:  # another process has changed a session
                raise _OutdatedCache from None
            self._db.step("rows inserted")
            self._rows = []
