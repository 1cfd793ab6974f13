"""OpenCode's own keeping: a folder of small JSON files, and since version 1.2 a SQLite database.

Only read: a database is copied first, for opening it where it lies would write beside it.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tidegate.core.errors import BadInput
from tidegate.lab.importers.fields import a_dict, a_str
from tidegate.lab.importers.opencode import session
from tidegate.lab.importers.recording import Json, Recording
from tidegate.lab.importers.source import LIMITS, Limits, Place, Source, loaded

FORMAT = "opencode-store"
LARGEST = 8 * 2**30
_TABLES = {"session", "message", "part"}


# --- folder -------------------------------------------------------------------------------------------------------


def recognises(head: Source) -> bool:
    """The file of a session; its messages lie beside it."""
    info = a_dict(head.only())
    return a_str(info.get("id")).startswith("ses_") and "messages" not in info and "role" not in info


def read(source: Source) -> Iterator[Recording]:
    info = a_dict(source.only())
    root = source.path.parent.parent.parent
    messages = []
    for path in _files(root / "message" / _name(info)):
        about = a_dict(Source(path, source.limits).only())
        parts = [a_dict(Source(part, source.limits).only()) for part in _files(root / "part" / _name(about))]
        messages.append((about, parts))
    found = session(source, info, messages)
    if found:
        yield found
    else:
        raise source.bad(0, "its messages are not there", "Give the file inside OpenCode's storage folder.")


def _name(value: Json) -> str:
    """An id as the name of a folder, and nothing else."""
    name = os.path.basename(a_str(value.get("id")))
    return name if name.strip(".") else "none"


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []


# --- database -----------------------------------------------------------------------------------------------------


def read_database(path: Path, limits: Limits = LIMITS) -> Iterator[Recording]:
    """Every session of a database."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        _copy(path, copy)
        try:
            with closing(sqlite3.connect(copy)) as database:
                yield from _sessions(Place(path), database, limits)
        except sqlite3.Error as error:
            raise BadInput(f"{path}: cannot be read ({error}).", "Give OpenCode's opencode.db.") from None


def _copy(path: Path, copy: Path) -> None:
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(f"{path}: larger than {LARGEST:,} bytes.", "Export single sessions: opencode export.")
        shutil.copyfile(path, copy)
        log = path.with_name(f"{path.name}-wal")
        if log.is_file():
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", "Check the path and its permissions.") from None


def _sessions(place: Place, database: sqlite3.Connection, limits: Limits) -> Iterator[Recording]:
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value)
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables >= _TABLES:
        raise BadInput(f"{place.path}: a database, but not OpenCode's.", "Give OpenCode's opencode.db.")
    columns = {row[1] for row in database.execute("PRAGMA table_info(session)")}
    child = "parent_id" if "parent_id" in columns else "NULL"
    for ident, folder, parent in database.execute(f"SELECT id, directory, {child} FROM session ORDER BY id").fetchall():
        parts: dict[str, list[Json]] = {}
        for message, data in database.execute(
            "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", (ident,)
        ):
            parts.setdefault(a_str(message), []).append(a_dict(loaded(a_str(data), limits)))
        rows = database.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (ident,))
        messages = [(a_dict(loaded(a_str(data), limits)), parts.get(a_str(message), [])) for message, data in rows]
        info: Json = {"id": a_str(ident), "directory": a_str(folder)}
        found = session(place, info, messages)
        if found and not parent:
            yield found
