"""Connections of the PostgreSQL store: the address, settings and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, IsolationLevel, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import DamagedData, StoreUnreachable
from tidegate.store.postgres.statements import DURABLE, MAX_IDLE

Link = Connection[TupleRow]

# A dead network is noticed in a minute instead of hours. Settings in the URL have priority.
SETTINGS: dict[str, int | str] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "tidegate",
}


CONNECTION_KEYWORDS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
"""A pooler in transaction mode may run two transactions of a connection on two server processes. So nothing depends on
the state of one: no prepared statements, no settings, no locks that outlive a transaction.
"""


def configure(link: Link) -> None:
    """Let transactions that we begin say their isolation level. This is a setting of the client; nothing is sent."""
    link.isolation_level = IsolationLevel.READ_COMMITTED


@contextmanager
def durable_transaction(link: Link, max_idle: float = 30) -> Iterator[None]:
    """A transaction that is on disk once it is committed, whatever the server, database or role defaults to.

    The server aborts it if it hears nothing for `max_idle` seconds: a host that vanished must not keep its locks.
    """
    with link.transaction():
        link.execute(f"select {DURABLE}, {MAX_IDLE}", (f"{max_idle:.0f}s",))
        yield


def parse_url(url: str, tenant: str = "") -> str:
    """The URL with our settings, and with the tenant for which the owner acts.

    Errors of libpq are not passed on: they would quote the URL with its password.
    """
    scheme, mark, rest = url.partition("://")
    remedy = "Write postgresql://user:password@host:port/database, with @ / % in a password as %40 %2F %25."
    if scheme not in ("postgresql", "postgres") or not mark:
        raise BadInput("This is not an address of PostgreSQL.", remedy)
    user, at, _ = rest.partition("@")
    # Left unescaped, a part of the password would be taken for the host, and shown as such.
    if rest.count("@") > 1 or (at and "/" in user):
        raise BadInput("The address of PostgreSQL has an @ or / where none can be.", remedy)
    try:
        parts = conninfo_to_dict(url)
        settings = {key: value for key, value in SETTINGS.items() if key not in parts}
        if tenant:
            escaped = tenant.replace("\\", "\\\\").replace(" ", "\\ ")
            settings["options"] = f"{parts.get('options') or ''} -c tidegate.tenant={escaped}".lstrip()
        conninfo = make_conninfo(url, **settings)
    except psycopg.Error:
        raise BadInput("The address of PostgreSQL cannot be read.", remedy) from None
    # Without a host after it, user:password is read as host:port.
    if not all(port == "" or port.isdecimal() for port in str(parts.get("port", "")).split(",")):
        raise BadInput("The address of PostgreSQL has a port that is not a number.", remedy)
    return conninfo


def describe_server(conninfo: str) -> str:
    parts = conninfo_to_dict(conninfo)
    port = f":{parts['port']}" if "port" in parts else ""
    return f"PostgreSQL database {parts.get('dbname', '')!r} at {parts.get('host', 'localhost')}{port}"


@contextmanager
def translate_errors(where: str, remedy: str) -> Iterator[None]:
    """Translate errors of the driver. Only the first line of its text is used: the rest may quote message content."""
    try:
        yield
    except (errors.DataCorrupted, errors.IndexCorrupted, errors.UniqueViolation) as error:
        raise DamagedData(f"{where} is damaged: {first_line(error)}.", "Restore it from a backup.") from error
    except psycopg.Error as error:
        is_lost = error.sqlstate is None or error.sqlstate[:2] in ("08", "28") or error.sqlstate[:3] == "57P"
        if is_lost and isinstance(error, psycopg.OperationalError):
            cause = f"The connection to {where} failed: {first_line(error)}."
            raise StoreUnreachable(cause, remedy) from error
        cause = f"{where} refused: {first_line(error)}. Nothing was written."
        raise NotKept(cause, "Ask the administrator of the database to correct that, and try again.") from error


def first_line(error: psycopg.Error) -> str:
    """The first line of an error's text: the rest may quote message content."""
    return (error.diag.message_primary or str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")
