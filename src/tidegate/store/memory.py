"""A store in memory, for tests, experiments, and programs that store nothing."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import Lock

from tidegate.core.errors import BadInput
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.store import SessionInfo

_MAX_NAME_CHARS = 512


@lru_cache(1_024)  # every append asks
def check_session_name(session: str) -> None:
    """Refuse a session name that some backend could not store, before anything is written."""
    remedy = f"Use 1 to {_MAX_NAME_CHARS} characters of text without NUL."
    if not 1 <= len(session) <= _MAX_NAME_CHARS or "\0" in session:
        raise BadInput(f"{session[:40]!r} cannot be the name of a session.", remedy)
    try:
        session.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{session[:40]!r} is not text: half a surrogate pair is in it.", remedy) from None


def stale_head_error(session: str, after: int, head: int) -> StaleHead:
    return StaleHead(
        f"Session {session!r} ends with record {head}, not {after}: nothing was written.",
        "Read on from your head and try again.",
    )


def session_not_found(session: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session!r}.",
        "List the sessions with `tidegate sessions`, or with `store.sessions()` in a program.",
    )


def check_fork_request(session: str, at: int, head: int, new: str, name_exists: bool) -> None:
    if not 1 <= at <= head:
        raise BadInput(f"Session {session!r} cannot be forked at {at}.", f"Give a number from 1 to {head}.")
    if name_exists:
        raise BadInput(f"There is a session {new!r} already.", "Choose another name; nothing was changed.")


def check_record_numbers(session: str, numbers: Iterable[int], head: int) -> None:
    for number in numbers:
        if not 1 <= number <= head:
            raise BadInput(
                f"Session {session!r} has no record {number}: nothing was changed.", f"Give numbers from 1 to {head}."
            )


class _StoredSession:
    __slots__ = ("created", "records", "used")

    def __init__(self, created: float, records: list[bytes]) -> None:
        self.created = self.used = created
        self.records = records


class MemoryStore:
    """A store in memory, safe for threads. It keeps every promise of `Store` except durability."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sessions: dict[str, _StoredSession] = {}

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        check_session_name(session)
        copies = [bytes(record) for record in records]
        with self._lock:
            stored_session = self._sessions.get(session)
            head = len(stored_session.records) if stored_session else 0
            if after != head:
                raise stale_head_error(session, after, head)
            if not copies:
                return head
            if stored_session is None:
                stored_session = self._sessions[session] = _StoredSession(self._clock(), [])
            stored_session.records.extend(copies)
            stored_session.used = self._clock()
            return len(stored_session.records)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        # The list only grows at its end, so an iterator by position needs no lock and no copy. A record that is
        # rewritten meanwhile is read in its new form, because `forget` changed it.
        records = self._find(session).records
        return (records[place] for place in range(max(0, start - 1), len(records)))

    def head(self, session: str) -> int:
        with self._lock:
            stored_session = self._sessions.get(session)
            return len(stored_session.records) if stored_session else 0

    def sessions(self) -> list[SessionInfo]:
        with self._lock:
            infos = [
                SessionInfo(
                    name,
                    len(stored_session.records),
                    stored_session.created,
                    stored_session.used,
                    sum(map(len, stored_session.records)),
                )
                for name, stored_session in reversed(self._sessions.items())  # of equal times, the later made first
            ]
        return sorted(infos, key=lambda info: -info.used)

    def fork(self, session: str, at: int, new: str) -> None:
        check_session_name(new)
        records = self._find(session).records
        with self._lock:
            check_fork_request(session, at, len(records), new, new in self._sessions)
            self._sessions[new] = _StoredSession(self._clock(), records[:at])

    def delete(self, session: str, head: int | None = None) -> None:
        with self._lock:
            stored_session = self._sessions.get(session)
            if stored_session is None:
                raise session_not_found(session)
            if head is not None and head != len(stored_session.records):
                raise stale_head_error(session, head, len(stored_session.records))
            del self._sessions[session]

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        copies = {number: bytes(record) for number, record in changes.items()}
        stored_session = self._find(session)
        with self._lock:
            check_record_numbers(session, copies, len(stored_session.records))
            for number, record in copies.items():
                stored_session.records[number - 1] = record

    def close(self) -> None: ...

    def _find(self, session: str) -> _StoredSession:
        with self._lock:
            stored_session = self._sessions.get(session)
        if stored_session is None:
            raise session_not_found(session)
        return stored_session
