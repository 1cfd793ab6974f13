"""A message with only some of its lines: what is left is the original's own words, and says where the rest is."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tidegate.core.clip import clip_chars
from tidegate.core.keylines import GAP, KeyLine
from tidegate.core.messages import Call, Message, Part, Result, Text, Thinking, result_of, text_of
from tidegate.core.shrink import shrink_json
from tidegate.core.targets import arguments_of

LONG: Final = 200
"""An argument of more characters, or of several lines, is content: its lines are chosen. A shorter one says what was
done, and stays."""
_ARGUMENTS: Final = 400  # the rest of the arguments, in characters
_SAID: Final = 160
_TOLD: Final = re.compile(r"\[\d+ of ([\d,]+) lines; recall ")


class Slot(NamedTuple):
    """Where chosen lines stand: in the result of a message, or in the n-th long text of one of its calls."""

    ident: str
    call: str = ""
    place: int = -1


def clipped(message: Message, chars: int) -> tuple[Part, ...]:
    """The beginning of a message word for word, and where the rest is."""
    text = text_of(message)
    if len(text) <= chars:
        return (Text(text),)
    head = clip_chars(text, chars, mode="head", notice="").text
    return (Text(f"{head}\n[{len(text):,} characters; recall {message.id} has all of it]"),)


def lean_result(message: Message, lines: Sequence[KeyLine], name: str, tokens: int) -> tuple[Part, ...]:
    """A result with these lines only, or the stub that says what it was."""
    result = result_of(message)
    if result is None:
        return message.parts
    text = text_of(message)
    if lines:
        before = _TOLD.match(text)
        of = before[1] if before else f"{text.count(chr(10)) + 1:,}"
        told = f"[{len(lines)} of {of} lines; recall {message.id} has all of it]"
        return (Result(result.call_id, (Text(f"{told}\n{joined(lines)}"),), result.error),)
    told = f"[cleared: result of {name[:40]}, {tokens:,} tokens; recall {message.id}]"
    return (Result(result.call_id, (Text(told),), result.error),)


def joined(lines: Sequence[KeyLine]) -> str:
    """The lines in their order, a sign where some are missing."""
    texts: list[str] = []
    last = -1
    for line in sorted(lines, key=lambda line: line.place):
        if last >= 0 and line.place > last + 1:
            texts.append(GAP)
        texts.append(line.text)
        last = line.place
    return "\n".join(texts)


def lean_caller(message: Message, chosen: Mapping[Slot, Sequence[KeyLine]]) -> tuple[Part, ...]:
    """An assistant message without thinking, its text clipped, its arguments short and still valid."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Thinking):
            continue
        if isinstance(part, Call):
            part = Call(part.id, part.name, _lean_arguments(part, message.id, chosen))
        elif isinstance(part, Text):
            part = Text(clip_chars(part.text, _SAID, notice=f" …[recall {message.id}]… ").text)
        parts.append(part)
    return tuple(parts)


def _lean_arguments(call: Call, ident: str, chosen: Mapping[Slot, Sequence[KeyLine]]) -> str:
    arguments = arguments_of(call)
    if not isinstance(arguments, dict):
        return shrink_json(call.arguments, _ARGUMENTS)
    place = -1
    kept = 0

    def walk(value: Any, depth: int = 0) -> Any:
        nonlocal place, kept
        if depth > 6:
            return value
        if isinstance(value, str):
            if len(value) <= LONG and "\n" not in value:
                return value
            place += 1
            lines = chosen.get(Slot(ident, call.id, place), ())
            text = joined(lines)
            kept += len(text)
            note = f"…[{len(value):,} chars; recall {ident}]"
            return f"{text}\n{note}" if text else value[:40].split("\n")[0] + note
        if isinstance(value, dict):
            return {key: walk(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, depth + 1) for inner in value]
        return value

    text = json.dumps(walk(arguments), ensure_ascii=False, separators=(",", ":"))
    if len(text) >= len(call.arguments):
        return call.arguments
    return text if len(text) <= _ARGUMENTS + 2 * kept else shrink_json(text, _ARGUMENTS + 2 * kept)
