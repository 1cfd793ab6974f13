"""The function, type, section or paragraph around a line of a text.

It reads indentation, closing brackets and headings, and knows no language. Numbers that a tool put before each line are
left out of account.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

_NUMBER: Final = LazyPattern(r"^\s*\d+(?:→|\t|\||:(?=\s|$)|\.(?=\s|$)|-(?=\s|$)) ?")
_NUMBER_SHARE: Final = 0.8  # of the lines: with as many numbers, a tool put them there
_HEADING: Final = LazyPattern(r"^(#{1,6})\s+\S")
_PROSE_FILE: Final = LazyPattern(r"\.(?:md|mdx|markdown|rst|txt|adoc)$", re.I)
_MODIFIERS: Final = (
    r"(?:export|default|public|private|protected|internal|static|async|abstract|final|override|inline|unsafe|extern"
    r"|declare|virtual|sealed|partial|pub(?:\([a-z ]+\))?)\s+"
)
_DEFINITION: Final = LazyPattern(
    rf"^\s*+(?:{_MODIFIERS})*+(?:"
    r"(?:const\s+enum|func|function\*?|def|class|interface|struct|enum|trait|impl|fn|module|namespace|object|record|type)\b"
    r"|(?:const|let|var|val)\s+\w+\s*(?::[^=]+)?=.*(?:=>|[({\[])\s*$"
    r"|(?:describe|it|test)(?:\.\w+)*\("
    r"|(?!(?:if|for|while|switch|catch|return|else|with|match|select|do|try)\b)[\w$<>\[\], *&:]*[\w$]+\s*\([^;]*\)"
    r"\s*(?::\s*[^;{=]+)?\{\s*$"
    r")"
)
_ABOVE: Final = LazyPattern(r"^\s*(?://|#(?!#* )|/\*|\*|@|\"\"\"|--\s)")
_CLOSER: Final = LazyPattern(r"^\s*(?:[)}\]>]|end\b|fi\b|done\b|esac\b)")
_GOES_ON: Final = LazyPattern(r"(?:[{(\[,:=]|=>|->)\s*$")
_MAX_ABOVE: Final = 12
_MAX_PARAGRAPH: Final = 40


class Block(NamedTuple):
    """The places of the first and the last line, counted from 0."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def find_block(lines: Sequence[str], at: int, file: str, most: int) -> Block:
    """The smallest function or type around a line, else the section or the paragraph; at most `most` lines of it."""
    plain = strip_line_numbers(lines)
    if _PROSE_FILE.search(file) or not file:
        block = _find_section(plain, at)
        if block is not None and (block.size <= most or _HEADING.match(plain[at])):
            return _limit(block, at, most)
    header = _find_header(plain, at)
    block = Block(_find_top(plain, header), _find_end(plain, header)) if header is not None else None
    if block is None or block.last < at:
        block = _find_paragraph(plain, at)
    return _limit(block, at, most)


def is_definition(line: str) -> bool:
    return _DEFINITION.match(line) is not None


def is_definition_block(lines: Sequence[str], block: Block) -> bool:
    """Whether a block has a definition in its first lines."""
    plain = strip_line_numbers(lines)
    return any(map(is_definition, plain[block.first : min(block.last, block.first + _MAX_ABOVE) + 1]))


def strip_line_numbers(lines: Sequence[str]) -> list[str]:
    """The lines without the numbers that a tool put before each of them."""
    numbers = sum(_NUMBER.match(line) is not None for line in lines)
    if not lines or numbers < len(lines) * _NUMBER_SHARE:
        return list(lines)
    return [_NUMBER.sub("", line, count=1) for line in lines]


def _limit(block: Block, at: int, most: int) -> Block:
    """The block, or as much of it as may be: its beginning if the line is there, else the lines around the line."""
    if block.size <= most:
        return block
    first = block.first if at < block.first + most else max(block.first, at - most // 2)
    return Block(first, min(block.last, first + most - 1))


def _indent(line: str) -> int:
    text = line.expandtabs(4)
    return len(text) - len(text.lstrip())


def _find_section(plain: Sequence[str], at: int) -> Block | None:
    """The lines under the nearest heading, up to the next one of its level or above."""
    headings = {place: len(match[1]) for place, line in enumerate(plain) if (match := _HEADING.match(line))}
    first = max((place for place in headings if place <= at), default=None)
    if first is None:
        return None
    ends = [place for place, level in headings.items() if place > first and level <= headings[first]]
    return Block(first, _trim(plain, first, min(ends, default=len(plain)) - 1))


def _find_header(plain: Sequence[str], at: int) -> int | None:
    """The line that begins the definition around this one."""
    if is_definition(plain[at]):
        return at
    if _ABOVE.match(plain[at]):
        below = next((n for n in range(at, min(at + _MAX_ABOVE, len(plain))) if not _ABOVE.match(plain[n])), None)
        if below is not None and is_definition(plain[below]):
            return below
    level = _indent(plain[at]) + (1 if _CLOSER.match(plain[at]) else 0)
    for place in range(at - 1, -1, -1):
        line = plain[place]
        if not line.strip() or _indent(line) >= level:
            continue
        if is_definition(line):
            return place
        level = _indent(line) + (1 if _CLOSER.match(line) else 0)
    return None


def _find_top(plain: Sequence[str], header: int) -> int:
    """The first of the comments and decorators directly above a definition."""
    first = header
    while first > 0 and header - first < _MAX_ABOVE and _ABOVE.match(plain[first - 1]):
        if _indent(plain[first - 1]) < _indent(plain[header]):
            break
        first -= 1
    return first


def _find_end(plain: Sequence[str], header: int) -> int:
    level = _indent(plain[header])
    for place in range(header + 1, len(plain)):
        line = plain[place]
        if not line.strip() or _indent(line) > level:
            continue
        if _CLOSER.match(line) and _indent(line) == level:
            if _GOES_ON.search(line):
                continue
            return place
        if line.strip() == "{":
            continue
        return _trim(plain, header, place - 1)
    return _trim(plain, header, len(plain) - 1)


def _find_paragraph(plain: Sequence[str], at: int) -> Block:
    """The lines without an empty one between them, not far from this one."""
    first = last = at
    while first > 0 and plain[first - 1].strip() and at - first < _MAX_PARAGRAPH // 2:
        first -= 1
    while last + 1 < len(plain) and plain[last + 1].strip() and last - at < _MAX_PARAGRAPH // 2:
        last += 1
    return Block(first, last)


def _trim(plain: Sequence[str], first: int, last: int) -> int:
    while last > first and not plain[last].strip():
        last -= 1
    return last
