"""How texts are split into passages, the units that an index ranks."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

_MAX_PASSAGE_CHARS = 4_000
_SECTION = LazyPattern(r"^(?=#{1,6} )", re.MULTILINE)


class TextPiece(NamedTuple):
    """A text with its place: the line in a note, the seq in a log."""

    place: int
    text: str


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
