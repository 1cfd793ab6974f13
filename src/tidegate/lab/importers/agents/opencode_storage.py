"""OpenCode's own storage: a folder of small JSON files and, since version 1.2, a SQLite database.

A database is copied before it is opened, because opening it in place would write files next to it.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tidegate.core.errors import BadInput
from tidegate.lab.importers.agents.opencode import build_opencode_recording
from tidegate.lab.importers.json_fields import object_or_empty, string_or_empty
from tidegate.lab.importers.recording import JsonRecord, Recording
from tidegate.lab.importers.source_file import (
    DEFAULT_IMPORT_LIMITS,
    ImportLimits,
    RecordingLocation,
    SourceFile,
    load_bounded_json,
)

FORMAT = "opencode-store"
_MAX_DATABASE_BYTES = 8 * 2**30
_REQUIRED_TABLES = {"session", "message", "part"}


# --- folder -------------------------------------------------------------------------------------------------------


def recognizes(head: SourceFile) -> bool:
    """Return whether this is the file of a session. Its messages are in folders next to it."""
    info = object_or_empty(head.single_value())
    return string_or_empty(info.get("id")).startswith("ses_") and "messages" not in info and "role" not in info


def read(source: SourceFile) -> Iterator[Recording]:
    info = object_or_empty(source.single_value())
    root = source.path.parent.parent.parent
    messages = []
    for path in _list_json_files(root / "message" / _folder_name(info)):
        about = object_or_empty(SourceFile(path, source.limits).single_value())
        parts = [
            object_or_empty(SourceFile(part, source.limits).single_value())
            for part in _list_json_files(root / "part" / _folder_name(about))
        ]
        messages.append((about, parts))
    recording = build_opencode_recording(source, info, messages)
    if recording:
        yield recording
    else:
        raise source.make_error(0, "its messages are not there", "Give the file inside OpenCode's storage folder.")


def _folder_name(value: JsonRecord) -> str:
    """Return an id as the name of one folder, without path separators."""
    name = os.path.basename(string_or_empty(value.get("id")))
    return name if name.strip(".") else "none"


def _list_json_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []


# --- database -----------------------------------------------------------------------------------------------------


def read_opencode_database(path: Path, limits: ImportLimits = DEFAULT_IMPORT_LIMITS) -> Iterator[Recording]:
    """Yield every session of a database."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        _copy_database(path, copy)
        try:
            with closing(sqlite3.connect(copy)) as database:
                yield from _read_sessions(RecordingLocation(path), database, limits)
        except sqlite3.Error as error:
            raise BadInput(f"{path}: cannot be read ({error}).", "Give OpenCode's opencode.db.") from None


def _copy_database(path: Path, copy: Path) -> None:
    try:
        if path.stat().st_size > _MAX_DATABASE_BYTES:
            raise BadInput(
                f"{path}: larger than {_MAX_DATABASE_BYTES:,} bytes.", "Export single sessions: opencode export."
            )
        shutil.copyfile(path, copy)
        log = path.with_name(f"{path.name}-wal")
        if log.is_file():
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", "Check the path and its permissions.") from None


def _read_sessions(place: RecordingLocation, database: sqlite3.Connection, limits: ImportLimits) -> Iterator[Recording]:
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables >= _REQUIRED_TABLES:
        raise BadInput(f"{place.path}: a database, but not OpenCode's.", "Give OpenCode's opencode.db.")
    columns = {row[1] for row in database.execute("PRAGMA table_info(session)")}
    child = "parent_id" if "parent_id" in columns else "NULL"
    for ident, folder, parent in database.execute(f"SELECT id, directory, {child} FROM session ORDER BY id").fetchall():
        parts: dict[str, list[JsonRecord]] = {}
        for message, data in database.execute(
            "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", (ident,)
        ):
            parts.setdefault(string_or_empty(message), []).append(
                object_or_empty(load_bounded_json(string_or_empty(data), limits))
            )
        rows = database.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (ident,))
        messages = [
            (object_or_empty(load_bounded_json(string_or_empty(data), limits)), parts.get(string_or_empty(message), []))
            for message, data in rows
        ]
        info: JsonRecord = {"id": string_or_empty(ident), "directory": string_or_empty(folder)}
        recording = build_opencode_recording(place, info, messages)
        if recording and not parent:
            yield recording
