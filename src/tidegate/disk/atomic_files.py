"""Durable files: atomic writes, folders that survive a power cut, and locks between writers."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.core.errors import NotKept

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The command of macOS that also empties the cache of the disk, which its fsync does not."""
TEMPORARY_SUFFIX = ".writing"
"""The suffix of a file that is being written. A file with it that no process is writing was left by a crash."""

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def make_write_error(name: str, failure: OSError) -> NotKept:
    full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Make room on the disk." if full else "Check the permissions of the folder and its files."
    return NotKept(f"{name} was not written: {failure.strerror}.", remedy)


def sync_file(file: int, full_sync: int | None = _FULL_SYNC) -> None:
    """Sync an open file, so that its content survives a power cut."""
    if full_sync is not None:
        try:
            fcntl.fcntl(file, full_sync)
            return
        except OSError:  # a file system without it, such as a network share
            pass
    os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder (0700) and its missing parents. When this returns, they survive a power cut."""
    try:
        if folder.is_dir():
            return
        if folder.parent != folder:
            make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        sync_folder(folder.parent)
    except OSError as failure:
        raise NotKept(
            f"The folder {folder.name} was not made: {failure.strerror}.", f"Check the permissions of {folder.parent}."
        ) from failure


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file (0600) in one step: a reader sees the old file or the new one.

    `durable=False` is for files that can be made again: after a power cut the new file may be missing.
    """
    name = ""
    try:
        make_folder(path.parent)
        temporary = path.with_name(f".{path.name[:80]}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
        file, name = os.open(temporary, _NEW_FILE, 0o600), str(temporary)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                sync_file(stream.fileno())
        os.replace(name, path)
        if durable:
            sync_folder(path.parent)
    except OSError as failure:
        if name:
            Path(name).unlink(missing_ok=True)
        raise make_write_error(path.name, failure) from failure


def write_private(path: Path, data: bytes) -> None:
    """Write a file that the user named, 0600 if it is new. It may be a pipe or a device."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@contextmanager
def hold_lock(lock: Path, *, shared: bool = False, patience: float = 10.0) -> Iterator[None]:
    """Hold a lock, alone or `shared`, among threads and processes. It is released when the process ends.

    NotKept if another writer holds it for more than `patience` seconds.
    """
    make_folder(lock.parent)
    try:
        descriptor = os.open(lock, _LOCK, 0o600)
    except OSError as failure:
        raise NotKept(
            f"The lock {lock.name} cannot be opened: {failure.strerror}.", f"Check the permissions of {lock.parent}."
        ) from failure
    try:
        until = time.monotonic() + patience
        while not _try_lock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            if time.monotonic() > until:
                raise NotKept(
                    f"Another process has held the lock {lock.name} for {patience:.0f} s.", "End it and try again."
                )
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
