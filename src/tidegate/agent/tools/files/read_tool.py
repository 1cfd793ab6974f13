"""The tool `read`: a part of a text file with line numbers, and how to read the rest."""

import asyncio
import base64
import os
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from tidegate.agent.tools.files.paths import (
    ConfinedPath,
    is_also_session_file,
    open_confined_file,
    resolve_read_path,
)
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolFailed, ToolResult
from tidegate.core.tokens.image_size import UNKNOWN_SIZE, read_image_size

_MAX_LINES = 2000
_MAX_LINE_CHARS = 2000
"""Characters shown of one line; `char` reads further parts of it."""
_MAX_TEXT_BYTES = 60_000
"""Bytes of lines in one result. It is less than the limit of a result, so that the note about the rest fits in."""
_MAX_SCANNED_BYTES = 256 << 20
"""Bytes that one call reads at most."""
_CHUNK_BYTES = 1 << 16
_IMAGE_SIGNATURES = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"RIFF": "WebP"}


class ReadArguments(msgspec.Struct):
    path: str
    offset: Annotated[int, Meta(ge=1, description="first line, from 1")] = 1
    limit: Annotated[int, Meta(ge=1, description="lines")] = _MAX_LINES
    char: Annotated[int, Meta(ge=0, description="of one long line: first character, from 0")] = 0


async def _run_read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
    place = resolve_read_path(context, arguments.path)
    return await asyncio.to_thread(_read_text, arguments, place, is_also_session_file(context, place, arguments.path))


def _read_text(arguments: ReadArguments, place: ConfinedPath, twice: bool) -> ToolResult:
    with open_confined_file(place) as file, open(file, "rb", closefd=False) as stream:
        size = os.fstat(file).st_size
        head = stream.read(8192)
        refuse_binary_file(place, head, size)
        stream.seek(0)
        text = (
            _format_line_part(arguments, stream, place)
            if arguments.char
            else _format_lines(arguments, stream, place, size)
        )
    return ToolResult(
        text + (f"\n[the session has a file by this name, too: session:{arguments.path}]" if twice else "")
    )


def refuse_binary_file(place: ConfinedPath, head: bytes, size: int) -> None:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ToolFailed(
            f"{place.display_name} is text in UTF-16, {size:,} bytes. Convert it to UTF-8 first, as with iconv."
        )
    picture = next((kind for magic, kind in _IMAGE_SIGNATURES.items() if head.startswith(magic)), "")
    size_in_pixels = read_image_size(base64.b64encode(head).decode()) if picture else UNKNOWN_SIZE
    if picture and (b"\0" in head or size_in_pixels != UNKNOWN_SIZE):  # a text may begin with these bytes, too
        pixels = "" if size_in_pixels == UNKNOWN_SIZE else f", {size_in_pixels.width} x {size_in_pixels.height} pixels"
        raise ToolFailed(
            f"{place.display_name} is a picture: {picture}{pixels}, {size:,} bytes. Its content is not text."
        )
    if b"\0" in head:
        raise ToolFailed(f"{place.display_name} is binary, {size:,} bytes. Look at it with a program made for it.")


class _Line(msgspec.Struct, frozen=True):
    """The beginning of a line without its line end; `size` is the number of bytes of the whole line."""

    data: bytes
    size: int


def _iterate_lines(stream: BinaryIO) -> Iterator[_Line]:
    """Yield lines of any length, of which only the beginning is kept in memory."""
    while piece := stream.readline(_CHUNK_BYTES):
        data, size = piece, len(piece)
        while not piece.endswith(b"\n") and (piece := stream.readline(_CHUNK_BYTES)):
            size += len(piece)
        yield _Line(data.rstrip(b"\r\n"), size)


def _format_lines(arguments: ReadArguments, stream: BinaryIO, place: ConfinedPath, size: int) -> str:
    numbered_lines: list[str] = []
    room, bytes_before, number, odd = _MAX_TEXT_BYTES, 0, 0, False
    for number, line in enumerate(_iterate_lines(stream), 1):
        bytes_before += line.size
        if number < arguments.offset:
            if bytes_before > _MAX_SCANNED_BYTES:
                raise ToolFailed(
                    f"Line {arguments.offset:,} is beyond the first {_MAX_SCANNED_BYTES >> 20} MB. Use a program."
                )
            continue
        text = _format_line(number, line)
        room -= len(text.encode("utf-8", "replace")) + 1
        if len(numbered_lines) == arguments.limit or (room < 0 and numbered_lines):
            note = f"{_describe_length(stream, number, size)}; go on with offset {number}"
            return "\n".join([*numbered_lines, f"[lines {arguments.offset:,}-{number - 1:,} of {note}]"])
        odd = odd or "\ufffd" in text
        numbered_lines.append(text)
    if not numbered_lines:
        lines = f"{number:,} lines, none at {arguments.offset:,}" if number else "empty"
        return f"[{place.display_name}: {lines}]"
    return "\n".join(numbered_lines) + ("\n[bytes that are not UTF-8 are shown as \ufffd]" if odd else "")


def _format_line(number: int, line: _Line) -> str:
    text = line.data.decode("utf-8", "replace")
    if len(text) <= _MAX_LINE_CHARS:
        return f"{number}\t{text}"
    more = f"[the line has {line.size:,} bytes: offset {number}, char {_MAX_LINE_CHARS} goes on]"
    return f"{number}\t{text[:_MAX_LINE_CHARS]} {more}"


def _describe_length(stream: BinaryIO, count: int, size: int) -> str:
    """Return the number of lines, or the size in bytes of a file that is too large to count them."""
    if size > _MAX_SCANNED_BYTES // 8:
        return f"a file of {size:,} bytes"
    return f"{count + sum(1 for _ in _iterate_lines(stream)):,}"


def _format_line_part(arguments: ReadArguments, stream: BinaryIO, place: ConfinedPath) -> str:
    """Return a part of one long line, so that the output of a tool in one line can be read to its end."""
    lines = _iterate_lines(stream)
    for _ in range(arguments.offset - 1):
        if stream.tell() > _MAX_SCANNED_BYTES or next(lines, None) is None:
            return f"[{place.display_name} has no line {arguments.offset:,} in its first {_MAX_SCANNED_BYTES >> 20} MB]"
    text = stream.readline(_MAX_SCANNED_BYTES).decode("utf-8", "replace").rstrip("\r\n")
    room = _MAX_TEXT_BYTES // 4  # a character has up to four bytes
    part, end = text[arguments.char : arguments.char + room], min(len(text), arguments.char + room)
    rest = f"; go on with offset {arguments.offset}, char {end}" if end < len(text) else ""
    start = min(arguments.char, len(text))
    return f"{part}\n[characters {start:,}-{end:,} of {len(text):,} in line {arguments.offset}{rest}]"


READ_TOOL = FunctionTool("read", "Read a text file, lines numbered. Large files: in parts.", ReadArguments, _run_read)
