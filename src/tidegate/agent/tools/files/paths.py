"""Paths that the file tools may use: the workspace, and for reading also the files of the session.

A name is first resolved to its real path, including links. That path is then opened part by part from the root without
following any link, so what was checked is what is opened, even if the disk changes in between. A write replaces the
file with a new one, so it never writes through a hard link into another folder.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from tidegate.agent.tools.tool import ToolContext, ToolFailed
from tidegate.disk.atomic_files import sync_file

SESSION_PATH_PREFIX = "session:"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ERRORS = (ValueError, OSError)  # a NUL in the name, half a surrogate pair, a name that is too long


class ConfinedPath(NamedTuple):
    """A file or folder: the real path of its root, and the parts below it. `display_name` is shown to the model."""

    root: str
    parts: tuple[str, ...]
    display_name: str

    @property
    def path(self) -> str:
        return os.path.join(self.root, *self.parts)


class FileStamp(NamedTuple):
    """Values that change when a file changes."""

    inode: int
    size: int
    modified_ns: int


def resolve_read_path(context: ToolContext, name: str) -> ConfinedPath:
    """Return the path to read. A name that is not in the workspace may be a file of the session."""
    if not name.startswith(SESSION_PATH_PREFIX):
        place = _resolve_in_workspace(context, name)
        if place is not None and os.path.lexists(place.path):
            return place
        path = _resolve_in_session(context, name)
        if path is not None and os.path.lexists(path.path):
            return path
        if place is not None:
            return place
    else:
        path = _resolve_in_session(context, name.removeprefix(SESSION_PATH_PREFIX))
        if path is not None:
            return path
    raise ToolFailed(
        f"{name[:200]!r} is outside the workspace. Give a path inside it, relative to it; '.' is the whole."
    )


def resolve_write_path(context: ToolContext, name: str) -> ConfinedPath:
    """Return the path to write: in the workspace, and not in a folder of tidegate itself."""
    place = _resolve_in_workspace(context, name)
    if place is None or name.startswith(SESSION_PATH_PREFIX):
        raise ToolFailed(f"{name[:200]!r} is outside the workspace; nothing was written. Give a path inside it.")
    if not place.parts:
        raise ToolFailed("The workspace itself is not a file; nothing was written. Give the path of a file.")
    for folder in map(os.path.realpath, context.protected_folders):
        if _relative_path(folder, place.root) is not None and _relative_path(place.path, folder) is not None:
            raise ToolFailed(
                f"{name[:200]!r} is where the session is kept: it can be read, not written. Write elsewhere."
            )
    return place


def is_also_session_file(context: ToolContext, place: ConfinedPath, name: str) -> bool:
    """Return whether the session has a file of the same name, which the model may have meant."""
    session_place = None if name.startswith(SESSION_PATH_PREFIX) else _resolve_in_session(context, name)
    return session_place is not None and session_place.path != place.path and os.path.isfile(session_place.path)


def _resolve_in_workspace(context: ToolContext, name: str) -> ConfinedPath | None:
    return _resolve_below(context.workspace, name)


def _resolve_in_session(context: ToolContext, name: str) -> ConfinedPath | None:
    return None if context.session_folder is None else _resolve_below(context.session_folder, name, SESSION_PATH_PREFIX)


def _resolve_below(root: Path, name: str, prefix: str = "") -> ConfinedPath | None:
    try:
        home = os.path.realpath(root)
        real = os.path.realpath(os.path.join(home, name))
    except _PATH_ERRORS as error:
        raise ToolFailed(f"{name[:80]!r} is not a path. Give one without unusual characters.") from error
    below = _relative_path(real, home)
    if below is None:
        return None
    parts = tuple(part for part in below.split(os.sep) if part not in ("", "."))
    return ConfinedPath(home, parts, prefix + ("/".join(parts) or "."))


def _relative_path(path: str, folder: str) -> str | None:
    return os.path.relpath(path, folder) if os.path.commonpath([path, folder]) == folder else None


@contextmanager
def open_confined_folder(place: ConfinedPath, *, up: int = 0, make: bool = False) -> Iterator[int]:
    """Open the folder, or with `up=1` its parent, as a descriptor. No part of the path is a link."""
    parts = place.parts[: len(place.parts) - up]
    folder = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                _make_folder(part, folder)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _make_folder(part: str, folder: int) -> None:
    try:
        os.mkdir(part, dir_fd=folder)
    except FileExistsError:
        return


@contextmanager
def open_confined_file(place: ConfinedPath) -> Iterator[int]:
    """Open a plain file for reading. Raise ToolFailed for anything else."""
    try:
        if not place.parts:
            raise IsADirectoryError(errno.EISDIR, "")
        with open_confined_folder(place, up=1) as folder:
            file = os.open(place.parts[-1], _READ_FLAGS, dir_fd=folder)
    except _PATH_ERRORS as error:
        raise _open_error(place, error) from error
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise ToolFailed(f"{place.display_name} is a folder. Use list.")
        if not stat.S_ISREG(mode):
            raise ToolFailed(f"{place.display_name} is not a plain file (a pipe, socket or device). It was not read.")
        yield file
    finally:
        os.close(file)


def _open_error(place: ConfinedPath, error: Exception) -> ToolFailed:
    code = error.errno if isinstance(error, OSError) else 0
    if code in (errno.ENOENT, errno.ENOTDIR):
        return ToolFailed(f"There is no file {place.display_name}.{_suggest_names(place)}")
    if code == errno.EISDIR:
        return ToolFailed(f"{place.display_name} is a folder. Use list.")
    if code == errno.ELOOP:
        return ToolFailed(
            f"{place.display_name} is a link that leads nowhere or changed just now. Use the path it leads to."
        )
    reason = error.strerror if isinstance(error, OSError) else "its name is not valid"
    return ToolFailed(f"{place.display_name} cannot be opened: {reason}.")


def _suggest_names(place: ConfinedPath) -> str:
    """Return the names in the folder that are most like this one: most mistakes of a model are misspellings."""
    try:
        with open_confined_folder(place, up=1) as folder:
            names = os.listdir(folder)[:2000]
    except OSError:
        return " Its folder does not exist, either; list shows what there is."
    near = get_close_matches(place.parts[-1], names, 3, 0.6) if place.parts else []
    return f" Did you mean {', '.join(near)}?" if near else " List shows what there is."


def read_file_stamp(file: int) -> FileStamp:
    status = os.fstat(file)
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)


def write_confined_file(place: ConfinedPath, data: bytes, *, expected_stamp: FileStamp | None = None) -> bool:
    """Replace the file atomically and keep its permissions. Return whether it is new.

    Nothing is written if the file no longer has `expected_stamp`.
    """
    try:
        with open_confined_folder(place, up=1, make=True) as folder:
            return _replace_file(place, folder, data, expected_stamp)
    except _PATH_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not valid"
        raise ToolFailed(f"{place.display_name} was not written: {reason}. The file is unchanged.") from error


def _replace_file(place: ConfinedPath, folder: int, data: bytes, expected: FileStamp | None) -> bool:
    name = place.parts[-1]
    old = _stat_entry(name, folder)
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise ToolFailed(f"{place.display_name} is not a plain file; nothing was written. Choose another name.")
    if expected is not None and (old is None or FileStamp(old.st_ino, old.st_size, old.st_mtime_ns) != expected):
        raise ToolFailed(
            f"{place.display_name} was changed by someone else just now; nothing was written. Read it again."
        )
    temporary = f".{secrets.token_hex(8)}.writing"
    try:
        with os.fdopen(os.open(temporary, _CREATE_FLAGS, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                os.fchmod(file.fileno(), old.st_mode & 0o777)
            sync_file(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        if _stat_entry(temporary, folder) is not None:
            os.unlink(temporary, dir_fd=folder)
        raise
    sync_file(folder)
    return old is None


def _stat_entry(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
