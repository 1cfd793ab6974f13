"""Migrations: how a new file gets its tables, and how a file of formats 1 to 5 becomes one of the present format 6.

Only ever add to the end of MIGRATIONS: the names are in every file, and a version that does not know one refuses the
file. A process of an older version that has the file open during a migration then fails: it misses a table.
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

from tidegate.store.sqlite.connection import Database, Migration, connect_readonly, skip_damage
from tidegate.store.sqlite.rows import PACK_RECORDS, PACKED, PLAIN, Row, SessionRow, last_number
from tidegate.store.sqlite.tables import SELECT_PACKED, SELECT_SESSION, Tables, rebuild_session, row_id_span

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
# Tables that sessions shared in earlier formats.
_SHARED = {
    "arrived": "SELECT id, count, mark, sum, data FROM arrived NOT INDEXED WHERE own = id ORDER BY turn",
    "batches": "SELECT turn, heads FROM batches ORDER BY turn",
    "members": "SELECT turn, ids FROM members ORDER BY turn",
}
_ENTRY = struct.Struct(">qIqII32s")  # of a batch: row id, count, mark, where its data starts, how long it is, SHA-256
_TICKS = 1 << 22  # of a second, in a negative mark


def _make_earlier_migration(name: str) -> Migration:
    """Return a migration of an earlier format: `packed_and_recent_rows` does what is left of them all."""

    def migration(_: Database) -> None: ...

    migration.__name__ = name
    return migration


def packed_and_recent_rows(db: Database) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "sessions" in tables:
        _convert(db, tables)
    else:
        db.execute(_SESSIONS)
        db.execute(_PACKED_ROWS)
    db.execute(_RECENT_ROWS)
    db.execute(_TRIGGER)


_EARLIER = ("sessions_and_chunks", "marked_chunks", "placed_and_arrived", "batches_and_members", "written_anew")
MIGRATIONS: tuple[Migration, ...] = (*map(_make_earlier_migration, _EARLIER), packed_and_recent_rows)


def _convert(db: Database, tables: set[str]) -> None:
    """Convert a file of formats 1 to 5.

    Rows were in `chunks`, later `placed`: packed ones, and one for each record that was not packed yet. These stay as
    they are: nothing is sealed again. Records that several sessions appended at once were in `arrived`, later in
    `batches`. A session's columns were updated only when it was packed.
    """
    # Another connection reads what may be damaged: one that meets damage inside a transaction cannot write any more.
    with closing(connect_readonly(Path(db.execute("PRAGMA database_list").fetchone()[2]))) as reader:
        shared = _SharedRows(reader, tables)
    table = "placed" if "placed" in tables else "chunks"
    if table == "placed":
        db.execute("DROP VIEW IF EXISTS chunks")
    for changed, old, new in ((table, "packed", "mark"), ("sessions", "sum", "seal"), ("sessions", "loose", "places")):
        if new not in [column[1] for column in db.execute(f"PRAGMA table_info({changed})")]:
            db.execute(f"ALTER TABLE {changed} RENAME COLUMN {old} TO {new}")
    db.execute(f"ALTER TABLE {table} RENAME TO packed_rows")
    for columns in db.execute(SELECT_SESSION).fetchall():
        _convert_session(db, SessionRow._make(columns), shared)
    for name in tables & _SHARED.keys():
        db.execute(f"DROP TABLE {name}" if shared.intact else f"ALTER TABLE {name} RENAME TO {name}_before")


def _convert_session(db: Database, session: SessionRow, shared: "_SharedRows") -> None:
    """Move a session's shared rows to the packed ones, and bring its columns up to date."""
    if crc32(repr(tuple(session[:8])).encode()) != session.seal or not session.is_possible():
        # Damaged: its packed rows tell where it ended.
        ask = f"{SELECT_PACKED} WHERE id BETWEEN ? AND ? AND mark = {PACKED} ORDER BY id DESC LIMIT 1"
        packed = max((last_number(Row._make(row)) for row in db.execute(ask, row_id_span(session))), default=0)
        session = rebuild_session(session, packed, packed)
    span = row_id_span(session, session.packed + 1, session.packed + 2 * PACK_RECORDS)
    moved = [row for place, row in shared.rows.items() if span[0] <= place <= span[1]]
    db.executemany("INSERT OR IGNORE INTO packed_rows VALUES (?, ?, ?, ?, ?)", moved)
    rows = list(map(Row._make, db.execute(f"{SELECT_PACKED} WHERE id BETWEEN ? AND ?", span)))
    # If rows may be lost, the session gets one more record: reading it reports the loss, and the number is not reused.
    head = max([session.head, *map(last_number, rows)]) + shared.lost
    used = max([session.used, *(-row.mark / _TICKS for row in rows if isinstance(row.mark, int))])
    current = Tables(db)
    current.save(current.with_measured_size(session._replace(head=head, packed=head, places="", used=used)))


class _SharedRows:
    """Rows in tables that sessions shared: `arrived` in format 3, `batches` and `members` in formats 4 and 5.

    A batch holds what several sessions appended in one transaction: an entry for each row and the data of all, and in
    `members` their ids once more. A row whose id is not the same in both is damaged, for each session that is named:
    no session gets the records of another.
    """

    def __init__(self, db: sqlite3.Connection, tables: set[str]) -> None:
        found = {name: _scan(db, ask) for name, ask in _SHARED.items() if name in tables}
        self.lost = bool(found) and not any(complete for _, complete in found.values())
        """Return whether there may be rows that cannot be found."""
        self.intact = False
        with skip_damage():
            self.intact = all(db.execute(f"PRAGMA integrity_check({name})").fetchone()[0] == "ok" for name in found)
        arrived, batches, members = (found.get(name, ([], True))[0] for name in _SHARED)
        self.rows = {row[0]: Row._make(row) for row in arrived}
        entries, ids = ({turn: value for turn, value in each if type(value) is bytes} for each in (batches, members))
        for turn in sorted({*entries, *ids}):
            for row in _read_batch(db, turn, entries.get(turn, b""), ids.get(turn, b"")):
                if row.sum or row.id not in self.rows:
                    self.rows[row.id] = row


def _read_batch(db: sqlite3.Connection, turn: int, entries: bytes, ids: bytes) -> Iterator[Row]:
    found, _ = _scan(db, "SELECT data FROM batches WHERE turn = ? ORDER BY turn", (turn,))
    data = found[0][0] if found and type(found[0][0]) is bytes else b""
    rows = list(_ENTRY.iter_unpack(entries[: len(entries) // _ENTRY.size * _ENTRY.size]))
    named = [int(ids[at : at + 20]) if ids[at : at + 20].isdigit() else 0 for at in range(0, len(ids), 20)]
    for place in range(max(len(rows), len(named))):
        row, length, mark, start, size, check = rows[place] if place < len(rows) else (0, 1, 0, 0, 0, b"")
        other = named[place] if place < len(named) else 0 if ids else row
        if row and row == other:
            yield Row(row, length, mark, check, data[start : start + size])
        else:
            yield from (Row(damaged, 1, PLAIN, b"", b"") for damaged in {row, other} - {0})


def _scan(db: sqlite3.Connection, ask: str, values: tuple[int, ...] = ()) -> tuple[list[Any], bool]:
    """Return the rows, and whether these are all: around a damaged page they are read from both ends."""
    rows: list[Any] = []
    for order in ("", " DESC"):
        with skip_damage():
            rows.extend(db.execute(ask + order, values))
            return rows, not order
    return rows, False
