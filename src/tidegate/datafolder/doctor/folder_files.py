"""Checks of the files beside the logs: unfinished files, permissions, the search index and the notes.

Derived files are deleted if they are wrong; they can be rebuilt. Everything else is moved to `damaged/`: it may be the
only copy of something.
"""

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.plural import format_count
from tidegate.datafolder.completion import complete_change
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.doctor.finding import COMPLETED_LATER, Finding
from tidegate.datafolder.removal import BEING_REMOVED, RetentionMark
from tidegate.datafolder.unfinished_changes import UnfinishedChange, list_unfinished
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, make_folder, make_write_error, sync_folder
from tidegate.memory.index import delete_index_files, is_index_damaged

DAMAGED_FOLDER = "damaged"
_OWN_FOLDERS = (
    "blobs",
    "memory",
    "sessions",
    "traces",
    "views",
    "recall",
    "locks",
    "retention",
    "unfinished",
    "workspaces",
    "preferences",
    DAMAGED_FOLDER,
)
_OWN_FILES = ("tidegate.db", "search.db", "removed.jsonl")
_ABANDONED_SECONDS = 3600.0
"""Seconds after which an unfinished file is considered abandoned."""


def free_damaged_path(data: FolderContents, name: str) -> Path:
    """A path in `damaged/` that does not exist yet."""
    folder = data.root / DAMAGED_FOLDER
    make_folder(folder)
    number = 1
    while (place := folder / (f"{name}.{number}" if number > 1 else name)).exists() or place.is_symlink():
        number += 1
    return place


def move_to_damaged(data: FolderContents, path: Path, what: str) -> str:
    """Move a file or folder to `damaged/`, and return its new path."""
    place = free_damaged_path(data, f"{what}-{path.name}")
    try:
        os.rename(path, place)
        sync_folder(path.parent)
        sync_folder(place.parent)
    except OSError as failure:
        raise make_write_error(path.name, failure) from failure
    return f"{DAMAGED_FOLDER}/{place.name}"


def is_regular_file(path: Path) -> bool:
    """Whether this is a file: no folder, no link, no pipe."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


# --- unfinished work ----------------------------------------------------------------------------------


_INTERRUPTED = {
    "create": "The fork or import that was to make it was interrupted.",
    "remove": "Its removal was interrupted.",
    "forget": "Forgetting something in it was interrupted.",
}


def check_unfinished_changes(data: FolderContents, repair: bool) -> Iterator[Finding]:
    """Changes of several steps that a crash interrupted, or that another process is making."""
    changes = list_unfinished(data)
    for file in data.retention_folder.names():
        if not file.endswith(".json"):
            continue
        try:
            mark = msgspec.json.decode(data.retention_folder.read(file) or "", type=RetentionMark)
        except (BadInput, msgspec.DecodeError):
            yield _unreadable_mark(data, file, repair)
            continue
        change = UnfinishedChange(mark.session, "remove")
        if mark.days == BEING_REMOVED and change not in changes:  # of an earlier version
            changes.append(change)
    for change in changes:
        what = _INTERRUPTED[change.act]
        if not repair:
            yield Finding(change.session, what, "unfinished", COMPLETED_LATER)
            continue
        try:
            complete_change(data, change)
        except TidegateError as hindrance:
            yield Finding(change.session, what, "unfinished", str(hindrance))
        else:
            yield Finding(change.session, what, "mended", _describe_completed(data, change))


def _describe_completed(data: FolderContents, change: UnfinishedChange) -> str:
    if change.act == "forget":
        return "It is completed."
    return "It is complete and is kept." if data.store.head(change.session) else "It is removed."


def _unreadable_mark(data: FolderContents, file: str, repair: bool) -> Finding:
    what = f"The mark retention/{file} cannot be read: its session never expires."
    if not repair:
        return Finding("", what, "broken", "With --repair it is moved to damaged/; the next opening writes a new one.")
    return Finding("", what, "mended", f"It is now {move_to_damaged(data, data.retention_folder.root / file, 'mark')}.")


def check_leftover_files(data: FolderContents, repair: bool) -> Iterator[Finding]:
    """Find files that were being written when a process died."""
    leftovers = [path for path in _own_files(data) if _is_temporary(path)] + list(
        (data.root / DAMAGED_FOLDER).glob(".rescue-*")
    )
    old = [path for path in leftovers if time.time() - path.lstat().st_mtime > _ABANDONED_SECONDS]
    if not old:
        return
    for path in old if repair else []:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    what = f"Left half written by a crash: {format_count(len(old), 'file')}."
    yield Finding("", what, "mended" if repair else "broken", "" if repair else "They are removed with --repair.")


def _is_temporary(path: Path) -> bool:
    name = path.name
    snapshot = path.parent.name in ("views", "recall") and name.startswith(".") and name.endswith(".new")
    return snapshot or name.endswith(TEMPORARY_SUFFIX) or name.startswith("tidegate.db.new-")


def _own_files(data: FolderContents) -> Iterator[Path]:
    """Every file of tidegate that is not a link. Other files in the data folder are left alone."""
    for entry in sorted(data.root.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_dir() and entry.name in _OWN_FOLDERS:
            for place, folders, names in os.walk(entry):
                folders.sort()
                yield from (path for name in sorted(names) if not (path := Path(place, name)).is_symlink())
        elif entry.is_file() and (entry.name.startswith(_OWN_FILES) or _is_temporary(entry)):
            yield entry


# --- permissions --------------------------------------------------------------------------------------------------


def check_permissions(data: FolderContents, repair: bool) -> Iterator[Finding]:
    files = list(_own_files(data))
    folders = {parent for path in files for parent in path.parents if parent.is_relative_to(data.root)}
    folders |= {path for name in _OWN_FOLDERS if (path := data.root / name).is_dir() and not path.is_symlink()}
    open_ones = [path for path in [*files, *sorted(folders - {data.root})] if _mode(path) & 0o077]
    failed = 0
    for path in open_ones if repair else []:
        try:
            path.chmod(0o700 if path.is_dir() else 0o600)
        except OSError:
            failed += 1
    if open_ones:
        what = f"Could be read by others: {format_count(len(open_ones), 'file')} or folder{'s' * (len(open_ones) > 1)}."
        mended = repair and not failed
        remedy = "" if mended else f"{failed} belong to someone else." if failed else "With --repair they cannot."
        yield Finding("", what, "mended" if mended else "broken", remedy)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except FileNotFoundError:
        return 0


# --- index and notes --------------------------------------------------------------------------------------------------


def check_search_index(data: FolderContents, repair: bool) -> Iterator[Finding]:
    path = data.root / "search.db"
    if not os.path.lexists(path):
        return
    try:
        if not is_regular_file(path):
            raise sqlite3.DatabaseError("it is not a file")
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=10, uri=True)) as db:
            faults = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
            db.execute("SELECT text FROM stamp").fetchall()
    except sqlite3.Error as failure:
        if is_regular_file(path) and not is_index_damaged(failure):
            yield Finding(
                "", f"The search index could not be checked: {failure}.", "fine", "It is derived from the logs."
            )
            return
        faults = [str(failure)]
    if faults == ["ok"]:
        return
    if repair:
        data.close_search()
        if is_regular_file(path):
            delete_index_files(path)
        else:
            move_to_damaged(data, path, "index")
    what = f"The search index is damaged ({faults[0][:100]})."
    yield Finding("", what, "mended" if repair else "broken", "The next search rebuilds it.")


def check_notes(data: FolderContents) -> Iterator[Finding]:
    """Check that the notes can be read. They belong to people: nothing is changed in them."""
    try:
        names = data.notes.names()
    except BadInput as bad:
        yield Finding("", f"The notes cannot be read: {bad.args[0]}", "broken", bad.remedy)
        return
    for name in names:
        try:
            text = data.notes.read(name)
        except BadInput as bad:
            yield Finding("", f"The note {name} cannot be read: {bad.args[0]}", "broken", bad.remedy)
            continue
        if "\ufffd" in text or "\0" in text:
            yield Finding("", f"The note {name} contains bytes that are not text.", "fine", "The rest of it is read.")
