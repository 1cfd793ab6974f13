"""OpenAI chat completions, and the servers that speak it after their own fashion: Mistral and DeepSeek.

The form has no parts for results: each is a message of its own, with a text. Content is a plain string wherever it can
be, for many compatible servers read nothing else.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
    encode_json_text,
    image_from_url,
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
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.rendering.layout import is_blank

FAMILY = "openai_chat"
_BRIDGE_TEXT = "OK."
NO_REASONING_TEXT = "(none)"

_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CAPABILITIES = DialectCapabilities(FAMILY, IdentifierRules(re.compile(r"[!-~]{1,40}"), _NAME_PATTERN), joins_texts=True)
MISTRAL_CAPABILITIES = DialectCapabilities(
    FAMILY, IdentifierRules(re.compile(r"[a-zA-Z0-9]{9}"), _NAME_PATTERN, 9), joins_texts=True
)
DEEPSEEK_CAPABILITIES = DialectCapabilities(
    FAMILY, CAPABILITIES.identifiers, joins_texts=True, plain_thinking=True, user_images=False
)


# --- render -------------------------------------------------------------------------------------------------------


def render_head(system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False) -> JsonObject:
    """The body without its messages; the system text is the first of these, see `lead`."""
    body: JsonObject = {}
    if options.model:
        body["model"] = options.model
    if options.max_tokens:
        body["max_completion_tokens"] = options.max_tokens
    body |= options.sampling()
    defined = define_tools(tools, CAPABILITIES.identifiers)
    if defined:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": each.schema},
            }
            for each in defined
        ]
    return body


def render_compatible_head(
    system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False
) -> JsonObject:
    """Compatible servers know the limit of the answer by its older name."""
    body = render_head(system, tools, options, calls)
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    return body


def render_leading_messages(system: str) -> list[JsonObject]:
    return [] if is_blank(system) else [{"role": "system", "content": system}]


def render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    if block.side == "assistant":
        return [_render_assistant(block)]
    found: list[JsonObject] = [
        {"role": "tool", "tool_call_id": answer.id, "content": _join_texts(answer.parts)} for answer in block.answers
    ]
    if block.parts:
        found.append({"role": "user", "content": _render_content(block.parts)})
    return found


def render_mistral_block(block_: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    """Mistral wants the assistant to speak between results and user."""
    found = render_block(block_, options)
    if block_.answers and block_.parts:
        found.insert(-1, {"role": "assistant", "content": _BRIDGE_TEXT})
    return found


def render_deepseek_block(block_: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    """DeepSeek wants the reasoning of every answer back, and refuses a history that lacks it anywhere.

    Nothing is made up for an answer that came without: it says so.
    """
    found = render_block(block_, options)
    if block_.side == "assistant":
        thoughts = [part.text for part in block_.parts if isinstance(part, Thinking)]
        found[0]["reasoning_content"] = "\n\n".join(thoughts) or NO_REASONING_TEXT
    return found


def _render_assistant(block: LayoutBlock) -> JsonObject:
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in block.parts
        if isinstance(part, Call)
    ]
    message: JsonObject = {"role": "assistant", "content": _join_texts(block.parts) or None}
    if calls:
        message["tool_calls"] = calls
    return message


def _join_texts(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _render_content(parts: list[Part]) -> str | list[JsonObject]:
    if not any(isinstance(part, Image) for part in parts):
        return _join_texts(parts)
    found: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            found.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            found.append({"type": "image_url", "image_url": {"url": build_data_url(part)}})
    return found


def build_data_url(image: Image) -> str:
    return image.url or f"data:{image.media};base64,{image.data}"


# --- parse --------------------------------------------------------------------------------------------------------

_ROLES: dict[object, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def parse_message(obj: object) -> list[Message]:
    message = require_object(obj, "A message")
    role = _ROLES.get(message.get("role")) if isinstance(message.get("role"), str) else None
    if role is None:
        label = abbreviate_value(message.get("role"))
        raise_bad_input(f"The role '{label}' is unknown.", "Use system, developer, user, assistant or tool.")
    content = read_parts(message.get("content"), f"the {role} message", _read_part)
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
    parts += [_read_call(call) for call in require_list([] if calls is None else calls, "tool_calls")]
    return [Message("assistant", tuple(parts), origin=FAMILY)]


def _read_part(part: JsonObject, what: str) -> Part:
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
        (message for obj in listed for message in parse_message(obj)), "", map(_read_tool, tools)
    )


def _read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    if tool.get("type", "function") != "function":
        raise_bad_input(
            f"A tool has the type '{abbreviate_value(tool.get('type'))}'.", "Only function tools are known."
        )
    function = require_object(tool.get("function"), "The function of a tool")
    name = require_field(function, "name", "A tool")
    return build_tool(name, function.get("description"), function.get("parameters"))
