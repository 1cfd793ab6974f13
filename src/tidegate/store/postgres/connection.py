"""Connections of the PostgreSQL store: the address, settings, tables and errors."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import POLLIN, poll

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import DamagedData, StoreUnreachable

Link = Connection[TupleRow]

# A dead network is noticed in a minute instead of hours. Settings in the URL have priority.
SETTINGS: dict[str, int | str] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "tidegate",
}


def create_tables(link: Link) -> None:
    link.execute(
        "create table tidegate_sessions ("
        " id bigint generated always as identity primary key, name bytea not null unique,"
        " head bigint not null check (head >= 0), size bigint not null,"
        " created timestamptz not null, used timestamptz not null)"
    )
    # The database itself ensures that a number is used once, and that no record outlives its session.
    link.execute(
        "create table tidegate_records ("
        " session bigint not null references tidegate_sessions on delete cascade,"
        " seq bigint not null check (seq > 0), data bytea not null, primary key (session, seq))"
    )


MIGRATIONS: tuple[Callable[[Link], None], ...] = (create_tables,)
"""The migrations in order. A released migration is never changed; a new one is added after it."""
MIGRATION_LOCK = 0x7469646567617465
"""The number of our advisory lock in the database."""

END_PROCESS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where pid = %s and usename = session_user and datname = current_database()"
)


def configure(link: Link) -> None:
    """Set what durability depends on, regardless of the defaults of the server, the database or the role."""
    link.execute(
        "select set_config('synchronous_commit', 'on', false)"
        " where current_setting('synchronous_commit') in ('off', 'local', 'remote_write')"
    )
    link.execute("set default_transaction_isolation = 'read committed'")


def is_disconnected(link: Link) -> bool:
    """Return whether the server closed this idle connection: only then is there data to read. Nothing is sent."""
    ready = poll()
    ready.register(link.fileno(), POLLIN)
    return bool(ready.poll(0))


def has_ended(link: Link, process: int, patience: float = 10) -> bool:
    """Return whether the server process of another connection of this role has ended, so that its last statement is
    either done or will never be. A process that still runs is terminated. False if this cannot be found out, for
    example with a pooler, whose processes are not those of the server.
    """
    if link.execute("select pg_backend_pid()").fetchone() != (link.info.backend_pid,):
        return False
    end = time.monotonic() + patience
    while link.execute(END_PROCESS, (process,)).fetchone():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def migrate(link: Link) -> None:
    with link.transaction():
        link.execute("set local lock_timeout = '60s'")
        link.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        # Asked first: even `if not exists` wants the right to create, which a role for daily work need not have.
        if link.execute("select to_regclass('tidegate_migrations')").fetchone() == (None,):
            link.execute("create table tidegate_migrations (name text primary key, applied timestamptz default now())")
        applied = {row[0] for row in link.execute("select name from tidegate_migrations")}
        unknown = applied - {step.__name__ for step in MIGRATIONS}
        if unknown:
            cause = f"The tables were made by a newer tidegate (migration {min(unknown)}); nothing was touched."
            raise DamagedData(cause, "Upgrade tidegate.")
        for step in MIGRATIONS:
            if step.__name__ not in applied:
                step(link)
                link.execute("insert into tidegate_migrations (name) values (%s)", (step.__name__,))


def parse_url(url: str) -> str:
    """The URL with our settings. Errors of libpq are not passed on: they would quote the URL with its password."""
    scheme, mark, rest = url.partition("://")
    remedy = "Write postgresql://user:password@host:port/database, with @ / % in a password as %40 %2F %25."
    if scheme not in ("postgresql", "postgres") or not mark:
        raise BadInput("This is not an address of PostgreSQL.", remedy)
    user, at, _ = rest.partition("@")
    # Left unescaped, a part of the password would be taken for the host, and shown as such.
    if rest.count("@") > 1 or (at and "/" in user):
        raise BadInput("The address of PostgreSQL has an @ or / where none can be.", remedy)
    try:
        given = conninfo_to_dict(url)
        conninfo = make_conninfo(url, **{key: value for key, value in SETTINGS.items() if key not in given})
    except psycopg.Error:
        raise BadInput("The address of PostgreSQL cannot be read.", remedy) from None
    # Without a host after it, user:password is read as host:port.
    if not all(port == "" or port.isdecimal() for port in str(given.get("port", "")).split(",")):
        raise BadInput("The address of PostgreSQL has a port that is not a number.", remedy)
    return conninfo


def describe_server(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    port = f":{given['port']}" if "port" in given else ""
    return f"PostgreSQL database {given.get('dbname', '')!r} at {given.get('host', 'localhost')}{port}"


@contextmanager
def translate_errors(where: str, remedy: str) -> Iterator[None]:
    """Translate errors of the driver. Only the first line of its text is used: the rest may quote message content."""
    try:
        yield
    except (errors.DataCorrupted, errors.IndexCorrupted, errors.UniqueViolation) as error:
        raise DamagedData(f"{where} is damaged: {_first_line(error)}.", "Restore it from a backup.") from error
    except psycopg.Error as error:
        lost = error.sqlstate is None or error.sqlstate[:2] in ("08", "28") or error.sqlstate[:3] == "57P"
        if lost and isinstance(error, psycopg.OperationalError):
            cause = f"The connection to {where} failed: {_first_line(error)}."
            raise StoreUnreachable(cause, remedy) from error
        cause = f"{where} refused: {_first_line(error)}. Nothing was written."
        raise NotKept(cause, "Have the database's administrator mend that and try again.") from error


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")
