"""The saved recall indices of sessions, one file each: `session/recall_index.py` says what is in them.

An index is derived data: it is written without fsync, and a file that is not whole (length and CRC-32) counts as none.
"""

import os
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Final

from isal import isal_zlib

from tidegate.core.errors import NotKept, TidegateError
from tidegate.datafolder.locks import SessionLocks
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, write_atomically
from tidegate.store.log import LogReader

_MAGIC: Final = f"tidegate recall 1 {sys.byteorder}\n".encode()
_SEAL: Final = struct.Struct(">QI")
_MAX_BYTES: Final = 256 * 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RecallFile:
    """The saved recall index of one session."""

    def __init__(self, path: Path, session: str, locks: SessionLocks, open_log: Callable[[], LogReader]) -> None:
        self._path = path
        self._session = session
        self._locks = locks
        self._open_log = open_log

    def read(self) -> bytes | None:
        """Return what was written last, None if there is nothing that can be read."""
        try:
            file = os.open(self._path, _READ)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
                return None
            data = os.read(file, status.st_size)
        except OSError:
            return None
        finally:
            os.close(file)
        start = len(_MAGIC) + _SEAL.size
        body = data[start:]
        return body if data[:start] == _MAGIC + _seal(body) else None

    def write(self, data: bytes, is_current: Callable[[LogReader], bool]) -> None:
        """Replace what is there, unless the session is being removed or rewritten. A failure is harmless."""
        with suppress(TidegateError), self._locks.hold(self._session):
            if is_current(self._open_log()):
                write_atomically(self._path, _MAGIC + _seal(data) + data, durable=False)

    def remove(self) -> None:
        """Remove the file of a session whose log is removed or rewritten, and unfinished files of killed writers."""
        folder, name = self._path.parent, self._path.name
        try:
            for path in (self._path, *folder.glob(f".{escape(name[:80])}.*{TEMPORARY_SUFFIX}")):
                path.unlink(missing_ok=True)
        except OSError as failure:
            cause = f"The recall index {name} was not removed: {failure.strerror}."
            raise NotKept(cause, "Check the permissions of its folder.") from failure


def is_recall_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)).startswith(b"tidegate recall")
    except OSError:
        return False


def _seal(body: bytes) -> bytes:
    return _SEAL.pack(len(body), isal_zlib.crc32(body))
