"""Parser for Gemini generateContent requests and contents.

A response without an id answers the first open call of its name; a call without an id takes its name as id.
"""

from tidegate.core.messages import Call, Image, Message, Part, Text, Thinking, Tool
from tidegate.wire.gemini.field_names import get_field, with_camel_case
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_parsed_request,
    build_tool,
    build_tool_message,
    encode_json_text,
    image_from_base64,
    join_text_parts,
    raise_bad_input,
    read_call_arguments,
    read_optional_text,
    repair_unicode,
    require_field,
    require_list,
    require_object,
    require_text,
    unknown_part_error,
)
from tidegate.wire.rendering.blocks import JsonObject

FAMILY = "gemini"
SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"
_RESPONSE_KEYS = ("output", "error", "result", "content")


def parse_message(obj: object) -> list[Message]:
    return _read_content(obj, [])


def _read_content(obj: object, pending: list[Call]) -> list[Message]:
    """Parse a content. `pending` are open calls: a response without an id answers the first of its name."""
    content = require_object(obj, "A content")
    role = content.get("role", "user")
    parts = [require_object(part, "A part") for part in require_list(content.get("parts"), "parts")]
    if role == "model":
        return [Message("assistant", tuple(map(read_model_part, parts)), origin=FAMILY)]
    if role not in ("user", "function", "system"):
        raise_bad_input(f"The role '{abbreviate_value(role)}' is unknown.", "Use user or model.")
    results = [read_response(part, pending) for part in parts if get_field(part, "functionResponse") is not None]
    rest = tuple(read_user_part(part) for part in parts if get_field(part, "functionResponse") is None)
    if rest or not results:
        results.append(Message("system" if role == "system" else "user", rest))
    return results


def read_model_part(part: JsonObject) -> Part:
    signature = read_optional_text(get_field(part, "thoughtSignature"), "A thoughtSignature")
    signature = "" if signature == SIGNATURE_PLACEHOLDER else signature
    function_call = get_field(part, "functionCall")
    if function_call is not None:
        call = require_object(function_call, "A functionCall")
        name = require_field(call, "name", "A functionCall")
        call_id = read_optional_text(call.get("id"), "The id of a functionCall") or name
        return Call(call_id, name, read_call_arguments(call.get("args")), signature)
    if part.get("thought") and not signature:
        return Thinking(read_optional_text(part.get("text"), "A thought"))
    if not part.get("thought") and isinstance(part.get("text"), str):
        return Text(require_text(part["text"], "A text"), signature)
    if get_field(part, "inlineData") is not None or get_field(part, "fileData") is not None:
        return read_user_part(part)
    return Thinking(block=encode_json_text(with_camel_case(part)))


def read_user_part(part: JsonObject) -> Part:
    if isinstance(part.get("text"), str):
        return Text(require_text(part["text"], "A text"))
    inline, file_data = get_field(part, "inlineData"), get_field(part, "fileData")
    image = require_object(inline or file_data or {}, "An image")
    media = read_optional_text(get_field(image, "mimeType"), "A mimeType") or "image/png"
    if inline is not None and media.startswith("image/"):
        return image_from_base64(require_field(image, "data", "inlineData"), media)
    if file_data is not None and media.startswith("image/"):
        uri = require_text(get_field(image, "fileUri"), "A fileUri")
        return Image(media=media, url=uri)
    raise unknown_part_error(next(iter(part), None) if not image else media, "the content")


def read_response(part: JsonObject, pending: list[Call]) -> Message:
    response_part = require_object(get_field(part, "functionResponse"), "A functionResponse")
    name = require_field(response_part, "name", "A functionResponse")
    call_id = read_optional_text(response_part.get("id"), "The id of a functionResponse")
    match = next((call for call in pending if call_id == call.id or (not call_id and call.name == name)), None)
    if match is not None:
        pending.remove(match)
        call_id = match.id
    response = response_part.get("response")
    parts: list[Part] = []
    error = False
    key = next(iter(response), "") if isinstance(response, dict) and len(response) == 1 else ""
    if isinstance(response, dict) and key in _RESPONSE_KEYS and isinstance(response[key], str):
        error = key == "error"
        parts = [Text(repair_unicode(response[key]))]
    elif response is not None:
        parts = [Text(encode_json_text(response))]
    inner = response_part.get("parts")
    parts += [read_user_part(require_object(each, "A part")) for each in require_list(inner or [], "parts")]
    return build_tool_message(call_id or name, parts, error)


def parse_body(body: object) -> ParsedRequest:
    request = require_object(body, "The body")
    messages: list[Message] = []
    pending: list[Call] = []
    for obj in require_list(request.get("contents"), "contents"):
        for message in _read_content(obj, pending):
            messages.append(message)
            if message.role == "assistant":
                pending = [part for part in message.parts if isinstance(part, Call)]
    system = ""
    instruction = get_field(request, "systemInstruction")
    if instruction is not None:
        parts = require_list(
            require_object(instruction, "systemInstruction").get("parts"), "The parts of systemInstruction"
        )
        system = join_text_parts(read_user_part(require_object(part, "A part")) for part in parts)
    return build_parsed_request(messages, system, read_tools(request.get("tools")))


def read_tools(value: object) -> list[Tool]:
    tools: list[Tool] = []
    for each in require_list(value or [], "tools"):
        listed = get_field(require_object(each, "A tool"), "functionDeclarations")
        if listed is None:
            raise_bad_input("A tool has no functionDeclarations.", "Only function tools are known.")
        for declared in require_list(listed, "functionDeclarations"):
            tool = require_object(declared, "A function declaration")
            schema = get_field(tool, "parametersJsonSchema") or tool.get("parameters")
            tools.append(
                build_tool(require_field(tool, "name", "A function declaration"), tool.get("description"), schema)
            )
    return tools
