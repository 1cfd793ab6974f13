"""Names that a provider accepts.

A provider limits the shape of call ids and of tool names; what another provider or a harness made up may not fit, and
may repeat. A name that fits is kept, so that a history goes back to its provider as it came. Any other gets a name made
from what it names and nothing else, so that it is the same in every request: the prompt cache stays warm.
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
    """What ids and tool names must look like. `length` is that of an id of our own; 62 ** 9 of them are enough."""

    id_pattern: re.Pattern[str]
    name_pattern: re.Pattern[str]
    id_length: int = 24


def _short_digest(text: str, length: int) -> str:
    """Letters and digits, the first a letter: some servers ask for that."""
    number = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=32).digest(), "big")
    number, first = divmod(number, 52)
    letters = [_DIGITS[10 + first]]
    for _ in range(length - 1):
        number, digit = divmod(number, 62)
        letters.append(_DIGITS[digit])
    return "".join(letters)


def assign_call_id(call_id: str, message_id: str, index: int, shape: IdentifierRules, used: set[str]) -> str:
    """The id of a call in this request; it is taken in `used`, for no two calls of a request may share one."""
    found = call_id
    if found in used or not shape.id_pattern.fullmatch(found):
        source = f"{message_id}\0{index}\0{call_id}"
        found = _short_digest(source, shape.id_length)
        while found in used:
            source += "\0"
            found = _short_digest(source, shape.id_length)
    used.add(found)
    return found


def encode_tool_name(name: str, shape: IdentifierRules) -> str:
    """The name of a tool. It depends on nothing but the name: definitions and calls must agree."""
    if shape.name_pattern.fullmatch(name):
        return name
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[: 63 - _NAME_TAIL].strip("_") or "tool"
    if not readable[0].isalpha():
        readable = f"t_{readable}"[: 63 - _NAME_TAIL]
    return f"{readable}_{_short_digest(name, _NAME_TAIL)}"


def map_tool_names(tools: Iterable[Tool], shape: IdentifierRules) -> dict[str, str]:
    """From the name on the wire to the tool's own, for reading the calls of an answer."""
    return {encode_tool_name(tool.name, shape): tool.name for tool in tools}


class ToolDefinition(NamedTuple):
    """A tool as a provider wants it."""

    name: str
    description: str
    schema: dict[str, object]


def define_tools(tools: Iterable[Tool], shape: IdentifierRules) -> list[ToolDefinition]:
    """Each name once (the first wins: a provider refuses the request otherwise), each schema an object."""
    found: dict[str, ToolDefinition] = {}
    for tool in tools:
        name = encode_tool_name(tool.name, shape)
        schema = {"type": "object", **decode_object(tool.parameters)}
        found.setdefault(name, ToolDefinition(name, tool.description, schema))
    return list(found.values())
