"""Passages: the units that a search returns, and how they are stored in blocks of the index."""

import zlib
from typing import Literal, NamedTuple

import msgspec

SourceKind = Literal["note", "session"]


class DamagedBlock(ValueError):
    """A block of the index that is not what was stored."""


BLOCK_DECODE_ERRORS = (DamagedBlock, zlib.error, UnicodeDecodeError, msgspec.MsgspecError)
"""Errors of a damaged block."""


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
        raise DamagedBlock("a block has another form")
    return zlib.decompress(data).decode()


def unpack_spans(data: object) -> list[PassageSpan]:
    if not isinstance(data, bytes):
        raise DamagedBlock("a block has another form")
    return msgspec.msgpack.decode(data, type=list[PassageSpan])


def slice_passage(text: str, span: PassageSpan) -> str:
    return text[span.start : span.start + span.size]


def make_passage(kind: SourceKind, name: str, text: str, span: PassageSpan) -> Passage:
    """Check the types: SQLite stores any type in any column, so a flipped bit can turn a name into a number."""
    if not isinstance(name, str):
        raise DamagedBlock("a passage has another form")
    return Passage(kind, name, span.place, slice_passage(text, span))
