"""The tables of the SQLite store: sessions, their packed rows and their recent rows. The caller holds a transaction.

Only ever add to the end of MIGRATIONS: the names are in every file, and a version that does not know one refuses the
file. A process of an older version that has the file open during a migration then fails: it misses a table.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from tidegate.core.event_check import is_possible_time
from tidegate.store.errors import DamagedData
from tidegate.store.memory import session_not_found
from tidegate.store.sqlite.connection import Database, Migration, skip_damage
from tidegate.store.sqlite.rows import (
    NUMBERS,
    PLAIN,
    RECENT,
    Damaged,
    Row,
    SessionRow,
    compute_seal,
    last_number,
    open_row,
    pack_row,
    pack_rows,
    row_id,
)

READ_ROWS = 8
"""Packed rows read at once. Each holds 64 records, or some 256 KiB unless a single record is larger."""
SELECT_SESSION = "SELECT id, name, head, packed, places, size, created, used, seal FROM sessions"
SELECT_PACKED = "SELECT id, count, mark, sum, data FROM packed_rows"

_SESSIONS = """CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    head INTEGER NOT NULL, packed INTEGER NOT NULL, places TEXT NOT NULL, size INTEGER NOT NULL, created REAL NOT NULL,
    used REAL NOT NULL, seal INTEGER NOT NULL)"""
_PACKED_ROWS = """CREATE TABLE packed_rows (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, mark INTEGER NOT NULL,
    sum BLOB NOT NULL, data BLOB NOT NULL)"""
_RECENT_ROWS = """CREATE TABLE recent_rows (place INTEGER PRIMARY KEY, id INTEGER NOT NULL, time REAL NOT NULL,
    sum BLOB NOT NULL, data BLOB NOT NULL)"""
# Compare and swap: a record goes in only if it is the next one of its session, and it moves the session's head.
_TRIGGER = """CREATE TRIGGER recent_row_inserted AFTER INSERT ON recent_rows BEGIN
    UPDATE sessions SET head = head + 1, places = places || ',' || NEW.place, size = size + length(NEW.data),
        used = NEW.time, seal = ((head + 1) * 1000003 + packed * 10007 + size + length(NEW.data)) % 2147483647
        WHERE id = NEW.id >> 36 AND head + 1 = NEW.id & 68719476735;
    SELECT RAISE(ABORT, 'not the next record') WHERE changes() = 0;
    END"""


def packed_and_recent_rows(db: Database) -> None:
    for statement in (_SESSIONS, _PACKED_ROWS, _RECENT_ROWS, _TRIGGER):
        db.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (packed_and_recent_rows,)


class Tables:
    def __init__(self, db: Database) -> None:
        self._db = db

    # --- sessions -----------------------------------------------------------------------------------------------------

    def find(self, name: str) -> SessionRow | None:
        try:
            row = self._db.execute(f"{SELECT_SESSION} WHERE name = ?", (name,)).fetchone()
        except UnicodeEncodeError:  # half a surrogate pair: no such name is ever stored
            return None
        return None if row is None else self._check_session(row)

    def get(self, name: str) -> SessionRow:
        session = self.find(name)
        if session is None:
            raise session_not_found(name)
        return session

    def refresh(self, session: SessionRow) -> SessionRow:
        row = self._db.execute(f"{SELECT_SESSION} WHERE id = ?", (session.id,)).fetchone()
        if row is None:
            raise session_not_found(session.name)
        return self._check_session(row)

    def list_sessions(self) -> list[SessionRow]:
        """Return all sessions, the last used first."""
        sessions = map(self._check_session, self._db.execute(SELECT_SESSION).fetchall())
        return sorted(sessions, key=lambda session: (session.used, session.id), reverse=True)

    def list_page(self, first: int, count: int) -> list[SessionRow]:
        """Return some sessions, the last used first. The time of use of a damaged one is taken as it is."""
        ask = f"{SELECT_SESSION} ORDER BY used DESC, id DESC LIMIT ? OFFSET ?"
        return list(map(self._check_session, self._db.execute(ask, (count, first)).fetchall()))

    def count_sessions(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def create(self, name: str, now: float) -> SessionRow:
        cursor = self._db.execute("INSERT INTO sessions VALUES (NULL, ?, 0, 0, '', 0, ?, ?, 0)", (name, now, now))
        self._db.step("session created")
        return SessionRow(cursor.lastrowid or 0, name, 0, 0, "", 0, now, now)

    def save(self, session: SessionRow) -> SessionRow:
        columns = "head = ?, packed = ?, places = ?, size = ?, created = ?, used = ?, seal = ?"
        session = session._replace(seal=compute_seal(session.head, session.packed, session.size))
        self._db.execute(f"UPDATE sessions SET {columns} WHERE id = ?", (*session[2:], session.id))
        self._db.step("session saved")
        return session

    def delete(self, session: SessionRow) -> None:
        for table in ("packed_rows", "recent_rows"):
            self._db.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", row_id_span(session))
        self._db.step("rows deleted")
        self._db.execute("DELETE FROM sessions WHERE id = ?", (session.id,))
        self._db.step("session deleted")

    def with_measured_size(self, session: SessionRow) -> SessionRow:
        """Return the session with the size of its rows as they are."""
        ask = "SELECT total(length(data)) FROM packed_rows WHERE id BETWEEN ? AND ?"
        size = int(self._db.execute(ask, row_id_span(session, 1, session.packed)).fetchone()[0])
        return session._replace(size=size + sum(len(row.data) for row in self.read_recent_rows(session)))

    def _check_session(self, row: Iterable[Any]) -> SessionRow:
        """Return the session. One that is damaged, or holds impossible values, is rebuilt from its rows."""
        self._db.step("session read")
        session = SessionRow._make(row)
        if session.is_intact():
            return session
        last = self.find_row_before(session, NUMBERS)
        last_packed = last_number(last) if last else 0
        rows = self._scan_recent(row_id_span(session, last_packed + 1))
        head = max((row.first for row in rows), default=last_packed)
        return self.with_measured_size(rebuild_session(session, head, last_packed))

    # --- writing rows -------------------------------------------------------------------------------------------------

    def insert(self, session: SessionRow, rows: Iterable[Row]) -> None:
        # A row after the head is left by damage, and may be replaced.
        insert = "INSERT OR REPLACE INTO packed_rows VALUES (?, ?, ?, ?, ?)"
        self._db.executemany(insert, [(row_id(session.id, row.first), *row[1:]) for row in rows])

    def pack(
        self, session: SessionRow, more: Sequence[bytes] = (), recent: Sequence[bytes] | None = None
    ) -> SessionRow:
        """Put the recent records, and `more` after them, into packed rows. The caller saves the session."""
        recent = self.read_recent_records(session) if recent is None else recent
        intact = recent is not None
        if recent is None:  # keep each by itself, and the damaged ones as they are
            self.insert(session, map(_pack_alone, self.read_recent_rows(session)))
            session, recent = session._replace(packed=session.head), ()
        places = [(place, *row_id_span(session)) for place in session.places.split(",")[1:]]
        cursor = self._db.executemany("DELETE FROM recent_rows WHERE place = ? AND id BETWEEN ? AND ?", places)
        if cursor.rowcount != session.head - session.packed:
            self._db.execute("DELETE FROM recent_rows WHERE id BETWEEN ? AND ?", row_id_span(session))
        self._db.step("recent rows deleted")
        rows = list(pack_rows(session.packed + 1, [*recent, *more]))
        self.insert(session, rows)
        self._db.step("packed rows inserted")
        head = session.packed + len(recent) + len(more)
        size = session.size + sum(len(row.data) for row in rows) - sum(map(len, recent))
        session = session._replace(head=head, packed=head, places="", size=size)
        return session if intact else self.with_measured_size(session)

    # --- reading rows -------------------------------------------------------------------------------------------------

    def read(self, session: SessionRow, number: int, most_rows: int = READ_ROWS) -> list[bytes]:
        """Return the records from a number on, as many as are read at once. DamagedData if the first is damaged."""
        records: list[bytes] = []
        why = "they are not there"
        for row in self._read_rows(session, number, most_rows):
            if row.first > number + len(records):
                break
            try:
                records += open_row(row)[number + len(records) - row.first :]
            except Damaged as fault:
                why = str(fault)
                break
        if not records:
            raise self.make_damage_error(session, number, why)
        return records

    def _read_rows(self, session: SessionRow, number: int, most_rows: int) -> list[Row]:
        """Return rows in order, the first being the one that should hold the number. A damaged page ends them."""
        if number > session.packed:
            return self.read_recent_rows(session, number)
        before = "SELECT max(id) FROM packed_rows WHERE id BETWEEN ? AND ?"
        ask = f"{SELECT_PACKED} WHERE id BETWEEN coalesce(({before}), ?) AND ? ORDER BY id LIMIT {most_rows}"
        rows: list[Row] = []
        with skip_damage():
            spans = (*row_id_span(session, 1, number), *row_id_span(session, number, session.packed))
            rows.extend(map(Row._make, self._db.execute(ask, spans)))
        return rows

    def read_recent_rows(self, session: SessionRow, first: int = 0) -> list[Row]:
        """Return the recent rows that can be found, from a number on."""
        low, high = row_id_span(session, max(first, session.packed + 1), session.head)
        rows: dict[int, Row] = {}
        for place in session.places.split(",")[1:]:
            with skip_damage():
                for row in self._db.execute("SELECT id, sum, data FROM recent_rows WHERE place = ?", (place,)):
                    rows[row[0]] = Row(row[0], 1, RECENT, *row[1:])
        if any(row not in rows for row in range(low, high + 1)):
            rows |= {row.id: row for row in self._scan_recent((low, high))}
        return [rows[row] for row in sorted(rows) if low <= row <= high]

    def _scan_recent(self, span: tuple[int, int]) -> list[Row]:
        """Find recent rows by scanning the table from both ends up to a damaged page."""
        rows: list[Row] = []
        for order in ("place", "place DESC"):
            with skip_damage():
                ask = f"SELECT id, sum, data FROM recent_rows WHERE id BETWEEN ? AND ? ORDER BY {order}"
                for row in self._db.execute(ask, span):
                    rows.append(Row(row[0], 1, RECENT, *row[1:]))
                break
        return rows

    def read_recent_records(self, session: SessionRow) -> list[bytes] | None:
        """Return the recent records; None if one of them is damaged or missing."""
        with suppress(Damaged):
            records = [record for row in self.read_recent_rows(session) for record in open_row(row)]
            return records if len(records) == session.head - session.packed else None
        return None

    def find_row_before(self, session: SessionRow, number: int) -> Row | None:
        """Return the packed row in which the number should be: the last one that starts at it or before it."""
        ask = f"{SELECT_PACKED} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
        values = self._db.execute(ask, row_id_span(session, 1, number)).fetchone()
        return Row(*values) if values else None

    def find_next_number(self, session: SessionRow, number: int) -> int:
        """Return the first number of the next row that can be found, skipping damaged pages."""
        ask = "SELECT min(id) FROM packed_rows WHERE id BETWEEN ? AND ?"
        for start in range(number + 1, session.packed + 1):
            with skip_damage():
                (ident,) = self._db.execute(ask, row_id_span(session, start, session.packed)).fetchone()
                if ident is not None:
                    return int(ident) & NUMBERS
                break
        recent = self.read_recent_rows(session, number + 1)
        return recent[0].first if recent else max(session.head, number) + 1

    def make_damage_error(self, session: SessionRow, first: int, why: str) -> DamagedData:
        """Describe damage from this record up to the next row: how many records a damaged row held is not known."""
        last = self.find_next_number(session, first) - 1
        cause = f"Records {first} to {last} of session {session.name!r} are damaged: {why}."
        return DamagedData(cause, f"All others can be read; continue from record {last + 1}.", first, last)


def row_id_span(session: SessionRow, first: int = 1, last: int = NUMBERS) -> tuple[int, int]:
    return row_id(session.id, first), row_id(session.id, last)


def rebuild_session(session: SessionRow, head: int, last_packed: int) -> SessionRow:
    """Return a damaged session with what its rows say. A name or time that cannot be one is replaced."""
    name = session.name if isinstance(session.name, str) else repr(session.name)
    created, last_use = (float(each) if is_possible_time(each) else 0.0 for each in (session.created, session.used))
    return SessionRow(session.id, name, head, last_packed, "", 0, created, last_use)


def _pack_alone(row: Row) -> Row:
    """Return a packed row for one recent record. One that is damaged stays as it is, so that reading still says so."""
    try:
        return pack_row(row.first, open_row(row))
    except Damaged:
        return row._replace(mark=PLAIN)
