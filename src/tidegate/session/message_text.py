"""A message as recall shows it: its text, and the arguments of its calls as plain text.

JSON escapes line ends and quotes, so a text that an edit quoted could not be found in it word for word. Each such text
is shown below the call, unescaped and with its length, so that nothing in it can pass for the text after it.

    call edit {"path":"a.py","old":<1>,"count":1}
    <1> old, 27 characters:
    if name == "x":
        return y
"""

import json
from typing import Any, Final

from tidegate.core.messages import Compaction, Image, Message, Result, Thinking, calls_of, text_of
from tidegate.core.thinking_walk import seq_of_id

_STRICT: Final = json.JSONEncoder(ensure_ascii=False).encode
_SAFE: Final = json.JSONEncoder().encode


def render_message_text(message: Message) -> str:
    lines = [f"## {message.id} {message.role}\n"]
    text = text_of(message)
    if text:
        lines.append(f"{text}\n")
    lines += [f"call {call.name} {lay_out_arguments(call.arguments)}\n" for call in calls_of(message)]
    for part in message.parts:
        if isinstance(part, Compaction):
            lines.append(describe_compaction(message.id, part) + "\n")
        elif isinstance(part, Thinking) and part.text.strip():
            lines.append(f"thought, {len(part.text):,} characters:\n{part.text}\n")
    inner = [part for result in message.parts if isinstance(result, Result) for part in result.parts]
    images = [part.media for part in (*message.parts, *inner) if isinstance(part, Image)]
    return "\n".join(lines) + "\n" + "".join(f"({media})\n" for media in images)


def describe_compaction(ident: str, part: Compaction) -> str:
    """A compaction by the provider, for people and models: what it stands for is in the log."""
    last = int(ident[1:]) - 1 if ident[1:].isdecimal() else seq_of_id(part.horizon)
    range_name = f"m1..m{last}" if last > 0 else "the messages before it"
    says = f"; it says, {len(part.text):,} characters:\n{part.text}" if part.text else "; its text is encrypted"
    return f"[a compaction by the provider in place of {range_name}, which the log has (recall {range_name}){says}]"


def lay_out_arguments(arguments: str) -> str:
    """Return the arguments of a call, with texts that JSON would escape below them. Invalid JSON is not changed."""
    if "\\" not in arguments:
        return arguments
    try:
        value = json.loads(
            arguments, object_pairs_hook=_Pairs, parse_int=_Token, parse_float=_Token, parse_constant=_Token
        )
        layout = _Layout()
        head = layout.write(value, "")
    except (ValueError, RecursionError):
        return arguments
    return "\n".join([head, *layout.texts])


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written: a key may occur in it twice."""


class _Token(str):
    """A number as it was written."""


class _Layout:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, value: Any, name: str) -> str:
        if isinstance(value, _Token):
            return str(value)
        if isinstance(value, _Pairs):
            inner = (f"{_quoted(key)}:{self.write(each, f'{name}.{key}' if name else key)}" for key, each in value)
            return f"{{{','.join(inner)}}}"
        if isinstance(value, list):
            return f"[{','.join(self.write(each, f'{name}[{place}]') for place, each in enumerate(value))}]"
        return self._text(value, name) if isinstance(value, str) else _STRICT(value)

    def _text(self, value: str, name: str) -> str:
        whole = _quoted(value)
        if "\\" not in whole or (not value.isascii() and not _is_encodable(value)):
            return whole
        mark = f"<{len(self.texts) + 1}>"
        label = " ".join(name.split())[:80] or "text"
        self.texts.append(f"{mark} {label}, {len(value):,} characters:\n{value}")
        return mark


def _quoted(text: str) -> str:
    return _STRICT(text) if text.isascii() or _is_encodable(text) else _SAFE(text)


def _is_encodable(text: str) -> bool:
    """Return whether a text can be shown unescaped: half a surrogate pair cannot be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
