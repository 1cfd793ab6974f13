"""The store in PostgreSQL: the same promises over many processes and hosts.

One row per session holds its head. An append is one statement that moves the head only if it is where the writer
expects it, and inserts the records. The lock on the row makes the order of a session total; a later writer finds that
the head has moved and is refused. Names and records are bytea, so that the encoding of the database does not matter.
Threads may share a store; forked processes must open their own.

If a connection drops during an append, it is not known whether the append was done. The store then repeats it over
another connection. Whichever of the two arrives second finds that the head has moved and writes nothing, even if it
arrives late; and if the head has moved, the store compares the records after it with those of the append. So an append
is never written twice, and no answer depends on which process of the server, or of a pooler, executed it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import DamagedData, SessionNotFound, StaleHead, StoreUnreachable
from tidegate.store.group_commit import Append, GroupCommit
from tidegate.store.memory import (
    check_fork_request,
    check_record_numbers,
    check_session_name,
    session_not_found,
    stale_head_error,
)
from tidegate.store.postgres.connection import (
    CONNECTION_KEYWORDS,
    Link,
    configure,
    describe_server,
    durable_transaction,
    first_line,
    parse_url,
    translate_errors,
)
from tidegate.store.postgres.connection_pool import PatientConnection, PoolClosed, PoolTimeout, SharedConnections
from tidegate.store.postgres.folder import PostgresFolder
from tidegate.store.postgres.migrations import migrate
from tidegate.store.postgres.statements import (
    APPEND_FIRST,
    APPEND_MANY,
    APPEND_NEXT,
    BATCH_BYTES,
    BEHIND,
    FORK,
    HEAD,
    HEADS,
    LANDED,
    LOCK_SESSION,
    NAMES,
    PAGE,
    REMOVE_TENANT,
    RESIZE,
    REST,
    REWRITE,
    SESSIONS,
    TENANTS,
    TRY_LOCK,
    TRY_SHARED_LOCK,
)
from tidegate.store.store import SessionInfo

_LARGE_PATIENCE = 120
"""Seconds that an append of many megabytes may take."""
MAX_RECORD = 1_000_000_000
"""Bytes of a record: a value in PostgreSQL takes little more."""
_UNKNOWN_APPEND = "It is not known whether the records were written: read from your last record on."
OPENING = "Check that the server runs, and the host, user, password and database of the address."


class _LockedSession(NamedTuple):
    id: int
    head: int


class PostgresStore:
    """Sessions in PostgreSQL. The `size` of a session is the bytes of its records before the server compresses them."""

    def __init__(self, url: str, *, connections: int = 8, timeout: float = 10, tenant: str = "") -> None:
        """`timeout` is how many seconds a call waits for a connection, and then for the answer to a statement.

        A long read that is not finished occupies a connection. With `tenant`, the owner of the tables acts for it.
        """
        self._url = url
        self._conninfo = parse_url(url, tenant)
        self._where = describe_server(self._conninfo)
        self._timeout = timeout
        with translate_errors(self._where, OPENING), self._connect() as link:
            migrate(link)
            isolation = link.execute("select current_setting('default_transaction_isolation')").fetchone()
            if tenant and link.execute("select tidegate_tenant()").fetchone() != (tenant,):
                cause = f"This role cannot act for the tenant {tenant!r}."
                raise BadInput(cause, "Only the owner of the tables can: give its address, without a pooler.")
        self._needs_begin = isolation != ("read committed",)  # else one statement without a transaction is enough
        self._commits = GroupCommit(RLock(), self._write_group)
        self._links = SharedConnections(self._connect, connections, timeout)

    def _connect(self) -> PatientConnection:
        link = PatientConnection.connect(self._conninfo, **CONNECTION_KEYWORDS)
        configure(link)
        return link

    def __repr__(self) -> str:
        return f"PostgresStore({self._where})"

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """If the connection drops, the append is repeated once. StoreUnreachable if that fails, too.

        While an event loop uses this store, it shares a statement with the appends of the tasks.
        """
        check_session_name(session)
        if self._commits.has_event_loop():
            return self._commits.commit(Append(session, after, list(map(bytes, records)), 0.0))
        return self._append_alone(session, after, records)

    def _append_alone(self, session: str, after: int, records: Sequence[bytes]) -> int:
        batches = list(_batches(records))
        is_connected = False
        try:
            with self.connection(_UNKNOWN_APPEND, patience=_LARGE_PATIENCE if len(batches) > 1 else None) as link:
                is_connected = True
                return self._append(link, session, after, batches)
        except StoreUnreachable as lost:
            if not is_connected:
                raise NotKept(str(lost.args[0]), lost.remedy) from lost
            return self._append_again(session, after, batches, lost)

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """Append without blocking the event loop. Waiting tasks share a statement, and the queue is bounded."""
        check_session_name(session)
        return await self._commits.commit_async(Append(session, after, list(map(bytes, records)), 0.0))

    def _write_group(self, group: list[Append]) -> None:
        """Write appends of many sessions. What one statement cannot hold, or a refused one, is appended by itself."""
        together, alone = _split_group(group)
        try:
            if len(together) > 1:
                self._append_many(together)
            else:
                alone = [*together, *alone]
        except StoreUnreachable as lost:
            for append in together:
                append.outcome = _outcome(self._append_again, append.session, append.after, [append.records], lost)
        except NotKept:  # for example a deadlock with another process: nothing was written
            alone = [*together, *alone]
        for append in alone:
            append.outcome = _outcome(self._append_alone, append.session, append.after, append.records)

    def _append_many(self, group: list[Append]) -> None:
        names = [_encode_name(append.session) for append in group]
        numbered = [
            (name, append.after + place, record)
            for name, append in zip(names, group, strict=True)
            for place, record in enumerate(append.records, 1)
        ]
        values = {
            "names": names,
            "afters": [append.after for append in group],
            "counts": [len(append.records) for append in group],
            "sizes": [sum(map(len, append.records)) for append in group],
            "record_names": [name for name, _, _ in numbered],
            "seqs": [seq for _, seq, _ in numbered],
            "records": [record for _, _, record in numbered],
        }
        with self.connection(_UNKNOWN_APPEND) as link:
            with link.transaction() if self._needs_begin else nullcontext():
                successes = {row[0] for row in link.execute(APPEND_MANY, values)}
            refusals = [name for name in names if name not in successes]
            heads = dict(link.execute(HEADS, (refusals,)).fetchall()) if refusals else {}
        for name, append in zip(names, group, strict=True):
            is_kept = name in successes
            append.outcome = (
                append.after + len(append.records)
                if is_kept
                else stale_head_error(append.session, append.after, heads.get(name, 0))
            )

    def _append(self, link: Link, session: str, after: int, batches: list[list[bytes]]) -> int:
        is_large = len(batches) > 1 or self._needs_begin
        whole: AbstractContextManager[Any] = durable_transaction(link, self._timeout) if is_large else nullcontext()
        with whole:
            head = after
            for batch in batches:
                if not _append(link, _encode_name(session), head, batch):
                    raise stale_head_error(session, after, _head(link, _encode_name(session)))
                head += len(batch)
        return head

    def _append_again(self, session: str, after: int, batches: list[list[bytes]], failure: StoreUnreachable) -> int:
        """Repeat an append whose connection was lost. If it was done, the second one finds that the head has moved."""
        hashes = [hashlib.sha256(record).digest() for batch in batches for record in batch]
        try:
            with self.connection("Look again.", patience=_LARGE_PATIENCE if len(batches) > 1 else None) as link:
                try:
                    return self._append(link, session, after, batches)
                except StaleHead:
                    values = (_encode_name(session), after, after + len(hashes))
                    rows = link.execute(LANDED, values, binary=True).fetchall()
                    if not rows or rows != list(enumerate(hashes, after + 1)):
                        raise
        except StoreUnreachable:
            raise failure from None
        return after + len(hashes)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        start = max(1, start)
        with self.connection("Read again.") as link:
            rows = link.execute(PAGE, {"name": _encode_name(session), "start": start}, binary=True).fetchall()
        if not rows:
            raise session_not_found(session)
        place, head, page = rows[0][:3]
        first = [(seq, data) for _, _, _, seq, data in rows if seq is not None]
        return self._check_order(session, start, head, first, self._read_rest(place, start + len(first), head, page))

    def _check_order(
        self, session: str, start: int, head: int, first: list[tuple[int, bytes]], rest: Iterator[tuple[int, bytes]]
    ) -> Iterator[bytes]:
        """Yield the records and check their numbers: a gap must not look like the end."""
        due = start
        for rows in (first, rest if start + len(first) <= head else ()):
            for seq, data in rows:
                if seq != due:
                    break
                yield data
                due += 1
        if due > head:
            return
        if self.head(session) < head:
            raise SessionNotFound(f"Session {session!r} was deleted while it was read.", "List the sessions.")
        raise self._make_gap_error(session, due, head)

    def _make_gap_error(self, session: str, first: int, head: int) -> DamagedData:
        with self.connection("Read again.") as link:
            values = (_encode_name(session), first, head)
            row = link.execute(BEHIND, values).fetchone()
        last = row[0] - 1 if row and row[0] else head
        which = f"Record {first}" if first == last else f"Records {first} to {last}"
        return DamagedData(
            f"{which} of session {session!r} cannot be found in the database, though its head is {head}.",
            f"Restore the table tidegate_records from a backup; or continue from record {last + 1}.",
            first,
            last,
        )

    def _read_rest(self, place: int, start: int, head: int, page: int) -> Iterator[tuple[int, bytes]]:
        with self.connection("Read again.") as link, link.transaction(), link.cursor("tidegate_read") as cursor:
            cursor.itersize = page
            cursor.execute(REST, (place, start, head), binary=True)
            yield from cursor

    def head(self, session: str) -> int:
        with self.connection("Ask again.") as link:
            return _head(link, _encode_name(session))

    def sessions(self) -> list[SessionInfo]:
        with self.connection("Ask again.") as link:
            rows = link.execute(SESSIONS, binary=True).fetchall()
        return [
            SessionInfo(name.decode("utf-8", "replace"), head, created, last_use, size)
            for name, head, created, last_use, size in rows
        ]

    def list_names(self, prefix: str) -> list[str]:
        start = _encode_name(prefix)
        with self.connection("Ask again.") as link:
            rows = link.execute(NAMES, (start, start + b"\xff"), binary=True).fetchall()
        return [name.decode("utf-8", "replace") for (name,) in rows]

    def fork(self, session: str, at: int, new: str) -> None:
        check_session_name(new)
        values = {"name": _encode_name(session), "at": at, "new": _encode_name(new)}
        remedy = "It is not known whether the fork was made: look before you try again."
        with self.connection(remedy, patience=0) as link, durable_transaction(link):
            row = link.execute(FORK, values).fetchone()
        if row is None:
            raise session_not_found(session)
        head, copy_place = row
        check_fork_request(session, at, head, new, name_exists=copy_place is None)

    def delete(self, session: str, head: int | None = None) -> None:
        remedy = "It is not known whether the session is gone: look before you try again."
        with self.connection(remedy, patience=0) as link, durable_transaction(link):
            place, current_head = _lock_session(link, session)
            if head is not None and head != current_head:
                raise stale_head_error(session, head, current_head)
            link.execute("delete from tidegate_sessions where id = %s", (place,))

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        """Replace records. No query can read the old ones any more. Their bytes stay in the files of the server until
        VACUUM has freed them (requested here, if the role may) and they are overwritten; in its write-ahead log,
        replicas and backups they stay as long as those are kept.
        """
        numbers = sorted(changes)
        batches = list(_batches([changes[number] for number in numbers]))
        remedy = "It is not known whether the records were rewritten: read them before you try again."
        with self.connection(remedy, patience=0) as link:
            with durable_transaction(link):
                place, head = _lock_session(link, session)
                check_record_numbers(session, numbers, head)
                count = 0
                for batch in batches:
                    values = {"id": place, "numbers": numbers[count : count + len(batch)], "records": batch}
                    link.execute(REWRITE, values)
                    count += len(batch)
                link.execute(RESIZE, (place,))
            with suppress(psycopg.Error):  # the records are rewritten even if this fails
                link.execute("vacuum (skip_locked) tidegate_records")

    # --- what else workers share ----------------------------------------------------------------------------------

    def open_folder(
        self, name: str, root: Path, *, max_file: int, ending: str = "", is_cached: bool = False
    ) -> PostgresFolder:
        return PostgresFolder(self.connection, name, root, max_file=max_file, ending=ending, is_cached=is_cached)

    @contextmanager
    def lock_session(self, key: str) -> Iterator[bool]:
        """The lock is that of a transaction, which lasts as long as this context, on a connection of its own."""
        with translate_errors(self._where, "Try again."), self._connect() as link, link.transaction():
            yield link.execute(TRY_LOCK, (key.encode(),)).fetchone() == (True,)

    def is_session_locked(self, key: str) -> bool:
        with self.connection("Ask again.") as link:
            return link.execute(TRY_SHARED_LOCK, (key.encode(),)).fetchone() != (True,)

    def list_other_tenants(self) -> list[str]:
        with self.connection("Ask again.") as link:
            return [tenant for (tenant,) in link.execute(TENANTS)]

    def open_tenant(self, tenant: str) -> "PostgresStore":
        return PostgresStore(self._url, tenant=tenant, timeout=self._timeout)

    def remove_tenant(self) -> int:
        remedy = "It is not known whether the tenant's data are gone: look before you try again."
        with self.connection(remedy, patience=0) as link, durable_transaction(link):
            return [link.execute(statement).rowcount for statement in REMOVE_TENANT][-1]

    def close(self) -> None:
        self._commits.close()
        self._links.close()

    @contextmanager
    def connection(self, remedy: str, *, patience: float | None = None) -> Iterator[Link]:
        """A connection for one transaction, or for statements that do not depend on each other. `remedy` is for a lost
        one. A statement that gets no answer for `patience` seconds counts as lost; 0 is no limit.
        """
        link = self._take_connection()
        link.patience = self._timeout if patience is None else patience
        try:
            with translate_errors(self._where, f"{remedy} The next call connects again."):
                yield link
        finally:
            self._links.give_back(link)

    def _take_connection(self) -> PatientConnection:
        try:
            return self._links.take()
        except PoolClosed:
            raise BadInput("This store is closed.", "Open it again.") from None
        except PoolTimeout:
            raise StoreUnreachable(
                f"No connection to {self._where} within {self._timeout:g} seconds; nothing was written.",
                "Check that the server runs, and finish the reads that were begun: each holds a connection.",
            ) from None
        except psycopg.Error as error:
            raise StoreUnreachable(
                f"No connection to {self._where}: {first_line(error)}; nothing was written.",
                "Check that the server runs. The next call connects again.",
            ) from error

    def check(self) -> None:
        """Over a connection of its own: all others may wait for a server that has gone silent."""
        remedy = "Check that the server runs."
        with translate_errors(self._where, remedy):
            link = PatientConnection.connect(make_conninfo(self._conninfo, connect_timeout=2), **CONNECTION_KEYWORDS)
            with closing(link):
                link.patience = 2
                is_read_only = link.execute("select pg_is_in_recovery()").fetchone() == (True,)
        if is_read_only:
            raise StoreUnreachable(f"{self._where} accepts no changes now.", remedy)


def _append(link: Link, name: bytes, after: int, records: list[bytes]) -> bool:
    values = {"name": name, "after": after, "records": records, "count": len(records), "size": sum(map(len, records))}
    if not records:
        return _head(link, name) == after
    return link.execute(APPEND_NEXT if after else APPEND_FIRST, values).fetchone() is not None


def _split_group(group: list[Append]) -> tuple[list[Append], list[Append]]:
    """The appends that one statement can hold, one for each session, and the others."""
    together: dict[str, Append] = {}
    alone: list[Append] = []
    size = 0
    for append in group:
        size += sum(map(len, append.records))
        fits = append.records and append.session not in together and size <= BATCH_BYTES
        if fits:
            together[append.session] = append
        else:
            alone.append(append)
    return list(together.values()), alone


def _outcome(act: Callable[..., int], *arguments: Any) -> int | BaseException:
    try:
        return act(*arguments)
    except Exception as error:  # noqa: BLE001 - raised in the task that waits
        return error


def _lock_session(link: Link, session: str) -> _LockedSession:
    """Lock the row of a session, so that no other transaction can append to it."""
    row = link.execute(LOCK_SESSION, (_encode_name(session),)).fetchone()
    if row is None:
        raise session_not_found(session)
    return _LockedSession(*row)


def _head(link: Link, name: bytes) -> int:
    row = link.execute(HEAD, (name,)).fetchone()
    return 0 if row is None else int(row[0])


def _batches(records: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield batches of records: one for almost any append. The protocol accepts at most a gigabyte at once."""
    batch: list[bytes] = []
    size = 0
    for record in map(bytes, records):
        if len(record) > MAX_RECORD:
            cause = f"A record of {len(record)} bytes; PostgreSQL takes {MAX_RECORD}. Nothing was written."
            raise BadInput(cause, "Keep large content outside the log.")
        if batch and size + len(record) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    yield batch


def _encode_name(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")
