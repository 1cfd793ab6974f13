"""Parser for OpenAI Chat Completions requests and messages, as all dialects of the family write them."""

from collections.abc import Mapping

from tidegate.core.messages import Call, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
    encode_json_text,
    image_from_url,
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

FAMILY = "openai_chat"
NO_REASONING_TEXT = "(none)"

_ROLES: dict[object, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def recognize_body(body: Mapping[str, object]) -> int:
    return 0 if list_part_types(body.get("messages")) is None else 3


def parse_message(obj: object) -> list[Message]:
    message = require_object(obj, "A message")
    raw_role = message.get("role")
    role = _ROLES.get(raw_role) if isinstance(raw_role, str) else None
    if role is None:
        label = abbreviate_value(raw_role)
        raise_bad_input(f"The role '{label}' is unknown.", "Use system, developer, user, assistant or tool.")
    content = read_parts(message.get("content"), f"the {role} message", read_part)
    if role == "tool":
        return [build_tool_message(require_field(message, "tool_call_id", "A tool message"), content)]
    if role != "assistant":
        return [Message(role, content)]
    if message.get("function_call") is not None:
        raise_bad_input("An assistant message holds a function_call.", "Write it as tool_calls, with an id.")
    thought = read_optional_text(message.get("reasoning_content") or message.get("reasoning"), "The reasoning")
    refusal = read_optional_text(message.get("refusal"), "The refusal")
    parts: list[Part] = [Thinking(thought)] if thought and thought != NO_REASONING_TEXT else []
    parts += content
    if refusal:
        parts.append(Text(refusal))
    calls = message.get("tool_calls")
    if calls is not None:
        parts += [_read_call(call) for call in require_list(calls, "tool_calls")]
    return [Message("assistant", tuple(parts), origin=FAMILY)]


def read_part(part: JsonObject, what: str) -> Part:
    kind = part.get("type")
    if kind in ("text", "refusal"):
        return Text(require_text(part.get(str(kind)), f"A text of {what}"))
    if kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return image_from_url(require_text(url, f"The URL of an image of {what}"))
    raise unknown_part_error(kind, what)


def _read_call(value: object) -> Call:
    call = require_object(value, "A tool call")
    call_id = read_optional_text(call.get("id"), "The id of a tool call")
    if call.get("type") == "custom":
        custom = require_object(call.get("custom"), "A custom tool call")
        text = read_optional_text(custom.get("input"), "The input of a custom tool call")
        return Call(call_id, require_field(custom, "name", "A custom tool call"), encode_json_text({"input": text}))
    function = require_object(call.get("function"), "The function of a tool call")
    return Call(call_id, require_field(function, "name", "A tool call"), read_call_arguments(function.get("arguments")))


def parse_body(body: object) -> ParsedRequest:
    request = require_object(body, "The body")
    listed = require_list(request.get("messages"), "messages")
    tools = require_list(request.get("tools") or [], "tools")
    return build_parsed_request(
        (message for obj in listed for message in parse_message(obj)), "", map(read_tool, tools)
    )


def read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    if tool.get("type", "function") != "function":
        raise_bad_input(
            f"A tool has the type '{abbreviate_value(tool.get('type'))}'.", "Only function tools are known."
        )
    function = require_object(tool.get("function"), "The function of a tool")
    name = require_field(function, "name", "A tool")
    return build_tool(name, function.get("description"), function.get("parameters"))
