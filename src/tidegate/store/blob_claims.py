"""Which session needs which blobs: one file per session, one claim per line.

A claim is written and synced before its blob and before the record that refers to it. So the claims always include what
the logs refer to, and a blob without a claim can be removed. Each line has a checksum: a damaged claim must not look
like a claim for another blob, or the blob that it was for would be removed.
"""

import errno
import os
import re
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.disk.atomic_files import (
    hold_lock,
    make_folder,
    make_write_error,
    sync_file,
    sync_folder,
    write_atomically,
)
from tidegate.store.errors import DamagedData

_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,15}) ([0-9a-f]{8})").fullmatch
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LOCK_TIMEOUT_SECONDS = 60.0


class SessionClaims(NamedTuple):
    """The blobs a session claims with their sizes on disk, and how many lines could not be read.

    `end` is where the last line that counts ends.
    """

    sizes: dict[str, int]
    damaged_lines: int = 0
    valid_bytes: int = 0


def encode_claim(sha: str, size: int) -> bytes:
    claim = f"{sha} {size}"
    return f"{claim} {zlib.crc32(claim.encode()):08x}\n".encode()


def parse_claims(data: bytes) -> SessionClaims:
    """Drop the text after the last line end: it was cut by a power loss and never acknowledged."""
    end = data.rfind(b"\n") + 1
    sizes: dict[str, int] = {}
    damaged = 0
    for line in data[:end].splitlines():
        match = _LINE(line)
        if match and encode_claim(match[1].decode(), int(match[2])) == line + b"\n":
            sizes[match[1].decode()] = int(match[2])
        else:
            damaged += 1
    return SessionClaims(sizes, damaged, end)


class BlobClaims:
    """The claims of all sessions, by key. Callers of `put` and `remove` must hold the lock on the blobs."""

    def __init__(self, folder: Path, patience: float = LOCK_TIMEOUT_SECONDS) -> None:
        self.folder = folder
        self._patience = patience
        self._known: set[str] = set()

    def session_keys(self) -> list[str]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as failure:
            raise DamagedData(
                f"The claims cannot be read: {failure.strerror}.", "Check the permissions of the folder."
            ) from failure
        return sorted(name for name in names if not name.startswith("."))

    def read(self, key: str) -> SessionClaims:
        try:
            file = os.open(self.folder / key, _READ)
        except FileNotFoundError:
            return SessionClaims({})
        except OSError:  # a link, or not readable: its claims are not known
            return SessionClaims({}, damaged_lines=1)
        try:
            return (
                parse_claims(_read_file(file))
                if stat.S_ISREG(os.fstat(file).st_mode)
                else SessionClaims({}, damaged_lines=1)
            )
        finally:
            os.close(file)

    def add(self, key: str, sha: str, size: int, most: int) -> None:
        """Add a claim, durable on return. Refuse it if the blobs of the session would take more than `most` bytes."""
        make_folder(self.folder)
        with hold_lock(self.folder / ".lock", patience=self._patience):
            try:
                file = os.open(self.folder / key, _OPEN, 0o600)
                try:
                    self._add(file, key, sha, size, most)
                finally:
                    os.close(file)
            except OSError as failure:
                raise make_write_error(f"The claim of {key}", failure) from failure

    def _add(self, file: int, key: str, sha: str, size: int, most: int) -> None:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DamagedData(
                f"The claims of {key} are not a file.",
                "Remove it, then run `tidegate doctor --repair`, which rebuilds them.",
            )
        claimed = parse_claims(_read_file(file))
        total = sum(claimed.sizes.values())
        if sha not in claimed.sizes:
            if total + size > most:
                raise BadInput(
                    f"The session's large records take {total:,} bytes on disk; with {size:,} more it would be over"
                    f" {most:,}. Nothing was kept of this one.",
                    "Fork a shorter session, forget what is not needed, or raise max_session.",
                )
            os.ftruncate(file, claimed.valid_bytes)
            _append(file, encode_claim(sha, size), claimed.valid_bytes)
        if key not in self._known:  # the process that created the file may have crashed before its name was on disk
            sync_file(file)
            sync_folder(self.folder)
            self._known.add(key)

    def put(self, key: str, sizes: Mapping[str, int]) -> None:
        self._known.discard(key)
        write_atomically(self.folder / key, b"".join(encode_claim(sha, size) for sha, size in sorted(sizes.items())))

    def remove(self, key: str) -> None:
        self._known.discard(key)
        try:
            (self.folder / key).unlink()
            sync_folder(self.folder)
        except FileNotFoundError:
            return
        except OSError as failure:
            raise make_write_error(f"The claims of {key}", failure) from failure


def _read_file(file: int) -> bytes:
    with open(file, "rb", closefd=False) as stream:
        stream.seek(0)
        return stream.read()


def _append(file: int, line: bytes, end: int) -> None:
    """Write a line. If the write fails half way, the file is truncated to its old size."""
    try:
        if os.write(file, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync_file(file)
    except OSError:
        os.ftruncate(file, end)
        raise
