"""Passages: the units that a search returns, and how they are stored in blocks of the index."""

import re
import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

SourceKind = Literal["note", "session"]

_MAX_PASSAGE_CHARS = 4_000
_SECTION = re.compile(r"^(?=#{1,6} )", re.MULTILINE)


class DamagedBlock(ValueError):
    """A block of the index that is not what was stored."""


BLOCK_DECODE_ERRORS = (DamagedBlock, zlib.error, UnicodeDecodeError, msgspec.MsgspecError)
"""Errors of a damaged block."""


class TextPiece(NamedTuple):
    """A text with its place: the line in a note, the seq in a log."""

    place: int
    text: str


class Passage(NamedTuple):
    kind: SourceKind
    name: str
    place: int
    text: str


class PassageSpan(msgspec.Struct, frozen=True, array_like=True):
    """A passage within its block, in characters."""

    place: int
    start: int
    size: int


def pack_text(text: str) -> bytes:
    return zlib.compress(text.encode())


def pack_spans(spans: list[PassageSpan]) -> bytes:
    return msgspec.msgpack.encode(spans)


def unpack_text(data: object) -> str:
    if not isinstance(data, bytes):
        raise DamagedBlock("a block is no block")
    return zlib.decompress(data).decode()


def unpack_spans(data: object) -> list[PassageSpan]:
    if not isinstance(data, bytes):
        raise DamagedBlock("a block is no block")
    return msgspec.msgpack.decode(data, type=list[PassageSpan])


def slice_passage(text: str, span: PassageSpan) -> str:
    return text[span.start : span.start + span.size]


def make_passage(kind: SourceKind, name: str, text: str, span: PassageSpan) -> Passage:
    """Check the types: SQLite stores any type in any column, so a flipped bit can turn a name into a number."""
    if not isinstance(name, str):
        raise DamagedBlock("a passage is no passage")
    return Passage(kind, name, span.place, slice_passage(text, span))


def split_text(piece: TextPiece, most: int = _MAX_PASSAGE_CHARS) -> Iterator[TextPiece]:
    """Split a long text into passages, at a line end or blank in the last quarter if there is one."""
    place, text = piece
    start = 0
    while len(text) - start > most:
        end = start + most
        cut = max(text.rfind("\n", end - most // 4, end), text.rfind(" ", end - most // 4, end))
        cut = end if cut < 0 else cut + 1
        yield TextPiece(place, text[start:cut])
        start = cut
    yield TextPiece(place, text[start:])


def split_sections(text: str) -> Iterator[TextPiece]:
    """Split a note at its headings; each piece has the line number of its start."""
    line = 1
    for section in _SECTION.split(text):
        for piece in split_text(TextPiece(line, section)):
            if piece.text.strip():
                yield TextPiece(line, piece.text)
            line += piece.text.count("\n")
