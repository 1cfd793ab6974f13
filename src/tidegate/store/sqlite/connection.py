"""The connection to the database file: opened or created, transactions, and SQLite's errors in tidegate's terms."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from urllib.parse import quote

from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import make_folder, sync_folder
from tidegate.store.errors import DamagedData

FILE = "tidegate.db"
APPLICATION_ID = 0x54696465  # "Tide", so that `file` and we recognize it
WAL_PAGES = 2500
"""Pages in the write-ahead log before they are copied into the file, which takes two more fsyncs."""
_SETTINGS = (
    "synchronous=FULL",
    f"wal_autocheckpoint={WAL_PAGES}",
    f"journal_size_limit={WAL_PAGES * 2 * 4096}",  # larger than it gets: a truncated log must grow again, slowly
    "secure_delete=FAST",  # `store.Vacuum` removes the copies that this leaves
    "cell_size_check=ON",
    "fullfsync=ON",  # for macOS, whose fsync leaves data in the cache of the disk; elsewhere it does nothing
    "checkpoint_fullfsync=ON",
)
_BEFORE_RELEASE = frozenset(
    ("sessions_and_chunks", "marked_chunks", "placed_and_arrived", "batches_and_members", "written_anew")
)
"""Migrations before version 0.1.0. Files of that version list them, too, with those that came after."""
_REFUSALS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_TOOBIG")

Step = Callable[[str], object]
"""Called with a name between the steps of a change: tests kill the process there, or let another one in."""


class Database(sqlite3.Connection):
    """The connection. `writer` is the thread that is inside a write transaction, 0 if none is."""

    writer = 0
    step: Step = str  # any function that does nothing


Migration = Callable[[Database], None]


def transact(db: Database, work: Callable[[], object]) -> None:
    """Do the work in a write transaction, all of it or nothing. Wait for other processes that write."""
    check_free(db)
    roll_back(db)  # one that an interrupted thread left open
    try:
        db.writer = get_ident()
        db.execute("BEGIN IMMEDIATE")
        db.step("begun")
        work()
        db.execute("COMMIT")
    finally:
        db.writer = 0
        roll_back(db)


def check_free(db: Database) -> None:
    """Refuse a signal handler that wants to write while its thread is inside a transaction: no lock keeps it out."""
    if db.writer == get_ident():
        raise NotKept("This thread is in the middle of another change.", "Try again when that is done.")


def roll_back(db: Database) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


@contextmanager
def read_transaction(db: Database) -> Iterator[None]:
    """Read one state of the file while other processes may write."""
    if db.writer:  # inside a transaction: that is the state
        yield
        return
    roll_back(db)
    try:
        db.execute("BEGIN")
        yield
    finally:
        roll_back(db)


# --- errors -----------------------------------------------------------------------------------------------------------


def translate_error(fault: Exception, what: str) -> Exception:
    """Translate an error of SQLite or the system. `what` is the file, or the session and its file."""
    name = _error_name(fault)
    error = fault
    if isinstance(fault, OSError):
        error = NotKept(f"The system refused {what}: {fault}.", "Check the folder and its permissions.")
    elif isinstance(fault, sqlite3.ProgrammingError) and not name:
        error = BadInput(f"The store is closed ({what}).", "Open it again.")
    elif is_busy(fault):
        error = NotKept(f"Another process kept {what} locked.", "Nothing was written; try again.")
    elif isinstance(fault, OverflowError) or name.startswith(_REFUSALS):
        remedy = "Nothing of this was kept and nothing else was lost. Make room, or see to the disk, and try again."
        error = NotKept(f"The disk refused {what}: {fault}.", remedy)
    elif isinstance(fault, sqlite3.Error):
        remedy = "Other sessions may be whole. Keep a copy of the file, then run `tidegate doctor --repair`."
        error = DamagedData(f"There is damage in {what}: {fault}.", remedy)
    error.__cause__ = None if error is fault else fault
    return error


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError, sqlite3.Error) as fault:
        raise translate_error(fault, what) from fault


@contextmanager
def skip_damage() -> Iterator[None]:
    """Leave the block at a damaged page. Every other error passes through."""
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if not _error_name(fault).startswith("SQLITE_CORRUPT"):
            raise


def is_busy(fault: Exception) -> bool:
    return _error_name(fault).startswith("SQLITE_BUSY")


def _error_name(fault: Exception) -> str:
    return str(getattr(fault, "sqlite_errorname", ""))


# --- opening ----------------------------------------------------------------------------------------------------------


def open_file(path: Path, *, timeout: float, migrations: Sequence[Migration], step: Step) -> Database:
    """Open the file, create it if there is none, and apply the migrations it does not have yet."""
    with translate_errors(str(path)):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            _create(path, migrations, step)
            status = os.stat(path)
        if status.st_size == 0:
            # A file is published only when it is complete, so an empty one has lost its content.
            raise DamagedData(f"{path} is empty.", "Put back a copy of it; or move it away to start with a new one.")
        db = _connect(path, timeout, step)
        try:
            applied = _check_format(db, path, migrations)
            if status.st_mode & 0o077:
                path.chmod(0o600)
            if not applied >= {migration.__name__ for migration in migrations}:
                _migrate(db, path, migrations)
        except BaseException:
            db.close()
            raise
        return db


def _connect(path: Path, timeout: float, step: Step) -> Database:
    # mode=rw: a file that has disappeared meanwhile is an error, not a new empty store.
    address = f"file://{quote(os.fsencode(path.absolute()))}?{_choose_mode(path)}"
    db = sqlite3.connect(
        address,
        timeout=timeout,
        detect_types=0,
        isolation_level=None,
        check_same_thread=False,
        factory=Database,
        uri=True,
    )
    db.step = step
    db.text_factory = _decode_text
    try:
        db.executescript("".join(f"PRAGMA {setting};" for setting in _SETTINGS)).close()
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path, timeout: float) -> Database:
    """Open a second connection to a file that is open already. It cannot write."""
    db = _connect(path, timeout, Database.step)
    db.execute("PRAGMA query_only=ON").close()
    return db


def _choose_mode(path: Path) -> str:
    """How to open the file. Where nothing can be written it is only read, and every change is refused.

    SQLite reads a file with a write-ahead log beside it only if it can write, or if the log's index (-shm) is there. If
    there is no log and none can be made, the file cannot change while it is read.
    """
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "mode=rw"
    log = path.with_name(f"{path.name}-wal")
    return "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"


def connect_readonly(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=30, uri=True)
    db.text_factory = _decode_text
    return db


def _decode_text(text: bytes) -> str:
    return text.decode("utf-8", "replace")  # a damaged name must not hide other sessions


def _create(path: Path, migrations: Sequence[Migration], step: Step) -> None:
    """Create the file under another name first, so that a process that opens it finds all of it or nothing."""
    make_folder(path.parent)
    fresh = path.with_name(f"{path.name}.new-{os.urandom(8).hex()}")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(_connect(fresh, 1.0, step)) as db:
            db.execute("PRAGMA journal_mode=WAL").close()
            db.execute(f"PRAGMA application_id={APPLICATION_ID}").close()
            db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)").close()
            _migrate(db, path, migrations)
            truncate_wal(db)  # closing does this, too, but hides its errors
        step("file written")
        with suppress(FileExistsError):  # another process was first
            os.link(fresh, path)
        step("file published")
    finally:
        for ending in ("", "-wal", "-shm"):
            fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
    sync_folder(path.parent)
    step("folder synced")


def truncate_wal(db: sqlite3.Connection) -> None:
    """Copy the write-ahead log into the file and empty it, unless another process is reading it."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _check_format(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> set[str]:
    """Return the names of the file's migrations. DamagedData if it is not ours, or not of a version that is read."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise DamagedData(f"{path} is not a store of tidegate.", "Give another folder; this file was not touched.")
    applied = {str(name) for (name,) in db.execute("SELECT name FROM migrations")}
    unknown = sorted(applied - _BEFORE_RELEASE - {migration.__name__ for migration in migrations})
    if unknown:
        raise DamagedData(
            f"{path} was written by a newer tidegate: this one does not know its change {unknown[0]!r}.",
            "Install that version or a newer one; the file was not touched.",
        )
    if applied and applied <= _BEFORE_RELEASE:
        raise DamagedData(
            f"{path} was written by a tidegate from before version 0.1.0, in a form that is no longer read.",
            "Open it once with version 0.1.0, which converts it; the file was not touched.",
        )
    return applied


def _migrate(db: Database, path: Path, migrations: Sequence[Migration]) -> None:
    """Apply the missing migrations and note their names, all in one transaction. A second process finds it done."""

    def apply() -> None:
        applied = _check_format(db, path, migrations)
        for migration in migrations:
            if migration.__name__ not in applied:
                migration(db)
                db.step("migration made")
                db.execute("INSERT INTO migrations VALUES (?, ?)", (migration.__name__, time.time()))
                db.step("migration noted")

    transact(db, apply)
    db.step("migrations committed")
