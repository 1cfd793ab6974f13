"""Shortening of a message to some of its lines. The lines are verbatim, and a pointer names the id to recall."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from tidegate.core.messages import Message, Part, Result, Text, common_mark, mark_text, result_of, text_of
from tidegate.core.sweep.key_lines import GAP_MARK, clip_line, is_marker
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.facts import find_rule_sentences, is_refusal

_LINES_NOTICE: Final = re.compile(
    r"\[\d+ of ([\d,]+) lines; recall |RESULT TRUNCATED: showing [\d,]+ of ([\d,]+) lines"
)
_CLOSING_TAG: Final = re.compile(r"</[\w-]{1,60}>\s*\Z")
_RULES_READ_CHARS: Final = 200_000
_SHORT_RESULT: Final = 300  # characters: a result up to this length stays whole if its call stays
_LONGEST_REFUSAL: Final = 2_000
_LEAST_SAVING: Final = 120  # characters: with less left out, the mark would cost as much
_GAP_LINES: Final = 2  # a gap of so many lines, with so many characters, is filled
_GAP_CHARS: Final = 3


def clip_message(message: Message, chars: int) -> tuple[Part, ...]:
    """About `chars` characters of a message and a recall pointer: its beginning, and later sentences with a rule."""
    text, mark = text_of(message), common_mark(message.parts)
    if len(text) <= chars:
        return (mark_text(text, mark),)
    rules: list[str] = []
    left = chars // 2
    for rule in find_rule_sentences(text[left:], _RULES_READ_CHARS):
        left -= len(rule) + 1
        if left < 0:
            break
        rules.append(rule)
    head = clip_chars(text, chars - sum(len(rule) + 1 for rule in rules), mode="head", notice="").text
    later = [rule for rule in dict.fromkeys(rules) if rule not in head]
    end = _CLOSING_TAG.search(text)
    lines = [
        *([head, GAP_MARK, *later] if later else [head]),
        f"[{len(text):,} characters; recall {message.id} has all of it]",
    ]
    return (mark_text("\n".join([*lines, end[0].strip()] if end else lines), mark),)


def make_block_pointer(message: Message, tag: str) -> tuple[Part, ...]:
    """What stays of a block with this tag that a later one replaced."""
    text = f"<{tag}>\n[replaced by a later one; recall {message.id} has all of it]\n</{tag}>"
    return (mark_text(text, common_mark(message.parts)),)


def stays_whole(message: Message) -> bool:
    """Whether a result stays whole if its call stays: a stub of it would save next to nothing, or say the opposite."""
    text = text_of(message)
    return len(text) <= _SHORT_RESULT or (len(text) <= _LONGEST_REFUSAL and is_refusal(text))


def shorten_result(message: Message, places: Collection[int]) -> tuple[Part, ...]:
    """A result with the lines at these places only. The first line says how many of how many, and how to recall it."""
    result = result_of(message)
    if result is None:
        return message.parts
    texts = text_of(message).split("\n")
    before = next((found for line in texts if (found := _LINES_NOTICE.match(line))), None)
    of = (before[1] or before[2]) if before else f"{len(texts):,}"
    shown = [place for place in sorted(places) if not is_marker(texts[place])]
    omitted = sum(len(line) + 1 for line in texts) - sum(len(clip_line(texts[place])) + 1 for place in shown)
    if before is None and omitted <= _LEAST_SAVING:
        return message.parts
    lines: list[str] = []
    last = -1
    for place in _close_gaps(shown, texts):
        if lines and place > last + 1:
            lines.append(GAP_MARK)
        lines.append(clip_line(texts[place]))
        last = place
    shown_count = len(lines) - lines.count(GAP_MARK)
    notice = f"[{shown_count} of {of} lines; recall {message.id} has all of it]"
    return (Result(result.call_id, (Text("\n".join([notice, *lines])),), result.error),)


def _close_gaps(places: Sequence[int], texts: Sequence[str]) -> list[int]:
    """The places, with gaps of next to nothing between them filled: a mark would cost as much."""
    filled: list[int] = []
    for place in places:
        gap = range(filled[-1] + 1, place) if filled else range(0)
        if gap and len(gap) <= _GAP_LINES and sum(len(texts[each].strip()) for each in gap) <= _GAP_CHARS:
            filled += (each for each in gap if not is_marker(texts[each]))
        filled.append(place)
    return filled
