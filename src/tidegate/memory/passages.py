"""Passages: the pieces of text that are found, and how many of them stand together in a block of the index."""

import re
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

Kind = Literal["note", "session"]

PASSAGE = 4_000
_SECTION = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
DAMAGE = (zlib.error, UnicodeDecodeError, msgspec.MsgspecError)
"""What comes out of a block that is not as it was written."""


class Piece(NamedTuple):
    """A text with its place: the line of a note, the seq of a log."""

    place: int
    text: str


class Passage(NamedTuple):
    kind: Kind
    name: str
    place: int
    text: str


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A passage within its block, in characters."""

    place: int
    start: int
    size: int


def pack(text: str) -> bytes:
    return zlib.compress(text.encode())


def pack_spans(spans: list[Span]) -> bytes:
    return msgspec.msgpack.encode(spans)


def unpacked(data: object) -> str:
    if not isinstance(data, bytes):
        raise sqlite3.DatabaseError("a block is no block")
    return zlib.decompress(data).decode()


def unpacked_spans(data: object) -> list[Span]:
    if not isinstance(data, bytes):
        raise sqlite3.DatabaseError("a block is no block")
    return msgspec.msgpack.decode(data, type=list[Span])


def part_of(text: str, span: Span) -> str:
    return text[span.start : span.start + span.size]


def passage_of(kind: Kind, name: str, text: str, span: Span) -> Passage:
    """SQLite keeps any type in any column, so a flipped byte can make a number of a name."""
    if not isinstance(name, str):
        raise sqlite3.DatabaseError("a passage is no passage")
    return Passage(kind, name, span.place, part_of(text, span))


def divided(piece: Piece, most: int = PASSAGE) -> Iterator[Piece]:
    """A long text as passages, cut at the end of a line or at a blank if there is one in the last quarter."""
    place, text = piece
    start = 0
    while len(text) - start > most:
        end = start + most
        cut = max(text.rfind("\n", end - most // 4, end), text.rfind(" ", end - most // 4, end))
        cut = end if cut < 0 else cut + 1
        yield Piece(place, text[start:cut])
        start = cut
    yield Piece(place, text[start:])


def sections(text: str) -> Iterator[Piece]:
    """A note by its headings, each piece with the line it begins at."""
    line = 1
    for section in _SECTION.split(text):
        for piece in divided(Piece(line, section)):
            if piece.text.strip():
                yield Piece(line, piece.text)
            line += piece.text.count("\n")
