"""A store that keeps each session in a text file: `lines:///FOLDER`.

The first line has the name and the time of creation, every other line a record in base64. The store is meant to be
read, not to be fast: an append writes the whole file again.
"""

import base64
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidegate.store.memory import check_fork_request, check_session_name, session_not_found, stale_head_error
from tidegate.store.store import SessionInfo

_SUFFIX = ".lines"


class LineStore:
    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        check_session_name(session)
        with self._locked():
            lines = self._lines(session)
            if len(lines) != after:
                raise stale_head_error(session, after, len(lines))
            if records:
                self._write(session, [*lines, *map(base64.b64encode, records)])
        return after + len(records)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        lines = self._lines(session)
        if not lines:
            raise session_not_found(session)
        return map(base64.b64decode, lines[max(start, 1) - 1 :])

    def head(self, session: str) -> int:
        return len(self._lines(session))

    def sessions(self) -> list[SessionInfo]:
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            head, *lines = path.read_bytes().splitlines()
            name, created = json.loads(head)
            status = path.stat()
            found.append(SessionInfo(name, len(lines), created, status.st_mtime, status.st_size))
        return sorted(found, key=lambda info: -info.used)

    def fork(self, session: str, at: int, new: str) -> None:
        check_session_name(new)
        with self._locked():
            lines = self._lines(session)
            if not lines:
                raise session_not_found(session)
            check_fork_request(session, at, len(lines), new, bool(self._lines(new)))
            self._write(new, lines[:at])

    def delete(self, session: str, head: int | None = None) -> None:
        with self._locked():
            count = self.head(session)
            if not count:
                raise session_not_found(session)
            if head is not None and head != count:
                raise stale_head_error(session, head, count)
            self._path(session).unlink()

    def close(self) -> None:
        pass

    def _path(self, session: str) -> Path:
        digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest}{_SUFFIX}"

    def _lines(self, session: str) -> list[bytes]:
        try:
            return self._path(session).read_bytes().splitlines()[1:]
        except FileNotFoundError:
            return []

    def _write(self, session: str, lines: Sequence[bytes]) -> None:
        """Write the file beside the old one, sync it, and put it in its place."""
        path = self._path(session)
        now = self._clock()
        head = path.read_bytes().partition(b"\n")[0] if path.exists() else json.dumps([session, now]).encode()
        with open(path.with_suffix(".new"), "wb", opener=_open_private) as file:
            file.write(b"".join(line + b"\n" for line in (head, *lines)))
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".new").replace(path)
        os.utime(path, (now, now))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder / "lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def open_line_store(url: str, clock: Callable[[], float]) -> LineStore:
    return LineStore(Path(url.removeprefix("lines:///")), clock)
