"""Shortening of a message to some of its lines. The lines are verbatim, and a pointer names the id to recall."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from tidegate.core.messages import (
    Call,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    common_mark,
    mark_text,
    result_of,
    text_of,
)
from tidegate.core.sweep.key_lines import GAP_MARK, KeyLine
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.json_shrink import dump_json, shrink_json
from tidegate.core.text.tool_calls import (
    MAX_ARGUMENT_DEPTH,
    MAX_ARGUMENT_ENTRIES,
    is_content_argument,
    parse_call_arguments,
)

_ARGUMENT_CHARS: Final = 400  # characters of the arguments apart from kept lines
_TEXT_CHARS: Final = 160
_HEAD_CHARS: Final = 40
_LINES_NOTICE: Final = re.compile(r"\[\d+ of ([\d,]+) lines; recall ")


class LineSlot(msgspec.Struct, frozen=True, gc=False):
    """The text that lines are from: the result of a message, or the n-th long argument of one of its calls."""

    ident: str
    call: str = ""
    place: int = -1


def clip_message(message: Message, chars: int) -> tuple[Part, ...]:
    """The first `chars` characters of a message and a recall pointer."""
    text, mark = text_of(message), common_mark(message.parts)
    if len(text) <= chars:
        return (mark_text(text, mark),)
    head = clip_chars(text, chars, mode="head", notice="").text
    return (mark_text(f"{head}\n[{len(text):,} characters; recall {message.id} has all of it]", mark),)


def shorten_result(message: Message, lines: Sequence[KeyLine], name: str, tokens: int) -> tuple[Part, ...]:
    """A result with these lines only; without lines, a stub that says which result it was."""
    result = result_of(message)
    if result is None:
        return message.parts
    text = text_of(message)
    if lines:
        before = _LINES_NOTICE.match(text)
        of = before[1] if before else f"{text.count(chr(10)) + 1:,}"
        notice = f"[{len(lines)} of {of} lines; recall {message.id} has all of it]"
        return (Result(result.call_id, (Text(f"{notice}\n{_join_key_lines(lines)}"),), result.error),)
    notice = f"[cleared: result of {name[:40]}, {tokens:,} tokens; recall {message.id}]"
    return (Result(result.call_id, (Text(notice),), result.error),)


def _join_key_lines(lines: Sequence[KeyLine]) -> str:
    """The lines in order, with a mark where lines are missing."""
    texts: list[str] = []
    last = -1
    for line in sorted(lines, key=lambda line: line.place):
        if last >= 0 and line.place > last + 1:
            texts.append(GAP_MARK)
        texts.append(line.text)
        last = line.place
    return "\n".join(texts)


def shorten_caller(message: Message, chosen: Mapping[LineSlot, Sequence[KeyLine]]) -> tuple[Part, ...]:
    """An assistant message without thinking, with clipped text and short arguments that are still valid JSON."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Thinking):
            continue
        if isinstance(part, Call):
            part = Call(part.id, part.name, _shorten_arguments(part, message.id, chosen))
        elif isinstance(part, Text):
            part = Text(clip_chars(part.text, _TEXT_CHARS, notice=f" …[recall {message.id}]… ").text)
        parts.append(part)
    return tuple(parts)


def _shorten_arguments(call: Call, ident: str, chosen: Mapping[LineSlot, Sequence[KeyLine]]) -> str:
    arguments = parse_call_arguments(call)
    if not isinstance(arguments, dict):
        return shrink_json(call.arguments, _ARGUMENT_CHARS)
    shortener = _ArgumentShortener(ident, call.id, chosen)
    text = dump_json(shortener.short(arguments))
    if len(text) >= len(call.arguments):
        return call.arguments
    limit = _ARGUMENT_CHARS + 2 * shortener.kept
    return text if len(text) <= limit else shrink_json(text, limit)


class _ArgumentShortener:
    """Replaces the long texts of arguments by their chosen lines, in the order of `CallTarget.texts`."""

    def __init__(self, ident: str, call: str, chosen: Mapping[LineSlot, Sequence[KeyLine]]) -> None:
        self._ident, self._call, self._chosen = ident, call, chosen
        self._place = -1
        self.kept = 0

    def short(self, value: Any, depth: int = 0) -> Any:
        if depth > MAX_ARGUMENT_DEPTH:
            return value
        if isinstance(value, str):
            return self._text(value) if is_content_argument(value) else value
        if isinstance(value, dict):
            return {key: self.short(inner, depth + 1) for key, inner in islice(value.items(), MAX_ARGUMENT_ENTRIES)}
        if isinstance(value, list):
            return [self.short(inner, depth + 1) for inner in value[:MAX_ARGUMENT_ENTRIES]]
        return value

    def _text(self, value: str) -> str:
        self._place += 1
        text = _join_key_lines(self._chosen.get(LineSlot(self._ident, self._call, self._place), ()))
        self.kept += len(text)
        note = f"…[{len(value):,} chars; recall {self._ident}]"
        return f"{text}\n{note}" if text else value[:_HEAD_CHARS].partition("\n")[0] + note
