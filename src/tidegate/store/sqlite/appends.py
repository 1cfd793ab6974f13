"""Appends inside one transaction: compare and swap on each session's head, and one INSERT for all that is new."""

from collections.abc import Sequence

from tidegate.store.memory import stale
from tidegate.store.sqlite.connection import Database
from tidegate.store.sqlite.rows import PACK_BYTES, PACK_RECORDS, SessionRow, digest_recent, row_id
from tidegate.store.sqlite.tables import SAVE_SESSION, Tables

MAX_PACKS = 64
"""Sessions packed in one transaction, about 1 ms each: nobody waits for hundreds of others to be packed."""
MAX_CACHED_BYTES = 32 * 1024 * 1024
_TAIL_BYTES = 1024  # of a cached session, without its records
_SWAP = f"{SAVE_SESSION} AND head = ? AND packed = ? AND seal = ?"
# A row after the head is left by damage, and may be replaced.
_INSERT = "INSERT OR REPLACE INTO recent_rows VALUES (NULL, ?, ?, ?)"


class OutdatedCache(Exception):
    """Another process has changed a session that is cached here: the transaction must be repeated."""


class _Tail:
    """A session as this process wrote it last, and its recent records if this process wrote all of them."""

    def __init__(self, session: SessionRow) -> None:
        self.session = session
        self.records: list[bytes] | None = [] if session.packed == session.head else None


class Appends:
    """Most appends find their session in the cache, and are written all together by `flush`."""

    def __init__(self, db: Database, tables: Tables) -> None:
        self._db = db
        self._tables = tables
        self._cache: dict[str, _Tail] = {}
        self._cached_bytes = 0
        self._sessions: list[tuple[object, ...]] = []
        self._rows: list[tuple[int, bytes, bytes]] = []
        self._packs = 0
        self.committed = False
        """Whether the last transaction was committed. If not, the cache may hold what was rolled back."""

    def begin(self) -> None:
        if not self.committed or self._cached_bytes > MAX_CACHED_BYTES:
            self._cache.clear()
            self._cached_bytes = 0
        self.committed = False
        self._sessions.clear()
        self._rows.clear()
        self._packs = 0

    def append(self, name: str, after: int, records: Sequence[bytes], now: float) -> int:
        """Append to a session that ends with record `after`, else raise Stale. Return the new head."""
        tail = self._cache.get(name)
        if tail is None or tail.session.head != after or not records:
            self.flush()
            session = self._tables.find(name)
            head = session.head if session else 0
            if after != head:
                raise stale(name, after, head)
            if not records:
                return head
            # Nothing was written so far: an append that is refused leaves no trace among the others.
            tail = self._cache[name] = _Tail(self._tables.save(session or self._tables.create(name, now)))
            self._cached_bytes += _TAIL_BYTES
        self._grow(tail, records, now)
        return tail.session.head

    def _grow(self, tail: _Tail, records: Sequence[bytes], now: float) -> None:
        old = tail.session
        more = sum(map(len, records))
        head, loose = old.head + len(records), old.loose + more
        if (head - old.packed >= PACK_RECORDS or loose >= PACK_BYTES) and self._packs < MAX_PACKS:
            new = self._pack(tail, records)._replace(used=now).sealed()
        else:
            new = SessionRow(old.id, old.name, head, old.packed, loose, old.size + more, old.created, now).sealed()
            first = row_id(old.id, old.head + 1)
            self._rows += [(place, digest_recent(place, record), record) for place, record in enumerate(records, first)]
            if tail.records is not None:
                tail.records += records
                self._cached_bytes += more
        tail.session = new
        self._sessions.append((*new[2:], new.id, old.head, old.packed, old.seal))

    def _pack(self, tail: _Tail, records: Sequence[bytes]) -> SessionRow:
        """Pack the recent records and the new ones, from memory if they are all there."""
        self.flush()
        self._packs += 1
        recent, tail.records = tail.records, []
        if recent is None:
            return self._tables.pack(tail.session, records)
        self._cached_bytes -= tail.session.loose
        return self._tables.replace_recent(tail.session, tail.session.packed + 1, [*recent, *records])

    def flush(self) -> None:
        """Write what was appended since the last call."""
        if self._sessions:
            if self._db.executemany(_SWAP, self._sessions).rowcount != len(self._sessions):
                raise OutdatedCache
            self._db.step("sessions saved")
            self._db.executemany(_INSERT, self._rows)
            self._db.step("rows inserted")
            self._sessions.clear()
            self._rows.clear()
