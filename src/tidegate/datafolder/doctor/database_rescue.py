"""Rebuilding a database file whose structure is damaged, from everything in it that can still be read.

Usually the doctor repairs records in place. It cannot if SQLite itself cannot read the structure of the file, for
example because it was truncated. Then the file is copied to `damaged/`, every intact record is written to a new file,
with notes about what is lost in the gaps, and the new file replaces the old one.

After a crash at any step the folder has the old file or the new one. No other process may have the folder open.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.datafolder.doctor.finding import Finding
from tidegate.datafolder.doctor.session_log import RecordFault, encode_lost_record
from tidegate.datafolder.removal import StepCallback, ignore_step
from tidegate.disk.atomic_files import make_folder, make_write_error, sync_file, sync_folder
from tidegate.disk.folder import session_file_key
from tidegate.store.errors import DamagedData
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.connection import FILE
from tidegate.store.sqlite.inspection import find_session_ids, find_structure_faults
from tidegate.store.store import SessionInfo, Store

_BATCH_RECORDS = 64
_WORK_PREFIX = ".rescue-"
_SHARED_BYTES = (0x40000002, 510)
"""Where in the file a connection of SQLite that uses a WAL holds a shared lock for as long as it is open."""
_MAGIC = b"SQLite format 3\0"
_RESTORE_REMEDY = "Put back a copy of the data folder if you have one."


def needs_rescue(folder: str | os.PathLike[str]) -> bool:
    """Return whether the file is damaged in a way that cannot be repaired in place."""
    path = Path(folder) / FILE
    return path.is_file() and bool(find_structure_faults(path))


def rescue_database(
    folder: str | os.PathLike[str], *, clock: Callable[[], float] = time.time, step: StepCallback = ignore_step
) -> list[Finding]:
    """Rebuild the database of this folder. This process must have closed it; BadInput while another has it open."""
    path = Path(folder) / FILE
    make_folder(path.parent / "damaged")
    try:
        with (
            _locked_database(path),
            tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=path.parent / "damaged") as work,
        ):
            return _rebuild_database(path, Path(work), clock(), step)
    except OSError as failure:
        raise make_write_error("The new database", failure) from failure


def _rebuild_database(path: Path, work: Path, now: float, step: StepCallback) -> list[Finding]:
    old, new, whole = work / "old", work / "new", work / "whole"
    _copy_whole(path, old / FILE)
    shutil.copyfile(old / FILE, whole)
    whole.chmod(0o600)
    _repair_structure(old / FILE)
    step("copied")
    try:
        findings = _save_sessions(old, new, now)
    except (DamagedData, sqlite3.DatabaseError) as damage:
        why = str(damage.args[0]).replace(str(old / FILE), FILE)
        return [
            Finding("", f"Nothing of the database can be read: {why}", "broken", f"It is as it was. {_RESTORE_REMEDY}")
        ]
    step("saved")
    copy = _replace_database(path, whole, new / FILE, step)
    for session in {finding.session for finding in findings}:
        for derived in ("views", "recall"):  # they show records that the log no longer has
            (path.parent / derived / session_file_key(session)).unlink(missing_ok=True)
    return [Finding("", "The structure of the database was damaged; it was rebuilt.", "mended", copy), *findings]


@contextmanager
def _locked_database(path: Path) -> Iterator[None]:
    """Lock the old file. A process that waits for this lock gets an error: the file it opened is emptied by then."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES[1], _SHARED_BYTES[0])
        except OSError:
            raise BadInput(f"{path.name} is open in another process.", "End it first.") from None
        try:
            yield
        finally:
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.truncate(0)


def _copy_whole(path: Path, target: Path) -> None:
    """Copy the file and extend it to the length that its header gives."""
    target.parent.mkdir(mode=0o700)
    _duplicate(path, target)
    with target.open("r+b") as file:
        header = file.read(32)
        page = int.from_bytes(header[16:18], "big")
        size = int.from_bytes(header[28:32], "big") * (65_536 if page == 1 else page)
        if os.fstat(file.fileno()).st_size < size <= 1 << 44:
            file.truncate(size)
        file.seek(0)
        file.write(_MAGIC)  # with one wrong byte here, SQLite refuses the whole file
    with closing(sqlite3.connect(target)) as db:
        _try_statement(db, "PRAGMA wal_checkpoint(TRUNCATE)")


def _repair_structure(path: Path) -> None:
    """Let SQLite rebuild its indexes, and add sessions for rows without one; they are filled in when they are read."""
    with closing(sqlite3.connect(path)) as db:
        _try_statement(db, "REINDEX")
        for session in find_session_ids(db):
            _try_statement(
                db,
                f"INSERT INTO sessions SELECT {session}, 'recovered-{session}', 0, 0, '', 0, 0, 0, -1"
                f" WHERE {session} NOT IN (SELECT id FROM sessions NOT INDEXED)",
            )
        db.commit()


def _try_statement(db: sqlite3.Connection, statement: str) -> None:
    """Run a statement that may help. If it fails, reading continues without it."""
    try:
        db.execute(statement).close()
    except sqlite3.DatabaseError:
        db.rollback()


# --- record by record -------------------------------------------------------------------------------------------------


def _save_sessions(old: Path, new: Path, now: float) -> list[Finding]:
    findings: list[Finding] = []
    source = SqliteStore(old)
    try:
        target = SqliteStore(new)
        try:
            for info in source.sessions():
                findings += _save_session(source, target, info, now)
        finally:
            target.close()
    finally:
        source.close()
    return findings


def _save_session(source: Store, target: Store, info: SessionInfo, now: float) -> list[Finding]:
    findings: list[Finding] = []
    waiting: list[bytes] = []
    head = 0
    try:
        for piece in _read_pieces(source, info.name):
            waiting += piece.records
            if piece.fault is not None:
                first, last = piece.fault.first, piece.fault.last
                waiting += [encode_lost_record(seq, now, piece.fault) for seq in range(first, last + 1)]
                findings.append(Finding(info.name, f"Records {first} to {last} are lost: {piece.fault.reason}", "lost"))
            if len(waiting) >= _BATCH_RECORDS:
                head, waiting = target.append(info.name, head, waiting), []
        if waiting:
            target.append(info.name, head, waiting)
    except (DamagedData, BadInput) as damage:
        findings.append(Finding(info.name, f"Nothing after record {head}: {damage}", "lost", _RESTORE_REMEDY))
    return findings


class _Piece(NamedTuple):
    records: list[bytes]
    fault: RecordFault | None = None


def _read_pieces(source: Store, session: str) -> Iterator[_Piece]:
    """Yield all records in order, with gaps where records are missing."""
    head, start = source.head(session), 1
    while start <= head:
        try:
            for record in source.read(session, start):
                start += 1
                yield _Piece([record])
            return
        except DamagedData as damage:
            is_known = damage.first_record == start <= damage.last_record
            last = min(damage.last_record, head) if is_known else head
            yield _Piece([], RecordFault(start, last, str(damage.args[0])))
            start = last + 1


def _replace_database(path: Path, whole: Path, new: Path, step: StepCallback) -> str:
    """Keep a copy of the damaged file, merge its write-ahead log into it so that the log can be removed (repeating this
    changes nothing), then replace it by the new file."""
    folder = path.parent / "damaged"
    number = 1
    while (copy := folder / f"{FILE}.{number}").exists():
        number += 1
    copies = [whole, new, *_duplicate(path, copy)]
    for each in copies:
        with each.open("rb") as file:
            sync_file(file.fileno())
    sync_folder(folder)
    step("kept aside")
    os.replace(whole, path)
    sync_folder(path.parent)  # before its write-ahead log may be removed
    step("in one piece")
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    sync_folder(path.parent)
    step("alone")
    os.replace(new, path)
    sync_folder(path.parent)
    step("in place")
    return f"The old one is damaged/{copy.name}."


def _duplicate(path: Path, target: Path) -> list[Path]:
    """Copy the file and its write-ahead log."""
    copies: list[Path] = []
    for ending in ("", "-wal"):
        source = path.with_name(path.name + ending)
        if source.is_file():
            copies.append(target.with_name(target.name + ending))
            shutil.copyfile(source, copies[-1])
            copies[-1].chmod(0o600)
    return copies
