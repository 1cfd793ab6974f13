"""The messages of a client's request, as Gemini writes them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Image, Message, Part, Thinking
from tidegate.wire.gemini.field_names import get_field
from tidegate.wire.gemini.parse import FAMILY, read_model_part, read_response, read_tools, read_user_part
from tidegate.wire.parsing import encode_json_text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.units import (
    REPEATED,
    HostRequest,
    HostUnit,
    PartOrigin,
    list_items,
    make_message,
    make_opaque,
    read_known_part,
    read_system_text,
    read_tool_list,
    split_blocks,
)
from tidegate.wire.streaming.reply import assign_unique_ids


def read_gemini(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    _, units = memo.read_units(list_items(body, "contents"), _read_gemini_item, lambda found, _: found.units)
    instruction = body.get("systemInstruction", body.get("system_instruction"))
    system = instruction.get("parts") if isinstance(instruction, dict) else instruction
    cached, raw_tools = body.get("cachedContent") is not None, body.get("tools")
    config = body.get("generationConfig", body.get("generation_config"))
    several = isinstance(config, dict) and config.get("candidateCount", config.get("candidate_count")) not in (None, 1)
    return HostRequest(
        tuple(units),
        memo.read_field("system", system, lambda: read_system_text(system, lambda part, _: read_user_part(part))),
        memo.read_field("tools", raw_tools, lambda: read_tool_list(raw_tools, lambda tool: read_tools([tool]))),
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
        return _GeminiItem([HostUnit(Message("assistant", read, origin=FAMILY), origins, True)], calls)
    rest = make_message("system" if item.get("role") == "system" else "user", (), FAMILY)
    calls = calls.copy()  # a result takes its call out
    read_result = lambda part: _read_gemini_result(part, calls)  # noqa: E731
    return _GeminiItem(split_blocks(_without_repeated_results(parts), place, rest, read_result, _gemini_part), calls)


def _read_gemini_answer(parts: list[object]) -> tuple[tuple[Part, ...], list[_OpenCall]]:
    """The parts of an answer. Calls without an id of the provider are named after their function, in order."""
    read = [_read_gemini_model_part(_without_made_up_id(part)) for part in parts]
    places = [number for number, part in enumerate(read) if isinstance(part, Call)]
    ids = assign_unique_ids([part.id for part in read if isinstance(part, Call)])
    calls: list[_OpenCall] = []
    for number, ident in zip(places, ids, strict=True):
        call = read[number] = msgspec.structs.replace(read[number], id=ident)
        call_id = _find_function(parts[number], "functionCall").get("id")
        if isinstance(call, Call):
            calls.append(_OpenCall(call_id if isinstance(call_id, str) else "", call))
    return tuple(read), calls


def _find_function(part: object, key: str) -> JsonObject:
    """The call or response of a part; empty if it is none."""
    function = get_field(part, key) if isinstance(part, dict) else None
    return function if isinstance(function, dict) else {}


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
    output: list[object] = []
    ids: set[object] = set()
    for part in parts:
        ident = _find_function(part, "functionResponse").get("id")
        output.append(REPEATED if isinstance(ident, str) and ident in ids else part)
        ids.add(ident if isinstance(ident, str) and ident else None)
    return output


def _read_gemini_model_part(part: object) -> Part:
    """A part of an answer. A call is read also if its id or its signature has an unknown form: a result needs it."""
    call = _find_function(part, "functionCall")
    for each in (part, {"functionCall": {key: call[key] for key in ("name", "args") if key in call}} if call else None):
        try:
            if isinstance(each, dict):
                return read_model_part(each)
        except BadInput:
            pass
    return Thinking(block=encode_json_text(part))


def _gemini_part(part: object) -> Part:
    inline = part.get("inlineData", part.get("inline_data")) if isinstance(part, dict) else None
    media = inline.get("mimeType", inline.get("mime_type")) if isinstance(inline, dict) else None
    if media == "application/pdf" and isinstance(inline, dict) and isinstance(inline.get("data"), str):
        return Image(media, inline["data"])
    return read_known_part(lambda block, _: read_user_part(block), part)


def _read_gemini_result(part: object, open_calls: list[_OpenCall]) -> Message | None:
    """A result, and the call that it answers: the one with its id, else the first of its name."""
    response_part = _find_function(part, "functionResponse")
    if not isinstance(part, dict) or not response_part:
        return None
    response_part = {key: value for key, value in response_part.items() if key != "id" or isinstance(value, str)}
    ident, name = response_part.get("id"), response_part.get("name")
    call = next((each for each in open_calls if ident and each.given_id == ident), None)
    if call is None and (not ident or str(ident).startswith(str(name))):
        call = next((each for each in open_calls if each.call.name == name), None)
    if call is not None:
        open_calls.remove(call)
        response_part = {**response_part, "id": call.call.id}
    try:
        return read_response({"functionResponse": response_part}, [])
    except BadInput:
        return None


def to_gemini_client_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """An answer as a client sends it back: without the ids that the assembler made up."""
    return [{**each, "parts": [_without_made_up_id(part) for part in list_items(each, "parts")]} for each in messages]
