"""Gemini generateContent.

Calls have no id here: results stand in the order of the calls, one for each, all in one content, under the same name.
A name therefore serves as the id of a call that was read from a history without ids.

Gemini 3 signs the first call of each step and refuses it unsigned in the turn under way. What another provider called,
and what lost its signature to an edit, carries the provider's own word for that. It stays when the turn is over: nobody
checks it then, and taking it out would change the prefix.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Message, Part, Text, Thinking, Tool
from tidegate.wire.blocks import Block, Json, Options, Rules
from tidegate.wire.layout import SPARE_RESULT, is_blank, joined
from tidegate.wire.names import Definition, Shape, definitions
from tidegate.wire.reading import (
    Parsed,
    a_dict,
    a_list,
    a_text,
    a_tool,
    arguments_of,
    clean,
    heading,
    image_from,
    joined_text,
    json_text,
    needed,
    object_of,
    refuse,
    shown,
    text_or_empty,
    tool_message,
    unknown_part,
)

FAMILY = "gemini"
UNSIGNED = "skip_thought_signature_validator"

_SHAPE = Shape(re.compile(r"[!-~]+"), re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"))
RULES = Rules(FAMILY, _SHAPE, assistant_images=True)
_ANSWERS = ("output", "error", "result", "content")
_OWN = frozenset(("text", "executableCode", "codeExecutionResult"))
_MARKS = frozenset(("thought", "thoughtSignature"))
_SNAKE, _CAMEL = re.compile(r"[A-Z]"), re.compile(r"_([a-z])")
_OLDER = re.compile(r"gemini-[12]\b")


# --- render -------------------------------------------------------------------------------------------------------


def head(system: str, tools: Iterable[Tool], options: Options, calls: bool = False) -> Json:
    """The model stands in the address, not in the body."""
    body: Json = {}
    if not is_blank(system):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    defined = definitions(tools, RULES.shape)
    if defined:
        body["tools"] = [{"functionDeclarations": [_declaration(each) for each in defined]}]
    config: Json = {"maxOutputTokens": options.max_tokens} if options.max_tokens else {}
    config |= {{"top_p": "topP"}.get(name, name): value for name, value in options.sampling().items()}
    if options.thinking:
        config["thinkingConfig"] = {"thinkingBudget": options.thinking}
    if config:
        body["generationConfig"] = config
    return body


def _declaration(tool: Definition) -> Json:
    found: Json = {"name": tool.name}
    if tool.description:
        found["description"] = tool.description
    found["parametersJsonSchema"] = tool.schema
    return found


def lead(system: str) -> list[Json]:
    return []


def block(block: Block, options: Options) -> list[Json]:
    if block.side == "assistant":
        return [{"role": "model", "parts": _model(block, wants_signatures(options.model))}]
    parts: list[Json] = []
    for answer in block.answers:
        text = joined([part.text for part in answer.parts if isinstance(part, Text)], SPARE_RESULT)
        response = {"error" if answer.error else "output": text}
        parts.append({"functionResponse": {"name": answer.name, "response": response}})
    for part in block.parts:
        if isinstance(part, Text):
            parts.append({"text": part.text})
        elif isinstance(part, Image):
            parts.append(_image(part))
    return [{"role": "user", "parts": parts}]


def wants_signatures(model: str) -> bool:
    """Gemini 3 and later; a model that is not named is taken for a new one."""
    return not _OLDER.search(model)


def _model(block: Block, signed: bool) -> list[Json]:
    parts: list[Json] = []
    called = False
    for part in block.parts:
        made: Json = {}
        opaque = ""
        if isinstance(part, Text):
            made, opaque = {"text": part.text}, part.opaque
        elif isinstance(part, Image):
            made = _image(part)
        elif isinstance(part, Thinking):
            made = _own_part(object_of(part.block))
        elif isinstance(part, Call):
            made = {"functionCall": {"name": part.name, "args": object_of(part.arguments)}}
            opaque = part.opaque or (UNSIGNED if signed and not called else "")
            called = True
        if opaque:
            made["thoughtSignature"] = opaque
        if made:
            parts.append(made)
    return parts


def _own_part(part: Json) -> Json:
    """A part Gemini made that is more than a text: a signed thought, code it ran. Anything else is not its own."""
    whole = len(_OWN & part.keys()) == 1 and part.keys() <= _OWN | _MARKS
    return part if whole and isinstance(part.get("text", ""), str) else {}


def _image(image: Image) -> Json:
    if image.url:
        return {"fileData": {"mimeType": image.media, "fileUri": image.url}}
    return {"inlineData": {"mimeType": image.media, "data": image.data}}


# --- parse --------------------------------------------------------------------------------------------------------


def parse_message(obj: object) -> list[Message]:
    return _read(obj, [])


def _read(obj: object, pending: list[Call]) -> list[Message]:
    """`pending` are calls not answered yet: a response without an id answers the first of its name."""
    content = a_dict(obj, "A content")
    role = content.get("role", "user")
    parts = [a_dict(part, "A part") for part in a_list(content.get("parts"), "parts")]
    if role == "model":
        return [Message("assistant", tuple(map(_read_model, parts)), origin=FAMILY)]
    if role not in ("user", "function", "system"):
        refuse(f"The role '{shown(role)}' is unknown.", "Use user or model.")
    results = [_read_response(part, pending) for part in parts if _of(part, "functionResponse") is not None]
    rest = tuple(_read_shown(part) for part in parts if _of(part, "functionResponse") is None)
    if rest or not results:
        results.append(Message("system" if role == "system" else "user", rest))
    return results


def _of(part: Json, key: str) -> object:
    """A field by its JSON name or by the name Google's Python package gives it."""
    return part.get(key, part.get(_SNAKE.sub(lambda letter: "_" + letter[0].lower(), key)))


def _camel(part: Json) -> Json:
    return {_CAMEL.sub(lambda found: found[1].upper(), key): value for key, value in part.items()}


def _read_model(part: Json) -> Part:
    signature = text_or_empty(_of(part, "thoughtSignature"), "A thoughtSignature")
    signature = "" if signature == UNSIGNED else signature
    called = _of(part, "functionCall")
    if called is not None:
        call = a_dict(called, "A functionCall")
        name = needed(call, "name", "A functionCall")
        call_id = text_or_empty(call.get("id"), "The id of a functionCall") or name
        return Call(call_id, name, arguments_of(call.get("args")), signature)
    if part.get("thought") and not signature:
        return Thinking(text_or_empty(part.get("text"), "A thought"))
    if not part.get("thought") and isinstance(part.get("text"), str):
        return Text(a_text(part["text"], "A text"), signature)
    if _of(part, "inlineData") is not None or _of(part, "fileData") is not None:
        return _read_shown(part)
    return Thinking(block=json_text(_camel(part)))


def _read_shown(part: Json) -> Part:
    if isinstance(part.get("text"), str):
        return Text(a_text(part["text"], "A text"))
    inline, stored = _of(part, "inlineData"), _of(part, "fileData")
    found = a_dict(inline or stored or {}, "An image")
    media = text_or_empty(_of(found, "mimeType"), "A mimeType") or "image/png"
    if inline is not None and media.startswith("image/"):
        return image_from(needed(found, "data", "inlineData"), media)
    if stored is not None and media.startswith("image/"):
        uri = a_text(_of(found, "fileUri"), "A fileUri")
        return Image(media=media, url=uri)
    raise unknown_part(next(iter(part), None) if not found else media, "the content")


def _read_response(part: Json, pending: list[Call]) -> Message:
    given = a_dict(_of(part, "functionResponse"), "A functionResponse")
    name = needed(given, "name", "A functionResponse")
    call_id = text_or_empty(given.get("id"), "The id of a functionResponse")
    answered = next((call for call in pending if call_id == call.id or (not call_id and call.name == name)), None)
    if answered is not None:
        pending.remove(answered)
        call_id = answered.id
    response = given.get("response")
    found: list[Part] = []
    error = False
    key = next(iter(response), "") if isinstance(response, dict) and len(response) == 1 else ""
    if isinstance(response, dict) and key in _ANSWERS and isinstance(response[key], str):
        error = key == "error"
        found = [Text(clean(response[key]))]
    elif response is not None:
        found = [Text(json_text(response))]
    inner = given.get("parts")
    found += [_read_shown(a_dict(each, "A part")) for each in a_list(inner or [], "parts")]
    return tool_message(call_id or name, found, error)


def parse_body(body: object) -> Parsed:
    request = a_dict(body, "The body")
    messages: list[Message] = []
    pending: list[Call] = []
    for obj in a_list(request.get("contents"), "contents"):
        for message in _read(obj, pending):
            messages.append(message)
            if message.role == "assistant":
                pending = [part for part in message.parts if isinstance(part, Call)]
    system = ""
    given = _of(request, "systemInstruction")
    if given is not None:
        parts = a_list(a_dict(given, "systemInstruction").get("parts"), "The parts of systemInstruction")
        system = joined_text(_read_shown(a_dict(part, "A part")) for part in parts)
    return heading(messages, system, _read_tools(request.get("tools")))


def _read_tools(value: object) -> list[Tool]:
    found: list[Tool] = []
    for each in a_list(value or [], "tools"):
        listed = _of(a_dict(each, "A tool"), "functionDeclarations")
        if listed is None:
            refuse("A tool has no functionDeclarations.", "Only function tools are known.")
        for declared in a_list(listed, "functionDeclarations"):
            tool = a_dict(declared, "A function declaration")
            schema = _of(tool, "parametersJsonSchema") or tool.get("parameters")
            found.append(a_tool(needed(tool, "name", "A function declaration"), tool.get("description"), schema))
    return found
