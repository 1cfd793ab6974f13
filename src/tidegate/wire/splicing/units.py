"""The messages of a client's request, read so that each can be found again in the client's bytes.

Unlike the parsers of the dialects, this reader refuses nothing: content that the engine does not know becomes an
opaque part. It is counted, and it is kept whole or left out whole, never cut inside. Texts that the client added to
those of the user are marked (`core/text/client_texts.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import CLIENT_NOTE, OPAQUE_MEDIA, Call, Image, Message, Part, Text, Thinking, Tool
from tidegate.core.text.client_texts import mark_client_texts, mark_texts_beside_results
from tidegate.wire.anthropic import parse as anthropic
from tidegate.wire.gemini import parse as gemini
from tidegate.wire.gemini.field_names import get_field
from tidegate.wire.openai_chat import parse as openai_chat
from tidegate.wire.openai_responses import parse as openai_responses
from tidegate.wire.openai_responses.stored_state import read_previous_id
from tidegate.wire.parsing import build_tool_message, encode_json_text, join_text_parts, repair_unicode
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.read_memo import ReadMemo
from tidegate.wire.streaming.reply import assign_unique_ids

REPEATED: Final = object()
"""Stands for a block that says the same as another one of its item. It belongs to no unit, and no view has it."""
WHOLE = -1
"""The place of a part that is the whole content of its item, not a block of it."""


class PartOrigin(NamedTuple):
    """Where a part was read: the item of the client's list, and the block in it."""

    item: int
    block: int = WHOLE


class HostUnit(msgspec.Struct, frozen=True):
    """One message of the engine and where it is in the client's list.

    `origins` has a place for each part. `is_whole`: the unit is one or more whole items; else some blocks of one item.
    """

    message: Message
    origins: tuple[PartOrigin, ...]
    is_whole: bool

    @property
    def items(self) -> list[int]:
        if len(self.origins) == 1:
            return [self.origins[0].item]
        return sorted({origin.item for origin in self.origins})


class HostRequest(msgspec.Struct, frozen=True):
    """A request as the client sent it. `reason` says why it cannot be managed; empty if it can.

    `fixed_items` is the number of leading items that are the system prompt, not units. `previous_id` is the id of an
    answer that the provider has stored, if that is the only reason: the request can be managed by who knows the answer.
    """

    units: tuple[HostUnit, ...] = ()
    system: str = ""
    tools: tuple[Tool, ...] = ()
    model: str = ""
    reason: str = ""
    fixed_items: int = 0
    previous_id: str = ""


def make_opaque(value: object) -> Image:
    """A part that the engine carries without knowing it: its JSON, without marks of the cache."""
    return Image(OPAQUE_MEDIA, encode_json_text(_without_cache_marks(value)))


def _without_cache_marks(value: object) -> object:
    if isinstance(value, dict) and "cache_control" in value:
        return {key: inner for key, inner in value.items() if key != "cache_control"}
    return value


_STORED_REASON: Final = "part of it is stored by the provider"
PartReader = Callable[[JsonObject, str], Part]


def _read_part(read: PartReader, block: object) -> Part:
    try:
        if isinstance(block, dict):
            return read(block, "a message")
    except BadInput:
        pass
    return make_opaque(block)


def _read_result(call_id: object, content: object, read: PartReader, error: bool = False) -> Message:
    parts: list[Part] = []
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        parts.append(Text(repair_unicode(block)) if isinstance(block, str) else _read_part(read, block))
    if content is not None and not isinstance(content, str | list):
        parts.append(make_opaque(content))
    plain = [part if isinstance(part, Text | Image) else make_opaque(content) for part in parts]
    return build_tool_message(repair_unicode(str(call_id)), plain, error)


def _read_tool_list(tools: object, read: Callable[[object], Sequence[Tool]]) -> tuple[Tool, ...]:
    """The tools, for their size and for people. One of an unknown kind is named by its type."""
    found: list[Tool] = []
    for value in tools if isinstance(tools, list) else []:
        try:
            found += read(value)
        except BadInput:
            kind = value.get("name") or value.get("type") if isinstance(value, dict) else ""
            found.append(Tool(repair_unicode(str(kind or "tool"))[:200], "", encode_json_text(value)))
    return tuple(found)


def _read_system(value: object, read: PartReader) -> str:
    if isinstance(value, str):
        return repair_unicode(value)
    parts = [_read_part(read, block) for block in value] if isinstance(value, list) else []
    return join_text_parts(Text(part.data) if isinstance(part, Image) else part for part in parts)


# --- Anthropic ----------------------------------------------------------------------------------------------------


def read_anthropic(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    _, units = memo.read_units(
        _list_of(body, "messages"), lambda item, place, _: _read_anthropic_item(item, place), lambda found, _: found
    )
    system, tools = body.get("system"), body.get("tools")
    return HostRequest(
        tuple(units),
        memo.read_field("system", system, lambda: _read_system(system, anthropic.read_user_part)),
        memo.read_field("tools", tools, lambda: _read_tool_list(tools, lambda tool: [anthropic.read_tool(tool)])),
        _model(body),
        _STORED_REASON if body.get("thread") is not None else "",
    )


def _read_anthropic_item(item: object, place: int) -> list[HostUnit]:
    if not isinstance(item, dict):
        return [HostUnit(Message("user", (make_opaque(item),)), (PartOrigin(place),), True)]
    role, content = item.get("role"), item.get("content")
    if isinstance(content, str) or not isinstance(content, list):
        part: Part = Text(repair_unicode(content)) if isinstance(content, str) else make_opaque(item)
        message = mark_client_texts(_message(role, (part,), anthropic.FAMILY))
        return [HostUnit(message, (PartOrigin(place),), True)]
    if role == "assistant":
        parts = tuple(_read_assistant_block(block) for block in content)
        origins = tuple(PartOrigin(place, number) for number in range(len(parts)))
        return [HostUnit(Message("assistant", parts, origin=anthropic.FAMILY), origins or (PartOrigin(place),), True)]
    rest = _message(role, (), anthropic.FAMILY)
    return _split_blocks(content, place, rest, _read_anthropic_result, _anthropic_part, has_notices=True)


def _anthropic_part(block: object) -> Part:
    source = block.get("source") if isinstance(block, dict) and block.get("type") == "document" else None
    if isinstance(source, dict) and source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(str(source.get("media_type") or "application/pdf"), source["data"])
    return _read_part(anthropic.read_user_part, block)


def _read_assistant_block(block: object) -> Part:
    try:
        if isinstance(block, dict):
            return anthropic.read_assistant_part(block, "the assistant message")
    except BadInput:
        pass
    return Thinking(block=encode_json_text(_without_cache_marks(block)))


def _read_anthropic_result(block: object) -> Message | None:
    if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
        read = lambda inner, _: _anthropic_part(inner)  # noqa: E731
        return _read_result(block["tool_use_id"], block.get("content"), read, bool(block.get("is_error")))
    return None


def _split_blocks(
    content: list[object],
    place: int,
    rest: Message,
    read_result: Callable[[object], Message | None],
    read_part: Callable[[object], Part],
    *,
    has_notices: bool = False,
) -> list[HostUnit]:
    """The units of an item with blocks: each result is one, and so are adjacent other blocks.

    `has_notices` is for `mark_texts_beside_results`.
    """
    units: list[HostUnit] = []
    parts: list[Part] = []
    origins: list[PartOrigin] = []
    results = [read_result(block) for block in content]
    has_result = any(result is not None for result in results)

    def end_rest() -> None:
        if parts:
            message = msgspec.structs.replace(rest, parts=tuple(parts))
            mark = partial(mark_texts_beside_results, has_notices=has_notices) if has_result else mark_client_texts
            units.append(HostUnit(mark(message), tuple(origins), False))
            parts.clear()
            origins.clear()

    for number, (block, result) in enumerate(zip(content, results, strict=True)):
        if block is REPEATED:
            continue
        if result is None:
            parts.append(read_part(block))
            origins.append(PartOrigin(place, number))
        else:
            end_rest()
            units.append(HostUnit(result, (PartOrigin(place, number),), False))
    end_rest()
    if len(units) == 1 and len(units[0].origins) == len(content):
        return [msgspec.structs.replace(units[0], is_whole=True)]
    return units or [HostUnit(rest, (PartOrigin(place),), True)]


# --- OpenAI chat --------------------------------------------------------------------------------------------------


class _ChatItem(NamedTuple):
    """An item as it was read. `is_fixed`: it and all before it are the system prompt."""

    unit: HostUnit
    is_fixed: bool


def read_openai_chat(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    found, units = memo.read_units(
        _list_of(body, "messages"), _read_chat_item, lambda each, _: [] if each.is_fixed else [each.unit]
    )
    fixed = len(found) - len(units)
    system = [join_text_parts(each.unit.message.parts) for each in found[:fixed]]
    reason = "it asks for several answers" if body.get("n") not in (None, 1) else ""
    given = body.get("tools")
    tools = memo.read_field("tools", given, lambda: _read_tool_list(given, lambda tool: [openai_chat.read_tool(tool)]))
    return HostRequest(tuple(units), "\n\n".join(system), tools, _model(body), reason, fixed)


def _read_chat_item(item: object, place: int, before: _ChatItem | None) -> _ChatItem:
    message = _mark_after(_read_chat_message(item), before.unit.message if before else None)
    is_fixed = message.role == "system" and (before is None or before.is_fixed)
    return _ChatItem(HostUnit(message, (PartOrigin(place),) * max(1, len(message.parts)), True), is_fixed)


def _read_chat_message(item: object) -> Message:
    try:
        return openai_chat.parse_message(item)[0]
    except BadInput:
        pass
    if not isinstance(item, dict):
        return Message("user", (make_opaque(item),))
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(item.get("tool_call_id"), str):
        return _read_result(item["tool_call_id"], content, openai_chat.read_part)
    if item.get("role") == "assistant":
        return Message("assistant", _read_odd_chat_answer(item), origin=openai_chat.FAMILY)
    parts = tuple(_chat_part(block) for block in content) if isinstance(content, list) else (make_opaque(item),)
    return _message(item.get("role"), parts, openai_chat.FAMILY)


def _read_odd_chat_answer(item: JsonObject) -> tuple[Part, ...]:
    """The parts of an answer that has a field of an unknown form. Its calls are read: results need them."""
    for known in (("content", "tool_calls"), ("tool_calls",)):
        rest = {key: value for key, value in item.items() if key not in known}
        try:
            read = openai_chat.parse_message({"role": "assistant", **{key: item.get(key) for key in known}})[0].parts
        except BadInput:
            continue
        return (Thinking(block=encode_json_text(rest)), *read)
    return (Thinking(block=encode_json_text(item)),)


def _chat_part(block: object) -> Part:
    file = block.get("file") if isinstance(block, dict) and block.get("type") == "file" else None
    if isinstance(file, dict) and isinstance(file.get("file_data"), str):
        return _read_file_data(file["file_data"])
    return _read_part(openai_chat.read_part, block)


def _read_file_data(data: str) -> Image:
    head, comma, rest = data.partition(",")
    media = head.removeprefix("data:").partition(";")[0] if comma else "application/pdf"
    return Image(media or "application/pdf", rest if comma else data)


# --- OpenAI Responses ---------------------------------------------------------------------------------------------


class _ResponsesItem(NamedTuple):
    """An item as it was read. `unit` is its message, joined with the items before it that are of the same answer
    (`is_joined`); None for an item of the fixed part. `is_stored`: it, or an item before it, is stored by the provider.
    """

    message: Message
    unit: HostUnit | None
    is_joined: bool
    is_stored: bool


def read_openai_responses(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo, given = memo or ReadMemo(), body.get("input")
    system = [str(body["instructions"])] if isinstance(body.get("instructions"), str) else []
    tools, items = _list_of(body, "tools"), given if isinstance(given, list) else []
    previous = read_previous_id(body)
    read_unit = _read_continuing_unit if previous else _read_responses_unit
    found, known = memo.read_units(items, read_unit, _list_responses_units)
    fixed = next((place for place, each in enumerate(found) if each.unit), len(found))
    for item, each in zip(items[:fixed], found, strict=False):
        if _has_more_tools(item):
            tools = [*tools, *_list_of(item, "tools")]
        else:
            system.append(join_text_parts(each.message.parts))
    units = tuple(known)
    if isinstance(given, str):
        message = mark_client_texts(Message("user", (Text(repair_unicode(given)),)))
        units = (HostUnit(message, (PartOrigin(WHOLE),), True),)
    is_stored = any(each.is_stored for each in found[-1:])
    kept = is_stored or any(body.get(key) is not None for key in ("previous_response_id", "conversation", "prompt"))
    reason = _STORED_REASON if kept else ""
    read = memo.read_field(
        "tools", tools, lambda: _read_tool_list(tools, lambda tool: [openai_responses.read_tool(tool)])
    )
    return HostRequest(units, "\n\n".join(system), read, _model(body), reason, fixed, "" if is_stored else previous)


def _list_responses_units(found: _ResponsesItem, following: _ResponsesItem | None) -> list[HostUnit]:
    """The unit of an item, unless the item after it belongs to the same answer."""
    return [found.unit] if found.unit and not (following and following.is_joined) else []


def _read_responses_unit(item: object, place: int, before: _ResponsesItem | None) -> _ResponsesItem:
    message = _mark_after(_read_responses_item(item), before.message if before else None)
    unit = before.unit if before else None
    is_reference = isinstance(item, dict) and item.get("type") == "item_reference"
    is_stored = is_reference or (before is not None and before.is_stored)
    if unit is None and (message.role == "system" or _has_more_tools(item)):
        return _ResponsesItem(message, None, False, is_stored)
    origins = (PartOrigin(place),) * max(1, len(message.parts))
    if unit is not None and unit.message.role == message.role == "assistant":
        return _ResponsesItem(message, _join_units(unit, message, origins), True, is_stored)
    return _ResponsesItem(message, HostUnit(message, origins, True), False, is_stored)


def _read_continuing_unit(item: object, place: int, before: _ResponsesItem | None) -> _ResponsesItem:
    """An item after a stored conversation: there the system prompt is the provider's, and a message is one of many."""
    found = _read_responses_unit(item, place, before)
    if found.unit is not None:
        return found
    unit = HostUnit(found.message, (PartOrigin(place),) * max(1, len(found.message.parts)), True)
    return found._replace(unit=unit)


def _has_more_tools(item: object) -> bool:
    """Whether the item declares tools, as Codex does with newer models."""
    return isinstance(item, dict) and item.get("type") == "additional_tools"


def _join_units(unit: HostUnit, message: Message, origins: tuple[PartOrigin, ...]) -> HostUnit:
    """The items of one answer are one message: no edit may separate them."""
    joined = msgspec.structs.replace(unit.message, parts=unit.message.parts + message.parts)
    return HostUnit(joined, unit.origins + origins, True)


def _read_responses_item(item: object) -> Message:
    if not isinstance(item, dict):
        return Message("user", (make_opaque(item),))
    kind, call_id = item.get("type", "message" if "role" in item else ""), item.get("call_id")
    if isinstance(kind, str) and isinstance(call_id, str):
        if kind.endswith("_output"):
            return _read_result(call_id, item.get("output"), openai_responses.read_part)
        if kind.endswith("_call") and kind not in ("function_call", "custom_tool_call"):
            call = Call(repair_unicode(call_id), kind, encode_json_text(item))
            return Message("assistant", (call,), origin=openai_responses.FAMILY)
    try:
        return openai_responses.parse_message(item)[0]
    except BadInput:
        pass
    content = item.get("content")
    if kind == "message" and item.get("role") != "assistant" and isinstance(content, list):
        return _message(item.get("role"), tuple(map(_responses_part, content)), openai_responses.FAMILY)
    if item.get("role") == "assistant":
        return Message("assistant", (Thinking(block=encode_json_text(item)),), origin=openai_responses.FAMILY)
    return Message("user", (make_opaque(item),))


def _responses_part(block: object) -> Part:
    if isinstance(block, dict) and block.get("type") == "input_file" and isinstance(block.get("file_data"), str):
        return _read_file_data(block["file_data"])
    return _read_part(openai_responses.read_part, block)


# --- Gemini -------------------------------------------------------------------------------------------------------


def read_gemini(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    _, units = memo.read_units(_list_of(body, "contents"), _read_gemini_item, lambda found, _: found.units)
    instruction = body.get("systemInstruction", body.get("system_instruction"))
    system = instruction.get("parts") if isinstance(instruction, dict) else instruction
    cached, given = body.get("cachedContent") is not None, body.get("tools")
    config = body.get("generationConfig", body.get("generation_config"))
    several = isinstance(config, dict) and config.get("candidateCount", config.get("candidate_count")) not in (None, 1)
    return HostRequest(
        tuple(units),
        memo.read_field("system", system, lambda: _read_system(system, lambda part, _: gemini.read_user_part(part))),
        memo.read_field("tools", given, lambda: _read_tool_list(given, lambda tool: gemini.read_tools([tool]))),
        reason="part of it is stored by the provider" if cached else "it asks for several answers" if several else "",
    )


class _OpenCall(NamedTuple):
    """A call that has no result yet, and the id with which the client's result will name it, if it has one."""

    given_id: str
    call: Call


class _GeminiItem(NamedTuple):
    """The units of an item, and the calls that the next results answer."""

    units: list[HostUnit]
    calls: list[_OpenCall]


def _read_gemini_item(item: object, place: int, before: _GeminiItem | None) -> _GeminiItem:
    calls = before.calls if before else []
    parts = item.get("parts") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(parts, list):
        return _GeminiItem([HostUnit(Message("user", (make_opaque(item),)), (PartOrigin(place),), True)], calls)
    if item.get("role") == "model":
        read, calls = _read_gemini_answer(parts)
        origins = tuple(PartOrigin(place, number) for number in range(len(read))) or (PartOrigin(place),)
        return _GeminiItem([HostUnit(Message("assistant", read, origin=gemini.FAMILY), origins, True)], calls)
    rest = _message("system" if item.get("role") == "system" else "user", (), gemini.FAMILY)
    calls = calls.copy()  # a result takes its call out
    read_result = lambda part: _read_gemini_result(part, calls)  # noqa: E731
    return _GeminiItem(_split_blocks(_without_repeated_results(parts), place, rest, read_result, _gemini_part), calls)


def _read_gemini_answer(parts: list[object]) -> tuple[tuple[Part, ...], list[_OpenCall]]:
    """The parts of an answer. Calls without an id of the provider are named after their function, in order."""
    read = [_read_gemini_model_part(_without_made_up_id(part)) for part in parts]
    places = [number for number, part in enumerate(read) if isinstance(part, Call)]
    ids = assign_unique_ids([part.id for part in read if isinstance(part, Call)])
    calls: list[_OpenCall] = []
    for number, ident in zip(places, ids, strict=True):
        call = read[number] = msgspec.structs.replace(read[number], id=ident)
        given = _find_function(parts[number], "functionCall").get("id")
        if isinstance(call, Call):
            calls.append(_OpenCall(given if isinstance(given, str) else "", call))
    return tuple(read), calls


def _find_function(part: object, key: str) -> JsonObject:
    """The call or response of a part; empty if it is none."""
    found = get_field(part, key) if isinstance(part, dict) else None
    return found if isinstance(found, dict) else {}


def _without_made_up_id(part: object) -> object:
    """A call whose id was made from its name has none of the provider: the assembler makes another one than the client,
    and Gemini CLI makes its own with the time in it.
    """
    for key in ("functionCall", "function_call"):
        call = part.get(key) if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(call, dict):
            continue
        ident, name = call.get("id"), call.get("name")
        if isinstance(ident, str) and isinstance(name, str) and name and ident.startswith(name):
            return {**part, key: {field: value for field, value in call.items() if field != "id"}}
    return part


def _without_repeated_results(parts: list[object]) -> list[object]:
    """The parts, with `REPEATED` for a second result with the same id.

    Gemini CLI doubles all results when it resumes a session. Later it clips old ones, the two copies not alike.
    """
    found: list[object] = []
    ids: set[object] = set()
    for part in parts:
        ident = _find_function(part, "functionResponse").get("id")
        found.append(REPEATED if isinstance(ident, str) and ident in ids else part)
        ids.add(ident if isinstance(ident, str) and ident else None)
    return found


def _read_gemini_model_part(part: object) -> Part:
    """A part of an answer. A call is read also if its id or its signature has an unknown form: a result needs it."""
    call = _find_function(part, "functionCall")
    for each in (part, {"functionCall": {key: call[key] for key in ("name", "args") if key in call}} if call else None):
        try:
            if isinstance(each, dict):
                return gemini.read_model_part(each)
        except BadInput:
            pass
    return Thinking(block=encode_json_text(part))


def _gemini_part(part: object) -> Part:
    inline = part.get("inlineData", part.get("inline_data")) if isinstance(part, dict) else None
    media = inline.get("mimeType", inline.get("mime_type")) if isinstance(inline, dict) else None
    if media == "application/pdf" and isinstance(inline, dict) and isinstance(inline.get("data"), str):
        return Image(media, inline["data"])
    return _read_part(lambda block, _: gemini.read_user_part(block), part)


def _read_gemini_result(part: object, open_calls: list[_OpenCall]) -> Message | None:
    """A result, and the call that it answers: the one with its id, else the first of its name."""
    given = _find_function(part, "functionResponse")
    if not isinstance(part, dict) or not given:
        return None
    given = {key: value for key, value in given.items() if key != "id" or isinstance(value, str)}
    ident, name = given.get("id"), given.get("name")
    answered = next((each for each in open_calls if ident and each.given_id == ident), None)
    if answered is None and (not ident or str(ident).startswith(str(name))):
        answered = next((each for each in open_calls if each.call.name == name), None)
    if answered is not None:
        open_calls.remove(answered)
        given = {**given, "id": answered.call.id}
    try:
        return gemini.read_response({"functionResponse": given}, [])
    except BadInput:
        return None


# --- shared -------------------------------------------------------------------------------------------------------


def _list_of(body: JsonObject, key: str) -> list[object]:
    found = body.get(key)
    return found if isinstance(found, list) else []


def _model(body: JsonObject) -> str:
    return repair_unicode(str(body.get("model") or ""))[:200]


def _message(role: object, parts: tuple[Part, ...], family: str) -> Message:
    if role in ("system", "developer"):
        return Message("system", parts)
    return Message("assistant", parts, origin=family) if role == "assistant" else Message("user", parts)


def _mark_after(message: Message, before: Message | None) -> Message:
    """Mark the texts of the message that comes after `before` in the client's list."""
    after_result = before is not None and (before.role == "tool" or before.kind == CLIENT_NOTE)
    return mark_client_texts(message, after_result=after_result)


class ReadRequest(Protocol):
    """The reader of a dialect. With the `memo` of the client's last request it reads only what is new."""

    def __call__(self, body: JsonObject, memo: ReadMemo | None = None) -> HostRequest: ...


READERS: dict[str, ReadRequest] = {
    "anthropic": read_anthropic,
    "openai_chat": read_openai_chat,
    "openai_responses": read_openai_responses,
    "gemini": read_gemini,
}


def read_reply(dialect: str, messages: Sequence[JsonObject]) -> Message | None:
    """The answer of a provider as it will be read when the client sends it back; None for an empty one."""
    key = {"gemini": "contents", "openai_responses": "input"}.get(dialect, "messages")
    units = READERS[dialect]({key: to_client_messages(dialect, messages)}).units
    return units[0].message if units else None


def to_client_messages(dialect: str, messages: Sequence[JsonObject]) -> list[JsonObject]:
    """An answer of a provider as a client sends it back: one of Gemini without the ids that the assembler made up."""
    if dialect != "gemini":
        return list(messages)
    return [{**each, "parts": [_without_made_up_id(part) for part in _list_of(each, "parts")]} for each in messages]
