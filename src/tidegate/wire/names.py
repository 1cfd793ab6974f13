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
from tidegate.wire.reading import object_of

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME_TAIL = 8


class Shape(msgspec.Struct, frozen=True):
    """What ids and tool names must look like. `length` is that of an id of our own; 62 ** 9 of them are enough."""

    ids: re.Pattern[str]
    names: re.Pattern[str]
    length: int = 24


def digest(text: str, length: int) -> str:
    """Letters and digits, the first a letter: some servers ask for that."""
    number = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=32).digest(), "big")
    number, first = divmod(number, 52)
    letters = [_DIGITS[10 + first]]
    for _ in range(length - 1):
        number, digit = divmod(number, 62)
        letters.append(_DIGITS[digit])
    return "".join(letters)


def wire_id(call_id: str, message_id: str, index: int, shape: Shape, used: set[str]) -> str:
    """The id of a call in this request; it is taken in `used`, for no two calls of a request may share one."""
    found = call_id
    if found in used or not shape.ids.fullmatch(found):
        source = f"{message_id}\0{index}\0{call_id}"
        found = digest(source, shape.length)
        while found in used:
            source += "\0"
            found = digest(source, shape.length)
    used.add(found)
    return found


def wire_name(name: str, shape: Shape) -> str:
    """The name of a tool. It depends on nothing but the name: definitions and calls must agree."""
    if shape.names.fullmatch(name):
        return name
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[: 63 - _NAME_TAIL].strip("_") or "tool"
    if not readable[0].isalpha():
        readable = f"t_{readable}"[: 63 - _NAME_TAIL]
    return f"{readable}_{digest(name, _NAME_TAIL)}"


def original_names(tools: Iterable[Tool], shape: Shape) -> dict[str, str]:
    """From the name on the wire to the tool's own, for reading the calls of an answer."""
    return {wire_name(tool.name, shape): tool.name for tool in tools}


class Definition(NamedTuple):
    """A tool as a provider wants it."""

    name: str
    description: str
    schema: dict[str, object]


def definitions(tools: Iterable[Tool], shape: Shape) -> list[Definition]:
    """Each name once (the first wins: a provider refuses the request otherwise), each schema an object."""
    found: dict[str, Definition] = {}
    for tool in tools:
        name = wire_name(tool.name, shape)
        schema = {"type": "object", **object_of(tool.parameters)}
        found.setdefault(name, Definition(name, tool.description, schema))
    return list(found.values())
