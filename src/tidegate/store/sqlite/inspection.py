"""A look at a SQLite store from outside, for the doctor: rows as they are in the file, intact or not."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from tidegate.store.errors import DamagedData
from tidegate.store.sqlite.connection import connect_readonly, skip_damage, translate_errors
from tidegate.store.sqlite.rows import row_id
from tidegate.store.sqlite.tables import SELECT_PACKED


def read_raw_rows(path: Path, session: str, first: int, last: int) -> list[bytes]:
    """Return the rows that start at one of these records, as far as SQLite finds them: their columns as MessagePack."""
    rows: list[tuple[object, ...]] = []
    with closing(connect_readonly(path)) as db, skip_damage():
        session_row = db.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchone()
        span = (row_id(session_row[0], first), row_id(session_row[0], last)) if session_row else (0, 0)
        for select in (SELECT_PACKED, "SELECT id, sum, data FROM recent_rows NOT INDEXED"):
            with skip_damage():
                rows += db.execute(f"{select} WHERE id BETWEEN ? AND ?", span)
    return [msgspec.msgpack.encode(row) for row in rows]


def find_session_ids(db: sqlite3.Connection) -> set[int]:
    """Return the ids of sessions that have rows, whether or not they are in the table of sessions."""
    ids: set[int] = set()
    for table in ("packed_rows", "recent_rows NOT INDEXED"):
        with suppress(sqlite3.OperationalError), skip_damage():
            ids.update(session for (session,) in db.execute(f"SELECT DISTINCT id >> 36 FROM {table}"))
    return ids


def find_structure_faults(path: Path) -> list[str]:
    """Return the faults that SQLite itself finds in the file, in its words. NotKept if the file cannot be read."""
    try:
        with translate_errors(path.name), closing(connect_readonly(path)) as db:
            report_lines = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
    except DamagedData as damage:
        return [str(damage.args[0])]
    return [" ".join(line.split()) for line in report_lines if line != "ok"]
