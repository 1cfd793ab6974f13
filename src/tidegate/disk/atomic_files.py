"""Bytes onto the disk: files written whole, folders that survive a power cut, turns between writers."""

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.core.errors import NotKept

TEMPORARY_SUFFIX = ".writing"
"""How the name of a file ends that is being written. One that is found when nobody writes is left of a crash."""

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def make_write_error(name: str, failure: OSError) -> NotKept:
    full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Make room on the disk." if full else "Look at the rights of the folder and its files."
    return NotKept(f"{name} was not written: {failure.strerror}.", remedy)


def sync_folder(folder: Path) -> None:
    """A name in a folder survives a power cut only when the folder itself was synced."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make_folder(folder: Path) -> None:
    """The folder, 0700, and what is missing above it. When this returns they survive a power cut."""
    try:
        if folder.is_dir():
            return
        if folder.parent != folder:
            make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        sync_folder(folder.parent)
    except OSError as failure:
        raise NotKept(f"The folder {folder.name} was not made: {failure.strerror}.", "Look at its place.") from failure


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put a file in place in one step, 0600: whoever reads sees the old one or the new one.

    `durable=False` is for what can be made again: it is as whole, but may be gone after a power cut.
    """
    name = ""
    try:
        make_folder(path.parent)
        file, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=TEMPORARY_SUFFIX, dir=path.parent)
        with os.fdopen(file, "wb") as opened:
            opened.write(data)
            opened.flush()
            if durable:
                os.fsync(opened.fileno())
        os.replace(name, path)
        if durable:
            sync_folder(path.parent)
    except OSError as failure:
        if name:
            Path(name).unlink(missing_ok=True)
        raise make_write_error(path.name, failure) from failure


def write_private(path: Path, data: bytes) -> None:
    """Write a file that the user named, 0600 if it is new. Also into a pipe or a device."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as file:
        file.write(data)


@contextmanager
def hold_lock(lock: Path, *, shared: bool = False, patience: float = 10.0) -> Iterator[None]:
    """One writer at a time (or many that share), over threads and processes. It ends with the process that holds it."""
    make_folder(lock.parent)
    try:
        opened = os.open(lock, _LOCK, 0o600)
    except OSError as failure:
        raise NotKept(f"The folder cannot be written: {failure.strerror}.", "Look at its rights.") from failure
    try:
        until = time.monotonic() + patience
        while not _locked(opened, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            if time.monotonic() > until:
                raise NotKept(f"Another writer has held the folder for {patience:.0f} s.", "End it and try again.")
            time.sleep(0.005)
        yield
    finally:
        os.close(opened)


def _locked(opened: int, how: int) -> bool:
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
