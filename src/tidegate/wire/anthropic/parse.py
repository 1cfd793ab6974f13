"""Parser for Anthropic Messages requests and messages."""

from collections.abc import Mapping

from tidegate.core.messages import Call, Compaction, Image, Message, Part, Text, Thinking, Tool
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
    encode_json_text,
    image_from_base64,
    join_text_parts,
    list_part_types,
    raise_bad_input,
    read_call_arguments,
    read_optional_text,
    read_parts,
    require_field,
    require_list,
    require_object,
    require_text,
    unknown_part_error,
)
from tidegate.wire.rendering.blocks import JsonObject

FAMILY = "anthropic"

PART_TYPES = frozenset({"image", "tool_use", "tool_result", "thinking", "redacted_thinking"})


def recognize_body(body: Mapping[str, object]) -> int:
    types = list_part_types(body.get("messages"))
    is_known = types is not None and ("system" in body or "anthropic_version" in body or bool(types & PART_TYPES))
    return 4 if is_known else 0


def parse_message(obj: object) -> list[Message]:
    """Parse one message. A user message with results becomes a tool message for each, and a user message for the
    rest.
    """
    message = require_object(obj, "A message")
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return [Message("assistant", read_parts(content, "the assistant message", read_assistant_part), origin=FAMILY)]
    if role == "system":
        return [Message("system", read_parts(content, "the system message", read_user_part))]
    if role != "user":
        raise_bad_input(f"The role '{abbreviate_value(role)}' is unknown.", "Use user or assistant.")
    if not isinstance(content, list | tuple):
        return [Message("user", read_parts(content, "the user message", read_user_part))]
    results: list[Message] = []
    rest: list[object] = []
    for each in content:
        if isinstance(each, dict) and each.get("type") == "tool_result":
            results.append(_read_result(each))
        else:
            rest.append(each)
    if rest or not results:
        results.append(Message("user", read_parts(rest, "the user message", read_user_part)))
    return results


def _read_result(block: JsonObject) -> Message:
    call_id = require_field(block, "tool_use_id", "A tool_result")
    parts = read_parts(block.get("content"), "a tool_result", read_user_part)
    return build_tool_message(call_id, parts, bool(block.get("is_error")))


def read_user_part(block: JsonObject, what: str) -> Part:
    kind = block.get("type")
    if kind == "text":
        return Text(require_text(block.get("text"), f"A text of {what}"))
    if kind != "image":
        raise unknown_part_error(kind, what)
    source = require_object(block.get("source"), f"The source of an image of {what}")
    if source.get("type") == "url":
        return Image(url=require_field(source, "url", "The source of an image"))
    media = read_optional_text(source.get("media_type"), "The media_type of an image") or "image/png"
    return image_from_base64(require_field(source, "data", "The source of an image"), media)


def read_assistant_part(block: JsonObject, what: str) -> Part:
    kind = block.get("type")
    if kind in ("text", "image"):
        return read_user_part(block, what)
    if kind == "tool_use":
        call_id = read_optional_text(block.get("id"), "The id of a tool_use")
        return Call(call_id, require_field(block, "name", "A tool_use"), read_call_arguments(block.get("input")))
    if not isinstance(kind, str) or kind == "tool_result":
        raise unknown_part_error(kind, what)
    if kind == "compaction":
        return _read_compaction(block)
    return Thinking(block=encode_json_text(block))


def _read_compaction(block: JsonObject) -> Thinking:
    """A summary that stands for everything before it; one without content does nothing.

    https://platform.claude.com/docs/en/build-with-claude/compaction-threshold
    """
    content = block.get("content")
    text = content if isinstance(content, str) else ""
    return (Compaction if text else Thinking)(text, encode_json_text(block))


def parse_body(body: object) -> ParsedRequest:
    request = require_object(body, "The body")
    listed = require_list(request.get("messages"), "messages")
    system = join_text_parts(read_parts(request.get("system"), "the system text", read_user_part))
    tools = require_list(request.get("tools") or [], "tools")
    return build_parsed_request(
        (message for obj in listed for message in parse_message(obj)), system, map(read_tool, tools)
    )


def read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    if tool.get("type", "custom") != "custom":
        label = abbreviate_value(tool.get("type"))
        raise_bad_input(f"A tool has the type '{label}'.", "Only tools with an input_schema are known.")
    return build_tool(require_field(tool, "name", "A tool"), tool.get("description"), tool.get("input_schema"))
