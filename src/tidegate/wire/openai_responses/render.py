"""OpenAI Responses, used without the server's memory: `store` is false.

Then no item may carry an id of the server. Reasoning comes back encrypted and is replayed inline, directly before the
item it led to; the organisation that made it can read it, nobody else.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.openai_chat.render import build_data_url
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
    decode_object,
    encode_json_text,
    image_from_url,
    merge_adjacent_messages,
    raise_bad_input,
    read_call_arguments,
    read_optional_text,
    read_parts,
    repair_unicode,
    require_field,
    require_list,
    require_object,
    require_text,
    unknown_part_error,
)
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.rendering.layout import is_blank

FAMILY = "openai_responses"

_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CAPABILITIES = DialectCapabilities(
    FAMILY, IdentifierRules(_NAME_PATTERN, _NAME_PATTERN), standalone_thinking=True, result_images=True
)


# --- render -------------------------------------------------------------------------------------------------------


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
        # Not strict: a strict schema must list every property as required, which people's own schemas do not.
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
    return items


def _render_assistant(block: LayoutBlock) -> list[JsonObject]:
    """Of several reasoning items in a row only the last has an item behind it; the others would be refused."""
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
    """What of a reasoning item may be sent. A server that forgot it can do nothing without the encrypted content."""
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
    found: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            found.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Image):
            found.append({"type": "input_image", "image_url": build_data_url(part), "detail": "auto"})
    return found


# --- parse --------------------------------------------------------------------------------------------------------

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")


def parse_message(obj: object) -> list[Message]:
    """One item. Reasoning is a message by itself here: it belongs to the assistant message that follows."""
    item = require_object(obj, "An item")
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return [_read_message(item)]
    if kind in _OUTPUT_TYPES:
        output = read_parts(item.get("output"), "a tool output", _read_part)
        return [build_tool_message(require_field(item, "call_id", "A tool output"), output)]
    part: Part
    if kind == "function_call":
        call_id = require_field(item, "call_id", "A function_call")
        part = Call(call_id, require_field(item, "name", "A function_call"), read_call_arguments(item.get("arguments")))
    elif kind == "custom_tool_call":
        call_id = require_field(item, "call_id", "A custom_tool_call")
        text = read_optional_text(item.get("input"), "The input of a custom_tool_call")
        part = Call(call_id, require_field(item, "name", "A custom_tool_call"), encode_json_text({"input": text}))
    elif kind == "item_reference":
        raise_bad_input("An item_reference points into the server's memory.", "Hand in the item itself.")
    elif not isinstance(kind, str):
        raise_bad_input(
            "An item has neither a type nor a role.", "Hand in a message or an item of a response's output."
        )
    else:
        part = Thinking(block=encode_json_text(item))
    return [Message("assistant", (part,), origin=FAMILY)]


def _read_message(item: JsonObject) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise_bad_input(f"The role '{abbreviate_value(role)}' is unknown.", "Use system, developer, user or assistant.")
    parts = read_parts(item.get("content"), f"the {role} message", _read_part)
    return Message(_ROLES[role], parts, origin=FAMILY if role == "assistant" else "")


def _read_part(part: JsonObject, what: str) -> Part:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return Text(require_text(part.get("text"), f"A text of {what}"))
    if kind == "refusal":
        return Text(require_text(part.get("refusal"), f"A refusal of {what}"))
    if kind != "input_image":
        raise unknown_part_error(kind, what)
    if not isinstance(part.get("image_url"), str):
        raise_bad_input(f"An image of {what} has no image_url.", "Send the image itself, not the id of a file.")
    return image_from_url(repair_unicode(str(part["image_url"])))


def parse_body(body: object) -> ParsedRequest:
    request = require_object(body, "The body")
    given = request.get("input")
    messages: list[Message] = []
    if isinstance(given, str):
        messages = [Message("user", (Text(repair_unicode(given)),))]
    else:
        for obj in require_list(given, "input"):
            messages += parse_message(obj)
    system = read_optional_text(request.get("instructions"), "The instructions")
    tools = require_list(request.get("tools") or [], "tools")
    return build_parsed_request(merge_adjacent_messages(messages, "assistant"), system, map(_read_tool, tools))


def _read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    if tool.get("type") != "function":
        raise_bad_input(
            f"A tool has the type '{abbreviate_value(tool.get('type'))}'.", "Only function tools are known."
        )
    return build_tool(require_field(tool, "name", "A tool"), tool.get("description"), tool.get("parameters"))
