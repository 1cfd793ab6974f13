"""OpenAI chat completions, and the servers that speak it after their own fashion: Mistral and DeepSeek.

The form has no parts for results: each is a message of its own, with a text. Content is a plain string wherever it can
be, for many compatible servers read nothing else.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.blocks import Block, Json, Options, Rules
from tidegate.wire.layout import is_blank
from tidegate.wire.names import Shape, definitions
from tidegate.wire.reading import (
    Parsed,
    a_dict,
    a_list,
    a_text,
    a_tool,
    arguments_of,
    heading,
    image_of,
    json_text,
    needed,
    parts_of,
    refuse,
    shown,
    text_or_empty,
    tool_message,
    unknown_part,
)

FAMILY = "openai_chat"
BRIDGE = "OK."
NO_REASONING = "(none)"

_NAMES = re.compile(r"[a-zA-Z0-9_-]{1,64}")
RULES = Rules(FAMILY, Shape(re.compile(r"[!-~]{1,40}"), _NAMES), joins=True)
MISTRAL = Rules(FAMILY, Shape(re.compile(r"[a-zA-Z0-9]{9}"), _NAMES, 9), joins=True)
DEEPSEEK = Rules(FAMILY, RULES.shape, joins=True, plain_thinking=True, user_images=False)


# --- render -------------------------------------------------------------------------------------------------------


def head(system: str, tools: Iterable[Tool], options: Options, calls: bool = False) -> Json:
    """The body without its messages; the system text is the first of these, see `lead`."""
    body: Json = {}
    if options.model:
        body["model"] = options.model
    if options.max_tokens:
        body["max_completion_tokens"] = options.max_tokens
    body |= options.sampling()
    defined = definitions(tools, RULES.shape)
    if defined:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": each.schema},
            }
            for each in defined
        ]
    return body


def compatible_head(system: str, tools: Iterable[Tool], options: Options, calls: bool = False) -> Json:
    """Compatible servers know the limit of the answer by its older name."""
    body = head(system, tools, options, calls)
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    return body


def lead(system: str) -> list[Json]:
    return [] if is_blank(system) else [{"role": "system", "content": system}]


def block(block: Block, options: Options) -> list[Json]:
    if block.side == "assistant":
        return [_assistant(block)]
    found: list[Json] = [
        {"role": "tool", "tool_call_id": answer.id, "content": _text(answer.parts)} for answer in block.answers
    ]
    if block.parts:
        found.append({"role": "user", "content": _content(block.parts)})
    return found


def mistral_block(block_: Block, options: Options) -> list[Json]:
    """Mistral wants the assistant to speak between results and user."""
    found = block(block_, options)
    if block_.answers and block_.parts:
        found.insert(-1, {"role": "assistant", "content": BRIDGE})
    return found


def deepseek_block(block_: Block, options: Options) -> list[Json]:
    """DeepSeek wants the reasoning of every answer back, and refuses a history that lacks it anywhere.

    Nothing is made up for an answer that came without: it says so.
    """
    found = block(block_, options)
    if block_.side == "assistant":
        thoughts = [part.text for part in block_.parts if isinstance(part, Thinking)]
        found[0]["reasoning_content"] = "\n\n".join(thoughts) or NO_REASONING
    return found


def _assistant(block: Block) -> Json:
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in block.parts
        if isinstance(part, Call)
    ]
    message: Json = {"role": "assistant", "content": _text(block.parts) or None}
    if calls:
        message["tool_calls"] = calls
    return message


def _text(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _content(parts: list[Part]) -> str | list[Json]:
    if not any(isinstance(part, Image) for part in parts):
        return _text(parts)
    found: list[Json] = []
    for part in parts:
        if isinstance(part, Text):
            found.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            found.append({"type": "image_url", "image_url": {"url": data_url(part)}})
    return found


def data_url(image: Image) -> str:
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
    message = a_dict(obj, "A message")
    role = _ROLES.get(message.get("role")) if isinstance(message.get("role"), str) else None
    if role is None:
        label = shown(message.get("role"))
        refuse(f"The role '{label}' is unknown.", "Use system, developer, user, assistant or tool.")
    content = parts_of(message.get("content"), f"the {role} message", _read_part)
    if role == "tool":
        return [tool_message(needed(message, "tool_call_id", "A tool message"), content)]
    if role != "assistant":
        return [Message(role, content)]
    if message.get("function_call") is not None:
        refuse("An assistant message holds a function_call.", "Write it as tool_calls, with an id.")
    thought = text_or_empty(message.get("reasoning_content") or message.get("reasoning"), "The reasoning")
    refusal = text_or_empty(message.get("refusal"), "The refusal")
    parts: list[Part] = [Thinking(thought)] if thought and thought != NO_REASONING else []
    parts += content
    if refusal:
        parts.append(Text(refusal))
    calls = message.get("tool_calls")
    parts += [_read_call(call) for call in a_list([] if calls is None else calls, "tool_calls")]
    return [Message("assistant", tuple(parts), origin=FAMILY)]


def _read_part(part: Json, what: str) -> Part:
    kind = part.get("type")
    if kind in ("text", "refusal"):
        return Text(a_text(part.get(str(kind)), f"A text of {what}"))
    if kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return image_of(a_text(url, f"The URL of an image of {what}"))
    raise unknown_part(kind, what)


def _read_call(value: object) -> Call:
    call = a_dict(value, "A tool call")
    call_id = text_or_empty(call.get("id"), "The id of a tool call")
    if call.get("type") == "custom":
        custom = a_dict(call.get("custom"), "A custom tool call")
        text = text_or_empty(custom.get("input"), "The input of a custom tool call")
        return Call(call_id, needed(custom, "name", "A custom tool call"), json_text({"input": text}))
    function = a_dict(call.get("function"), "The function of a tool call")
    return Call(call_id, needed(function, "name", "A tool call"), arguments_of(function.get("arguments")))


def parse_body(body: object) -> Parsed:
    request = a_dict(body, "The body")
    listed = a_list(request.get("messages"), "messages")
    tools = a_list(request.get("tools") or [], "tools")
    return heading((message for obj in listed for message in parse_message(obj)), "", map(_read_tool, tools))


def _read_tool(value: object) -> Tool:
    tool = a_dict(value, "A tool")
    if tool.get("type", "function") != "function":
        refuse(f"A tool has the type '{shown(tool.get('type'))}'.", "Only function tools are known.")
    function = a_dict(tool.get("function"), "The function of a tool")
    name = needed(function, "name", "A tool")
    return a_tool(name, function.get("description"), function.get("parameters"))
