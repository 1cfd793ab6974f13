"""The messages of a client's request, as Anthropic writes them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeGuard

from tidegate.core.errors import BadInput
from tidegate.core.messages import Image, Message, Part, Text, Thinking, Tool
from tidegate.core.text.client_texts import mark_client_texts
from tidegate.wire.anthropic.parse import FAMILY, read_assistant_part, read_tool, read_user_part
from tidegate.wire.parsing import encode_json_text, repair_unicode
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.units import (
    STORED_REASON,
    HostRequest,
    HostUnit,
    PartOrigin,
    make_message,
    make_opaque,
    read_known_part,
    read_model_name,
    read_system_text,
    read_tool_list,
    read_tool_result,
    split_blocks,
    without_cache_marks,
)


def read_anthropic(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    system, tools, listed = body.get("system"), body.get("tools"), body.get("messages")
    deferred = _list_deferred(tools) if isinstance(tools, list) else {}
    _, units = memo.read_units(
        listed if isinstance(listed, list) else [],
        lambda item, place, _: _read_anthropic_item(item, place, deferred),
        lambda found, _: found,
    )
    return HostRequest(
        tuple(units),
        memo.read_field("system", system, lambda: read_system_text(system, read_user_part)) if system else "",
        memo.read_field("tools", tools, lambda: read_tool_list(tools, _read_seen_tools)) if tools else (),
        read_model_name(body),
        STORED_REASON if body.get("thread") is not None else "",
    )


def _list_deferred(tools: list[object]) -> dict[str, JsonObject]:
    return {str(tool.get("name")): tool for tool in tools if _is_deferred(tool)}


def _is_deferred(tool: object) -> TypeGuard[JsonObject]:
    return isinstance(tool, dict) and tool.get("defer_loading") is True


def _read_seen_tools(tool: object) -> list[Tool]:
    """The tool, unless it is deferred: then the model does not see it before a block refers to it.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
    """
    return [] if _is_deferred(tool) else [read_tool(tool)]


def _add_definition(block: object, deferred: Mapping[str, JsonObject]) -> object:
    """The block with the definition of the deferred tool that it refers to: the model reads it there.

    Tools are found by a search (`tool_reference`), or a system message adds them (`tool_addition`:
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/change-tools-or-instructions).
    """
    inner = block.get("tool") if isinstance(block, dict) and block.get("type") == "tool_addition" else block
    if not (isinstance(block, dict) and isinstance(inner, dict) and inner.get("type") == "tool_reference"):
        return block
    definition = deferred.get(str(inner.get("tool_name") or inner.get("name")))
    return {**block, "definition": definition} if definition else block


def _read_anthropic_item(item: object, place: int, deferred: Mapping[str, JsonObject]) -> list[HostUnit]:
    if not isinstance(item, dict):
        return [HostUnit(Message("user", (make_opaque(item),)), (PartOrigin(place),), True)]
    role, content = item.get("role"), item.get("content")
    if isinstance(content, str) or not isinstance(content, list):
        part: Part = Text(repair_unicode(content)) if isinstance(content, str) else make_opaque(item)
        message = mark_client_texts(make_message(role, (part,), FAMILY))
        return [HostUnit(message, (PartOrigin(place),), True)]
    if role == "assistant":
        parts = tuple(_read_assistant_block(block) for block in content)
        origins = tuple(PartOrigin(place, number) for number in range(len(parts)))
        return [HostUnit(Message("assistant", parts, origin=FAMILY), origins or (PartOrigin(place),), True)]
    rest = make_message(role, (), FAMILY)
    read_part = partial(_anthropic_part, deferred=deferred)
    read_result = partial(_read_anthropic_result, read_part=read_part)
    return split_blocks(content, place, rest, read_result, read_part, has_notices=True)


def _anthropic_part(block: object, deferred: Mapping[str, JsonObject]) -> Part:
    block = _add_definition(block, deferred)
    source = block.get("source") if isinstance(block, dict) and block.get("type") == "document" else None
    if isinstance(source, dict) and source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(str(source.get("media_type") or "application/pdf"), source["data"])
    return read_known_part(read_user_part, block)


def _read_assistant_block(block: object) -> Part:
    try:
        if isinstance(block, dict):
            return read_assistant_part(block, "the assistant message")
    except BadInput:
        pass
    return Thinking(block=encode_json_text(without_cache_marks(block)))


def _read_anthropic_result(block: object, read_part: Callable[[object], Part]) -> Message | None:
    if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
        read = lambda inner, _: read_part(inner)  # noqa: E731
        return read_tool_result(block["tool_use_id"], block.get("content"), read, bool(block.get("is_error")))
    return None
