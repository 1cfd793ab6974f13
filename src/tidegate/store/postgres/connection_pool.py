"""Connections that calls share: made when they are needed, never in the background.

The pool of psycopg reconnects in the background, with pauses that grow to minutes: calls would fail long after the
server has returned. Here a call that finds no live connection makes one, so the first call after an outage succeeds.
Every connection has a deadline: a server or pooler that accepts a statement and never answers fails the call.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, poll
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.abc import RV, PQGen
from psycopg.rows import TupleRow


class PoolTimeout(Exception):
    """No connection became free in time."""


class PoolClosed(Exception):
    """The pool was closed."""


class PatientConnection(Connection[TupleRow]):
    """A connection whose statements are given up after `patience` seconds without an answer; 0 waits without limit."""

    patience: float = 0.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        limit = timeout if timeout is not None or not self.patience else self.patience
        try:
            return super().wait(gen, interval=interval, timeout=limit)
        except psycopg.errors._WaitTimeout:
            if timeout is not None:
                raise
            self.pgconn.finish()  # what the server still sends belongs to a statement that nobody waits for
            raise psycopg.OperationalError(f"no answer within {limit:g} seconds") from None


class SharedConnections:
    """At most `most` connections, made by `connect`. A call waits at most `timeout` seconds for a free one."""

    def __init__(self, connect: Callable[[], PatientConnection], most: int, timeout: float) -> None:
        self._connect = connect
        self._timeout = timeout
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[PatientConnection] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self) -> PatientConnection:
        """A live connection, to be given back. PoolTimeout, PoolClosed, or psycopg.Error if the server refuses."""
        if self._is_closed:
            raise PoolClosed
        if not self._free.acquire(timeout=self._timeout):
            raise PoolTimeout
        try:
            while (link := self._pop_idle()) is not None:
                if not _is_disconnected(link):
                    return link
                _close(link)
            return self._connect()
        except BaseException:
            self._free.release()
            raise

    def _pop_idle(self) -> PatientConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, link: PatientConnection) -> None:
        """Give a connection back. One that is broken, or inside a transaction, is closed."""
        is_clean = not link.closed and link.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            keep = is_clean and not self._is_closed
            if keep:
                self._idle.append(link)
        if not keep:
            _close(link)
        self._free.release()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            _close(link)


def _close(link: Connection[Any]) -> None:
    with suppress(psycopg.Error, OSError):
        link.close()


def _is_disconnected(link: Connection[Any]) -> bool:
    """Whether the server closed this idle connection: only then is there data to read. Nothing is sent."""
    if link.closed:
        return True
    ready = poll()
    ready.register(link.fileno(), POLLIN)
    return bool(ready.poll(0))
