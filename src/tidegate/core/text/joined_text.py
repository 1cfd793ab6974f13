"""Text without the places at which programs split a word: line ends, and the ends of strings that code concatenates.

A terminal wraps a long word, an editor indents what follows, a tool numbers or quotes the lines, and source code writes
`"one" + "two"`. `grep` puts the file's name before each line, and a table wraps its cells. Characters that nobody sees
can be anywhere. A secret that was split in such a way is found in the joined text and masked in the original.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

KEY_CHARS: Final = r"[\w.+/=-]"
"""The characters of keys. Only between two of them a break is looked for."""

_BLANKS = r"(?:[ \t\xa0]|\\++t)*+"
_LINE_START = rf"{_BLANKS}(?:[0-9]{{1,6}}(?:[:|→-]|\t|\\++t|\ \ ){_BLANKS})?(?:(?:[>#+|*]|//|--){_BLANKS})?"
_INVISIBLE = r"\u00ad\u200b-\u200d\u2060\ufeff"
_ODD_LINE_END = r"\f\v\x85\u2028\u2029"
_LINE_END = r"(?:\\?\r?\n|(?:\\++r)?\\++n)"
_PLUS = r"""(?:[+&]|(?<=[ \t])[.]|[.](?=["']))?"""
_BREAK_STARTS: Final = frozenset("\"'`\\\r\n\u00ad\u200b\u200c\u200d\u2060\ufeff\f\v\x85\u2028\u2029")
_STRING_END = rf"""[ \t]*+{_PLUS}(?:\ _)?[ \t]*+(?:{_LINE_END}{_LINE_START})?{_PLUS}[ \t]*+[fFrRbBuU]?\\*+["'`]"""
_BREAK: Final = LazyPattern(
    rf"""
    ["'`\\\r\n{_INVISIBLE}{_ODD_LINE_END}](?<={KEY_CHARS}.)  # one set first: most of a text is then skipped quickly
    (?:(?:(?<=["'`])|(?<=\\)\\*+["'`]){_STRING_END}
      |(?:(?<=\\)(?:\r?\n|\\*+(?:r\\++)?n)|(?<=[\n{_ODD_LINE_END}])|(?<=\r)\n){_LINE_START}
      |(?<=[{_INVISIBLE}])[{_INVISIBLE}]*+
    )(?={KEY_CHARS})""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_CONCATENATION = LazyPattern(r"""[^+&.]*+[+&.].*["'`]\Z""", re.DOTALL)
_CONTINUED_LINE = LazyPattern(rf"\\\r?\n|\\{{3}}(?:r\\)?n|[{_INVISIBLE}]")  # the second as JSON writes it
_PENDING = LazyPattern(rf"""(?:[\s"'`\\+&|>#*{_INVISIBLE}]|(?<=["'`\s])[._])++\Z""")
_QUOTES: Final = "\"'`"
_LONGEST_BREAK: Final = 200
_LINE = LazyPattern(r"\\?\r?\n|(?:\\++r)?\\++n")
_KEY_CHAR = LazyPattern(KEY_CHARS, re.ASCII)
_NUMBER_END = LazyPattern(r"[:-]?[0-9]*\Z")
_GREP_MARK = LazyPattern(r"[:-](?:([0-9]{1,6})[:-])?")
_CELL_SEPARATOR = LazyPattern(r"[|│┃║]")
_LONGEST_NAME: Final = 300
_MOST_CELLS: Final = 16
_WIDEST_PADDING: Final = 2
_LINE_NUMBER = LazyPattern(r"\n[ \t]*+[0-9]{1,6}[:|→-]?\Z")


class Break(NamedTuple):
    """What splits a word. `at` is where its parts meet in the joined text.

    `is_certain`: the parts are one text. `is_string`: one that ends where the second string does.
    """

    start: int
    end: int
    at: int
    is_certain: bool
    is_string: bool


class JoinedText:
    """`text` is the original without its breaks."""

    def __init__(self, original: str, breaks: list[Break]) -> None:
        self.original = original
        self.breaks = breaks
        pieces, end = [], 0
        for each in breaks:
            pieces.append(original[end : each.start])
            end = each.end
        self.text = "".join([*pieces, original[end:]])
        self._places = [each.at for each in breaks]
        self._ends = [each.end for each in breaks]

    def find_start(self, at: int) -> int:
        """Where the character at this place of the joined text is in the original."""
        number = bisect_right(self._places, at)
        return at + (self.breaks[number - 1].end - self.breaks[number - 1].at if number else 0)

    def find_end(self, at: int) -> int:
        """Where a piece that ends at this place of the joined text ends in the original."""
        return self.find_start(at - 1) + 1

    def find_place(self, at: int) -> int:
        """Where this place of the original is in the joined text."""
        number = bisect_right(self._ends, at)
        return at - (self.breaks[number - 1].end - self.breaks[number - 1].at if number else 0)

    def find_breaks(self, start: int, end: int, most: int = 1) -> list[Break]:
        """The first breaks between these places of the joined text."""
        first = bisect_right(self._places, start)
        return self.breaks[first : min(first + most, bisect_left(self._places, end))]

    def keep_certain(self) -> "JoinedText":
        """The text joined only where it is certain that the parts belong together."""
        breaks, shift = [], 0
        for each in self.breaks:
            if each.is_certain:
                breaks.append(each._replace(at=each.start - shift))
                shift += each.end - each.start
        return JoinedText(self.original, breaks)


def join_text(text: str) -> JoinedText:
    return JoinedText(text, [*_find_breaks(text)])


def _find_breaks(text: str) -> Iterator[Break]:
    if not any(start in text for start in _BREAK_STARTS):
        return
    shift = 0
    for match in _BREAK.finditer(text):
        start, end = match.span()
        split = match[0]
        is_string = split[-1] in _QUOTES and _CONCATENATION.match(split) is not None
        is_certain = is_string or (split[0] not in "\r\n" and _CONTINUED_LINE.match(split) is not None)
        yield Break(start, end, start - shift, is_certain, is_string)
        shift += end - start


# --- lists of lines and tables ----------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What a line or a cell holds, by its place in the text."""

    start: int
    end: int


def join_layouts(text: str) -> list[JoinedText]:
    """The text joined over the lines that `grep` prints of a file, and over the wrapped cells of each table column."""
    ends = [*(match.span() for match in _LINE.finditer(text)), (len(text), len(text))]
    lines = [_Piece(after, end) for (_, after), (end, _) in pairwise([(0, 0), *ends])]
    ways = [_join_pieces(text, _find_grep_pairs(text, lines))]
    cells = _find_cell_pairs(text, lines)
    ways += [_join_pieces(text, pairs) for pairs in cells.values()]
    return [way for way in ways if way.breaks]


def _join_pieces(text: str, pairs: list[tuple[_Piece, _Piece]]) -> JoinedText:
    """The text without what is between the pieces of each pair, if a key may go on there."""
    breaks, shift = [], 0
    for one, other in pairs:
        if one.start < one.end and _KEY_CHAR.match(text, one.end - 1) and _KEY_CHAR.match(text, other.start, other.end):
            breaks.append(Break(one.end, other.start, one.end - shift, False, False))
            shift += other.start - one.end
    return JoinedText(text, breaks)


def _find_grep_pairs(text: str, lines: list[_Piece]) -> list[tuple[_Piece, _Piece]]:
    """What follows `name:12:` and `name-13-` in adjacent lines, or `name:` and `name-` without numbers."""
    pairs = []
    for one, other in pairwise(lines):
        if text[one.start : one.start + 1] != text[other.start : other.start + 1]:
            continue
        first, second = text[one.start : one.end], text[other.start : other.end]
        name = _NUMBER_END.sub("", _find_common_start(first[:_LONGEST_NAME], second))
        marks = _GREP_MARK.match(first, len(name)), _GREP_MARK.match(second, len(name))
        if name and marks[0] and marks[1] and _are_adjacent(name, marks[0][1], marks[1][1]):
            pairs.append((_Piece(one.start + marks[0].end(), one.end), _Piece(other.start + marks[1].end(), other.end)))
    return pairs


def _find_common_start(one: str, other: str) -> str:
    places = zip(one, other, strict=False)
    return one[: next((at for at, (first, second) in enumerate(places) if first != second), min(len(one), len(other)))]


def _are_adjacent(name: str, one: str | None, other: str | None) -> bool:
    if one and other:
        return int(other) == int(one) + 1
    return one is other and ("." in name or "/" in name) and " " not in name


def _find_cell_pairs(text: str, lines: list[_Piece]) -> dict[int, list[tuple[_Piece, _Piece]]]:
    """By the number of a column: the cells in adjacent rows, where the first is full."""
    pairs: dict[int, list[tuple[_Piece, _Piece]]] = {}
    before: list[_Piece] = []
    for line in lines:
        cells = _split_cells(text, line)
        if len(cells) == len(before):
            for number, (one, other) in enumerate(zip(before, cells, strict=True)):
                cell = text[one.start : one.end]
                if len(cell) - len(cell.rstrip()) <= _WIDEST_PADDING:
                    pairs.setdefault(number, []).append((_strip(text, one), _strip(text, other)))
        before = cells
    return pairs


def _split_cells(text: str, line: _Piece) -> list[_Piece]:
    places = [each.start() for each in _CELL_SEPARATOR.finditer(text, line.start, line.end)]
    if not 1 <= len(places) <= _MOST_CELLS:
        return []
    return [
        _Piece(start, end)
        for start, end in zip([line.start, *(at + 1 for at in places)], [*places, line.end], strict=True)
    ]


def _strip(text: str, piece: _Piece) -> _Piece:
    content = text[piece.start : piece.end]
    return _Piece(piece.end - len(content.lstrip()), piece.start + len(content.rstrip()))


def strip_pending_break(text: str) -> str:
    """The text without what may be the beginning of a break at its end."""
    for pattern in (_PENDING, _LINE_NUMBER, _PENDING):
        match = pattern.search(text, max(0, len(text) - _LONGEST_BREAK))
        text = text[: match.start()] if match is not None else text
    return text
