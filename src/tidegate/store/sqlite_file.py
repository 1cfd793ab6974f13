"""The file of the SQLite store: made whole or not at all, opened with the right settings, refused if it is not ours."""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import Broken

FILE = "tidegate.db"
APPLICATION = 0x54696465  # "Tide", so that `file` and we know our own
WAL_PAGES = 2500
"""So many are written before they go into the file, which takes two more syncs. An append writes one or two."""
SETTINGS = (
    "synchronous=FULL",
    f"wal_autocheckpoint={WAL_PAGES}",
    f"journal_size_limit={WAL_PAGES * 2 * 4096}",  # more than it comes to: cut off, it must grow again, which is slow
    "secure_delete=FAST",  # for what this leaves: `sqlite_clean`
    "cell_size_check=ON",
)
_SET_UP = "".join(f"PRAGMA {setting};" for setting in SETTINGS)
_REFUSALS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_TOOBIG")


class Database(sqlite3.Connection):
    """`changing`: someone is in the middle of a transaction that writes."""

    changing = False


Migration = Callable[[sqlite3.Connection], None]
Step = Callable[[str], None]
"""Is told of each step between two others: there a test kills the process, or lets another in. Else it does nothing."""


def sessions_and_chunks(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, head INTEGER NOT NULL,"
        " packed INTEGER NOT NULL, loose INTEGER NOT NULL, size INTEGER NOT NULL, created REAL NOT NULL,"
        " used REAL NOT NULL, sum INTEGER NOT NULL)"
    )
    db.execute(
        "CREATE TABLE chunks (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, packed INTEGER NOT NULL,"
        " sum BLOB NOT NULL, data BLOB NOT NULL)"
    )


def marked_chunks(db: sqlite3.Connection) -> None:
    """From here on an append writes no entry, and its row tells the time: `mark` instead of 0.

    A tidegate that knows only entries would write over such rows: one that has the file open now fails by the name.
    """
    db.execute("ALTER TABLE chunks RENAME COLUMN packed TO mark")


def placed_and_arrived(db: sqlite3.Connection) -> None:
    """Rows of many sessions that come together are written one behind the other, not each in the midst of others.

    `own` is `id` once more: an index leads to the row, and this tells that it led to the right one. A tidegate that
    knows only chunks would not see what has arrived: one that has the file open now can read them, and not write.
    """
    db.execute("ALTER TABLE chunks RENAME TO placed")
    db.execute(
        "CREATE TABLE arrived (turn INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, own INTEGER NOT NULL,"
        " count INTEGER NOT NULL, mark INTEGER NOT NULL, sum BLOB NOT NULL, data BLOB NOT NULL)"
    )
    db.execute(
        "CREATE VIEW chunks AS SELECT id, count, mark, sum, data FROM placed"
        " UNION ALL SELECT id, count, mark, sum, data FROM arrived"
    )


def batches_and_members(db: sqlite3.Connection) -> None:
    """What comes together is one row, see `sqlite_batches`; what has come so far goes to its place.

    A tidegate that knows only `arrived` would not see the batches: one that has the file open now fails by the name.
    One that knows only `chunks` can read what is at its place. A table that is damaged stays for the doctor.
    """
    db.execute("CREATE TABLE batches (turn INTEGER PRIMARY KEY, heads BLOB NOT NULL, data BLOB NOT NULL)")
    db.execute("CREATE TABLE members (turn INTEGER PRIMARY KEY, ids BLOB NOT NULL)")
    db.execute("DROP VIEW chunks")
    rows, whole = _arrived(db.execute("PRAGMA database_list").fetchone()[2])
    db.executemany("INSERT OR IGNORE INTO placed VALUES (?, ?, ?, ?, ?)", rows)
    db.execute("DROP TABLE arrived" if whole else "ALTER TABLE arrived RENAME TO arrived_before")
    db.execute("CREATE VIEW chunks AS SELECT id, count, mark, sum, data FROM placed")


def _arrived(path: str) -> tuple[list[tuple[object, ...]], bool]:
    """All that can be read there, and whether that is all. By another connection: one that meets damage while it writes
    can write no more."""
    rows: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as db:
        with damage_aside():
            if db.execute("PRAGMA integrity_check(arrived)").fetchone()[0] == "ok":
                return db.execute("SELECT id, count, mark, sum, data FROM arrived WHERE own = id").fetchall(), True
        for order in ("", "DESC"):  # from both sides up to the damage
            ask = f"SELECT id, count, mark, sum, data FROM arrived NOT INDEXED WHERE own = id ORDER BY turn {order}"
            with damage_aside():
                rows.extend(db.execute(ask))
    return rows, False


def written_anew(db: sqlite3.Connection) -> None:
    """From here on packing leaves copies on free pages, and who forgets writes the file anew: see `sqlite_clean`.

    A tidegate that does not know would leave them there: one that has the file open now fails by the name of a column.
    """
    db.execute("ALTER TABLE sessions RENAME COLUMN sum TO seal")


MIGRATIONS: tuple[Migration, ...] = (
    sessions_and_chunks,
    marked_chunks,
    placed_and_arrived,
    batches_and_members,
    written_anew,
)
"""Only ever added to, at the end: the names stand in every file there is."""


def explained(fault: Exception, what: str) -> Exception:
    """An error of SQLite or the system in our words. `what` is the file, or the session and its file."""
    name = _name(fault)
    if isinstance(fault, OSError):
        return NotKept(f"The system refused {what}: {fault}.", "See to the folder and its rights.")
    if isinstance(fault, sqlite3.ProgrammingError) and not name:
        return BadInput(f"The store is closed ({what}).", "Open it again.")
    if name.startswith("SQLITE_BUSY"):
        return NotKept(f"Another process kept {what} locked.", "Nothing was written; try again.")
    if isinstance(fault, OverflowError) or name.startswith(_REFUSALS):
        return NotKept(
            f"The disk refused {what}: {fault}.",
            "Nothing of this was kept and nothing else was lost. Make room, or see to the disk, and try again.",
        )
    if isinstance(fault, sqlite3.Error):
        return Broken(f"There is damage in {what}: {fault}.", "Other sessions may be whole. Keep a copy of the file.")
    return fault


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError, sqlite3.Error) as fault:
        raise explained(fault, what) from fault


def is_busy(fault: Exception) -> bool:
    """Another process has the file: what is true for one is true for all who wait."""
    return _name(fault).startswith("SQLITE_BUSY")


def is_damage(fault: Exception) -> bool:
    return _name(fault).startswith("SQLITE_CORRUPT")


def _name(fault: Exception) -> str:
    return str(getattr(fault, "sqlite_errorname", ""))


@contextmanager
def damage_aside() -> Iterator[None]:
    """Leave the block where a damaged page is met, and go on. Every other error goes through."""
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if not is_damage(fault):
            raise


def open_file(path: Path, *, timeout: float, migrations: Sequence[Migration], step: Step) -> Database:
    with plain_errors(str(path)):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            _create(path, migrations, step)
            status = os.stat(path)
        if status.st_size == 0:
            # We publish a file only when it is whole, so an empty one has lost its content.
            raise Broken(f"{path} is empty.", "Put back a copy of it; or move it away to begin anew.")
        db = _connect(path, timeout)
        try:
            applied = _examine(db, path, migrations)
            if status.st_mode & 0o077:
                path.chmod(0o600)
            if applied < {migration.__name__ for migration in migrations}:
                _migrate(db, path, migrations, step)
        except BaseException:
            db.close()
            raise
        return db


def _connect(path: Path, timeout: float) -> Database:
    # mode=rw: a file that went away meanwhile is an error, not a new empty store.
    place = path if path.is_absolute() else os.path.join(os.getcwd(), path)
    address = f"file://{quote(os.fsencode(place))}?mode=rw"
    db = sqlite3.connect(
        address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True, factory=Database
    )
    db.text_factory = _text
    db.executescript(_SET_UP).close()
    return db


def _text(data: bytes) -> str:
    """A damaged name must not hide the other sessions."""
    return data.decode("utf-8", "replace")


def _create(path: Path, migrations: Sequence[Migration], step: Step) -> None:
    """Under another name first: whoever opens the file by its own finds all of it, in WAL mode, or nothing."""
    made = _make_folder(path.parent)
    fresh = path.with_name(f"{path.name}.new-{secrets.token_hex(8)}")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        db = _connect(fresh, 1.0)
        try:
            db.execute("PRAGMA journal_mode=WAL").close()
            db.execute(f"PRAGMA application_id={APPLICATION}").close()
            db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)").close()
            _migrate(db, path, migrations, step)
            # Closing would do it, too, but swallows what goes wrong then: the file would be published without it.
            truncate_log(db)
        finally:
            db.close()
        step("file written")
        with suppress(FileExistsError):  # another process was first
            os.link(fresh, path)
        step("file published")
    finally:
        for leftover in (fresh, *(fresh.with_name(f"{fresh.name}-{part}") for part in ("wal", "shm"))):
            leftover.unlink(missing_ok=True)
    for folder in (path.parent, *made):
        _sync_folder(folder)
    step("folder synced")


def truncate_log(db: sqlite3.Connection) -> bool:
    """All that is in the write-ahead log goes into the file. False if someone who reads was in the way."""
    busy = bool(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    return not busy


def _make_folder(folder: Path) -> list[Path]:
    """Gives the folders in which something new stands. One that is there keeps its mode: it may hold other things."""
    absent = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(absent):
        place.mkdir(mode=0o700, exist_ok=True)
    return [place.parent for place in absent]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _examine(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> set[str]:
    """The names of the changes that are in it."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise Broken(f"{path} is not a store of tidegate.", "Give another folder; this file was not touched.")
    applied = _applied(db)
    unknown = sorted(applied - {migration.__name__ for migration in migrations})
    if unknown:
        raise Broken(
            f"{path} was written by a newer tidegate: this one does not know its change {unknown[0]!r}.",
            "Install that version or a newer one; the file was not touched.",
        )
    return applied


def _applied(db: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT name FROM migrations")}


def _migrate(db: Database, path: Path, migrations: Sequence[Migration], step: Step) -> None:
    """Each change with its name in one transaction. Who comes second finds it done."""
    for migration in migrations:
        with transaction(db):
            _examine(db, path, migrations)
            if migration.__name__ in _applied(db):
                continue
            step("migration begun")
            migration(db)
            step("migration made")
            db.execute("INSERT INTO migrations VALUES (?, ?)", (migration.__name__, time.time()))
            step("migration noted")
        step("migration committed")


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """The one way to write but for appends: it waits for its turn, and keeps all or nothing."""
    check_free(db)
    try:
        db.changing = True
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    finally:
        db.changing = False
        roll_back(db)


def check_free(db: Database) -> None:
    """The handler of a signal may come in the middle of a change, on the same thread: no lock keeps it out.

    A transaction that nobody is in was left by one who was interrupted while it rolled back.
    """
    if db.changing:
        raise NotKept("This thread is in the middle of another change.", "Try again when that is done.")
    roll_back(db)


def roll_back(db: Database) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


@contextmanager
def snapshot(db: Database) -> Iterator[None]:
    """Several reads of the same state: another process may delete or append between them otherwise."""
    if db.changing:  # then that is the state
        yield
        return
    roll_back(db)
    try:
        db.execute("BEGIN")
        yield
    finally:
        roll_back(db)
