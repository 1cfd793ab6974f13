"""Renderer for OpenAI Chat Completions; the other dialects of the family change single messages of its output.

Each tool result is a separate message. Content is a plain string if possible, because many compatible servers
read nothing else.
"""

import re
from collections.abc import Iterable, Sequence

from tidegate.core.messages import Call, Image, Part, Text, Tool
from tidegate.wire.openai_chat.parse import FAMILY
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.rendering.layout import is_blank

NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CAPABILITIES = DialectCapabilities(FAMILY, IdentifierRules(re.compile(r"[!-~]{1,40}"), NAME_PATTERN), joins_texts=True)


def render_head(system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False) -> JsonObject:
    """Render the body without its messages. The system text is a message, see `render_leading_messages`."""
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
    """Render the head for compatible servers, which know the output limit by its older name."""
    body = render_head(system, tools, options, calls)
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    return body


def render_leading_messages(system: str) -> list[JsonObject]:
    return [] if is_blank(system) else [{"role": "system", "content": system}]


def render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    if block.side == "assistant":
        return [_render_assistant(block)]
    messages: list[JsonObject] = [
        {"role": "tool", "tool_call_id": answer.id, "content": _join_texts(answer.parts)} for answer in block.answers
    ]
    if block.parts:
        messages.append({"role": "user", "content": _render_content(block.parts)})
    return messages


def _render_assistant(block: LayoutBlock) -> JsonObject:
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in block.parts
        if type(part) is Call
    ]
    message: JsonObject = {"role": "assistant", "content": _join_texts(block.parts) or None}
    if calls:
        message["tool_calls"] = calls
    return message


def _join_texts(parts: Iterable[Part]) -> str:
    return "\n\n".join([part.text for part in parts if type(part) is not Call and isinstance(part, Text)])


def _render_content(parts: Sequence[Part]) -> str | list[JsonObject]:
    if not any(isinstance(part, Image) for part in parts):
        return _join_texts(parts)
    content: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            content.append({"type": "image_url", "image_url": {"url": build_data_url(part)}})
    return content


def build_data_url(image: Image) -> str:
    return image.url or f"data:{image.media};base64,{image.data}"
