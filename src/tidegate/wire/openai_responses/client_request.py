"""The messages of a client's request, as OpenAI Responses writes them."""

from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Message, Part, Text, Thinking
from tidegate.core.text.client_texts import mark_client_texts
from tidegate.wire.openai_responses.parse import FAMILY, parse_message, read_part, read_seen_tool
from tidegate.wire.openai_responses.stored_state import read_previous_id
from tidegate.wire.parsing import encode_json_text, join_text_parts, repair_unicode
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.units import (
    STORED_REASON,
    WHOLE,
    HostRequest,
    HostUnit,
    PartOrigin,
    list_items,
    make_message,
    make_opaque,
    mark_after,
    read_file_data,
    read_known_part,
    read_model_name,
    read_tool_list,
    read_tool_result,
)


class _ResponsesItem(NamedTuple):
    """An item as it was read. `unit` is its message, joined with the items before it that are of the same answer
    (`is_joined`); None for an item of the fixed part. `is_stored`: it, or an item before it, is stored by the provider.
    """

    message: Message
    unit: HostUnit | None
    is_joined: bool
    is_stored: bool


def read_openai_responses(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo, raw_input = memo or ReadMemo(), body.get("input")
    system = [str(body["instructions"])] if isinstance(body.get("instructions"), str) else []
    tools, items = list_items(body, "tools"), raw_input if isinstance(raw_input, list) else []
    previous = read_previous_id(body)
    read_unit = _read_continuing_unit if previous else _read_responses_unit
    entries, entry_units = memo.read_units(items, read_unit, _list_responses_units)
    fixed = next((place for place, each in enumerate(entries) if each.unit), len(entries))
    for item, each in zip(items[:fixed], entries, strict=False):
        if _has_more_tools(item):
            tools = [*tools, *list_items(item, "tools")]
        else:
            system.append(join_text_parts(each.message.parts))
    units = tuple(entry_units)
    if isinstance(raw_input, str):
        message = mark_client_texts(Message("user", (Text(repair_unicode(raw_input)),)))
        units = (HostUnit(message, (PartOrigin(WHOLE),), True),)
    is_stored = any(each.is_stored for each in entries[-1:])
    is_on_server = is_stored or any(
        body.get(key) is not None for key in ("previous_response_id", "conversation", "prompt")
    )
    reason = STORED_REASON if is_on_server else ""
    read = memo.read_field("tools", tools, lambda: read_tool_list(tools, lambda tool: [read_seen_tool(tool)]))
    previous = "" if is_stored else previous
    return HostRequest(units, "\n\n".join(system), read, read_model_name(body), reason, fixed, previous)


def _list_responses_units(entry: _ResponsesItem, following: _ResponsesItem | None) -> list[HostUnit]:
    """The unit of an item, unless the item after it belongs to the same answer."""
    return [entry.unit] if entry.unit and not (following and following.is_joined) else []


def _read_responses_unit(item: object, place: int, before: _ResponsesItem | None) -> _ResponsesItem:
    message = mark_after(_read_responses_item(item), before.message if before else None)
    unit = before.unit if before else None
    is_reference = isinstance(item, dict) and item.get("type") == "item_reference"
    is_stored = is_reference or (before is not None and before.is_stored)
    if unit is None and (message.role == "system" or _has_more_tools(item)):
        return _ResponsesItem(message, None, False, is_stored)
    origins = (PartOrigin(place),) * max(1, len(message.parts))
    if unit is not None and unit.message.role == message.role == "assistant":
        return _ResponsesItem(message, _join_units(unit, message, origins), True, is_stored)
    return _ResponsesItem(message, HostUnit(message, origins, True), False, is_stored)


def _read_continuing_unit(item: object, place: int, before: _ResponsesItem | None) -> _ResponsesItem:
    """An item after a stored conversation: there the system prompt is the provider's, and a message is one of many."""
    entry = _read_responses_unit(item, place, before)
    if entry.unit is not None:
        return entry
    unit = HostUnit(entry.message, (PartOrigin(place),) * max(1, len(entry.message.parts)), True)
    return entry._replace(unit=unit)


def _has_more_tools(item: object) -> bool:
    """Whether the item declares tools, as Codex does with newer models."""
    return isinstance(item, dict) and item.get("type") == "additional_tools"


def _join_units(unit: HostUnit, message: Message, origins: tuple[PartOrigin, ...]) -> HostUnit:
    """The items of one answer are one message: no edit may separate them."""
    whole = msgspec.structs.replace(unit.message, parts=unit.message.parts + message.parts)
    return HostUnit(whole, unit.origins + origins, True)


def _read_responses_item(item: object) -> Message:
    if not isinstance(item, dict):
        return Message("user", (make_opaque(item),))
    kind, call_id = item.get("type", "message" if "role" in item else ""), item.get("call_id")
    if isinstance(kind, str) and isinstance(call_id, str):
        if kind.endswith("_output"):
            # What a client's own search found is in `tools`: https://developers.openai.com/api/docs/guides/tools-tool-search
            output = item.get("tools") if kind == "tool_search_output" else item.get("output")
            return read_tool_result(call_id, output, read_part)
        if kind.endswith("_call") and kind not in ("function_call", "custom_tool_call"):
            call = Call(repair_unicode(call_id), kind, encode_json_text(item))
            return Message("assistant", (call,), origin=FAMILY)
    try:
        return parse_message(item)[0]
    except BadInput:
        pass
    content = item.get("content")
    if kind == "message" and item.get("role") != "assistant" and isinstance(content, list):
        return make_message(item.get("role"), tuple(map(_responses_part, content)), FAMILY)
    if item.get("role") == "assistant":
        return Message("assistant", (Thinking(block=encode_json_text(item)),), origin=FAMILY)
    return Message("user", (make_opaque(item),))


def _responses_part(block: object) -> Part:
    if isinstance(block, dict) and block.get("type") == "input_file" and isinstance(block.get("file_data"), str):
        return read_file_data(block["file_data"])
    return read_known_part(read_part, block)
