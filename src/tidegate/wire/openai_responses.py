"""OpenAI Responses, used without the server's memory: `store` is false.

Then no item may carry an id of the server. Reasoning comes back encrypted and is replayed inline, directly before the
item it led to; the organisation that made it can read it, nobody else.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.blocks import Block, Json, Options, Rules
from tidegate.wire.layout import is_blank
from tidegate.wire.names import Shape, definitions
from tidegate.wire.openai_chat import data_url
from tidegate.wire.reading import (
    Parsed,
    a_dict,
    a_list,
    a_text,
    a_tool,
    arguments_of,
    clean,
    heading,
    image_of,
    json_text,
    merged,
    needed,
    object_of,
    parts_of,
    refuse,
    shown,
    text_or_empty,
    tool_message,
    unknown_part,
)

FAMILY = "openai_responses"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
RULES = Rules(FAMILY, Shape(_NAME, _NAME), early_thinking=True, result_images=True)


# --- render -------------------------------------------------------------------------------------------------------


def head(system: str, tools: Iterable[Tool], options: Options, calls: bool = False) -> Json:
    body: Json = {"model": options.model} if options.model else {}
    body["store"] = False
    body["include"] = ["reasoning.encrypted_content"]
    if options.max_tokens:
        body["max_output_tokens"] = options.max_tokens
    body |= options.sampling()
    if not is_blank(system):
        body["instructions"] = system
    defined = definitions(tools, RULES.shape)
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


def lead(system: str) -> list[Json]:
    return []


def block(block: Block, options: Options) -> list[Json]:
    if block.side == "assistant":
        return _assistant(block)
    items: list[Json] = []
    for answer in block.answers:
        first = answer.parts[0]
        plain = len(answer.parts) == 1 and isinstance(first, Text)
        output = first.text if plain and isinstance(first, Text) else _shown(answer.parts)
        items.append({"type": "function_call_output", "call_id": answer.id, "output": output})
    if block.parts:
        items.append({"type": "message", "role": "user", "content": _shown(block.parts)})
    return items


def _assistant(block: Block) -> list[Json]:
    """Of several reasoning items in a row only the last has an item behind it; the others would be refused."""
    items: list[Json] = []
    reasoning: Json | None = None
    texts: list[Json] | None = None
    for part in block.parts:
        if isinstance(part, Thinking):
            reasoning = _reasoning(object_of(part.block)) or reasoning
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


def _reasoning(item: Json) -> Json | None:
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


def _shown(parts: Iterable[Part]) -> list[Json]:
    found: list[Json] = []
    for part in parts:
        if isinstance(part, Text):
            found.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Image):
            found.append({"type": "input_image", "image_url": data_url(part), "detail": "auto"})
    return found


# --- parse --------------------------------------------------------------------------------------------------------

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def parse_message(obj: object) -> list[Message]:
    """One item. Reasoning is a message by itself here: it belongs to the assistant message that follows."""
    item = a_dict(obj, "An item")
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return [_read_message(item)]
    if kind in _OUTPUTS:
        output = parts_of(item.get("output"), "a tool output", _read_part)
        return [tool_message(needed(item, "call_id", "A tool output"), output)]
    part: Part
    if kind == "function_call":
        call_id = needed(item, "call_id", "A function_call")
        part = Call(call_id, needed(item, "name", "A function_call"), arguments_of(item.get("arguments")))
    elif kind == "custom_tool_call":
        call_id = needed(item, "call_id", "A custom_tool_call")
        text = text_or_empty(item.get("input"), "The input of a custom_tool_call")
        part = Call(call_id, needed(item, "name", "A custom_tool_call"), json_text({"input": text}))
    elif kind == "item_reference":
        refuse("An item_reference points into the server's memory.", "Hand in the item itself.")
    elif not isinstance(kind, str):
        refuse("An item has neither a type nor a role.", "Hand in a message or an item of a response's output.")
    else:
        part = Thinking(block=json_text(item))
    return [Message("assistant", (part,), origin=FAMILY)]


def _read_message(item: Json) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        refuse(f"The role '{shown(role)}' is unknown.", "Use system, developer, user or assistant.")
    parts = parts_of(item.get("content"), f"the {role} message", _read_part)
    return Message(_ROLES[role], parts, origin=FAMILY if role == "assistant" else "")


def _read_part(part: Json, what: str) -> Part:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return Text(a_text(part.get("text"), f"A text of {what}"))
    if kind == "refusal":
        return Text(a_text(part.get("refusal"), f"A refusal of {what}"))
    if kind != "input_image":
        raise unknown_part(kind, what)
    if not isinstance(part.get("image_url"), str):
        refuse(f"An image of {what} has no image_url.", "Send the image itself, not the id of a file.")
    return image_of(clean(str(part["image_url"])))


def parse_body(body: object) -> Parsed:
    request = a_dict(body, "The body")
    given = request.get("input")
    messages: list[Message] = []
    if isinstance(given, str):
        messages = [Message("user", (Text(clean(given)),))]
    else:
        for obj in a_list(given, "input"):
            messages += parse_message(obj)
    system = text_or_empty(request.get("instructions"), "The instructions")
    tools = a_list(request.get("tools") or [], "tools")
    return heading(merged(messages, "assistant"), system, map(_read_tool, tools))


def _read_tool(value: object) -> Tool:
    tool = a_dict(value, "A tool")
    if tool.get("type") != "function":
        refuse(f"A tool has the type '{shown(tool.get('type'))}'.", "Only function tools are known.")
    return a_tool(needed(tool, "name", "A tool"), tool.get("description"), tool.get("parameters"))
