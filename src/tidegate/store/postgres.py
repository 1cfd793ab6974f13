"""The store in PostgreSQL: the same promises over many processes and hosts.

One row per session holds its head. An append is one statement that moves the head only if it is where the writer
thinks it is, and inserts the records with it: the row's lock makes the order of a session total, and a writer that
comes late finds the head moved and is refused. Names and records are bytea: any bytes go in, whatever the encoding of
the database. A store may be shared by threads, not by forked processes: each opens its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from tidegate.core.errors import BadInput
from tidegate.store.memory import check_fork, check_name, missing, stale
from tidegate.store.postgres_link import Link, explained, hung_up, migrate, place_of, prepare, read_url
from tidegate.store.store import Broken, Missing, SessionInfo, Unreachable

MAX_RECORD = 1_000_000_000
"""Bytes of a record: a value in PostgreSQL takes little more."""
OPENING = "Check that the server runs, and the host, user, password and database of the address."
BATCH_BYTES = 4 << 20
BATCH_RECORDS = 256
"""What goes over the wire at once, in either direction, unless a single record is larger."""

NEW = """
insert into tidegate_sessions (name, head, size, created, used)
values (%(name)b, %(count)s, %(size)s, clock_timestamp(), clock_timestamp())
on conflict (name) do nothing
returning id
"""
NEXT = """
update tidegate_sessions set head = head + %(count)s, size = size + %(size)s, used = clock_timestamp()
where name = %(name)b and head = %(after)s
returning id
"""
KEEP = """
insert into tidegate_records (session, seq, data)
select mine.id, %(after)s + place, data from mine, unnest(%(records)b::bytea[]) with ordinality as given (data, place)
"""
APPEND_FIRST = f"with mine as ({NEW}), kept as ({KEEP}) select id from mine"
APPEND_NEXT = f"with mine as ({NEXT}), kept as ({KEEP}) select id from mine"

# The inner limit keeps a page of large records small. One statement is one snapshot: head and records agree.
PAGE = f"""
select s.id, s.head, s.page, r.seq, r.data
from (select id, head, greatest(1, least({BATCH_RECORDS}, {BATCH_BYTES} * head / greatest(size, 1))) as page
      from tidegate_sessions where name = %(name)b) s
left join lateral (select seq, data from tidegate_records where session = s.id and seq >= %(start)s
                   order by seq limit s.page) r on true
order by r.seq
"""
REST = "select seq, data from tidegate_records where session = %s and seq >= %s and seq <= %s order by seq"

# Also one snapshot: an append or a delete beside it is either wholly before the fork or wholly after it.
FORK = """
with source as (select id, head from tidegate_sessions where name = %(name)b),
made as (
    insert into tidegate_sessions (name, head, size, created, used)
    select %(new)b, %(at)s,
        (select coalesce(sum(octet_length(data)), 0) from tidegate_records where session = source.id and seq <= %(at)s),
        clock_timestamp(), clock_timestamp()
    from source where %(at)s between 1 and head
    on conflict (name) do nothing returning id),
copied as (
    insert into tidegate_records (session, seq, data)
    select made.id, r.seq, r.data from made, source, tidegate_records r where r.session = source.id and r.seq <= %(at)s)
select source.head, made.id from source left join made on true
"""
SESSIONS = """
select name, head, extract(epoch from created)::float8, extract(epoch from used)::float8, size
from tidegate_sessions order by used desc, id desc
"""


class PostgresStore:
    """`size` of a session is the bytes of its records, before the compression of the server."""

    def __init__(self, url: str, *, connections: int = 8, timeout: float = 30) -> None:
        """`timeout`: the seconds a call waits for a connection. A long read that is not finished holds one."""
        conninfo = read_url(url)
        self._where = place_of(conninfo)
        self._timeout = timeout
        # First without the pool: it would hide the reason behind its timeout.
        with explained(self._where, OPENING), psycopg.connect(conninfo, autocommit=True) as link:
            prepare(link)
            migrate(link)
        self._pool: ConnectionPool[Link] = ConnectionPool(
            conninfo,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=connections,
            timeout=timeout,
            configure=prepare,
            open=True,
        )

    def __repr__(self) -> str:
        return f"PostgresStore({self._where})"

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        check_name(session)
        batches = list(_batches(records))
        with self._lent("It is not known whether the records were written: read from your last record on.") as link:
            whole: AbstractContextManager[Any] = link.transaction() if len(batches) > 1 else nullcontext()
            with whole:
                head = after
                for batch in batches:
                    if not _append(link, _key(session), head, batch):
                        raise stale(session, after, _head(link, _key(session)))
                    head += len(batch)
        return head

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        start = max(1, start)
        with self._lent("Read again.") as link:
            rows = link.execute(PAGE, {"name": _key(session), "start": start}, binary=True).fetchall()
        if not rows:
            raise missing(session)
        place, head, page = rows[0][:3]
        first = [(seq, data) for _, _, _, seq, data in rows if seq is not None]
        return self._in_order(session, start, head, first, self._rest(place, start + len(first), head, page))

    def _in_order(
        self, session: str, start: int, head: int, first: list[tuple[int, bytes]], rest: Iterator[tuple[int, bytes]]
    ) -> Iterator[bytes]:
        """The records one by one, with a look at their numbers: a hole must not pass for the end."""
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
            raise Missing(f"Session {session!r} was deleted while it was read.", "List the sessions.")
        raise Broken(
            f"Record {due} of session {session!r} is not in the database, though its head is {head}.",
            "Restore the table tidegate_records from a backup.",
        )

    def _rest(self, place: int, start: int, head: int, page: int) -> Iterator[tuple[int, bytes]]:
        with self._lent("Read again.") as link, link.transaction(), link.cursor("tidegate_read") as cursor:
            cursor.itersize = page
            cursor.execute(REST, (place, start, head), binary=True)
            yield from cursor

    def head(self, session: str) -> int:
        with self._lent("Ask again.") as link:
            return _head(link, _key(session))

    def sessions(self) -> list[SessionInfo]:
        with self._lent("Ask again.") as link:
            rows = link.execute(SESSIONS, binary=True).fetchall()
        return [SessionInfo(name.decode(), head, created, used, size) for name, head, created, used, size in rows]

    def fork(self, session: str, at: int, new: str) -> None:
        check_name(new)
        values = {"name": _key(session), "at": at, "new": _key(new)}
        with self._lent("It is not known whether the fork was made: look before you try again.") as link:
            found = link.execute(FORK, values).fetchone()
        if found is None:
            raise missing(session)
        head, made = found
        check_fork(session, at, head, new, taken=made is None)

    def delete(self, session: str) -> None:
        with self._lent("It is not known whether the session is gone: look before you try again.") as link:
            gone = link.execute("delete from tidegate_sessions where name = %b", (_key(session),)).rowcount
        if not gone:
            raise missing(session)

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _lent(self, remedy: str) -> Iterator[Link]:
        try:
            link = self._borrowed()
            try:
                with explained(self._where, f"{remedy} The next call connects anew."):
                    yield link
            finally:
                self._pool.putconn(link)
        except PoolClosed:
            raise BadInput("This store is closed.", "Open it again.") from None
        except PoolTimeout:
            raise Unreachable(
                f"No connection to {self._where} within {self._timeout:g} seconds; nothing was written.",
                "Check that the server runs, and finish the reads that were begun: each holds a connection.",
            ) from None

    def _borrowed(self) -> Link:
        """One that is alive. The pool's own check sleeps after each dead one: minutes, after a server's restart."""
        link = self._pool.getconn()
        for _ in range(self._pool.max_size):
            if not hung_up(link):
                break
            link.close()
            self._pool.putconn(link)
            link = self._pool.getconn()
        return link


def _append(link: Link, name: bytes, after: int, records: list[bytes]) -> bool:
    values = {"name": name, "after": after, "records": records, "count": len(records), "size": sum(map(len, records))}
    if not records:
        return _head(link, name) == after
    return link.execute(APPEND_NEXT if after else APPEND_FIRST, values).fetchone() is not None


def _head(link: Link, name: bytes) -> int:
    row = link.execute("select head from tidegate_sessions where name = %b", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def _batches(records: Sequence[bytes]) -> Iterator[list[bytes]]:
    """One batch for almost any append. A huge one is sent in parts: the protocol takes a gigabyte at once."""
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


def _key(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")
