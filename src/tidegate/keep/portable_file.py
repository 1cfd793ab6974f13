"""The form of an exported session: gzip with one JSON value a line.

    header     format, version, name, head, created
    event      one line each, as an array
    file       one line each: name and text
    end        the counts, and the SHA-256 of all lines before it

It is read as a stream and believed only at its end. Whoever wrote it: nothing here unpacks more than it was allowed.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple, TypeVar

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import Event
from tidegate.core.impossible import find_impossible, is_time

FORMAT = "tidegate session"
VERSION = 1
MAX_LINE = 320 * 1024 * 1024
MAX_ALL = 16 * 1024 * 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What an import may unpack, in bytes: a small gzip file can hold a very large one."""

    line: int = MAX_LINE
    total: int = MAX_ALL


class Header(msgspec.Struct, frozen=True):
    format: str
    version: int
    name: str
    head: int
    created: float


class File(msgspec.Struct, frozen=True):
    file: str
    text: str


class End(msgspec.Struct, frozen=True):
    events: int
    files: int
    masked: int
    sha256: str


Item = Header | Event | File | End
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Writer:
    """Puts items into a gzip stream. The same session gives the same bytes."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._sum = hashlib.sha256()

    def put(self, item: Header | Event | File) -> None:
        line = _encode(item) + b"\n"
        if len(line) > MAX_LINE:
            raise BadInput(
                f"A message or file takes {len(line):,} bytes, more than {MAX_LINE:,}.", "Forget it, then export again."
            )
        self._sum.update(line)
        self._packed.write(line)

    def end(self, events: int, files: int, masked: int) -> None:
        self._packed.write(_encode(End(events, files, masked, self._sum.hexdigest())) + b"\n")


def bad(why: str, remedy: str = "Export the session again; nothing of this was kept.") -> BadInput:
    return BadInput(f"This is not a whole export: {why}.", remedy)


class _Line(NamedTuple):
    text: bytes
    sum: str


def _lines(file: IO[bytes], limits: Limits) -> Iterator[_Line]:
    """The lines, bounded, each with the SHA-256 of those before it."""
    file.seek(0)
    digest = hashlib.sha256()
    total = 0
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            while line := unpacked.readline(limits.line + 1):
                total += len(line)
                _bounded("a line", len(line), limits.line)
                _bounded("all of it", total, limits.total)
                if not line.endswith(b"\n"):
                    raise bad("it ends in the middle of a line")
                yield _Line(line, digest.hexdigest())
                digest.update(line)
    except (OSError, EOFError, zlib.error) as failure:
        raise bad(f"it cannot be unpacked ({failure})") from failure


def _bounded(what: str, size: int, most: int) -> None:
    if size > most:
        raise bad(f"{what} is larger than {most:,} bytes", "If it is yours, raise the limits; nothing was kept.")


def items(file: IO[bytes], limits: Limits) -> Iterator[Item]:
    """What the file holds, each proved to stand where it belongs. When this ends without an error, all is proved."""
    header: Header | None = None
    end: End | None = None
    events = files = 0
    for line, digest in _lines(file, limits):
        if end is not None:
            raise bad("something stands behind its end")
        if header is None:
            header = _header(line)
            yield header
        elif line.startswith(b"["):
            events += 1
            event = _decoded(line, Event, f"record {events}")
            if files or event.seq != events:
                raise bad(f"record {event.seq} stands where record {events} should, or behind the files")
            if wrong := find_impossible(event):
                raise bad(f"record {events}: {wrong}")
            yield event
        elif line.startswith(b'{"file"'):
            files += 1
            yield _decoded(line, File, f"file {files}")
        else:
            end = _decoded(line, End, "its end")
            if (end.events, end.files, end.sha256, end.events) != (events, files, digest, header.head):
                raise bad("its sum or its counts are not those of what it holds")
            yield end
    if end is None:
        raise bad("its end is missing")


def _header(line: bytes) -> Header:
    header = _decoded(line, Header, "its header")
    if header.format != FORMAT:
        raise bad("it does not begin as one", "Give the path of a file that `tidegate export` wrote.")
    if header.version > VERSION:
        raise bad(
            f"it was written by a newer tidegate, in version {header.version} of the form; this one knows {VERSION}",
            "Import it with that version or a newer one.",
        )
    if not is_time(header.created):
        raise bad(f"its header says that it was begun at {header.created:.6g}, not seconds since 1970")
    if header.version != VERSION or header.head < 1:
        raise bad(f"there is no version {header.version} with {header.head} events")
    return header


def _decoded(line: bytes, kind: type[T], which: str) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as failure:
        raise bad(f"{which} is not what it should be ({failure})") from failure
