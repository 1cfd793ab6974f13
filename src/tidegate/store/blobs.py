"""Large records, each in a file whose name is the SHA-256 of its content.

    blobs/aa/aa0f...        the content, compressed by zlib
    blobs/claims/<key>      which of them a session needs (`store/blob_claims.py`)

Equal content is stored once, for all sessions. Content is checked against its name when it is read. A file is put into
place completely or not at all, and only after its claim was written; it is removed only if no session claims it.
Limits: `max_blob` is the size of one content; `max_session` and `max_all` are bytes on disk.
"""

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput
from tidegate.disk.atomic_files import (
    TEMPORARY_SUFFIX,
    hold_lock,
    make_folder,
    make_write_error,
    sync_folder,
    write_atomically,
)
from tidegate.disk.folder import session_file_key
from tidegate.store.blob_claims import LOCK_TIMEOUT_SECONDS, BlobClaims
from tidegate.store.errors import DamagedData

_MAX_BLOB_BYTES = 256 << 20
_MAX_SESSION_BYTES = 4 << 30
_MAX_TOTAL_BYTES = 32 << 30
_COMPRESSION_LEVEL = 3
_RECOUNT_AFTER = 64
"""After this many new blobs the folder is measured again, because other processes write there, too."""

_SHA = re.compile(r"[0-9a-f]{64}").fullmatch
_SUBFOLDER = re.compile(r"[0-9a-f]{2}").fullmatch


class CollectedBlobs(msgspec.Struct, frozen=True):
    """The result of a collection: removed blobs without a claim, removed remains of crashes, and their bytes on
    disk.
    """

    count: int
    size: int


class Blobs:
    """Safe for threads and processes. Nothing is made on disk before the first `put`."""

    def __init__(
        self,
        folder: Path | str,
        *,
        max_blob: int = _MAX_BLOB_BYTES,
        max_session: int = _MAX_SESSION_BYTES,
        max_all: int = _MAX_TOTAL_BYTES,
        patience: float = LOCK_TIMEOUT_SECONDS,
        has_secret: Callable[[bytes], bool] = lambda data: False,
    ) -> None:
        """`patience` is how many seconds a call waits for others that are at work on the same folder.

        `has_secret` says whether data holds a secret and therefore must not be put into a blob.
        """
        self.folder = folder if isinstance(folder, Path) else Path(folder)
        self.max_blob, self.max_session, self.max_total = max_blob, max_session, max_all
        self.has_secret = has_secret
        self._patience = patience
        self._claims = BlobClaims(self.folder / "claims", patience)
        self._lock = self.folder / ".lock"
        self._size, self._added_since_count = 0, _RECOUNT_AFTER
        self._synced: set[Path] = set()

    # --- storing and reading --------------------------------------------------------------------------------------

    def check_size(self, data: bytes) -> None:
        """Raise BadInput if this is larger than a record may be."""
        if len(data) > self.max_blob:
            raise BadInput(
                f"The record has {len(data):,} bytes, more than {self.max_blob:,}. Nothing was kept of it.",
                "Divide it, or raise max_blob.",
            )

    def put(self, session: str, data: bytes) -> str:
        """Store content for a session and return its name. On return it survives a power loss."""
        self.check_size(data)
        sha = hashlib.sha256(data).hexdigest()
        body = zlib.compress(data, _COMPRESSION_LEVEL)
        make_folder(self.folder)
        with hold_lock(self._lock, shared=True, patience=self._patience):
            path = self._path(sha)
            there = self._is_intact(path, sha, body)
            if not there:
                self._check_room(len(body))
            self._claims.add(session_file_key(session), sha, len(body), self.max_session)
            if not there:
                write_atomically(path, body)
                self._size, self._added_since_count = self._size + len(body), self._added_since_count + 1
            self._sync_names(path.parent, is_new=not there)
        return sha

    def get(self, sha: str) -> bytes:
        """The content with this hash, checked. DamagedData if it is missing or differs from what was stored."""
        body = self._read(self._path(sha))
        if body is None:
            raise DamagedData(f"The blob {sha} is not there.", "Put it back from a copy of the data folder.")
        return self._unpack(sha, body)

    def _unpack(self, sha: str, body: bytes) -> bytes:
        # The unpacked size is limited: a few bytes may claim to be gigabytes.
        most = max(self.max_blob, _MAX_BLOB_BYTES)
        unpacking = zlib.decompressobj()
        try:
            data = unpacking.decompress(body, most + 1)
        except zlib.error as fault:
            raise _make_damage_error(sha, str(fault)) from fault
        if len(data) > most:
            raise _make_damage_error(sha, f"it unpacks to more than {most:,} bytes")
        if not unpacking.eof or unpacking.unused_data or hashlib.sha256(data).hexdigest() != sha:
            raise _make_damage_error(sha, "its content is not what its name says")
        return data

    def _path(self, sha: str) -> Path:
        if not _SHA(sha):
            raise BadInput(f"{sha[:80]!r} is not the name of a blob.", "It is a SHA-256 in 64 small hex digits.")
        shelf = self.folder / sha[:2]
        if shelf.is_symlink():
            raise DamagedData(f"The folder {shelf.name} of the blobs is a link.", "Put the folder itself there.")
        return shelf / sha

    def _read(self, path: Path) -> bytes | None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise _make_damage_error(path.name, f"it cannot be opened: {failure.strerror}") from failure
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise _make_damage_error(path.name, "it is not a file")
            with open(file, "rb", closefd=False) as stream:
                return stream.read()
        except OSError as failure:
            raise _make_damage_error(path.name, f"it cannot be read: {failure.strerror}") from failure
        finally:
            os.close(file)

    def _is_intact(self, path: Path, sha: str, body: bytes) -> bool:
        """Return whether the content is stored already and intact. If it is damaged, it is written again."""
        try:
            there = self._read(path)
            if there is None:
                return False
            if there != body:  # another zlib may have packed it
                self._unpack(sha, there)
        except DamagedData:
            return False
        return True

    def _sync_names(self, shelf: Path, *, is_new: bool) -> None:
        """Sync the folders of an existing blob: its writer may have crashed before the names were on disk."""
        try:
            if not is_new:
                sync_folder(shelf)
            if shelf not in self._synced:
                sync_folder(self.folder)
                self._synced.add(shelf)
        except OSError as failure:
            raise make_write_error("The blob", failure) from failure

    def _check_room(self, size: int) -> None:
        if self._added_since_count >= _RECOUNT_AFTER or self._size + size > self.max_total:
            self._size, self._added_since_count = sum(map(_size_of, self._files())), 0
        if self._size + size > self.max_total:
            raise BadInput(
                f"The large records of all sessions take {self._size:,} bytes on disk; with {size:,} more they would be"
                f" over {self.max_total:,}. Nothing was kept of this one.",
                "Remove sessions and collect what they leave, or raise max_all.",
            )

    # --- claims -------------------------------------------------------------------------------------------

    def claimed_by(self, session: str) -> frozenset[str]:
        """Return the claims of a session, which include every blob that its log refers to."""
        claimed = self._claims.read(session_file_key(session))
        if claimed.damaged_lines:
            raise _unreadable_claims(session_file_key(session), claimed.damaged_lines)
        return frozenset(claimed.sizes)

    def set_claims(self, session: str, shas: Iterable[str]) -> None:
        """Replace the claims of a session, before it is forked and after `forget`."""
        sizes = {sha: _size_of(self._path(sha)) for sha in shas}
        make_folder(self.folder)
        with hold_lock(self._lock, patience=self._patience):
            self._claims.put(session_file_key(session), sizes)

    def release(self, session: str) -> None:
        """Remove the claims of a deleted session."""
        if self.folder.is_dir():
            with hold_lock(self._lock, patience=self._patience):
                self._claims.remove(session_file_key(session))

    def collect(self) -> CollectedBlobs:
        """Remove blobs that no session claims. If a claim cannot be read, nothing is removed."""
        if not self.folder.is_dir():
            return CollectedBlobs(0, 0)
        with hold_lock(self._lock, patience=self._patience):
            claimed_hashes: set[str] = set()
            for key in self._claims.session_keys():
                claimed = self._claims.read(key)
                if claimed.damaged_lines:
                    raise _unreadable_claims(key, claimed.damaged_lines)
                claimed_hashes.update(claimed.sizes)
            return self._remove([path for path in self._files() if path.name not in claimed_hashes])

    def _remove(self, paths: list[Path]) -> CollectedBlobs:
        size = 0
        try:
            for path in paths:
                size += path.lstat().st_size
                path.unlink()
            for folder in {path.parent for path in paths}:
                sync_folder(folder)
        except OSError as failure:
            raise make_write_error("The removal of blobs", failure) from failure
        self._added_since_count = _RECOUNT_AFTER
        return CollectedBlobs(len(paths), size)

    def _files(self) -> Iterator[Path]:
        """List all blobs and the remains of crashes. Other files are ignored."""
        for shelf in _entries(self.folder):
            if shelf.is_dir(follow_symlinks=False) and (_SUBFOLDER(shelf.name) or shelf.name == "claims"):
                for entry in _entries(Path(shelf.path)):
                    blob = _SHA(entry.name) and entry.name.startswith(shelf.name)
                    left = entry.name.startswith(".") and entry.name.endswith(TEMPORARY_SUFFIX)
                    if (blob or left) and not entry.is_dir(follow_symlinks=False):
                        yield Path(entry.path)

    def find_faults(self) -> Iterator[str]:
        """Describe every fault: damaged blobs, and claims that cannot be read.

        A claim without a blob is not a fault, because a crash can happen between the two. Checking the log shows
        whether a blob is missing.
        """
        for path in self._files():
            if _SHA(path.name):
                try:
                    self.get(path.name)
                except DamagedData as fault:
                    if path.exists():  # else it was collected meanwhile
                        yield str(fault.args[0])
        for key in self._claims.session_keys():
            claimed = self._claims.read(key)
            if claimed.damaged_lines:
                yield str(_unreadable_claims(key, claimed.damaged_lines).args[0])


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as failure:
        raise DamagedData(
            f"The folder {folder.name} cannot be read: {failure.strerror}.", "Check its permissions."
        ) from failure


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # others write while we look
        return 0


def _make_damage_error(sha: str, why: str) -> DamagedData:
    return DamagedData(f"The blob {sha} is damaged: {why}.", "Put it back from a copy of the data folder.")


def _unreadable_claims(key: str, lines: int) -> DamagedData:
    return DamagedData(
        f"{lines} claims of session {key} on blobs cannot be read: no blob is removed.",
        "Run `tidegate doctor --repair`, which rebuilds them from the log.",
    )
