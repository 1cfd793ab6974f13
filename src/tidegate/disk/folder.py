"""A folder of text files, confined and written whole.

A file is replaced in one step: a temporary file, fsync, rename, fsync of the folder. Whoever reads sees the old file
or the new one. Writers take turns by a lock; a person with an editor knows no lock, so a file that changed while we
were writing is read again before it is replaced.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.core.errors import BadInput, NotKept

DEEPEST = 4
KINDS = {".md": "note"}
_LOCK, _TEMPORARY = ".lock", ".writing"
_PATIENCE = 10.0
_TRIES = 5
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Change = Callable[[str | None], str | None]


def safe_join(root: Path, name: str, ending: str = "") -> Path:
    """The real path of a file of this name. It is inside the folder, whatever the name says and wherever links lead."""
    parts = name.split("/")
    good = len(parts) <= DEEPEST and all(_plain(part) for part in parts) and name.endswith(ending)
    if not good or not name.isprintable() or "\\" in name:
        raise BadInput(
            f"{name[:80]!r} is not a name for a {KINDS.get(ending, 'file')}.",
            f"Give a relative path{f' that ends in {ending}' if ending else ''}, of at most {DEEPEST} parts,"
            " none of which begins with a dot.",
        )
    home = os.path.realpath(root)
    real = os.path.realpath(os.path.join(home, *parts))
    if os.path.commonpath([home, real]) != home or real == home:
        raise BadInput(f"{name!r} is a link that leads out of the folder.", "Put the file itself there.")
    return Path(real)


def _plain(part: str) -> bool:
    return bool(part.strip()) and not part.startswith(".") and len(part.encode("utf-8", "replace")) <= 200


class Folder:
    """Nothing is made on disk before the first write. Files are 0600, folders 0700."""

    def __init__(self, root: Path | str, *, max_file: int, ending: str = "") -> None:
        """Files whose names do not end so are not seen and not made."""
        self.root = Path(root)
        self.ending = ending
        self.max_file = max_file

    def names(self) -> list[str]:
        """The files there are, sorted. Hidden files, other endings and links that lead out are not seen."""
        return sorted(self._walk(""))

    def _walk(self, prefix: str) -> Iterator[str]:
        try:
            entries = list(os.scandir(self.root / prefix))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failure:
            where = prefix or "The folder"
            raise BadInput(f"{where} cannot be read: {failure.strerror}.", "Look at its rights.") from failure
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                if name.count("/") + 2 <= DEEPEST:
                    yield from self._walk(name + "/")
            elif entry.is_file() and entry.name.endswith(self.ending):
                try:
                    safe_join(self.root, name, self.ending)
                except BadInput:
                    continue
                yield name

    def read(self, name: str) -> str | None:
        """The file as it is now, or None. What is not UTF-8 in it is shown as U+FFFD."""
        data = self._read(safe_join(self.root, name, self.ending), name)
        return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")

    def _read(self, path: Path, name: str) -> bytes | None:
        try:
            file = os.open(path, _OPEN)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as failure:
            raise BadInput(f"{name} cannot be opened: {failure.strerror}.", "Look at its rights and kind.") from failure
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise BadInput(f"{name} is not a file.", "Put a plain text file there.")
            if status.st_size > self.max_file:
                raise BadInput(
                    f"{name} has {status.st_size:,} bytes, more than {self.max_file:,}.",
                    "Divide it, or raise max_file.",
                )
            with open(file, "rb", closefd=False) as opened:
                return opened.read()
        finally:
            os.close(file)

    def update(self, name: str, change: Change) -> bool:
        """Replace a file by what `change` makes of its text; None from it leaves the file. True if it was written."""
        self._make(self.root)
        with self._turn():
            path = safe_join(self.root, name, self.ending)
            for _ in range(_TRIES):
                seen = _stamp(path)
                data = self._read(path, name)
                # Bytes that are no UTF-8 were put there by someone's editor: they go through unharmed.
                new = change(None if data is None else data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
                if new is None:
                    return False
                encoded = new.encode("utf-8", "surrogateescape")
                if len(encoded) > self.max_file:
                    raise BadInput(
                        f"{name} would have {len(encoded):,} bytes, more than {self.max_file:,}; nothing was written.",
                        "Move older parts of it to another note, or raise max_file.",
                    )
                if self._replace(path, encoded, seen):
                    return True
        raise NotKept(f"{name} is being changed by someone else.", "Close it in the editor and try again.")

    def remove(self, name: str) -> bool:
        with self._turn():
            path = safe_join(self.root, name, self.ending)
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            _sync(path.parent)
            return True

    def _replace(self, path: Path, data: bytes, seen: "_Stamp") -> bool:
        """False if the file changed since it was seen. On any failure the old file stands and nothing is left over."""
        temporary = self.root / _TEMPORARY
        try:
            self._make(path.parent)
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, _MAKE, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if _stamp(path) != seen:
                temporary.unlink()
                return False
            os.replace(temporary, path)
            _sync(path.parent)
        except OSError as failure:
            temporary.unlink(missing_ok=True)
            full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "Make room on the disk." if full else "Look at the rights of the folder and its files."
            raise NotKept(f"{path.name} was not written: {failure.strerror}.", remedy) from failure
        return True

    def _make(self, folder: Path) -> None:
        """The folder and what is missing above it, up to the root's own parents."""
        if folder.is_dir():
            return
        if folder not in (self.root, folder.parent):
            self._make(folder.parent)
        try:
            folder.mkdir(mode=0o700, parents=folder == self.root, exist_ok=True)
            folder.chmod(0o700)
            _sync(folder.parent)
        except OSError as failure:
            raise NotKept(
                f"The folder {folder.name} was not made: {failure.strerror}.", "Look at its place."
            ) from failure

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One writer at a time, over threads and processes. The lock goes with the process that holds it."""
        self._make(self.root)
        try:
            lock = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as failure:
            raise NotKept(f"The folder cannot be written: {failure.strerror}.", "Look at its rights.") from failure
        try:
            until = time.monotonic() + _PATIENCE
            while not _locked(lock):
                if time.monotonic() > until:
                    raise NotKept(f"Another writer has held the folder for {_PATIENCE:.0f} s.", "End it and try again.")
                time.sleep(0.005)
            yield
        finally:
            os.close(lock)


_Stamp = tuple[int, int, int, int] | None


def _stamp(path: Path) -> _Stamp:
    """What changes with a file's content."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
