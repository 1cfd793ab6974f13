"""Locks that say which sessions of a data folder are open. The operating system drops them when a process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import make_folder, make_write_error
from tidegate.disk.folder import session_file_key

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class SessionLocks:
    """One lock file per session: shared by all processes that have the session open, exclusive for processes that
    remove or repair it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Mark the session as in use. NotKept while it is being removed."""
        lock = self._lock(name, fcntl.LOCK_SH)
        if lock is None:
            raise NotKept(f"Session {name!r} is being removed.", "Try again in a moment.")
        try:
            yield
        finally:
            os.close(lock)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Keep everyone else from opening the session. BadInput if someone has it open."""
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is None:
            raise BadInput(f"Session {name!r} is in use.", "Close it first, in every program that has it open.")
        try:
            yield
        finally:
            os.close(lock)

    def is_in_use(self, name: str) -> bool:
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is not None:
            os.close(lock)
        return lock is None

    def _lock(self, name: str, kind: int) -> int | None:
        """The descriptor that holds the lock; None if someone else holds one that excludes it."""
        path = f"{self._folder}/{session_file_key(name)}"
        try:
            try:
                lock = os.open(path, _LOCK_FLAGS, 0o600)
            except FileNotFoundError:
                make_folder(self._folder)
                lock = os.open(path, _LOCK_FLAGS, 0o600)
        except OSError as failure:
            raise make_write_error("The lock of the session", failure) from failure
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock
