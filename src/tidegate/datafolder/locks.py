"""Locks that say which sessions of a data folder are open. The operating system drops them when a process ends.

All locks are in one file, `locks/open`: a session is one byte at a place derived from its name. So a process needs one
file descriptor for any number of open sessions. The locks belong to the open file (OFD locks), so two `SessionLocks` of
one process exclude each other, which ordinary POSIX locks do not. Within one the holders are counted. On a system
without OFD locks, each open session has its own file and descriptor.

With a shared store an exclusive lock is also taken there, for the length of the change, so that no other host makes
one. Sessions that other hosts have open are not locked: their next append finds that the head has moved.
"""

import fcntl
import hashlib
import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock

from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import make_folder, make_write_error
from tidegate.disk.folder import session_file_key
from tidegate.store.store import SharedStore

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, process
_HAS_OFD_LOCKS = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8


class SessionLocks:
    """Locks per session: shared by all processes that have it open, exclusive for one that removes or repairs it."""

    def __init__(self, folder: Path, shared: SharedStore | None = None) -> None:
        self._folder = folder
        self._shared = shared
        self._mutex = Lock()
        self._file: int | None = None  # open while something is locked
        self._holders: Counter[str] = Counter()
        self._exclusive: set[str] = set()
        self._single_files: dict[str, int] = {}

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Mark the session as in use. NotKept while it is being removed."""
        key = session_file_key(name)
        if not self._acquire(key, exclusive=False):
            raise _make_removed_error(name)
        try:
            if self._shared is not None and self._shared.is_session_locked(key):
                raise _make_removed_error(name)
            yield
        finally:
            self._release(key)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Keep everyone else from opening the session. BadInput if someone has it open."""
        with self.exclusive_key(session_file_key(name)) as acquired:
            if not acquired:
                raise BadInput(f"Session {name!r} is in use.", "Close it first, in every program that has it open.")
            yield

    @contextmanager
    def exclusive_key(self, key: str) -> Iterator[bool]:
        """As `exclusive`, for the session whose files have this key. Yields False if someone has it open."""
        if not self._acquire(key, exclusive=True):
            yield False
            return
        try:
            with nullcontext(True) if self._shared is None else self._shared.lock_session(key) as acquired:
                yield acquired
        finally:
            self._release(key)

    def is_in_use(self, name: str) -> bool:
        """Whether someone has the session open. This also works in a folder that cannot be written."""
        key = session_file_key(name)
        with self._mutex:
            if self._holders[key]:
                return True
            path = self._folder / ("open" if _HAS_OFD_LOCKS else key)
            try:
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                return False
        try:
            return _is_locked(file, key)
        finally:
            os.close(file)

    def _acquire(self, key: str, *, exclusive: bool) -> bool:
        with self._mutex:
            if key in self._exclusive or (exclusive and self._holders[key]):
                return False
            if not self._holders[key] and not self._lock(key, exclusive):
                return False
            self._holders[key] += 1
            if exclusive:
                self._exclusive.add(key)
            return True

    def _release(self, key: str) -> None:
        with self._mutex:
            self._exclusive.discard(key)
            self._holders[key] -= 1
            if self._holders[key]:
                return
            del self._holders[key]
            if key in self._single_files:
                os.close(self._single_files.pop(key))
            elif self._file is not None:
                if self._holders:
                    _set_byte(self._file, key, fcntl.F_UNLCK)
                else:
                    os.close(self._file)
                    self._file = None

    def _lock(self, key: str, exclusive: bool) -> bool:
        """Take the lock of the operating system. False if another process, or another folder object, excludes it."""
        try:
            if not _HAS_OFD_LOCKS:
                return self._lock_single_file(key, exclusive)
            fresh = self._file is None
            if self._file is None:
                self._file = self._open("open")
            locked = _set_byte(self._file, key, fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK)
            if not locked and fresh:
                os.close(self._file)
                self._file = None
        except OSError as failure:
            raise make_write_error("The lock of the session", failure) from failure
        return locked

    def _lock_single_file(self, key: str, exclusive: bool) -> bool:
        file = self._open(key)
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._single_files[key] = file
        return True

    def _open(self, name: str) -> int:
        path = self._folder / name
        try:
            return os.open(path, _OPEN, 0o600)
        except FileNotFoundError:
            make_folder(self._folder)
            return os.open(path, _OPEN, 0o600)


def _make_removed_error(name: str) -> NotKept:
    return NotKept(f"Session {name!r} is being removed.", "Try again in a moment.")


def _describe_byte(key: str, kind: int) -> bytes:
    """The byte of a session, as the system wants it. Two of a million sessions share one with a chance of 1e-7."""
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) >> 2
    return _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0)


def _set_byte(file: int, key: str, kind: int) -> bool:
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _describe_byte(key, kind))
    except (BlockingIOError, PermissionError):  # the two errors that POSIX allows for a lock that someone else has
        return False
    return True


def _is_locked(file: int, key: str) -> bool:
    if _HAS_OFD_LOCKS:
        answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _describe_byte(key, fcntl.F_WRLCK))
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
