"""Renderer for Anthropic Messages.

Thinking blocks are signed and bound to everything before them: they are sent back unchanged and in their place, or not
at all. The same holds for the blocks of tools that the server runs: a use is sent with its result.
"""

import re
from collections.abc import Iterable, Sequence

from tidegate.core.messages import Call, Image, Part, Text, Thinking, Tool
from tidegate.wire.anthropic.models import demands_loop_start
from tidegate.wire.anthropic.parse import FAMILY
from tidegate.wire.parsing import (
    decode_object,
)
from tidegate.wire.rendering.blocks import CallAnswer, DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.rendering.image_limits import ImageLimits
from tidegate.wire.rendering.layout import is_blank

_THINKING_TYPES = ("thinking", "redacted_thinking")
_DEFAULT_MAX_TOKENS = 4096
_STUB_TOOL_NAME = "none"
CACHE_MARKER: JsonObject = {"cache_control": {"type": "ephemeral"}}
_MARKABLE_TYPES = ("text", "image", "tool_use", "tool_result")
_SERVER_TOOL_TYPES = ("server_tool_use", "mcp_tool_use")

_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# A request may have 32 MB; the rest is more text than any window holds.
_IMAGE_LIMITS = ImageLimits(
    _IMAGE_TYPES,
    max_images=100,
    max_images_if_any_large=20,
    max_edge=8000,
    large_edge=2000,
    max_image_chars=5_242_880,
    max_total_chars=25_000_000,
)
CAPABILITIES = DialectCapabilities(
    FAMILY,
    IdentifierRules(_NAME_PATTERN, _NAME_PATTERN),
    result_images=True,
    image_limits=_IMAGE_LIMITS,
    default_max_tokens=_DEFAULT_MAX_TOKENS,
)


def render_head(system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False) -> JsonObject:
    """Render the body without its messages.

    A history with calls is refused when no tools are given, so such a request gets a tool that cannot be chosen.
    """
    body: JsonObject = {"model": options.model} if options.model else {}
    body["max_tokens"] = options.max_tokens or _DEFAULT_MAX_TOKENS
    if not options.thinking_budget:  # thinking allows neither of the two; otherwise only one may be given
        body |= dict(list(options.sampling().items())[:1])
    if not is_blank(system):
        body["system"] = system
    defined = define_tools(tools, CAPABILITIES.identifiers)
    if defined:
        body["tools"] = [_render_tool(each.name, each.description, each.schema) for each in defined]
    elif calls:
        body["tools"] = [_render_tool(_STUB_TOOL_NAME, "", {"type": "object"})]
        body["tool_choice"] = {"type": "none"}
    if options.thinking_budget:
        body["thinking"] = {"type": "enabled", "budget_tokens": options.thinking_budget}
    return _add_head_marker(body) if options.cache_markers else body


def _add_head_marker(body: JsonObject) -> JsonObject:
    """Add one cache marker. The provider's cache holds the tools before the system text, so a marker on the last
    serves both.
    """
    system, tools = body.get("system"), body.get("tools")
    if isinstance(system, str):
        return body | {"system": [{"type": "text", "text": system, **CACHE_MARKER}]}
    if isinstance(tools, list):
        return body | {"tools": [*tools[:-1], {**tools[-1], **CACHE_MARKER}]}
    return body


def add_cache_marker(message: JsonObject) -> JsonObject | None:
    """Return the message with a cache marker on its last block: the provider caches the request up to there."""
    content = message.get("content")
    if not isinstance(content, list) or not content or content[-1].get("type") not in _MARKABLE_TYPES:
        return None
    return message | {"content": [*content[:-1], {**content[-1], **CACHE_MARKER}]}


def _render_tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    definition: JsonObject = {"name": name}
    if description:
        definition["description"] = description
    definition["input_schema"] = schema
    return definition


def render_leading_messages(system: str) -> list[JsonObject]:
    return []


def render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    if block.side == "assistant":
        return [{"role": "assistant", "content": _render_assistant(block)}]
    content: list[JsonObject] = [_render_result(answer) for answer in block.answers]
    content += _render_parts(block.parts)
    instructions = [{"type": "text", "text": text} for text in block.instructions]
    messages: list[JsonObject] = [{"role": "user", "content": content}]
    return [*messages, {"role": "system", "content": instructions}] if instructions else messages


def _render_assistant(block: LayoutBlock) -> list[JsonObject]:
    content: list[JsonObject] = []
    for part in block.parts:
        if isinstance(part, Text):
            if not is_blank(part.text):
                content.append({"type": "text", "text": part.text})
        elif isinstance(part, Call):
            content.append(
                {"type": "tool_use", "id": part.id, "name": part.name, "input": decode_object(part.arguments)}
            )
        elif isinstance(part, Thinking):
            opaque = decode_object(part.block)
            if opaque.get("type") not in ("text", "tool_use"):
                content.append(opaque)
    pairs = {
        each["id"] for each in content if each.get("type") in _SERVER_TOOL_TYPES and isinstance(each.get("id"), str)
    }
    pairs &= {each.get("tool_use_id") for each in content if isinstance(each.get("tool_use_id"), str)}
    content = [each for each in content if _is_sendable_block(each, pairs)]
    if content[-1].get("type") in _THINKING_TYPES:
        # The answer was cut off during thinking: a final thinking block is refused.
        content = [each for each in content if each.get("type") not in _THINKING_TYPES]
    return content


def _is_sendable_block(block: JsonObject, pairs: set[object]) -> bool:
    """Thinking is useless without its signature, and the use of a server tool without its result."""
    kind = block.get("type")
    if kind in _SERVER_TOOL_TYPES:
        return block.get("id") in pairs
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        return block.get("tool_use_id") in pairs
    if kind in _THINKING_TYPES:
        seal = block.get("signature" if kind == "thinking" else "data")
        return isinstance(seal, str) and bool(seal)
    return kind in ("text", "tool_use", "compaction")


def _render_result(answer: CallAnswer) -> JsonObject:
    first = answer.parts[0]
    single = len(answer.parts) == 1 and isinstance(first, Text)
    content = first.text if single and isinstance(first, Text) else _render_parts(answer.parts)
    block: JsonObject = {"type": "tool_result", "tool_use_id": answer.id, "content": content}
    if answer.error:
        block["is_error"] = True
    return block


def _render_parts(parts: Iterable[Part]) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            source: JsonObject = {"type": "url", "url": part.url}
            if not part.url:
                source = {"type": "base64", "media_type": part.media, "data": part.data}
            blocks.append({"type": "image", "source": source})
    return blocks


def starts_loops_with_thinking(options: RequestOptions) -> bool:
    """Whether a running tool loop must begin with thinking: with a budget, for an older model."""
    asks = bool(options.thinking_budget) or needs_first_thinking(options.extra.get("thinking"))
    return asks and demands_loop_start(options.model)


def needs_first_thinking(thinking: object) -> bool:
    """Whether this value of `thinking` in a request demands that a running tool loop begins with thinking."""
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def allows_thinking(messages: Sequence[JsonObject]) -> bool:
    """Return whether the request may ask for thinking: a running tool loop must start with its original thinking.

    The provider may or may not count a user message with results and text as the start of a new loop, so the answer
    after it must start with thinking, too.
    """
    for place in range(len(messages) - 1, 0, -2):
        if _block_type_at(messages[place], 0) != "tool_result":
            return True
        if (place < 2 or _block_type_at(messages[place - 2], -1) != "tool_result") and _block_type_at(
            messages[place - 1], 0
        ) not in _THINKING_TYPES:
            return False
    return True


def _block_type_at(message: JsonObject, place: int) -> object:
    """The type of a block. Results come first in a message, so its first and last block show what it holds."""
    content = message.get("content")
    block = content[place] if isinstance(content, list) and content else None
    return block.get("type") if isinstance(block, dict) else None
