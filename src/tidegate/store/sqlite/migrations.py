"""Migrations: how a new file gets its tables.

Only ever add to the end of MIGRATIONS: the names are in every file, and a version that does not know one refuses the
file. A process of an older version that has the file open during a migration then fails: it misses a table.
"""

from tidegate.store.sqlite.connection import Database, Migration

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
