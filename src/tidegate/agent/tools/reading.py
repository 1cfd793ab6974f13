"""`read`: a text file a piece at a time, each line with its number, and always a way to the rest."""

import asyncio
import base64
import os
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from tidegate.agent.tools.places import Place, also_kept, find_place, opened_file
from tidegate.agent.tools.tool import Built, Context, Failed, ToolResult
from tidegate.core.images import UNKNOWN, dimensions

LINES = 2000
LINE = 2000
"""Characters shown of one line; `char` goes on inside it."""
ROOM = 60_000
"""Bytes of lines in one result, less than a result may have: the note about the rest must fit in, too."""
MOST = 256 << 20
"""Bytes that one call looks through."""
_PIECE = 1 << 16
_PICTURES = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"RIFF": "WebP"}


class Read(msgspec.Struct):
    path: str
    offset: Annotated[int, Meta(ge=1, description="first line, from 1")] = 1
    limit: Annotated[int, Meta(ge=1, description="lines")] = LINES
    char: Annotated[int, Meta(ge=0, description="of one long line: first character, from 0")] = 0


async def _read(asked: Read, context: Context) -> ToolResult:
    place = find_place(context, asked.path)
    return await asyncio.to_thread(_shown, asked, place, also_kept(context, place, asked.path))


def _shown(asked: Read, place: Place, twice: bool) -> ToolResult:
    with opened_file(place) as file, open(file, "rb", closefd=False) as opened:
        size = os.fstat(file).st_size
        head = opened.read(8192)
        refuse_binary(place, head, size)
        opened.seek(0)
        text = _one_line(asked, opened, place) if asked.char else _lines(asked, opened, place, size)
    return ToolResult(text + (f"\n[the session has a file by this name, too: session:{asked.path}]" if twice else ""))


def refuse_binary(place: Place, head: bytes, size: int) -> None:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Failed(f"{place.shown} is text in UTF-16, {size:,} bytes. Convert it to UTF-8 first, as with iconv.")
    picture = next((kind for magic, kind in _PICTURES.items() if head.startswith(magic)), "")
    found = dimensions(base64.b64encode(head).decode()) if picture else UNKNOWN
    if picture and (b"\0" in head or found != UNKNOWN):  # a text may begin with such letters, too
        pixels = "" if found == UNKNOWN else f", {found.width} x {found.height} pixels"
        raise Failed(f"{place.shown} is a picture: {picture}{pixels}, {size:,} bytes. Its content is not text.")
    if b"\0" in head:
        raise Failed(f"{place.shown} is binary, {size:,} bytes. Look at it with a program made for it.")


class _Line(msgspec.Struct, frozen=True):
    """A line without its end; `size` is how many bytes it really has."""

    data: bytes
    size: int


def _each(opened: BinaryIO) -> Iterator[_Line]:
    """Lines of any length, of which only the beginning is held."""
    while piece := opened.readline(_PIECE):
        data, size = piece, len(piece)
        while not piece.endswith(b"\n") and (piece := opened.readline(_PIECE)):
            size += len(piece)
        yield _Line(data.rstrip(b"\r\n"), size)


def _lines(asked: Read, opened: BinaryIO, place: Place, size: int) -> str:
    shown: list[str] = []
    room, passed, number, odd = ROOM, 0, 0, False
    for number, line in enumerate(_each(opened), 1):
        passed += line.size
        if number < asked.offset:
            if passed > MOST:
                raise Failed(f"Line {asked.offset:,} lies beyond the first {MOST >> 20} MB. Use a program.")
            continue
        text = _numbered(number, line)
        room -= len(text.encode("utf-8", "replace")) + 1
        if len(shown) == asked.limit or (room < 0 and shown):
            note = f"{_count(opened, number, size)}; go on with offset {number}"
            return "\n".join([*shown, f"[lines {asked.offset:,}-{number - 1:,} of {note}]"])
        odd = odd or "\ufffd" in text
        shown.append(text)
    if not shown:
        lines = f"{number:,} lines, none at {asked.offset:,}" if number else "empty"
        return f"[{place.shown}: {lines}]"
    return "\n".join(shown) + ("\n[bytes that are no UTF-8 are shown as \ufffd]" if odd else "")


def _numbered(number: int, line: _Line) -> str:
    text = line.data.decode("utf-8", "replace")
    if len(text) <= LINE:
        return f"{number}\t{text}"
    return f"{number}\t{text[:LINE]} [the line has {line.size:,} bytes: offset {number}, char {LINE} goes on]"


def _count(opened: BinaryIO, known: int, size: int) -> str:
    """How many lines there are, if that is quickly said."""
    if size > MOST // 8:
        return f"a file of {size:,} bytes"
    return f"{known + sum(1 for _ in _each(opened)):,}"


def _one_line(asked: Read, opened: BinaryIO, place: Place) -> str:
    """A part of one long line: what a tool wrote in one line must be readable to its end."""
    lines = _each(opened)
    for _ in range(asked.offset - 1):
        if opened.tell() > MOST or next(lines, None) is None:
            return f"[{place.shown} has no line {asked.offset:,} in its first {MOST >> 20} MB]"
    text = opened.readline(MOST).decode("utf-8", "replace").rstrip("\r\n")
    room = ROOM // 4  # a character has up to four bytes
    part, end = text[asked.char : asked.char + room], min(len(text), asked.char + room)
    rest = f"; go on with offset {asked.offset}, char {end}" if end < len(text) else ""
    return f"{part}\n[characters {min(asked.char, len(text)):,}-{end:,} of {len(text):,} in line {asked.offset}{rest}]"


READ = Built("read", "Read a text file, lines numbered. Large files: in parts.", Read, _read)
