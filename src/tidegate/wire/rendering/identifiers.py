"""Call ids and tool names that a provider accepts.

A provider limits the form of call ids and of tool names; those of another provider or harness may not fit, and may
repeat. A name that fits is kept, so that a history goes back to its provider unchanged. Any other is replaced by one
derived only from what it names, so that it is the same in every request and the prompt cache stays valid.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from tidegate.core.messages import Tool
from tidegate.wire.parsing import decode_object

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME_TAIL = 8


class IdentifierRules(msgspec.Struct, frozen=True):
    """The form of ids and tool names. `length` is that of ids we make; 62 ** 9 of them are enough."""

    id_pattern: re.Pattern[str]
    name_pattern: re.Pattern[str]
    id_length: int = 24


def _short_digest(text: str, length: int) -> str:
    """Return letters and digits, the first a letter, as some servers demand."""
    number = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=32).digest(), "big")
    number, first = divmod(number, 52)
    letters = [_DIGITS[10 + first]]
    for _ in range(length - 1):
        number, digit = divmod(number, 62)
        letters.append(_DIGITS[digit])
    return "".join(letters)


def assign_call_id(call_id: str, message_id: str, index: int, shape: IdentifierRules, taken_ids: set[str]) -> str:
    """Return the id of a call in this request and add it to `taken_ids`: no two calls of a request may share one."""
    candidate = call_id
    if candidate in taken_ids or not shape.id_pattern.fullmatch(candidate):
        source = f"{message_id}\0{index}\0{call_id}"
        candidate = _short_digest(source, shape.id_length)
        while candidate in taken_ids:
            source += "\0"
            candidate = _short_digest(source, shape.id_length)
    taken_ids.add(candidate)
    return candidate


def encode_tool_name(name: str, shape: IdentifierRules) -> str:
    """Return the tool's name in requests. It depends only on the name, so that definitions and calls agree."""
    if shape.name_pattern.fullmatch(name):
        return name
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[: 63 - _NAME_TAIL].strip("_") or "tool"
    if not readable[0].isalpha():
        readable = f"t_{readable}"[: 63 - _NAME_TAIL]
    return f"{readable}_{_short_digest(name, _NAME_TAIL)}"


def map_tool_names(tools: Iterable[Tool], shape: IdentifierRules) -> dict[str, str]:
    """Map the names in requests to the tools' own, for reading the calls of an answer."""
    return {encode_tool_name(tool.name, shape): tool.name for tool in tools}


class ToolDefinition(NamedTuple):
    """A tool as a provider accepts it."""

    name: str
    description: str
    schema: dict[str, object]


def define_tools(tools: Iterable[Tool], shape: IdentifierRules) -> list[ToolDefinition]:
    """Define each name once (the first wins; a provider refuses duplicates), each with an object as schema."""
    definitions: dict[str, ToolDefinition] = {}
    for tool in tools:
        name = encode_tool_name(tool.name, shape)
        schema = {"type": "object", **decode_object(tool.parameters)}
        definitions.setdefault(name, ToolDefinition(name, tool.description, schema))
    return list(definitions.values())
