"""Shortening of prose, such as an answer with a plan or a verdict: at paragraphs, with the headings and lists around.

Blocks stay whole or leave whole. The beginning and the end come first, then the headings, which are the outline, then
blocks that conclude something, list items, other paragraphs, and code last.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

GAP: Final = "…"
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_HEADING: Final = re.compile(r"\s{0,3}(?:#{1,6} |\*\*[^*\n]{1,80}\*\*:?\s*$)")
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_TABLE: Final = re.compile(r"\s*\|")
_CONCLUDES: Final = re.compile(
    r"\b(?:root cause|conclusion|conclude|verdict|decision|decided|plan|phase|recommend|instead|because|remaining"
    r"|not (?:done|yet|in scope)|non-goals?|next|open|blocked|fail(?:s|ed|ing|ures?)?"
    r"|should|shall|want me to)\b|\?\s*$|^\W*(?:option )?[A-E1-9][).:]",
    re.I,
)
_FIRST, _LAST, _DEMAND, _CONCLUSION, _LIST_ITEM, _PARAGRAPH, _ROWS, _CODE = 8, 7, 6, 5, 4, 3, 2, 1
"""The order in which blocks stay. To see what another order leaves: `tidegate view` of a session with long answers."""

_DEMANDS: Final = re.compile(
    r"\b(?:must|never|may not|cannot|do not|required|recommend\w*|decided|root cause|verdict|instead)\b", re.I
)
_MUCH_TEXT: Final = 400  # characters: longer blocks come later than others of their rank
_OUTLINE_SHARE: Final = 0.3  # of the characters: the most that headings without their text take
_LEAST_PART: Final = 120  # characters: the least that is shown of a block that does not fit
_LEAST_WITH_OUTLINE: Final = 800  # characters: in less, headings without their text take the room of what concludes


class _Block(NamedTuple):
    text: str
    rank: int  # 0: a heading; -1: the mark of an earlier gap
    level: int = 0


def shorten_prose(text: str, chars: int) -> str:
    """At most about `chars` characters of a text, with a line `…` for each part that is left out."""
    if len(text) <= chars:
        return text
    blocks = list(_split_blocks(text))
    bodies = [number for number, block in enumerate(blocks) if block.rank > 0]
    ranks = {number: blocks[number].rank for number in bodies}
    if bodies:
        ranks[bodies[-1]] = _LAST
        ranks[bodies[0]] = _FIRST
    taken: set[int] = set()
    is_clipped = False
    left = chars
    outline = [number for number, block in enumerate(blocks) if block.rank == 0]
    has_outline = (
        chars >= _LEAST_WITH_OUTLINE
        and sum(len(blocks[number].text) + 3 for number in outline) <= chars * _OUTLINE_SHARE
    )
    for number in sorted(bodies, key=lambda each: (-ranks[each], len(blocks[each].text) // _MUCH_TEXT, each)):
        if has_outline and ranks[number] < _LAST:
            left -= sum(len(blocks[each].text) + 3 for each in outline if each not in taken)
            taken.update(outline)
        new = [each for each in (number, *_headings_of(blocks, number)) if each not in taken]
        cost = sum(len(blocks[each].text) + 3 for each in new)
        if cost <= left:
            taken.update(new)
            left -= cost
        elif number == bodies[0] and chars > 80:
            blocks[number] = _Block(_clip_sentence(blocks[number].text, chars), _FIRST)
            taken.add(number)
            left -= len(blocks[number].text)
        elif left >= _LEAST_PART and ranks[number] >= _CONCLUSION and not is_clipped:
            is_clipped = True
            rest = left - sum(len(blocks[each].text) + 3 for each in new[1:]) - 3
            if rest >= _LEAST_PART:
                blocks[number] = _Block(f"{_clip_sentence(blocks[number].text, rest)} {GAP}", ranks[number])
                taken.update(new)
                left = 0
    return _join_blocks(blocks, taken)


def _join_blocks(blocks: list[_Block], taken: set[int]) -> str:
    lines: list[str] = []
    last = -1
    for number in sorted(taken):
        if number > last + 1:
            lines.append(GAP)
        lines.append(blocks[number].text)
        last = number
    if last + 1 < len(blocks):
        lines.append(GAP)
    return "\n".join(lines)


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
        if block.rank == 0 and block.level < level:
            level = block.level
            yield at
        if level <= 1:
            return


def _make_block(lines: list[str], rank: int) -> Iterator[_Block]:
    """The block of these lines, which are taken from the list."""
    if not lines:
        return
    body = "\n".join(lines)
    lines.clear()
    if rank in (_PARAGRAPH, _LIST_ITEM):
        rank = _DEMAND if _DEMANDS.search(body) else _CONCLUSION if _CONCLUDES.search(body) else rank
    yield _Block(body, rank)


def _split_blocks(text: str) -> Iterator[_Block]:
    lines: list[str] = []
    rank = _PARAGRAPH
    in_fence = False
    for line in text.split("\n"):
        bare = line.strip()
        if in_fence or _FENCE.match(line):
            if not in_fence:
                yield from _make_block(lines, rank)
            lines.append(line)
            if in_fence and _FENCE.match(line):
                yield from _make_block(lines, _CODE)
                in_fence, rank = False, _PARAGRAPH
            else:
                in_fence, rank = True, _CODE
        elif bare in ("", GAP) or _HEADING.match(line):
            yield from _make_block(lines, rank)
            rank = _PARAGRAPH
            if bare == GAP:
                yield _Block(GAP, -1)
            elif bare:
                yield _Block(line, 0, len(bare) - len(bare.lstrip("#")) or 7)
        else:
            kind = _LIST_ITEM if _ITEM.match(line) else _ROWS if _TABLE.match(line) and rank != _ROWS else 0
            if kind:
                yield from _make_block(lines, rank)
                rank = kind
            lines.append(line)
    yield from _make_block(lines, rank)
