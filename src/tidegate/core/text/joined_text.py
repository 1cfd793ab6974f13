"""Text without the places at which programs split a word: line ends, and the ends of strings that code concatenates.

A terminal wraps a long word, an editor indents what follows, a tool numbers or quotes the lines, and source code writes
`"one" + "two"`. A secret that was split in such a way is found in the joined text and masked in the original.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

KEY_CHARS: Final = r"[\w.+/=-]"
"""The characters of keys. Only between two of them a break is looked for."""

_BLANKS = r"(?:[ \t]|\\++t)*+"
_LINE_START = rf"{_BLANKS}(?:[0-9]{{1,6}}(?:[:|→-]|\t|\\++t|\ \ ){_BLANKS})?(?:(?:[>#+|*]|//|--){_BLANKS})?"
_LINE_END = r"(?:\\?\r?\n|(?:\\++r)?\\++n)"
_PLUS = r"""(?:[+&]|(?<=[ \t])[.]|[.](?=["']))?"""
_STRING_END = rf"""[ \t]*+{_PLUS}(?:\ _)?[ \t]*+(?:{_LINE_END}{_LINE_START})?{_PLUS}[ \t]*+[fFrRbBuU]?\\*+["'`]"""
_BREAK = re.compile(
    rf"""
    ["'`\\\r\n](?<={KEY_CHARS}.)  # one set first: most of a text is then skipped quickly
    (?:(?<=["'`]){_STRING_END}
      |(?<=\\)(?:\\*+["'`]{_STRING_END}|\r?\n{_LINE_START}|\\*+(?:r\\++)?n{_LINE_START})
      |(?<=\n){_LINE_START}
      |(?<=\r)\n{_LINE_START}
    )(?={KEY_CHARS})""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_CONCATENATION = re.compile(r"""[^+&.]*+[+&.].*["'`]\Z""", re.DOTALL)
_CONTINUED_LINE = re.compile(r"\\\r?\n")


_PENDING = re.compile(r"""(?:[\s"'`\\+&|>#*]|(?<=["'`\s])[._])++\Z""")
_LONGEST_BREAK: Final = 200
_LINE_NUMBER = re.compile(r"\n[ \t]*+[0-9]{1,6}[:|→-]?\Z")


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
        pieces, done = [], 0
        for each in breaks:
            pieces.append(original[done : each.start])
            done = each.end
        self.text = "".join([*pieces, original[done:]])
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
        breaks, removed = [], 0
        for each in self.breaks:
            if each.is_certain:
                breaks.append(each._replace(at=each.start - removed))
                removed += each.end - each.start
        return JoinedText(self.original, breaks)


def join_text(text: str) -> JoinedText:
    return JoinedText(text, [*_find_breaks(text)])


def _find_breaks(text: str) -> Iterator[Break]:
    removed = 0
    for found in _BREAK.finditer(text):
        start, end = found.span()
        is_string = _CONCATENATION.match(found[0]) is not None
        is_certain = is_string or _CONTINUED_LINE.match(found[0]) is not None
        yield Break(start, end, start - removed, is_certain, is_string)
        removed += end - start


def strip_pending_break(text: str) -> str:
    """The text without what may be the beginning of a break at its end."""
    for pattern in (_PENDING, _LINE_NUMBER, _PENDING):
        found = pattern.search(text, max(0, len(text) - _LONGEST_BREAK))
        text = text[: found.start()] if found is not None else text
    return text
