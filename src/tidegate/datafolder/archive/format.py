"""The format of an exported session: gzip with one JSON value per line.

    header     format, version, name, head, created
    event      one line each, as an array
    file       one line each: name and text
    end        the counts, and the SHA-256 of all lines before it

It is read as a stream and accepted only when its end was checked. Nothing unpacks more than its limit.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from functools import partial
from typing import IO, NamedTuple, TypeVar

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.event_check import find_impossible_value, is_possible_time
from tidegate.core.events import Event
from tidegate.core.messages import encode_into_bytes

ARCHIVE_FORMAT = "tidegate session"
ARCHIVE_VERSION = 1
_MAX_LINE_BYTES = 320 * 1024 * 1024
_MAX_ARCHIVE_BYTES = 16 * 1024 * 1024 * 1024


class ArchiveLimits(msgspec.Struct, frozen=True):
    """Bytes that an import may unpack: a small gzip file can contain a very large one."""

    line: int = _MAX_LINE_BYTES
    total: int = _MAX_ARCHIVE_BYTES


class ArchiveHeader(msgspec.Struct, frozen=True):
    format: str
    version: int
    name: str
    head: int
    created: float


class ArchiveFile(msgspec.Struct, frozen=True):
    file: str
    text: str


class ArchiveEnd(msgspec.Struct, frozen=True):
    events: int
    files: int
    masked: int
    sha256: str


ArchiveItem = ArchiveHeader | Event | ArchiveFile | ArchiveEnd
_T = TypeVar("_T")

_encode = partial(encode_into_bytes, msgspec.json.Encoder())


class ArchiveWriter:
    """Writes items into a gzip stream. The same session gives the same bytes."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._packed = stream
        self._sum = hashlib.sha256()

    def put(self, item: ArchiveHeader | Event | ArchiveFile) -> None:
        line = _encode(item) + b"\n"
        if len(line) > _MAX_LINE_BYTES:
            raise BadInput(
                f"A message or file takes {len(line):,} bytes, more than {_MAX_LINE_BYTES:,}.",
                "Forget it, then export again.",
            )
        self._sum.update(line)
        self._packed.write(line)

    def end(self, events: int, files: int, masked_secrets: int) -> None:
        self._packed.write(_encode(ArchiveEnd(events, files, masked_secrets, self._sum.hexdigest())) + b"\n")


def bad_archive(why: str, remedy: str = "Export the session again; nothing of this was kept.") -> BadInput:
    return BadInput(f"This export is not complete: {why}.", remedy)


class _Line(NamedTuple):
    text: bytes
    sum: str


def _lines(file: IO[bytes], limits: ArchiveLimits) -> Iterator[_Line]:
    """Yield the lines, up to a limit, each with the SHA-256 of the lines before it."""
    file.seek(0)
    digest = hashlib.sha256()
    total = 0
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            while line := unpacked.readline(limits.line + 1):
                total += len(line)
                _check_size("a line", len(line), limits.line)
                _check_size("all of it", total, limits.total)
                if not line.endswith(b"\n"):
                    raise bad_archive("it ends in the middle of a line")
                yield _Line(line, digest.hexdigest())
                digest.update(line)
    except (OSError, EOFError, zlib.error) as failure:
        raise bad_archive(f"it cannot be unpacked ({failure})") from failure


def _check_size(what: str, size: int, most: int) -> None:
    if size > most:
        raise bad_archive(
            f"{what} is larger than {most:,} bytes", "If it is yours, raise the limits; nothing was kept."
        )


def read_archive(file: IO[bytes], limits: ArchiveLimits) -> Iterator[ArchiveItem]:
    """Yield the items of the file and check their order. If this ends without an error, the whole file is intact."""
    header: ArchiveHeader | None = None
    end: ArchiveEnd | None = None
    events = files = 0
    for line, digest in _lines(file, limits):
        if end is not None:
            raise bad_archive("there is data after its end")
        if header is None:
            header = _decode_header(line)
            yield header
        elif line.startswith(b"["):
            events += 1
            event = _decode_line(line, Event, f"record {events}")
            if files or event.seq != events:
                raise bad_archive(f"record {event.seq} is where record {events} should be, or after the files")
            if wrong := find_impossible_value(event):
                raise bad_archive(f"record {events}: {wrong}")
            yield event
        elif line.startswith(b'{"file"'):
            files += 1
            yield _decode_line(line, ArchiveFile, f"file {files}")
        else:
            end = _decode_line(line, ArchiveEnd, "its end")
            if (end.events, end.files, end.sha256, end.events) != (events, files, digest, header.head):
                raise bad_archive("its sum or its counts are not those of what it holds")
            yield end
    if end is None:
        raise bad_archive("its end is missing")


def _decode_header(line: bytes) -> ArchiveHeader:
    header = _decode_line(line, ArchiveHeader, "its header")
    if header.format != ARCHIVE_FORMAT:
        raise bad_archive("it does not begin as one", "Give the path of a file that `tidegate export` wrote.")
    if header.version > ARCHIVE_VERSION:
        raise bad_archive(
            f"it was written by a newer tidegate, in version {header.version} of the form; this one knows"
            f" {ARCHIVE_VERSION}",
            "Import it with that version or a newer one.",
        )
    if not is_possible_time(header.created):
        raise bad_archive(f"its header says that it was begun at {header.created:.6g}, not seconds since 1970")
    if header.version != ARCHIVE_VERSION or header.head < 1:
        raise bad_archive(f"there is no version {header.version} with {header.head} events")
    return header


def _decode_line(line: bytes, kind: type[_T], which: str) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as failure:
        raise bad_archive(f"{which} is not what it should be ({failure})") from failure
