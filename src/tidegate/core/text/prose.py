"""Shortening of prose, such as an answer with a plan or a verdict: at paragraphs, with the headings and lists around.

Blocks stay whole or leave whole. The beginning and the end come first, then the headings, which are the outline, then
blocks that conclude something, list items, other paragraphs, and code last.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

GAP: Final = "…"
_FENCE: Final = LazyPattern(r"\s*(?:```|~~~)")
_HEADING: Final = LazyPattern(r"\s{0,3}(?:#{1,6} |\*\*[^*\n]{1,80}\*\*:?\s*$)")
_ITEM: Final = LazyPattern(r"\s*(?:[-*+•]|(?:\*\*)?(?:\d{1,3}[.)]|[A-Ha-h]\)))\s")
_TABLE: Final = LazyPattern(r"\s*\|")
_CONCLUDES: Final = LazyPattern(
    r"\b(?:root cause|conclusion|conclude|verdict|decision|decided|plan|phase|recommend|instead|because|remaining"
    r"|not (?:done|yet|in scope)|non-goals?|next|open|blocked|fail(?:s|ed|ing|ures?)?|must|should|shall|want me"
    r" to)\b|\?\s*$|^\W*(?:option )?[A-E1-9][).:]",
    re.I,
)
_FIRST, _LAST, _CONCLUSION, _LIST_ITEM, _PARAGRAPH, _ROWS, _CODE = 7, 6, 5, 4, 3, 2, 1
"""The order in which blocks stay. To see what another order leaves: `tidegate view` of a session with long answers."""

_OUTLINE_SHARE: Final = 0.3  # of the characters: the most that headings without their text take


class _Block(NamedTuple):
    text: str
    rank: int  # 0: a heading
    level: int = 0


def shorten_prose(text: str, chars: int) -> str:
    """At most about `chars` characters of a text, with a line `…` for each part that is left out."""
    if len(text) <= chars:
        return text
    blocks = list(_split_blocks(text))
    bodies = [number for number, block in enumerate(blocks) if block.rank]
    ranks = {number: blocks[number].rank for number in bodies}
    if bodies:
        ranks |= dict.fromkeys(_find_options(blocks, bodies), _LAST)
        ranks[bodies[0]] = _FIRST
    places_to_keep: set[int] = set()
    left = chars
    outline = [number for number, block in enumerate(blocks) if not block.rank]
    has_outline = sum(len(blocks[number].text) + 3 for number in outline) <= chars * _OUTLINE_SHARE
    for number in sorted(bodies, key=lambda each: (-ranks[each], each)):
        if has_outline and ranks[number] < _LAST:
            left -= sum(len(blocks[each].text) + 3 for each in outline if each not in places_to_keep)
            places_to_keep.update(outline)
        new = [each for each in (number, *_headings_of(blocks, number)) if each not in places_to_keep]
        cost = sum(len(blocks[each].text) + 3 for each in new)
        if cost <= left:
            places_to_keep.update(new)
            left -= cost
        elif number == bodies[0] and chars > 80:
            end = sum(len(blocks[each].text) + 3 for each, rank in ranks.items() if rank == _LAST)
            blocks[number] = _Block(_clip_sentence(blocks[number].text, max(left - end, chars // 2)), _FIRST)
            places_to_keep.add(number)
            left -= len(blocks[number].text)
    lines: list[str] = []
    last = -1
    for number in sorted(places_to_keep):
        if number > last + 1:
            lines.append(GAP)
        lines.append(blocks[number].text)
        last = number
    if last + 1 < len(blocks):
        lines.append(GAP)
    return "\n".join(lines)


def _find_options(blocks: list[_Block], bodies: list[int]) -> Iterator[int]:
    """The last block, and if it asks something, the list above it: the next request says which item is chosen."""
    end = len(bodies) - 1
    yield bodies[end]
    if "?" not in blocks[bodies[end]].text:
        return
    end -= not _ITEM.match(blocks[bodies[end]].text)
    while end >= 0 and _ITEM.match(blocks[bodies[end]].text):
        yield bodies[end]
        end -= 1


def count_headings(text: str) -> int:
    return sum(_HEADING.match(line.removeprefix("  | ")) is not None for line in text.split("\n"))


def _clip_sentence(text: str, chars: int) -> str:
    """The beginning of a text up to the end of a sentence or a word."""
    head = text[:chars]
    end = max(head.rfind(". "), head.rfind(".\n"), head.rfind(": "))
    if end < chars // 2:
        end = head.rfind(" ")
    return head[: end + 1].rstrip() if end > 0 else head


def _headings_of(blocks: list[_Block], number: int) -> Iterator[int]:
    """The headings above a block, each of a higher level than the one before."""
    level = 99
    for at in range(number - 1, -1, -1):
        block = blocks[at]
        if not block.rank and block.level < level:
            level = block.level
            yield at
        if level <= 1:
            return


def _split_blocks(text: str) -> Iterator[_Block]:
    lines: list[str] = []
    rank = _PARAGRAPH

    def end() -> Iterator[_Block]:
        if lines:
            body = "\n".join(lines)
            concludes = rank in (_PARAGRAPH, _LIST_ITEM) and _CONCLUDES.search(body)
            yield _Block(body, _CONCLUSION if concludes else rank)
            lines.clear()

    in_fence = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            if not in_fence:
                yield from end()
                rank = _CODE
            lines.append(line)
            if in_fence:
                yield from end()
                rank = _PARAGRAPH
            in_fence = not in_fence
        elif in_fence:
            lines.append(line)
        elif not line.strip():
            yield from end()
            rank = _PARAGRAPH
        elif _HEADING.match(line):
            yield from end()
            marks = len(line.lstrip()) - len(line.lstrip().lstrip("#"))
            yield _Block(line, 0, marks or 7)
        elif _ITEM.match(line):
            yield from end()
            rank = _LIST_ITEM
            lines.append(line)
        elif _TABLE.match(line) and rank != _ROWS:
            yield from end()
            rank = _ROWS
            lines.append(line)
        else:
            lines.append(line)
    yield from end()
