"""Parser for OpenAI Responses requests and items."""

from collections.abc import Mapping

from tidegate.core.messages import Call, Compaction, Message, Part, Role, Text, Thinking, Tool
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
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
from tidegate.wire.rendering.blocks import JsonObject

FAMILY = "openai_responses"

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
COMPACTION_TYPES = ("compaction", "compaction_summary")
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")


def recognize_body(body: Mapping[str, object]) -> int:
    raw_input = body.get("input")
    items = [each for each in raw_input if isinstance(each, dict)] if isinstance(raw_input, list) else []
    has_input = isinstance(raw_input, str | list) and all("role" in each or "type" in each for each in items)
    return 1 if has_input and "model" in body else 0


def parse_message(obj: object) -> list[Message]:
    """Parse one item. Reasoning becomes a separate message; it belongs to the assistant message that follows."""
    item = require_object(obj, "An item")
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return [_read_message(item)]
    if kind in _OUTPUT_TYPES:
        output = read_parts(item.get("output"), "a tool output", read_part)
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
        raise_bad_input("An item_reference points into the server's memory.", "Pass the item itself.")
    elif not isinstance(kind, str):
        raise_bad_input("An item has neither a type nor a role.", "Pass a message or an item of a response's output.")
    else:
        # "The latest compaction item carries the necessary context", and items before it may be dropped:
        # https://developers.openai.com/api/docs/guides/compaction
        compacts = kind in COMPACTION_TYPES and bool(item.get("encrypted_content"))
        part = (Compaction if compacts else Thinking)(block=encode_json_text(item))
    return [Message("assistant", (part,), origin=FAMILY)]


def _read_message(item: JsonObject) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise_bad_input(f"The role '{abbreviate_value(role)}' is unknown.", "Use system, developer, user or assistant.")
    parts = read_parts(item.get("content"), f"the {role} message", read_part)
    return Message(_ROLES[role], parts, origin=FAMILY if role == "assistant" else "")


def read_part(part: JsonObject, what: str) -> Part:
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
    raw_input = request.get("input")
    messages: list[Message] = []
    if isinstance(raw_input, str):
        messages = [Message("user", (Text(repair_unicode(raw_input)),))]
    else:
        for obj in require_list(raw_input, "input"):
            messages += parse_message(obj)
    system = read_optional_text(request.get("instructions"), "The instructions")
    tools = require_list(request.get("tools") or [], "tools")
    return build_parsed_request(merge_adjacent_messages(messages, "assistant"), system, map(read_tool, tools))


def read_seen_tool(value: object) -> Tool:
    """A tool of a request as far as the model sees it before it searches for tools.

    Of a deferred function that is the name and the description, of a namespace also the functions that are not
    deferred: https://developers.openai.com/api/docs/guides/tools-tool-search
    """
    tool = require_object(value, "A tool")
    name, description = str(tool.get("name") or tool.get("server_label") or ""), str(tool.get("description") or "")
    if tool.get("type") == "namespace":
        inner = tool.get("tools")
        visible = [each for each in inner if not _is_deferred(each)] if isinstance(inner, list) else []
        return Tool(repair_unicode(name), repair_unicode(description), encode_json_text(visible))
    return Tool(repair_unicode(name), repair_unicode(description), "{}") if _is_deferred(tool) else read_tool(tool)


def _is_deferred(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("defer_loading") is True


def read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    if tool.get("type") != "function":
        raise_bad_input(
            f"A tool has the type '{abbreviate_value(tool.get('type'))}'.", "Only function tools are known."
        )
    return build_tool(require_field(tool, "name", "A tool"), tool.get("description"), tool.get("parameters"))
