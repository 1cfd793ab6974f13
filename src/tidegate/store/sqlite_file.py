"""The file of the SQLite store: made whole or not at all, opened with the right settings, refused if it is not ours."""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.core.errors import BadInput, NotKept
from tidegate.store.store import Broken

FILE = "tidegate.db"
APPLICATION = 0x54696465  # "Tide", so that `file` and we know our own
WAL_KEPT = 8 * 1024 * 1024

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


MIGRATIONS: tuple[Migration, ...] = (sessions_and_chunks,)
"""Only ever added to, at the end: the names stand in every file there is."""


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """SQLite's errors in our words. `what` is the file, or the session and its file."""
    try:
        yield
    except OSError as fault:
        raise NotKept(f"The system refused {what}: {fault}.", "See to the folder and its rights.") from fault
    except sqlite3.Error as fault:
        name = str(getattr(fault, "sqlite_errorname", ""))
        if isinstance(fault, sqlite3.ProgrammingError) and not name:
            raise BadInput(f"The store is closed ({what}).", "Open it again.") from fault
        if name.startswith("SQLITE_BUSY"):
            raise NotKept(f"Another process kept {what} locked.", "Nothing was written; try again.") from fault
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_TOOBIG")):
            raise NotKept(
                f"The disk refused {what}: {fault}.",
                "Nothing of this was kept and nothing else was lost. Make room, or see to the disk, and try again.",
            ) from fault
        raise Broken(
            f"There is damage in {what}: {fault}.", "Other sessions may be whole. Keep a copy of the file."
        ) from fault


@contextmanager
def damage_aside() -> Iterator[None]:
    """Leave the block where a damaged page is met, and go on. Every other error goes through."""
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if not str(getattr(fault, "sqlite_errorname", "")).startswith("SQLITE_CORRUPT"):
            raise


def open_file(path: Path, *, timeout: float, migrations: Sequence[Migration], step: Step) -> sqlite3.Connection:
    with plain_errors(str(path)):
        if not path.exists():
            _create(path, migrations, step)
        if path.stat().st_size == 0:
            # We publish a file only when it is whole, so an empty one has lost its content.
            raise Broken(f"{path} is empty.", "Put back a copy of it; or move it away to begin anew.")
        db = _connect(path, timeout)
        try:
            _examine(db, path, migrations)
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            _migrate(db, path, migrations, step)
        except BaseException:
            db.close()
            raise
        return db


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: a file that went away meanwhile is an error, not a new empty store.
    address = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True)
    db.text_factory = lambda text: text.decode("utf-8", "replace")  # a damaged name must not hide the other sessions
    for setting in ("synchronous=FULL", f"journal_size_limit={WAL_KEPT}", "secure_delete=ON", "cell_size_check=ON"):
        db.execute(f"PRAGMA {setting}").close()
    return db


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
        finally:
            db.close()
        step("file written")
        with suppress(FileExistsError):  # another process was first
            os.link(fresh, path)
        step("file published")
    finally:
        os.unlink(fresh)
    for folder in (path.parent, *made):
        _sync_folder(folder)
    step("folder synced")


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


def _examine(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise Broken(f"{path} is not a store of tidegate.", "Give another folder; this file was not touched.")
    unknown = sorted(_applied(db) - {migration.__name__ for migration in migrations})
    if unknown:
        raise Broken(
            f"{path} was written by a newer tidegate: this one does not know its change {unknown[0]!r}.",
            "Install that version or a newer one; the file was not touched.",
        )


def _applied(db: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT name FROM migrations")}


def _migrate(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration], step: Step) -> None:
    """Each change with its name in one transaction. Who comes second finds it done."""
    if {migration.__name__ for migration in migrations} <= _applied(db):
        return
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
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """The one way to write: it waits for its turn, and keeps all or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


@contextmanager
def snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """Several reads of the same state: another process may delete or append between them otherwise."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
