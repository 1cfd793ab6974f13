"""The messages of a client's request, as OpenAI chat writes them."""

from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Part, Thinking
from tidegate.wire.openai_chat.parse import FAMILY, parse_message, read_part, read_tool
from tidegate.wire.parsing import encode_json_text, join_text_parts
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.units import (
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


class _ChatItem(NamedTuple):
    """An item as it was read. `is_fixed`: it and all before it are the system prompt."""

    unit: HostUnit
    is_fixed: bool


def read_openai_chat(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    entries, units = memo.read_units(
        list_items(body, "messages"), _read_chat_item, lambda each, _: [] if each.is_fixed else [each.unit]
    )
    fixed = len(entries) - len(units)
    system = [join_text_parts(each.unit.message.parts) for each in entries[:fixed]]
    reason = "it asks for several answers" if body.get("n") not in (None, 1) else ""
    raw_tools = body.get("tools")
    tools = memo.read_field("tools", raw_tools, lambda: read_tool_list(raw_tools, lambda tool: [read_tool(tool)]))
    return HostRequest(tuple(units), "\n\n".join(system), tools, read_model_name(body), reason, fixed)


def _read_chat_item(item: object, place: int, before: _ChatItem | None) -> _ChatItem:
    message = mark_after(_read_chat_message(item), before.unit.message if before else None)
    is_fixed = message.role == "system" and (before is None or before.is_fixed)
    return _ChatItem(HostUnit(message, (PartOrigin(place),) * max(1, len(message.parts)), True), is_fixed)


def _read_chat_message(item: object) -> Message:
    try:
        return parse_message(item)[0]
    except BadInput:
        pass
    if not isinstance(item, dict):
        return Message("user", (make_opaque(item),))
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(item.get("tool_call_id"), str):
        return read_tool_result(item["tool_call_id"], content, read_part)
    if item.get("role") == "assistant":
        return Message("assistant", _read_odd_chat_answer(item), origin=FAMILY)
    parts = tuple(_chat_part(block) for block in content) if isinstance(content, list) else (make_opaque(item),)
    return make_message(item.get("role"), parts, FAMILY)


def _read_odd_chat_answer(item: JsonObject) -> tuple[Part, ...]:
    """The parts of an answer that has a field of an unknown form. Its calls are read: results need them."""
    for keys in (("content", "tool_calls"), ("tool_calls",)):
        rest = {key: value for key, value in item.items() if key not in keys}
        try:
            read = parse_message({"role": "assistant", **{key: item.get(key) for key in keys}})[0].parts
        except BadInput:
            continue
        return (Thinking(block=encode_json_text(rest)), *read)
    return (Thinking(block=encode_json_text(item)),)


def _chat_part(block: object) -> Part:
    file = block.get("file") if isinstance(block, dict) and block.get("type") == "file" else None
    if isinstance(file, dict) and isinstance(file.get("file_data"), str):
        return read_file_data(file["file_data"])
    return read_known_part(read_part, block)
