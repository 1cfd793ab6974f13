"""The store on one machine: one SQLite file in a data folder, for many threads and processes.

A record that is new stands in a row of its own, which is the cheapest append there is. When 64 of them have gathered,
or 256 KB, the transaction that brings the last one also packs them into one compressed row. Rows are never changed
otherwise, and each carries a SHA-256 that is checked before a byte of it is believed.

- WAL with synchronous=FULL: one fsync before an append returns, so it survives a power cut.
- zlib, level 3: of the standard library, and a fifth of the JSON; level 6 saves a sixth more and takes twice the time.
- Both a row's session and its place are in its rowid: one B-tree, no index, and the end of a log is found at once.
- secure_delete: what was deleted is overwritten, not merely forgotten.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.store.memory import check_fork, check_name, missing, stale
from tidegate.store.sqlite_file import (
    FILE,
    MIGRATIONS,
    Migration,
    Step,
    damage_aside,
    open_file,
    plain_errors,
    snapshot,
    transaction,
)
from tidegate.store.sqlite_rows import (
    NUMBERS,
    PACK_BYTES,
    PACK_RECORDS,
    Chunk,
    Damaged,
    Entry,
    chunk_of,
    cut,
    key,
    number_of,
    opened,
    seal,
)
from tidegate.store.store import Broken, SessionInfo

READ_AT_ONCE = 1024 * 1024
_ENTRY = "SELECT id, name, head, packed, loose, size, created, used, sum FROM sessions"
_CHUNK = "SELECT id, count, packed, sum, data FROM chunks"


def _no_step(_: str) -> None: ...


class _Batch(NamedTuple):
    """Chunks from the one that holds a number on, and the head when they were read."""

    chunks: list[Chunk]
    head: int


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
        if self.path.parent.exists() and not self.path.parent.is_dir():
            raise BadInput(f"{self.path.parent} is not a folder.", "Give the folder that is to hold the data.")
        self._clock = clock
        self._timeout = timeout
        self._step = step
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._db = open_file(self.path, timeout=timeout, migrations=migrations, step=step)
        if limit is not None:
            page = self._db.execute("PRAGMA page_size").fetchone()[0]
            self._db.execute(f"PRAGMA max_page_count={max(1, limit // page)}").close()

    # --- writing --------------------------------------------------------------------------------------------------

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        check_name(session)
        chunks = list(cut(after + 1, [bytes(record) for record in records]))  # compressed before the file is locked
        with self._writing(session):
            entry = self._find(session)
            head = entry.head if entry else 0
            if after != head:
                raise stale(session, after, head)
            if not chunks:
                return head
            entry = self._add(entry or self._begin(session), chunks)
            self._save(entry)
            self._step("session updated")
        self._step("committed")
        return entry.head

    def _begin(self, session: str) -> Entry:
        now = float(self._clock())
        values = (session, now, now)
        made = self._db.execute("INSERT INTO sessions VALUES (NULL, ?, 0, 0, 0, 0, ?, ?, 0)", values)
        self._step("session made")
        return Entry(made.lastrowid or 0, session, 0, 0, 0, 0, now, now)

    def _add(self, entry: Entry, chunks: list[Chunk]) -> Entry:
        full = [chunk for chunk in chunks if chunk.packed]
        if full:
            entry = self._pack(entry)
        for chunk in chunks:
            self._insert(entry.id, chunk)
        self._step("rows inserted")
        new = sum(len(chunk.data) for chunk in chunks)
        loose = sum(len(chunk.data) for chunk in chunks if not chunk.packed)
        entry = entry._replace(
            head=chunks[-1].last,
            packed=full[-1].last if full else entry.packed,
            loose=loose if full else entry.loose + loose,
            size=entry.size + new,
            used=float(self._clock()),
        )
        due = entry.head - entry.packed >= PACK_RECORDS or entry.loose >= PACK_BYTES
        return self._pack(entry) if due else entry

    def _pack(self, entry: Entry) -> Entry:
        """One compressed row in place of the loose ones. What is damaged stays as it is: it would get a new seal."""
        span = (key(entry.id, entry.packed + 1), key(entry.id, entry.head))
        done = entry._replace(packed=entry.head, loose=0)
        try:
            rows = self._db.execute(f"{_CHUNK} WHERE id BETWEEN ? AND ? ORDER BY id", span)
            loose = [chunk_of(row) for row in rows]
            records = [record for chunk in loose for record in opened(chunk)]
        except Damaged:
            return done
        if not records or len(records) != entry.head - entry.packed:
            return done
        packed = seal(entry.packed + 1, records, pack=True)
        self._step("pack sealed")
        self._db.execute("DELETE FROM chunks WHERE id BETWEEN ? AND ?", span)
        self._step("loose rows removed")
        self._insert(entry.id, packed)
        self._step("packed row inserted")
        return done._replace(size=entry.size + len(packed.data) - sum(len(chunk.data) for chunk in loose))

    def _insert(self, session: int, chunk: Chunk) -> None:
        values = (key(session, chunk.first), chunk.held, chunk.packed, chunk.check, chunk.data)
        self._db.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", values)

    def _save(self, entry: Entry) -> None:
        self._db.execute(
            "UPDATE sessions SET head = ?, packed = ?, loose = ?, size = ?, created = ?, used = ?, sum = ?"
            " WHERE id = ?",
            (*entry[2:], entry.check(), entry.id),
        )

    def fork(self, session: str, at: int, new: str) -> None:
        check_name(new)
        with self._writing(session):
            entry = self._known(session)
            check_fork(session, at, entry.head, new, self._find(new) is not None)
            made = self._begin(new)
            last = self._holding(entry, at)
            self._db.execute(
                "INSERT INTO chunks SELECT id + ?, count, packed, sum, data FROM chunks WHERE id >= ? AND id < ?",
                (key(made.id - entry.id, 0), key(entry.id, 1), key(entry.id, last.first)),
            )
            self._step("rows copied")
            self._insert(made.id, seal(last.first, opened(last)[: at - last.first + 1], pack=bool(last.packed)))
            packed = at if last.packed else min(entry.packed, at)
            size, loose = self._db.execute(
                "SELECT total(length(data)), total(length(data) * (id > ?)) FROM chunks WHERE id BETWEEN ? AND ?",
                (key(made.id, packed), *_span(made.id)),
            ).fetchone()
            self._save(made._replace(head=at, packed=packed, loose=int(loose), size=int(size)))
            self._step("fork noted")
        self._step("committed")

    def _holding(self, entry: Entry, number: int) -> Chunk:
        """The chunk that holds a record, checked: a fork ends with a row that was read, the others are copied blind."""
        for chunk in self._batch(entry.name, entry.id, number).chunks[:1]:
            try:
                opened(chunk)
            except Damaged as fault:
                raise self._damage(entry, chunk.first, str(fault)) from fault
            if chunk.first <= number <= chunk.last:
                return chunk
        raise self._damage(entry, number, "they are not there")

    def delete(self, session: str) -> None:
        with self._writing(session):
            entry = self._known(session)
            self._db.execute("DELETE FROM chunks WHERE id BETWEEN ? AND ?", _span(entry.id))
            self._step("rows deleted")
            self._db.execute("DELETE FROM sessions WHERE id = ?", (entry.id,))
            self._step("session deleted")
        self._step("committed")
        with self._reading(session):
            # So that it leaves the disk now; if others are reading, it stays in the WAL until a later checkpoint.
            self._db.execute("PRAGMA busy_timeout=0").close()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
            self._db.execute(f"PRAGMA busy_timeout={int(self._timeout * 1000)}").close()

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        with self._reading(session):
            entry = self._known(session)
        return self._records(entry, max(1, start))

    def _records(self, entry: Entry, number: int) -> Iterator[bytes]:
        """Some rows at a time, with nothing held open between them: the file may be written and packed meanwhile."""
        while True:
            with self._reading(entry.name), snapshot(self._db):
                batch = self._batch(entry.name, entry.id, number)
            if number > batch.head:
                return
            begun = number
            for chunk in batch.chunks:
                if chunk.first > number:
                    raise self._damage(entry, number, "they are not there")
                try:
                    records = opened(chunk)
                except Damaged as fault:
                    raise self._damage(entry, number, str(fault)) from fault
                yield from records[number - chunk.first :]
                number = max(number, chunk.last + 1)
            if number == begun:
                raise self._damage(entry, number, "they are not there")

    def _damage(self, entry: Entry, first: int, why: str) -> Broken:
        """From this record up to the next row: how many a damaged row held is not to be believed."""
        last = self._next(entry, first) - 1
        return Broken(
            f"Records {first} to {last} of session {entry.name!r} are damaged: {why}.",
            f"All others can be read; go on from record {last + 1}.",
        )

    def _next(self, entry: Entry, number: int) -> int:
        """The first number of the next row that can be found. A page of the tree may be gone: look behind it."""
        head = max(entry.head, number)
        for beyond in range(number, head):
            with self._reading(entry.name), damage_aside():
                span = (key(entry.id, beyond), _span(entry.id)[1])
                (found,) = self._db.execute("SELECT min(id) FROM chunks WHERE id > ? AND id <= ?", span).fetchone()
                return head + 1 if found is None else number_of(found)
        return head + 1

    def _batch(self, session: str, ident: int, number: int) -> _Batch:
        row = self._db.execute(f"{_ENTRY} WHERE id = ?", (ident,)).fetchone()
        if row is None:
            raise missing(session)
        self._step("entry read")
        (low, high), here = _span(ident), key(ident, number)
        chunks: list[Chunk] = []
        size = 0
        with damage_aside():  # what stands before it can be read; who asks for what is behind it is told
            rows = self._db.execute(
                f"{_CHUNK} WHERE id >= coalesce((SELECT max(id) FROM chunks WHERE id BETWEEN ? AND ?), ?) AND id <= ?"
                " ORDER BY id",
                (low, here, here, high),
            )
            for found in rows:
                chunks.append(chunk_of(found))
                size += len(found[-1]) if isinstance(found[-1], bytes) else 0
                if size >= READ_AT_ONCE:
                    break
            rows.close()
        return _Batch(chunks, self._entry(row).head)

    def head(self, session: str) -> int:
        with self._reading(session):
            entry = self._find(session)
        return entry.head if entry else 0

    def sessions(self) -> list[SessionInfo]:
        with self._reading("the list of sessions"):
            rows = self._db.execute(f"{_ENTRY} ORDER BY used DESC, id DESC").fetchall()
            entries = [self._entry(row) for row in rows]
        return [SessionInfo(entry.name, entry.head, entry.created, entry.used, entry.size) for entry in entries]

    def close(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                self._db.close()

    # --- below ----------------------------------------------------------------------------------------------------

    def _find(self, session: str) -> Entry | None:
        try:
            row = self._db.execute(f"{_ENTRY} WHERE name = ?", (session,)).fetchone()
        except UnicodeEncodeError:  # no such name was ever let in
            return None
        return None if row is None else self._entry(row)

    def _known(self, session: str) -> Entry:
        entry = self._find(session)
        if entry is None:
            raise missing(session)
        return entry

    def _entry(self, row: Sequence[object]) -> Entry:
        """An entry that fails its checksum is made anew from the rows: they know where the log ends."""
        entry = Entry(*row[:-1])  # type: ignore[arg-type] # the columns, in order
        if entry.check() == row[-1]:
            return entry
        span = _span(entry.id)
        last = self._db.execute(f"{_CHUNK} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1", span).fetchone()
        try:
            head = len(opened(chunk_of(last))) + chunk_of(last).first - 1 if last else 0
        except Damaged as fault:
            cause = f"The entry of session {entry.name!r} and its last row are both damaged: {fault}."
            raise Broken(cause, "Its other records are in the file; keep a copy of it.") from fault
        size = self._db.execute("SELECT total(length(data)) FROM chunks WHERE id BETWEEN ? AND ?", span).fetchone()
        return Entry(entry.id, entry.name, head, head, 0, int(size[0]), *map(_time, entry[6:]))

    @contextmanager
    def _reading(self, session: str) -> Iterator[None]:
        if self._process != os.getpid():
            raise BadInput(
                f"{self.path} was opened before this process was forked.", "Open the store in the new process."
            )
        with self._lock, plain_errors(f"session {session!r} in {self.path}"):
            yield

    @contextmanager
    def _writing(self, session: str) -> Iterator[None]:
        with self._reading(session), transaction(self._db):
            self._step("begun")
            yield


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _span(session: int) -> tuple[int, int]:
    return key(session, 0), key(session, NUMBERS)
