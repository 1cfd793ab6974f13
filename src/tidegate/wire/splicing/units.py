"""The messages of a client's request, and of a view that takes its place, with their places in the client's bytes.

Unlike the parsers of the dialects, the readers refuse nothing: content that the engine does not know becomes an
opaque part. It is counted, and it is kept whole or left out whole, never cut inside. Texts that the client added to
those of the user are marked (`core/text/client_texts.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import CLIENT_NOTE, OPAQUE_MEDIA, Image, Message, Part, Text, Thinking, Tool
from tidegate.core.text.client_texts import mark_client_texts, mark_texts_beside_results
from tidegate.wire.parsing import build_tool_message, encode_json_text, join_text_parts, repair_unicode
from tidegate.wire.rendering.blocks import JsonObject

REPEATED: Final = object()
"""Stands for a block that says the same as another one of its item. It belongs to no unit, and no view has it."""
WHOLE = -1
"""The place of a part that is the whole content of its item, not a block of it."""


class PartOrigin(NamedTuple):
    """Where a part was read: the item of the client's list, and the block in it."""

    item: int
    block: int = WHOLE


class HostUnit(msgspec.Struct, frozen=True):
    """One message of the engine and where it is in the client's list.

    `origins` has a place for each part. `is_whole`: the unit is one or more whole items; else some blocks of one item.
    """

    message: Message
    origins: tuple[PartOrigin, ...]
    is_whole: bool

    @property
    def items(self) -> list[int]:
        if len(self.origins) == 1:
            return [self.origins[0].item]
        return sorted({origin.item for origin in self.origins})


class HostRequest(msgspec.Struct, frozen=True):
    """A request as the client sent it. `reason` says why it cannot be managed; empty if it can.

    `fixed_items` is the number of leading items that are the system prompt, not units. `previous_id` is the id of an
    answer that the provider has stored, if that is the only reason: the request can be managed by who knows the answer.
    """

    units: tuple[HostUnit, ...] = ()
    system: str = ""
    tools: tuple[Tool, ...] = ()
    model: str = ""
    reason: str = ""
    fixed_items: int = 0
    previous_id: str = ""


def make_opaque(value: object) -> Image:
    """A part that the engine carries without knowing it: its JSON, without marks of the cache."""
    return Image(OPAQUE_MEDIA, encode_json_text(without_cache_marks(value)))


def without_cache_marks(value: object) -> object:
    if isinstance(value, dict) and "cache_control" in value:
        return {key: inner for key, inner in value.items() if key != "cache_control"}
    return value


STORED_REASON: Final = "part of it is stored by the provider"
PartReader = Callable[[JsonObject, str], Part]


def read_known_part(read: PartReader, block: object) -> Part:
    """A part as the dialect's parser reads it; what it refuses is opaque."""
    try:
        if isinstance(block, dict):
            return read(block, "a message")
    except BadInput:
        pass
    return make_opaque(block)


def read_tool_result(call_id: object, content: object, read: PartReader, error: bool = False) -> Message:
    """The message of a result, whatever its content is."""
    parts: list[Part] = []
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        parts.append(Text(repair_unicode(block)) if isinstance(block, str) else read_known_part(read, block))
    if content is not None and not isinstance(content, str | list):
        parts.append(make_opaque(content))
    plain = [part if isinstance(part, Text | Image) else make_opaque(content) for part in parts]
    return build_tool_message(repair_unicode(str(call_id)), plain, error)


def read_tool_list(tools: object, read: Callable[[object], Sequence[Tool]]) -> tuple[Tool, ...]:
    """The tools, for their size and for people. One of an unknown kind is named by its type."""
    definitions: list[Tool] = []
    for value in tools if isinstance(tools, list) else []:
        try:
            definitions += read(value)
        except BadInput:
            kind = value.get("name") or value.get("type") if isinstance(value, dict) else ""
            definitions.append(Tool(repair_unicode(str(kind or "tool"))[:200], "", encode_json_text(value)))
    return tuple(definitions)


def read_system_text(value: object, read: PartReader) -> str:
    """The system prompt: a text or a list of parts."""
    if isinstance(value, str):
        return repair_unicode(value)
    parts = [read_known_part(read, block) for block in value] if isinstance(value, list) else []
    return join_text_parts(Text(part.data) if isinstance(part, Image) else part for part in parts)


def split_blocks(
    content: list[object],
    place: int,
    rest: Message,
    read_result: Callable[[object], Message | None],
    read_part: Callable[[object], Part],
    *,
    has_notices: bool = False,
) -> list[HostUnit]:
    """The units of an item with blocks: each result is one, and so are adjacent other blocks.

    `has_notices` is for `mark_texts_beside_results`.
    """
    units: list[HostUnit] = []
    parts: list[Part] = []
    origins: list[PartOrigin] = []
    results = [read_result(block) for block in content]
    has_result = any(result is not None for result in results)

    def end_rest() -> None:
        if parts:
            message = msgspec.structs.replace(rest, parts=tuple(parts))
            mark = partial(mark_texts_beside_results, has_notices=has_notices) if has_result else mark_client_texts
            units.append(HostUnit(mark(message), tuple(origins), False))
            parts.clear()
            origins.clear()

    for number, (block, result) in enumerate(zip(content, results, strict=True)):
        if block is REPEATED:
            continue
        if result is None:
            parts.append(read_part(block))
            origins.append(PartOrigin(place, number))
        else:
            end_rest()
            units.append(HostUnit(result, (PartOrigin(place, number),), False))
    end_rest()
    if len(units) == 1 and len(units[0].origins) == len(content):
        return [msgspec.structs.replace(units[0], is_whole=True)]
    return units or [HostUnit(rest, (PartOrigin(place),), True)]


def read_file_data(data: str) -> Image:
    """A file as a data URL, or as base64."""
    head, comma, rest = data.partition(",")
    media = head.removeprefix("data:").partition(";")[0] if comma else "application/pdf"
    return Image(media or "application/pdf", rest if comma else data)


def list_items(body: JsonObject, key: str) -> list[object]:
    """A list of the request; empty if it is none."""
    value = body.get(key)
    return value if isinstance(value, list) else []


def read_model_name(body: JsonObject) -> str:
    return repair_unicode(str(body.get("model") or ""))[:200]


def make_message(role: object, parts: tuple[Part, ...], family: str) -> Message:
    """A message of this role, with the family of the dialect as its origin if it is the model's."""
    if role in ("system", "developer"):
        return Message("system", parts)
    return Message("assistant", parts, origin=family) if role == "assistant" else Message("user", parts)


def mark_after(message: Message, before: Message | None) -> Message:
    """Mark the texts of the message that comes after `before` in the client's list."""
    after_result = before is not None and (before.role == "tool" or before.kind == CLIENT_NOTE)
    return mark_client_texts(message, after_result=after_result)


# --- units of a view ------------------------------------------------------------------------------------------------


class ShownUnit(NamedTuple):
    """One item of a view. `unit` is None for a message of the engine; `message` is None if the unit is kept as it is.

    Without `signed`, what the provider signed is left out where it would be refused. `kept_place` is the place of the
    client's item that is sent as it is; -1 if the unit is not an item, or is edited. `show_unit` finds it.
    """

    unit: HostUnit | None
    message: Message | None
    signed: bool
    kept_place: int


def show_unit(unit: HostUnit | None, message: Message | None, signed: bool = True) -> ShownUnit:
    """An item of a view."""
    kept_place = -1
    if unit is not None and message is None and unit.is_whole:
        first, last = unit.origins[0].item, unit.origins[-1].item
        is_sent = signed or Thinking not in map(type, unit.message.parts)
        kept_place = first if is_sent and first == last else -1
    return ShownUnit(unit, message, signed, kept_place)


def move_to_first_place(unit: HostUnit | None) -> HostUnit | None:
    """The unit with the first item of the list as its own."""
    if unit is None:
        return None
    return msgspec.structs.replace(unit, origins=tuple(origin._replace(item=0) for origin in unit.origins))
