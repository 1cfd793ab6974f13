"""The store over one SQLite file. The package's docstring explains the format and the promises."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tidegate.core.errors import BadInput, NotKept, TidegateError
from tidegate.store.errors import DamagedData
from tidegate.store.group_commit import Append, GroupCommit
from tidegate.store.memory import check_session_name, stale_head_error
from tidegate.store.sqlite import connection
from tidegate.store.sqlite.appends import Appends
from tidegate.store.sqlite.connection import (
    FILE,
    Migration,
    Step,
    read_transaction,
    transact,
    translate_error,
    translate_errors,
)
from tidegate.store.sqlite.migrations import MIGRATIONS
from tidegate.store.sqlite.rewrite import Vacuum, fork_session, rewrite_session
from tidegate.store.sqlite.rows import SessionRow
from tidegate.store.sqlite.tables import READ_ROWS, Tables
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
            found = os.stat(self.path)
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

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
            found = self._tables.get(session)
            if head is not None and head != found.head:
                raise stale_head_error(session, head, found.head)
            self._tables.delete(found)
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
        with self._locked(session):
            self._appends.invalidate()
            transact(self._db, work)
        self._db.step("committed")

    @contextmanager
    def clean_up_once(self) -> Iterator[None]:
        """Run VACUUM once, at the end of this block, for all deletions in it."""
        with self._vacuum.postpone():
            yield
        self._run_vacuum("all sessions", "The sessions are deleted")

    def _run_vacuum(self, session: str, done: str) -> None:
        """Wait for other writers as long as an append does. Eight busy ones let nobody in for some seconds."""
        try:
            with self._locked(session):
                connection.check_free(self._db)
                self._vacuum.run(self._timeout, READERS_WAIT)
        except (DamagedData, NotKept) as refusal:
            cause = f"{done}; what stood there may still be in the file: {refusal.args[0]}"
            raise NotKept(cause, "Try again when the disk has recovered or fewer processes write.") from refusal

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        with self._locked(session), read_transaction(self._db):
            return self._read_records(self._tables.get(session), max(1, start))

    def _read_records(self, session: SessionRow, number: int) -> Iterator[bytes]:
        """Yield records, some rows at a time. No transaction is open between them, so others may write meanwhile.

        The first read is of one row, because recall reads single events; later ones are of more and more rows.
        """
        most_rows = 1
        while number <= session.head:
            with self._locked(session.name), read_transaction(self._db):
                session = self._tables.refresh(session)
                records = self._tables.read(session, number, most_rows)
            yield from records
            number += len(records)
            most_rows = min(2 * most_rows, READ_ROWS)

    def head(self, session: str) -> int:
        if self._commits.has_event_loop():
            return self._read_committed_head(session)
        with self._locked(session), read_transaction(self._db):
            found = self._tables.find(session)
            return found.head if found else 0

    def _read_committed_head(self, session: str) -> int:
        """Return the head over a connection of its own, which does not wait for the commit of other sessions."""
        self._check_process()
        with self._reader_lock, translate_errors(self._describe(session)):
            if self._is_closed:
                raise sqlite3.ProgrammingError
            if self._reader is None:
                self._reader = connection.open_reader(self.path, self._timeout)
            found = Tables(self._reader).find(session)  # one statement, which needs no transaction
            return found.head if found else 0

    def sessions(self) -> list[SessionInfo]:
        with self._locked(_ALL), read_transaction(self._db):
            return list(map(_make_info, self._tables.list_sessions()))

    def list_page(self, first: int, count: int) -> SessionPage:
        with self._locked(_ALL), read_transaction(self._db):
            page = self._tables.list_page(first, count)
            return SessionPage(list(map(_make_info, page)), self._tables.count_sessions())

    def list_names(self, prefix: str) -> list[str]:
        ask = "SELECT name FROM sessions WHERE name >= ? AND name < ? ORDER BY used DESC, id DESC"
        with self._locked(_ALL), read_transaction(self._db):
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
    def _locked(self, session: str) -> Iterator[None]:
        self._check_process()
        with self._lock, translate_errors(self._describe(session)):
            yield

    def _check_process(self) -> None:
        if self._process != os.getpid():
            cause = f"{self.path} was opened before this process was forked."
            raise BadInput(cause, "Open the store in the new process.")

    def _describe(self, session: str) -> str:
        return f"session {session!r} in {self.path}"
