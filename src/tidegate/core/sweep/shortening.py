"""Shortening of a message to some of its lines. The lines are verbatim, and a pointer names the id to recall."""

import re
from collections.abc import Collection
from typing import Final

from tidegate.core.messages import Message, Part, Result, Text, common_mark, mark_text, result_of, text_of
from tidegate.core.sweep.key_lines import GAP_MARK, is_marker
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.facts import find_rule_sentences

_LINES_NOTICE: Final = re.compile(
    r"\[\d+ of ([\d,]+) lines; recall |RESULT TRUNCATED: showing [\d,]+ of ([\d,]+) lines"
)
_RULES_READ_CHARS: Final = 200_000


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
    body = "\n".join([head, GAP_MARK, *later] if later else [head])
    return (mark_text(f"{body}\n[{len(text):,} characters; recall {message.id} has all of it]", mark),)


def shorten_result(message: Message, places: Collection[int]) -> tuple[Part, ...]:
    """A result with the lines at these places only. The first line says how many of how many, and how to recall it."""
    result = result_of(message)
    if result is None:
        return message.parts
    texts = text_of(message).split("\n")
    before = next((found for line in texts if (found := _LINES_NOTICE.match(line))), None)
    of = (before[1] or before[2]) if before else f"{len(texts):,}"
    shown = [place for place in sorted(places) if not is_marker(texts[place])]
    lines: list[str] = []
    last = -1
    for place in shown:
        if lines and place > last + 1:
            lines.append(GAP_MARK)
        lines.append(texts[place])
        last = place
    notice = f"[{len(shown)} of {of} lines; recall {message.id} has all of it]"
    return (Result(result.call_id, (Text("\n".join([notice, *lines])),), result.error),)
