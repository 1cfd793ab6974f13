"""The store on one machine: one SQLite file in a data folder, for many threads and processes.

A record that is new stands in a row of its own, and an append writes nothing else. When 64 of them have gathered, or
256 KB, the transaction that brings the last one also packs them into one compressed row and notes in the session's
entry how far it goes; where a log ends is found by the entry and the rows behind it. Rows are never changed otherwise
(but by `rewrite`), and each carries a SHA-256 that is checked before a byte of it is believed.

- WAL with synchronous=FULL: one fsync before an append returns, so it survives a power cut. Threads and tasks share it.
- An append that is alone is one statement, which also sees whether the log still ends where we know it to.
- A row's session and its first number are its id. Rows are in the order of their ids, so that the end of a log is found
  at once; but what many sessions append in one commit is one row for all of them, until it is packed: each at its
  place would split a page, and cost four.
- zlib's format, written by ISA-L: a fifth of the JSON, for a quarter of the time that zlib takes.
- What was forgotten leaves the disk: the file is written anew without it (`sqlite_clean`).
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import getpid
from pathlib import Path
from typing import NoReturn

from tidegate.core.errors import BadInput, NotKept, TidegateError
from tidegate.store.errors import Broken
from tidegate.store.memory import check_name
from tidegate.store.sqlite_clean import Cleaning
from tidegate.store.sqlite_end import End, Ends
from tidegate.store.sqlite_file import (
    FILE,
    MIGRATIONS,
    Migration,
    Step,
    check_free,
    explained,
    is_busy,
    open_file,
    plain_errors,
    roll_back,
    snapshot,
    transaction,
)
from tidegate.store.sqlite_line import Fate, Line, Pending
from tidegate.store.sqlite_read import Batch, Rows
from tidegate.store.sqlite_rewrite import Rewriting
from tidegate.store.sqlite_rows import Damaged, Entry, opened
from tidegate.store.sqlite_statements import INSERT_BEHIND
from tidegate.store.sqlite_tasks import Loops
from tidegate.store.sqlite_write import Changes
from tidegate.store.store import SessionInfo

FORGET_WAIT = 1.0
"""Seconds to wait for others before what was rewritten leaves the disk."""


def _no_step(_: str) -> None: ...


class SqliteStore:
    """See the top of this file. Threads take turns; a process that forks opens its own afterwards.

    `limit` caps the database file, in bytes; an append that would go over it is refused whole.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        timeout: float = 30.0,
        limit: int | None = None,
        clock: Callable[[], float] = time.time,
        migrations: Sequence[Migration] = MIGRATIONS,
        step: Step = _no_step,
    ) -> None:
        self.path = Path(folder) / FILE
        if not os.path.isdir(folder) and os.path.exists(folder):
            raise BadInput(f"{self.path.parent} is not a folder.", "Give the folder that is to hold the data.")
        self._step = step
        self._clock = clock
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._db = open_file(self.path, timeout=timeout, migrations=migrations, step=step)
        if limit is not None:
            page = self._db.execute("PRAGMA page_size").fetchone()[0]
            self._db.execute(f"PRAGMA max_page_count={max(1, limit // page)}").close()
        self._rows = Rows(self._db, step)
        self._ends = Ends(self._db, self._rows, step)
        self._changes = Changes(self._db, self._rows, clock, step)
        self._cleaning = Cleaning(self._db, timeout, step)
        self._rewriting = Rewriting(self._db, self._rows, self._changes, clock, step)
        self._line = Line(self._commit)
        self._loops = Loops(self._commit)
        self._insert = self._db.cursor().execute  # one cursor for all: making one takes longer than using it

    # --- writing --------------------------------------------------------------------------------------------------

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        if self._process != getpid():
            self._check_process()
        if len(records) == 1 and self._line.leader is None and not self._db.changing:
            head = self._append_alone(session, after, bytes(records[0]))
            if head:
                return head
        if session not in self._changes.known:
            check_name(session)
        mine = Pending(session, after, list(map(bytes, records)), float(self._clock()))
        self._line.through(mine)
        return self._told(mine)

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """The same for the tasks of an event loop: the loop goes on, and those who wait share a commit."""
        if self._process != getpid():
            self._check_process()
        if session not in self._changes.known:
            check_name(session)
        mine = Pending(session, after, list(map(bytes, records)), float(self._clock()))
        loop = asyncio.get_running_loop()
        try:
            head = await self._loops.of(loop).through(mine, loop)
        finally:
            mine.gone = True
        return self._told(mine) if head is None else head

    def _told(self, mine: Pending) -> int:
        fault = mine.outcome
        if isinstance(fault, int):
            return fault
        assert fault is not None  # the line gives everyone an outcome
        told = explained(fault, self._place(mine.session))
        raise told from (None if told is fault else fault)

    def _append_alone(self, session: str, after: int, record: bytes) -> int:
        """One record behind the last of a session that we know, when nobody is in line, is one statement and one sync.

        Gives the new head, or 0 if it takes more than that. What interrupts us comes behind the statement: whether it
        was done is told by what changed.
        """
        db, changes = self._db, self._changes
        head = 0
        with self._lock:
            tail = changes.known.get(session)
            if tail is None or tail.head != after or db.changing or db.in_transaction:
                return 0
            row = changes.next_row(tail, record)
            if row is None:
                return 0
            before = db.total_changes
            try:
                db.changing = changes.doubtful = True
                self._insert(INSERT_BEHIND, row)
            except (OverflowError, sqlite3.Error) as fault:
                raise explained(fault, self._place(session)) from fault
            finally:
                try:
                    if db.total_changes != before:
                        head = tail.grow(row, record)
                        changes.ahead.add(session)
                        changes.doubtful = False
                finally:
                    db.changing = False
            if head:
                self._step("committed")
        return head

    def _commit(self, batch: Sequence[Pending]) -> None:
        """What one of them does wrong is not to hurt the others: if all do not go together, each goes alone.

        Any other error is of the handler of a signal: it is for the thread that it came to, and for no one else. One
        who is gone before we have the lock is left out: it may have looked already whether it was written.
        """
        with self._lock:
            batch = [each for each in batch if not each.gone]
            if not batch:
                return
            try:
                self._commit_together(batch)
            except (OverflowError, sqlite3.Error, TidegateError) as fault:
                left = [each for each in batch if each.outcome is None]
                if not left:
                    raise
                for each in left:
                    if len(batch) == 1 or is_busy(fault):
                        each.fail(fault)
                    else:
                        self._commit([each])

    def _commit_together(self, batch: Sequence[Pending]) -> None:
        """Signals are seen between calls. Behind the commit there is none until the fate is known."""
        check_free(self._db)
        if self._rows.batches.unsure:  # not amid the transaction: who meets damage there can write no more
            with snapshot(self._db):
                self._rows.batches.look()
        fate = Fate([], known=False)
        ready = failed = False
        try:
            self._db.changing = True
            self._db.execute("BEGIN IMMEDIATE")
            self._step("begun")
            self._changes.begun(len(batch))
            self._changes.append_all(batch, fate)
            self._changes.insert_waiting()
            ready = True
            self._db.execute("COMMIT")
        except sqlite3.Error:
            failed = True
            raise
        finally:
            self._db.changing = False
            if ready and not failed and not self._db.in_transaction:
                fate.known = True
                self._changes.committed()
            else:
                roll_back(self._db)
        self._step("committed")

    def fork(self, session: str, at: int, new: str) -> None:
        check_name(new)
        with self._writing(session):
            self._rewriting.fork(session, at, new)
        self._step("committed")

    def delete(self, session: str, head: int | None = None) -> None:
        try:
            with self._writing(session):
                self._rewriting.delete(session, head)
                self._cleaning.owe()
            self._step("committed")
        finally:
            # Also if there is no such session: who was killed here before comes back for this. If it fails, who forgets
            # next does it.
            with suppress(TidegateError):
                self._clean(session)

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        """Without changes, it still sees to it that what was rewritten before leaves the disk. If others read for
        long, what was removed stays in the write-ahead log until a later checkpoint."""
        copies = {number: bytes(record) for number, record in changes.items()}
        with self._writing(session):
            self._rewriting.rewrite(session, copies)
            self._cleaning.owe()
        self._step("committed")
        try:
            self._clean(session)
        except (Broken, NotKept) as refusal:
            raise NotKept(
                f"The records are rewritten; what stood there may still be in the file: {refusal.args[0]}",
                "Rewrite them again when the disk is well.",
            ) from refusal

    @contextmanager
    def cleaning_once(self) -> Iterator[None]:
        """Whatever is deleted in here leaves the disk at the end: that takes as long for many as for one."""
        with self._cleaning.once():
            yield
        self._clean("all sessions")

    def _clean(self, session: str) -> None:
        with self._reading(session):
            check_free(self._db)
            self._cleaning.pay(FORGET_WAIT)

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        number = max(1, start)
        with self._looking(session):
            entry = self._rows.known(session)
            batch = self._rows.batch(entry, number)
        return self._records(entry, number, batch)

    def _records(self, entry: Entry, number: int, batch: Batch | None) -> Iterator[bytes]:
        """Some rows at a time, with nothing held open between them: the file may be written and packed meanwhile."""
        while True:
            if batch is None:
                with self._looking(entry.name):
                    batch = self._rows.batch(self._rows.again(entry), number)
            if number > batch.head:
                return
            begun = number
            for chunk in batch.chunks:
                if number > batch.head:  # what stands there is not of this log
                    return
                if chunk.first > number:
                    self._raise_damage(entry, number, "they are not there")
                try:
                    records = opened(chunk)
                except Damaged as fault:
                    self._raise_damage(entry, number, str(fault))
                yield from records[number - chunk.first :]
                number = max(number, chunk.last + 1)
            if number == begun:
                self._raise_damage(entry, number, "they are not there")
            batch = None

    def _raise_damage(self, entry: Entry, first: int, why: str) -> NoReturn:
        with self._looking(entry.name):
            raise self._rows.damage(entry, first, why)

    def head(self, session: str) -> int:
        return self.end(session).head

    def end(self, session: str) -> End:
        """The head, and the record there if it was at hand: a log that is opened need not be read for it."""
        with self._reading(session):
            end = self._ends.seen(session)
            if end is None:
                with self._look():
                    end = self._ends.look(session)
            return end

    def sessions(self) -> list[SessionInfo]:
        with self._looking("the list of sessions"):
            entries = self._rows.entries()
        return [SessionInfo(entry.name, entry.head, entry.created, entry.used, entry.size) for entry in entries]

    def close(self) -> None:
        if self._process == os.getpid():
            self._loops.close()
        with self._lock:
            if self._process == os.getpid():
                if self._changes.ahead:
                    self._settle()
                if self._cleaning.owed:
                    with suppress(TidegateError), plain_errors(str(self.path)):
                        self._cleaning.pay(0)
                self._db.close()

    def _settle(self) -> None:
        """Nothing depends on it but what damage is noticed: who is in the way is not waited for."""
        with suppress(TidegateError), plain_errors(str(self.path)):
            self._db.execute("PRAGMA busy_timeout=0").close()
            with transaction(self._db):
                self._changes.settle()

    # --- below ----------------------------------------------------------------------------------------------------

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise BadInput(
                f"{self.path} was opened before this process was forked.", "Open the store in the new process."
            )

    def _place(self, session: str) -> str:
        return f"session {session!r} in {self.path}"

    @contextmanager
    def _reading(self, session: str) -> Iterator[None]:
        self._check_process()
        with self._lock, plain_errors(self._place(session)):
            yield

    @contextmanager
    def _looking(self, session: str) -> Iterator[None]:
        with self._reading(session), self._look():
            yield

    @contextmanager
    def _look(self) -> Iterator[None]:
        with snapshot(self._db):
            self._rows.batches.look(changing=self._db.changing)
            yield

    @contextmanager
    def _writing(self, session: str) -> Iterator[None]:
        with self._reading(session), transaction(self._db):
            self._step("begun")
            yield
