"""Anthropic Messages.

Thinking blocks are signed, and bound to all that stands before them: they are sent back exactly as they came, in their
place, or not at all. The blocks of tools that the server runs itself travel the same way, a use with its result.
"""

import re
from collections.abc import Iterable, Sequence

from tidegate.core.messages import Call, Image, Message, Part, Text, Thinking, Tool
from tidegate.wire.blocks import Answer, Block, Json, Options, Rules
from tidegate.wire.layout import is_blank
from tidegate.wire.names import Shape, definitions
from tidegate.wire.pictures import Bounds
from tidegate.wire.reading import (
    Parsed,
    a_dict,
    a_list,
    a_text,
    a_tool,
    arguments_of,
    heading,
    image_from,
    joined_text,
    json_text,
    needed,
    object_of,
    parts_of,
    refuse,
    shown,
    text_or_empty,
    tool_message,
    unknown_part,
)

FAMILY = "anthropic"
THINKING = ("thinking", "redacted_thinking")
MAX_TOKENS = 4096
STUB = "none"
MARK: Json = {"cache_control": {"type": "ephemeral"}}
_MARKABLE = ("text", "image", "tool_use", "tool_result")
_SERVER_USES = ("server_tool_use", "mcp_tool_use")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KINDS = ("image/jpeg", "image/png", "image/gif", "image/webp")
# Of the 32 MB of a request, what is left for words is far more than any window holds.
_BOUNDS = Bounds(_KINDS, most=100, few=20, edge=8000, wide=2000, heaviest=5_242_880, heaviest_all=25_000_000)
RULES = Rules(FAMILY, Shape(_NAME, _NAME), result_images=True, bounds=_BOUNDS, output=MAX_TOKENS)


# --- render -------------------------------------------------------------------------------------------------------


def head(system: str, tools: Iterable[Tool], options: Options, calls: bool = False) -> Json:
    """The body without its messages.

    A history with calls is refused when no tools are given, so it gets one that cannot be chosen.
    """
    body: Json = {"model": options.model} if options.model else {}
    body["max_tokens"] = options.max_tokens or MAX_TOKENS
    if not options.thinking:  # which allows neither; and of the two only one may be given
        body |= dict(list(options.sampling().items())[:1])
    if not is_blank(system):
        body["system"] = system
    defined = definitions(tools, RULES.shape)
    if defined:
        body["tools"] = [_definition(each.name, each.description, each.schema) for each in defined]
    elif calls:
        body["tools"] = [_definition(STUB, "", {"type": "object"})]
        body["tool_choice"] = {"type": "none"}
    if options.thinking:
        body["thinking"] = {"type": "enabled", "budget_tokens": options.thinking}
    return _head_marked(body) if options.cache else body


def _head_marked(body: Json) -> Json:
    """The tools stand before the system text in what the provider keeps, so one mark behind the last serves both."""
    system, tools = body.get("system"), body.get("tools")
    if isinstance(system, str):
        return body | {"system": [{"type": "text", "text": system, **MARK}]}
    if isinstance(tools, list):
        return body | {"tools": [*tools[:-1], {**tools[-1], **MARK}]}
    return body


def mark(message: Json) -> Json | None:
    """The message with a mark on its last block: what stands up to there is kept, and read from there next time."""
    content = message.get("content")
    if not isinstance(content, list) or not content or content[-1].get("type") not in _MARKABLE:
        return None
    return message | {"content": [*content[:-1], {**content[-1], **MARK}]}


def _definition(name: str, description: str, schema: Json) -> Json:
    found: Json = {"name": name}
    if description:
        found["description"] = description
    found["input_schema"] = schema
    return found


def lead(system: str) -> list[Json]:
    return []


def block(block: Block, options: Options) -> list[Json]:
    if block.side == "assistant":
        return [{"role": "assistant", "content": _assistant(block)}]
    content: list[Json] = [_result(answer) for answer in block.answers]
    content += _shown(block.parts)
    return [{"role": "user", "content": content}]


def _assistant(block: Block) -> list[Json]:
    content: list[Json] = []
    for part in block.parts:
        if isinstance(part, Text):
            if not is_blank(part.text):
                content.append({"type": "text", "text": part.text})
        elif isinstance(part, Call):
            content.append({"type": "tool_use", "id": part.id, "name": part.name, "input": object_of(part.arguments)})
        elif isinstance(part, Thinking):
            opaque = object_of(part.block)
            if opaque.get("type") not in ("text", "tool_use"):
                content.append(opaque)
    served = {each["id"] for each in content if each.get("type") in _SERVER_USES and isinstance(each.get("id"), str)}
    served &= {each.get("tool_use_id") for each in content if isinstance(each.get("tool_use_id"), str)}
    content = [each for each in content if _is_whole(each, served)]
    if content[-1].get("type") in THINKING:
        # An answer that was cut off while it thought: a last block of thinking is refused, part of it too.
        content = [each for each in content if each.get("type") not in THINKING]
    return content


def _is_whole(block: Json, served: set[object]) -> bool:
    """Thinking is worth nothing without its signature, a tool the server runs nothing without its result."""
    kind = block.get("type")
    if kind in _SERVER_USES:
        return block.get("id") in served
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        return block.get("tool_use_id") in served
    if kind in THINKING:
        seal = block.get("signature" if kind == "thinking" else "data")
        return isinstance(seal, str) and bool(seal)
    return kind in ("text", "tool_use", "compaction")


def _result(answer: Answer) -> Json:
    first = answer.parts[0]
    single = len(answer.parts) == 1 and isinstance(first, Text)
    content = first.text if single and isinstance(first, Text) else _shown(answer.parts)
    found: Json = {"type": "tool_result", "tool_use_id": answer.id, "content": content}
    if answer.error:
        found["is_error"] = True
    return found


def _shown(parts: Iterable[Part]) -> list[Json]:
    found: list[Json] = []
    for part in parts:
        if isinstance(part, Text):
            found.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            source: Json = {"type": "url", "url": part.url}
            if not part.url:
                source = {"type": "base64", "media_type": part.media, "data": part.data}
            found.append({"type": "image", "source": source})
    return found


def may_think(messages: Sequence[Json]) -> bool:
    """Whether thinking may be asked for: a tool loop that is under way must start with the thinking it started with.

    A user message that mixes results and text may or may not start a loop of its own in the provider's eyes, so the
    answer behind it must start with thinking, too.
    """
    for place in range(len(messages) - 1, 0, -2):
        if _kind(messages[place], 0) != "tool_result":
            return True
        if (place < 2 or _kind(messages[place - 2], -1) != "tool_result") and _kind(
            messages[place - 1], 0
        ) not in THINKING:
            return False
    return True


def _kind(message: Json, place: int) -> object:
    """Results stand first in a message, so its first and last block tell whether it holds any, and anything else."""
    content = message.get("content")
    block = content[place] if isinstance(content, list) and content else None
    return block.get("type") if isinstance(block, dict) else None


# --- parse --------------------------------------------------------------------------------------------------------


def parse_message(obj: object) -> list[Message]:
    """A user message with results gives a tool message each, and a user message for what else it holds."""
    message = a_dict(obj, "A message")
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return [Message("assistant", parts_of(content, "the assistant message", _read_answer), origin=FAMILY)]
    if role == "system":
        return [Message("system", parts_of(content, "the system message", _read_shown))]
    if role != "user":
        refuse(f"The role '{shown(role)}' is unknown.", "Use user or assistant.")
    if not isinstance(content, list | tuple):
        return [Message("user", parts_of(content, "the user message", _read_shown))]
    results: list[Message] = []
    rest: list[object] = []
    for each in content:
        if isinstance(each, dict) and each.get("type") == "tool_result":
            results.append(_read_result(each))
        else:
            rest.append(each)
    if rest or not results:
        results.append(Message("user", parts_of(rest, "the user message", _read_shown)))
    return results


def _read_result(block: Json) -> Message:
    call_id = needed(block, "tool_use_id", "A tool_result")
    parts = parts_of(block.get("content"), "a tool_result", _read_shown)
    return tool_message(call_id, parts, bool(block.get("is_error")))


def _read_shown(block: Json, what: str) -> Part:
    kind = block.get("type")
    if kind == "text":
        return Text(a_text(block.get("text"), f"A text of {what}"))
    if kind != "image":
        raise unknown_part(kind, what)
    source = a_dict(block.get("source"), f"The source of an image of {what}")
    if source.get("type") == "url":
        return Image(url=needed(source, "url", "The source of an image"))
    media = text_or_empty(source.get("media_type"), "The media_type of an image") or "image/png"
    return image_from(needed(source, "data", "The source of an image"), media)


def _read_answer(block: Json, what: str) -> Part:
    kind = block.get("type")
    if kind in ("text", "image"):
        return _read_shown(block, what)
    if kind == "tool_use":
        call_id = text_or_empty(block.get("id"), "The id of a tool_use")
        return Call(call_id, needed(block, "name", "A tool_use"), arguments_of(block.get("input")))
    if not isinstance(kind, str) or kind == "tool_result":
        raise unknown_part(kind, what)
    return Thinking(block=json_text(block))


def parse_body(body: object) -> Parsed:
    request = a_dict(body, "The body")
    listed = a_list(request.get("messages"), "messages")
    system = joined_text(parts_of(request.get("system"), "the system text", _read_shown))
    tools = a_list(request.get("tools") or [], "tools")
    return heading((message for obj in listed for message in parse_message(obj)), system, map(_read_tool, tools))


def _read_tool(value: object) -> Tool:
    tool = a_dict(value, "A tool")
    if tool.get("type", "custom") != "custom":
        label = shown(tool.get("type"))
        refuse(f"A tool has the type '{label}'.", "Only tools with an input_schema are known.")
    return a_tool(needed(tool, "name", "A tool"), tool.get("description"), tool.get("input_schema"))
