"""A folder of text files that are written atomically and cannot be outside the folder.

A file is replaced in one step: temporary file, fsync, rename, fsync of the folder. A reader sees the old file or the
new one. Our writers take turns by a lock. An editor takes no lock, so a file that changed while we were writing is read
again before it is replaced.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import (
    TEMPORARY_SUFFIX,
    hold_lock,
    make_folder,
    make_write_error,
    sync_file,
    sync_folder,
)

_MAX_NAME_PARTS = 4
_KIND_WORDS = {".md": "note"}
_LOCK = ".lock"
_TRIES = 5
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLAIN_KEY = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,79}").fullmatch

_TextChange = Callable[[str | None], str | None]
_SETTLE_SECONDS = 2.0
"""Seconds. A file modified more recently than this before it was read may change again without changing its stamp."""


class TextFolder(Protocol):
    """Text files by name: a folder on disk, or one that several hosts share. `root` is where files are on this host."""

    root: Path
    ending: str
    max_file: int

    def names(self) -> list[str]: ...

    def has(self, name: str = "") -> bool:
        """Whether there is this file; without a name, whether anything was ever written here. Cheap."""

    def list_stamps(self, now: float) -> dict[str, str]:
        """A stamp for each file, which changes with it; empty if it cannot be trusted."""

    def size(self, name: str = "") -> int: ...

    def read(self, name: str) -> str | None: ...

    def read_raw(self, name: str) -> bytes | None: ...

    def read_all(self) -> Iterator[tuple[str, str]]:
        """The name and text of every file. Files that cannot be read are left out."""

    def update(self, name: str, change: _TextChange) -> bool: ...

    def write(self, name: str, text: str) -> bool: ...

    def append(self, name: str, text: str) -> bool: ...

    def remove(self, name: str) -> bool: ...


def session_file_key(session: str) -> str:
    """A file name for a session: the session's name if it is a plain file name, else its letters and a hash.

    Two sessions never share a key: names with capitals are hashed, because some file systems ignore case, and `~` is in
    no plain name.
    """
    if _PLAIN_KEY(session):
        return session
    letters = "".join(char if char.isalnum() else "-" for char in session[:32].lower()).strip("-") or "session"
    return f"{letters}~{hashlib.sha256(session.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def safe_join(root: Path, name: str, ending: str = "") -> Path:
    """The real path of a file in the folder. BadInput if the name or a link would lead outside."""
    parts = name.split("/")
    check_file_name(name, ending)
    home = os.path.realpath(root)
    real = os.path.realpath(os.path.join(home, *parts))
    if os.path.commonpath([home, real]) != home or real == home:
        raise BadInput(f"{name!r} is a link that leads out of the folder.", "Put the file itself there.")
    return Path(real)


def check_file_name(name: str, ending: str = "") -> None:
    if not _is_name(name, ending):
        raise BadInput(
            f"{name[:80]!r} is not a name for a {_KIND_WORDS.get(ending, 'file')}.",
            f"Give a relative path{f' that ends in {ending}' if ending else ''}, of at most {_MAX_NAME_PARTS} parts,"
            " none of which begins with a dot.",
        )


def check_file_size(name: str, size: int, most: int, ending: str = "") -> None:
    if size > most:
        raise BadInput(
            f"{name} would have {size:,} bytes, more than {most:,}; nothing was written.",
            f"Move older parts of it to another {_KIND_WORDS.get(ending, 'file')}, or raise max_file.",
        )


def _is_name(name: str, ending: str) -> bool:
    parts = name.split("/")
    good = len(parts) <= _MAX_NAME_PARTS and all(map(_is_plain_part, parts)) and name.endswith(ending)
    return good and name.isprintable() and "\\" not in name


def _is_plain_part(part: str) -> bool:
    return bool(part.strip()) and not part.startswith(".") and len(part.encode("utf-8", "replace")) <= 200


@runtime_checkable
class CachedFolder(Protocol):
    """A folder whose files are elsewhere, with copies of them in `root`."""

    def refresh_cache(self) -> None:
        """Make the copies equal to the files."""


class Folder:
    """Text files below one folder. Nothing is made on disk before the first write. Files are 0600, folders 0700."""

    def __init__(self, root: Path | str, *, max_file: int, ending: str = "") -> None:
        """Only files whose names end with `ending` are listed and made. `max_file` is in bytes."""
        self.root = root if isinstance(root, Path) else Path(root)
        self.ending = ending
        self.max_file = max_file

    def names(self) -> list[str]:
        """The names of the files, sorted, without hidden files, other endings and links that lead outside."""
        return sorted(self._walk(""))

    def has(self, name: str = "") -> bool:
        """Whether there is this file; without a name, whether there is the folder. The name is not checked."""
        return os.path.lexists(f"{self.root}/{name}" if name else self.root)

    def list_stamps(self, now: float) -> dict[str, str]:
        """A stamp for each file, which changes with it; empty if it cannot be trusted.

        Two changes within one tick of the file system's clock look alike, so a file that has just changed has none.
        The stamp includes ctime because an editor can reset mtime.
        """
        return {name: self._make_stamp(name, now) for name in self.names()}

    def _make_stamp(self, name: str, now: float) -> str:
        try:
            status = os.stat(self.root / name)
        except OSError:
            return ""
        look = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return " ".join(map(str, look)) if now - status.st_ctime > _SETTLE_SECONDS else ""

    def size(self, name: str = "") -> int:
        """The size of a file in bytes, 0 if it does not exist; without a name, of all files."""
        paths = [safe_join(self.root, name, self.ending)] if name else [self.root / each for each in self._walk("")]
        return sum((_stamp(path) or (0, 0))[1] for path in paths)

    def _walk(self, prefix: str) -> Iterator[str]:
        try:
            entries = list(os.scandir(self.root / prefix))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failure:
            where = prefix or "The folder"
            raise BadInput(
                f"{where} cannot be read: {failure.strerror}.", f"Check the permissions of {self.root / prefix}."
            ) from failure
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                if name.count("/") + 2 <= _MAX_NAME_PARTS:
                    yield from self._walk(name + "/")
            elif entry.is_file() and _is_name(name, self.ending) and self._inside(entry, name):
                yield name

    def _inside(self, entry: os.DirEntry[str], name: str) -> bool:
        """Whether the file is inside the folder. Only a link can lead outside: linked folders are not walked."""
        if not entry.is_symlink():
            return True
        try:
            safe_join(self.root, name, self.ending)
        except BadInput:
            return False
        return True

    def read(self, name: str) -> str | None:
        """The text of a file, or None if it does not exist. Bytes that are not UTF-8 become U+FFFD."""
        data = self._read(safe_join(self.root, name, self.ending), name)
        return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")

    def read_raw(self, name: str) -> bytes | None:
        """The bytes of a file, or None if it does not exist."""
        return self._read(safe_join(self.root, name, self.ending), name)

    def read_all(self) -> Iterator[tuple[str, str]]:
        """The name and text of every file. Files that cannot be read are left out."""
        for name in self.names():
            with suppress(BadInput):
                text = self.read(name)
                if text is not None:
                    yield name, text

    def _read(self, path: Path, name: str) -> bytes | None:
        try:
            file = os.open(path, _OPEN)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as failure:
            raise BadInput(
                f"{name} cannot be opened: {failure.strerror}.", "Check that it is a plain file and its permissions."
            ) from failure
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise BadInput(f"{name} is not a file.", "Put a plain text file there.")
            if status.st_size > self.max_file:
                raise BadInput(
                    f"{name} has {status.st_size:,} bytes, more than {self.max_file:,}.",
                    "Divide it, or raise max_file.",
                )
            with open(file, "rb", closefd=False) as stream:
                return stream.read()
        finally:
            os.close(file)

    def update(self, name: str, change: _TextChange) -> bool:
        """Replace a file by `change(text)`; if that is None, leave it. True if the file was written."""
        with hold_lock(self.root / _LOCK):
            path = safe_join(self.root, name, self.ending)
            for _ in range(_TRIES):
                stamp = _stamp(path)
                data = self._read(path, name)
                # Bytes that are not UTF-8 come from an editor and are written back unchanged.
                new = change(None if data is None else data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
                if new is None:
                    return False
                encoded = new.encode("utf-8", "surrogateescape")
                self._check_size(name, len(encoded))
                if self._replace(path, encoded, stamp):
                    return True
        raise _make_in_use_error(name)

    def write(self, name: str, text: str) -> bool:
        """Write a file with this text. True if it was written, False if it had this text already."""
        data = text.encode("utf-8", "surrogateescape")
        self._check_size(name, len(data))
        with hold_lock(self.root / _LOCK):
            path = safe_join(self.root, name, self.ending)
            for _ in range(_TRIES):
                stamp = _stamp(path)
                if self._read(path, name) == data:
                    return False
                if self._replace(path, data, stamp):
                    return True
        raise _make_in_use_error(name)

    def append(self, name: str, text: str) -> bool:
        """Append a text to a file. True if something was written.

        The part of the text that the file already ends with is not written again. So a writer that does not know how
        far its last attempt came can repeat it, with the same text or a longer one.
        """
        data = text.encode("utf-8", "surrogateescape")
        with hold_lock(self.root / _LOCK):
            path = safe_join(self.root, name, self.ending)
            make_folder(path.parent)
            try:
                file = os.open(path, _APPEND, 0o600)
            except OSError as failure:
                raise make_write_error(name, failure) from failure
            try:
                return self._append(file, path, name, data)
            finally:
                os.close(file)

    def _append(self, file: int, path: Path, name: str, data: bytes) -> bool:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{name} is not a file.", "Put a plain text file there.")
        size = status.st_size
        tail = os.pread(file, max(1, len(data)), max(0, size - max(1, len(data))))
        there = find_overlap(tail, data)
        rest = data[there:]
        if not rest:
            return False
        if not there and tail and not tail.endswith(b"\n"):  # a line that a crash cut short, or that a person wrote
            rest = b"\n" + rest
        self._check_size(name, size + len(rest))
        try:
            with open(file, "ab", closefd=False) as stream:
                stream.write(rest)
            sync_file(file)
            if not size:
                sync_folder(path.parent)
        except OSError as failure:
            os.ftruncate(file, size)
            raise make_write_error(name, failure) from failure
        return True

    def _check_size(self, name: str, size: int) -> None:
        check_file_size(name, size, self.max_file, self.ending)

    def remove(self, name: str) -> bool:
        with hold_lock(self.root / _LOCK):
            path = safe_join(self.root, name, self.ending)
            try:
                path.unlink()
                sync_folder(path.parent)
            except FileNotFoundError:
                return False
            except OSError as failure:
                raise make_write_error(f"The removal of {name}", failure) from failure
            return True

    def _replace(self, path: Path, data: bytes, stamp: "_Stamp") -> bool:
        """False if the file changed since `seen`. If it fails, the old file stays and no temporary file is left."""
        temporary = self.root / TEMPORARY_SUFFIX
        try:
            make_folder(path.parent)
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, _MAKE, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                sync_file(file.fileno())
            if _stamp(path) != stamp:
                temporary.unlink()
                return False
            os.replace(temporary, path)
            sync_folder(path.parent)
        except OSError as failure:
            temporary.unlink(missing_ok=True)
            raise make_write_error(path.name, failure) from failure
        return True


_Stamp = tuple[int, int, int, int] | None


def _stamp(path: Path) -> _Stamp:
    """Values that change when the file does; None if it does not exist."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _make_in_use_error(name: str) -> NotKept:
    return NotKept(f"{name} is being changed by someone else.", "Close it in the editor and try again.")


def find_overlap(tail: bytes, data: bytes) -> int:
    """Return how many bytes of `data` are already at the end of a file, whose last bytes are `tail`.

    An overlap shorter than the first line counts as 0.
    """
    line = data[: data.find(b"\n") + 1] or data
    at = tail.find(line)
    for _ in range(_TRIES):
        if at < 0 or data.startswith(tail[at:]):
            break
        at = tail.find(line, at + 1)
    return len(tail) - at if at >= 0 and data.startswith(tail[at:]) else 0
