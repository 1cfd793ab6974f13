"""Renderer for OpenAI Responses, used without the server's storage: `store` is false.

No item may then have an id of the server. Reasoning comes encrypted and is sent back inline, directly before the item
it led to; only the organization that made it can read it.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Part, Text, Thinking, Tool
from tidegate.wire.openai_chat.render import build_data_url
from tidegate.wire.openai_responses.parse import FAMILY
from tidegate.wire.parsing import (
    decode_object,
)
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.rendering.layout import is_blank

_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CAPABILITIES = DialectCapabilities(
    FAMILY, IdentifierRules(_NAME_PATTERN, _NAME_PATTERN), standalone_thinking=True, result_images=True
)


def render_head(system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False) -> JsonObject:
    body: JsonObject = {"model": options.model} if options.model else {}
    body["store"] = False
    body["include"] = ["reasoning.encrypted_content"]
    if options.max_tokens:
        body["max_output_tokens"] = options.max_tokens
    body |= options.sampling()
    if not is_blank(system):
        body["instructions"] = system
    defined = define_tools(tools, CAPABILITIES.identifiers)
    if defined:
        # Not strict: a strict schema must list every property as required, which users' schemas do not.
        body["tools"] = [
            {
                "type": "function",
                "name": each.name,
                "description": each.description,
                "parameters": each.schema,
                "strict": False,
            }
            for each in defined
        ]
    return body


def render_leading_messages(system: str) -> list[JsonObject]:
    return []


def render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    if block.side == "assistant":
        return _render_assistant(block)
    items: list[JsonObject] = []
    for answer in block.answers:
        first = answer.parts[0]
        plain = len(answer.parts) == 1 and isinstance(first, Text)
        output = first.text if plain and isinstance(first, Text) else _render_parts(answer.parts)
        items.append({"type": "function_call_output", "call_id": answer.id, "output": output})
    if block.parts:
        items.append({"type": "message", "role": "user", "content": _render_parts(block.parts)})
    for text in block.instructions:
        items.append({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]})
    return items


def _render_assistant(block: LayoutBlock) -> list[JsonObject]:
    """Render the items of an assistant block. Of adjacent reasoning items only the last has an item after it; the
    others would be refused and are left out.
    """
    items: list[JsonObject] = []
    reasoning: JsonObject | None = None
    texts: list[JsonObject] | None = None
    for part in block.parts:
        if isinstance(part, Thinking):
            reasoning = _render_reasoning(decode_object(part.block)) or reasoning
            continue
        if reasoning is not None:
            items.append(reasoning)
            reasoning, texts = None, None
        if isinstance(part, Call):
            texts = None
            items.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments})
        elif isinstance(part, Text) and not is_blank(part.text):
            if texts is None:
                texts = []
                items.append({"type": "message", "role": "assistant", "content": texts})
            texts.append({"type": "output_text", "text": part.text})
    return items


def _render_reasoning(item: JsonObject) -> JsonObject | None:
    """Return the fields of a reasoning item that may be sent; None without encrypted content, which the server
    needs.
    """
    encrypted, summary = item.get("encrypted_content"), item.get("summary")
    if item.get("type") != "reasoning" or not (isinstance(encrypted, str) and encrypted):
        return None
    return {
        "type": "reasoning",
        "summary": [part for part in summary if _is_summary(part)] if isinstance(summary, list) else [],
        "encrypted_content": encrypted,
    }


def _is_summary(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "summary_text" and isinstance(part.get("text"), str)


def _render_parts(parts: Iterable[Part]) -> list[JsonObject]:
    content: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Image):
            content.append({"type": "input_image", "image_url": build_data_url(part), "detail": "auto"})
    return content
