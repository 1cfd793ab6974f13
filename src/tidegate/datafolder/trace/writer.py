"""Writes the trace of a session: its events as JSON lines, for people and scorers.

The trace is derived from the log and never read for a view, so nothing in it can reach a model. Every event of the log
gives at least one line with its seq; a gap is visible and is filled from the log at the next opportunity. Therefore
lines are not fsynced, and a trace that cannot be written never disturbs its session.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import NotKept, TidegateError
from tidegate.core.events import Event
from tidegate.datafolder.trace.lines import (
    ModelUsage,
    TextMask,
    TraceLine,
    decode_trace_line,
    encode_trace_line,
    make_trace_lines,
    mask_nothing,
    read_trace,
    sum_usage_by_model,
)
from tidegate.disk.atomic_files import make_folder, make_write_error, sync_file
from tidegate.store.log import Log

__all__ = ["ModelUsage", "Trace", "TraceLine", "make_trace_lines", "read_trace", "sum_usage_by_model"]

_BLOCK, _BATCH = 8_192, 1 << 20
_MAX_CALL_NAMES = 1_000


class _Tail(NamedTuple):
    """The last whole event of a file: up to where the file is good, and from where on it was read for that."""

    seq: int = 0
    time: float = 0.0
    end: int = 0
    start: int = 0


class Trace:
    """The file of one session: JSON lines, 0600. Used as the session's watcher.

    Several processes may have the session open: under a lock on the file, the first of them writes an event, and no
    other writes it again. `failure` describes why the last write failed; it is empty if it succeeded.
    """

    def __init__(
        self,
        path: Path | str,
        session: str = "",
        mask: TextMask = mask_nothing,
        *,
        patience: float = 2.0,
        interval: int = 1,
        content: bool = False,
    ) -> None:
        """`patience`: how many seconds a session waits for another process that is writing.

        `interval`: how many events are written at a time. Those that wait are written by `append_missing`. `content`:
        the lines have the text of messages, masked.
        """
        self.path = path if isinstance(path, Path) else Path(path)
        self.last_error = ""
        self._session = session.encode("utf-8", "replace").decode()  # a name may contain what JSON cannot represent
        self._mask, self._patience, self._interval, self._content = mask, patience, interval, content
        self._log: Log | None = None
        self._inode = 0
        self._size = -1
        self._tail = _Tail()
        self._call_names: dict[str, str] = {}
        self._unread_tail = _Tail()  # earlier lines may have names that are not known here

    def append_missing(self, log: Log) -> None:
        """Write the missing lines of this log. A trace of another log with the same name is started again."""
        self._log = log
        with self._record_errors(), self._locked_file() as file:
            if not self._belongs_to(file, log):
                self._truncate(file)
            self._write(file, log.read(self._tail.seq + 1))

    def __call__(self, event: Event) -> None:
        if 1 < event.seq < self._tail.seq + self._interval:
            return
        with self._record_errors(), self._locked_file() as file:
            if event.seq == 1 and self._tail.seq and _first_time(file) != event.time:
                self._truncate(file)
            if event.seq == self._tail.seq + 1 or self._log is None:
                self._write(file, [event] if event.seq > self._tail.seq else [])
            elif event.seq > self._tail.seq:
                self._write(file, self._log.read(self._tail.seq + 1))

    def rewrite(self, log: Log) -> None:
        """Write the whole trace again after `forget` changed the log.

        Unlike other writes of the trace this must not fail silently: it raises NotKept.
        """
        self._log = log
        with self._record_errors(), self._locked_file() as file:
            self._truncate(file)
            self._write(file, log.read())
            sync_file(file)  # forgotten content must not come back after a power loss
        if self.last_error:
            raise NotKept(
                f"The trace could not be made again: {self.last_error}", "Remove the file and open the session."
            )

    @contextmanager
    def _record_errors(self) -> Iterator[None]:
        """Record a failed write. The session continues, because the log has everything."""
        try:
            yield
        except OSError as failure:
            self.last_error = str(make_write_error(self.path.name, failure))
        except TidegateError as failure:
            self.last_error = str(failure)
        else:
            self.last_error = ""

    @contextmanager
    def _locked_file(self) -> Iterator[int]:
        """Open and lock the file, and read it to its end. It is open only during a write."""
        while True:
            file = self._open()
            try:
                self._lock(file)
                status = os.fstat(file)
                if not status.st_nlink:
                    continue  # it was removed meanwhile, and the lock is on nothing
                if (status.st_ino, status.st_size) != (self._inode, self._size):
                    self._read_tail(file, status.st_size)
                    self._inode = status.st_ino
                yield file
                return
            finally:
                os.close(file)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            make_folder(self.path.parent)
            return os.open(self.path, flags, 0o600)

    def _lock(self, file: int) -> None:
        """Wait for the lock for a limited time; after a timeout, do not wait again for a while."""
        until = time.monotonic() + (0.0 if self.last_error else self._patience)
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise NotKept(f"{self.path.name} is held by another process.", "It is completed later.") from None
                time.sleep(0.002)
            else:
                return

    def _read_tail(self, file: int, size: int) -> None:
        """Find the last complete event after another process wrote, or at the first look, and truncate the rest."""
        self._size = -1
        self._tail = _last_event(file, size)
        self._unread_tail = self._tail
        if self._call_names:  # what others wrote is newer
            self._call_names |= _read_call_names(file, self._unread_tail)
            self._unread_tail = _Tail()
        if self._tail.end < size:
            os.ftruncate(file, self._tail.end)
        self._size = self._tail.end

    def _belongs_to(self, file: int, log: Log) -> bool:
        """Return whether log and trace agree on an event.

        If others wrote meanwhile, the trace may be ahead of this log.
        """
        if not self._tail.seq:
            return True
        is_known = self._tail.seq <= log.head
        event = next(log.read(self._tail.seq if is_known else 1), None)
        return event is None or event.time == (self._tail.time if is_known else _first_time(file))

    def _truncate(self, file: int) -> None:
        self._size = -1
        os.ftruncate(file, 0)
        self._size, self._tail, self._unread_tail = 0, _Tail(), _Tail()
        self._call_names.clear()

    def _write(self, file: int, events: Iterable[Event]) -> None:
        waiting, last = bytearray(), None
        for last in events:
            waiting += self._encode_lines(file, last)
            if len(waiting) >= _BATCH:
                self._write_batch(file, waiting, last)
                waiting = bytearray()
        if last is not None and waiting:
            self._write_batch(file, waiting, last)

    def _write_batch(self, file: int, data: bytearray, last: Event) -> None:
        """Write all lines or none: a full disk may accept only half of a line."""
        size, self._size = self._size, -1
        if os.write(file, data) != len(data):
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size = size + len(data)
        self._tail = _Tail(last.seq, last.time, self._size)

    def _encode_lines(self, file: int, event: Event) -> bytes:
        lines = make_trace_lines(event, self._session, self._mask, content=self._content)
        for line in lines:
            if line.call is None:
                continue
            if line.name is None:
                line.name = self._call_names.get(line.call) or self._load_call_names(file).get(line.call)
            else:
                self._call_names[line.call] = line.name
        while len(self._call_names) > _MAX_CALL_NAMES:
            del self._call_names[next(iter(self._call_names))]
        return b"".join(encode_trace_line(line) for line in lines)

    def _load_call_names(self, file: int) -> dict[str, str]:
        """Read the tools of calls that were written earlier. Most sessions have no call that waits for its result."""
        if self._unread_tail.end:
            self._call_names = _read_call_names(file, self._unread_tail) | self._call_names
            self._unread_tail = _Tail()
        return self._call_names


def _read_call_names(file: int, tail: _Tail) -> dict[str, str]:
    """Return the tools of the newest calls."""
    data = os.pread(file, tail.end - tail.start, tail.start)
    lines = [decode_trace_line(line) for line in data.split(b"\n")]
    return {line.call: line.name for line in lines if line and line.event == "tool_call" and line.call and line.name}


def _last_event(file: int, size: int) -> _Tail:
    """Read the end of the file in a piece that is large enough; the time does not grow with the file."""
    block = _BLOCK
    while True:
        start = max(0, size - block)
        data = os.pread(file, size - start, start)
        first = data.find(b"\n") + 1 if start else 0
        end = data.rfind(b"\n") + 1
        while end > first:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            line = decode_trace_line(data[begin:end])
            if line is not None and not line.more:
                return _Tail(line.seq, line.time, start + end, start)
            end = begin
        if not start:
            return _Tail()
        block *= 8


def _first_time(file: int) -> float | None:
    line = decode_trace_line(os.pread(file, 8 * _BLOCK, 0).partition(b"\n")[0])
    return None if line is None else line.time
