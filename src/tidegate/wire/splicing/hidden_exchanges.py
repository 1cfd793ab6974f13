"""A tool that the client does not declare, and its calls and results, spliced into the client's request.

The client's list lacks the hidden exchanges. They are put back at their places, so that the provider gets every answer
as it gave it:

    client:   answer(text 1, text 2, call)
    sent:     answer(text 1, hidden call)   result   answer(text 2, call)
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Call, Message, Part, Text, Thinking, Tool
from tidegate.wire.parsing import decode_object, is_object_text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, remove_member, replace_value
from tidegate.wire.splicing.units import HostRequest, HostUnit
from tidegate.wire.streaming.reply import as_list, as_object

_encode = msgspec.json.encode
_SIGNED_KEYS: Final = ("signature", "data", "encrypted_content", "thoughtSignature")


class HiddenCall(msgspec.Struct, frozen=True):
    """A call that the client does not know: its id, and the call in the provider's own JSON, to be sent again."""

    id: str
    raw: msgspec.Raw


class HiddenResult(NamedTuple):
    """The result of a hidden call of the tool `name`."""

    call_id: str
    name: str
    text: str


class HiddenAnswer(NamedTuple):
    """An answer as the provider gave it, its hidden calls, and their results if they follow at once."""

    message: Message
    calls: tuple[HiddenCall, ...] = ()
    results: tuple[HiddenResult, ...] = ()


# --- the tool -----------------------------------------------------------------------------------------------------


def append_tool(dialect: str, text: bytes, tool: Tool) -> bytes | None:
    """The request with one more tool at the end of its list. None if it has no list of functions, or has this name."""
    member = find_members(text).get("tools")
    listed = text[member.value : member.end] if member else b""
    if member is None or listed[:1] != b"[":
        return None
    elements = [listed[each.start : each.end] for each in find_elements(listed)]
    if not all(each[:1] == b"{" for each in elements):
        return None
    schema = msgspec.Raw(tool.parameters.encode())
    if dialect == "gemini":
        new = _append_declaration(elements, tool, schema)
    else:
        new = [*elements, _encode_tool(dialect, tool, schema)] if elements else None
    if new is None or any(_names_tool(each, tool.name) for each in elements):
        return None
    return text[: member.value] + rebuild_array(listed, new) + text[member.end :]


def _names_tool(element: bytes, name: str) -> bool:
    value = as_object(msgspec.json.decode(element))
    declared = as_list(value.get("functionDeclarations", value.get("function_declarations")))
    listed = [value, value.get("function"), *declared, *as_list(value.get("tools"))]
    return any(as_object(each).get("name") == name for each in listed)


def _append_declaration(elements: list[bytes], tool: Tool, schema: msgspec.Raw) -> list[bytes] | None:
    for place in reversed(range(len(elements))):
        for key in ("functionDeclarations", "function_declarations"):
            if member := find_members(elements[place]).get(key):
                listed = elements[place][member.value : member.end]
                if listed[:1] != b"[":
                    return None
                declared = [listed[each.start : each.end] for each in find_elements(listed)]
                named = {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}
                new = rebuild_array(listed, [*declared, _encode(named)])
                return [*elements[:place], replace_value(elements[place], (key,), new), *elements[place + 1 :]]
    return None


def _encode_tool(dialect: str, tool: Tool, schema: msgspec.Raw) -> bytes:
    named = {"name": tool.name, "description": tool.description}
    if dialect == "anthropic":
        return _encode({**named, "input_schema": schema})
    if dialect == "openai_chat":
        return _encode({"type": "function", "function": {**named, "parameters": schema}})
    return _encode({"type": "function", **named, "parameters": schema, "strict": False})


# --- calls and results --------------------------------------------------------------------------------------------


def list_raw_calls(dialect: str, messages: Sequence[JsonObject], name: str) -> list[msgspec.Raw]:
    """The calls of this tool in an answer, in the provider's own JSON."""
    listed: list[object] = []
    for message in messages:
        if dialect == "openai_responses":
            listed.append(message)
        else:
            listed += as_list(message.get({"gemini": "parts", "openai_chat": "tool_calls"}.get(dialect, "content")))
    return [msgspec.Raw(_encode(value)) for value in listed if isinstance(value, dict) and _call_name(value) == name]


def bound_arguments(dialect: str, messages: Sequence[JsonObject], name: str, most: int) -> list[JsonObject]:
    """An answer that can be sent back: calls of this tool lose arguments that are not an object or are too long."""
    key = {"gemini": "parts", "openai_chat": "tool_calls"}.get(dialect, "content")
    if dialect == "openai_responses":
        return [_bound_call(message, name, most) for message in messages]
    return [
        {**message, key: [_bound_call(each, name, most) if isinstance(each, dict) else each for each in listed]}
        if (listed := as_list(message.get(key)))
        else message
        for message in messages
    ]


def _bound_call(value: JsonObject, name: str, most: int) -> JsonObject:
    if _call_name(value) != name:
        return value
    holder = next((key for key in ("function", "functionCall") if isinstance(value.get(key), dict)), "")
    call = as_object(value[holder]) if holder else value
    key = {"functionCall": "args", "function": "arguments"}.get(holder) or (
        "input" if value.get("type") == "tool_use" else "arguments"
    )
    given = call.get(key)
    is_text = key == "arguments"
    text = given if is_text and isinstance(given, str) else _encode(given).decode()
    if len(text) <= most and (given is None or is_object_text(text)):
        return value
    bounded = {**call, key: "{}" if is_text else {}}
    return {**value, holder: bounded} if holder else bounded


def _call_name(value: JsonObject) -> object:
    """The name of a call in the JSON of any dialect; None for anything else."""
    for key in ("function", "functionCall"):
        inner = value.get(key)
        if isinstance(inner, dict):
            return inner.get("name")
    return value.get("name") if value.get("type") in ("tool_use", "function_call") else None


def append_exchange(
    dialect: str, text: bytes, messages: Sequence[JsonObject], results: Sequence[HiddenResult]
) -> bytes:
    """The request continued by an answer of the provider and the results of its hidden calls."""
    form = _FORMS[dialect]
    member = find_members(text)[form.key]
    listed = text[member.value : member.end]
    if listed[:1] != b"[":  # a single text in place of a list
        listed = b"[" + _encode({"role": "user", "content": msgspec.Raw(listed)}) + b"]"
    items = [listed[each.start : each.end] for each in find_elements(listed)]
    new = rebuild_array(listed, [*items, *form.encode_answer(messages), *form.encode_results(results)])
    return text[: member.value] + new + text[member.end :]


def insert_exchanges(
    dialect: str,
    text: bytes,
    host: HostRequest,
    answers: Mapping[int, Sequence[HiddenAnswer]],
    results: Mapping[int, Sequence[HiddenResult]],
) -> bytes:
    """The request with hidden exchanges put back, by the place of a unit of the client.

    `answers` stand for the answer at a place; `results` come before the unit at a place.
    """
    form = _FORMS[dialect]
    member = find_members(text)[form.key]
    listed = text[member.value : member.end]
    items = [[listed[each.start : each.end]] for each in find_elements(listed)]
    for place in sorted(answers.keys() | results.keys(), reverse=True):  # from the end: earlier places stay valid
        unit = host.units[place]
        if place in answers:
            form.expand_answer(items, unit, answers[place])
        else:
            form.insert_results(items, unit, results[place])
    new = rebuild_array(listed, [item for group in items for item in group])
    return text[: member.value] + new + text[member.end :]


class _PlacedPart(NamedTuple):
    """A part of the client's answer and its bytes."""

    part: Part
    raw: bytes


def _is_same(one: Part, other: Part) -> bool:
    if isinstance(one, Text) and isinstance(other, Text):
        return one.text.strip() == other.text.strip()
    if isinstance(one, Call) and isinstance(other, Call):
        return one.id == other.id and one.name == other.name
    if isinstance(one, Thinking) and isinstance(other, Thinking) and one.block:
        return _identify_thinking(one.block) == _identify_thinking(other.block)
    return one == other


def _identify_thinking(block: str) -> object:
    """What stays the same of a provider's thinking block when a client sends it back: some omit ids, or order keys."""
    value = decode_object(block)
    signed = next((found for key in _SIGNED_KEYS if (found := value.get(key))), None)
    return signed or {key: each for key, each in value.items() if key not in ("id", "status")}


def _arrange(
    placed: list[_PlacedPart], answers: Sequence[HiddenAnswer], *, restores_thinking: bool = False
) -> list[list[bytes]]:
    """The bytes of each answer: the client's own, in its order, with the hidden calls between them.

    A client may leave out thinking, and join adjacent texts or thinking. With `restores_thinking`, thinking that
    it left out of an answer before the last is taken from the log: the client does not know that it belongs to a call.
    """
    found: list[list[bytes]] = []
    for answer in answers:
        here: list[bytes] = []
        raw = {call.id: bytes(call.raw) for call in answer.calls}
        for part in answer.message.parts:
            if isinstance(part, Call) and part.id in raw:
                here.append(raw[part.id])
            elif isinstance(part, Text) and answer is not answers[-1] and (start := _find_start(part, placed)) >= 0:
                first, rest = _split_text(placed[start], part.text)
                here += [*(each.raw for each in placed[:start]), first.raw]
                placed[: start + 1] = [rest]
            else:
                end = next((n for n, each in enumerate(placed, 1) if _is_same(each.part, part)), 0)
                here += [each.raw for each in placed[:end]]
                del placed[:end]
                if restores_thinking and not end and isinstance(part, Thinking) and answer is not answers[-1]:
                    here += [part.block.encode()] if part.block else []
        found.append(here)
    found[-1] += [each.raw for each in placed]
    return found


def _find_start(part: Text, placed: Sequence[_PlacedPart]) -> int:
    """The place of the client's text that begins with this one, after thinking that no answer has like that; or -1."""
    place = next((number for number, each in enumerate(placed) if not isinstance(each.part, Thinking)), -1)
    return place if place >= 0 and _is_start(part, placed[place]) else -1


def _is_start(part: Text, placed: _PlacedPart) -> bool:
    whole = placed.part
    if not isinstance(whole, Text) or not part.text or _is_same(whole, part) or not whole.text.startswith(part.text):
        return False
    return "text" in find_members(placed.raw)


def _split_text(placed: _PlacedPart, first: str) -> tuple[_PlacedPart, _PlacedPart]:
    assert isinstance(placed.part, Text)
    texts = first, placed.part.text[len(first) :]
    one, other = (_PlacedPart(Text(text), replace_value(placed.raw, ("text",), _encode(text))) for text in texts)
    return one, other


class _BlockForm:
    """Anthropic and Gemini: an item has a list of blocks."""

    def __init__(self, key: str, blocks_key: str, assistant_role: str) -> None:
        self.key, self.blocks_key, self.assistant_role = key, blocks_key, assistant_role

    def encode_result(self, result: HiddenResult) -> bytes:
        return _encode({"type": "tool_result", "tool_use_id": result.call_id, "content": result.text})

    def encode_text(self, text: str) -> bytes:
        return _encode({"type": "text", "text": text})

    def encode_answer(self, messages: Sequence[JsonObject]) -> list[bytes]:
        return [_encode(each) for each in messages]

    def encode_results(self, results: Sequence[HiddenResult]) -> list[bytes]:
        return [self._encode_item("user", [self.encode_result(each) for each in results])] if results else []

    def _encode_item(self, role: str, blocks: Sequence[bytes]) -> bytes:
        return b'{"role":"%s","%s":[%s]}' % (role.encode(), self.blocks_key.encode(), b",".join(blocks))

    def _read_blocks(self, item: bytes) -> list[bytes]:
        member = find_members(item).get(self.blocks_key)
        content = item[member.value : member.end] if member else b""
        if content[:1] == b'"':
            return [self.encode_text(msgspec.json.decode(content, type=str))]
        return [content[each.start : each.end] for each in find_elements(content)] if content[:1] == b"[" else []

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        group = items[unit.items[0]]
        item = group[-1]
        blocks = self._read_blocks(item)
        placed = [_PlacedPart(part, raw) for part, raw in zip(unit.message.parts, blocks, strict=False)]
        arranged = _arrange(placed, answers, restores_thinking=True)
        new: list[bytes] = []
        for answer, own in zip(answers[:-1], arranged[:-1], strict=True):
            new.append(self._encode_item(self.assistant_role, own))
            new += self.encode_results(answer.results)
        if arranged[-1]:
            new.append(replace_value(item, (self.blocks_key,), b"[" + b",".join(arranged[-1]) + b"]"))
        group[-1:] = new

    def insert_results(self, items: list[list[bytes]], unit: HostUnit, results: Sequence[HiddenResult]) -> None:
        group, block = items[unit.items[0]], unit.origins[0].block
        if block < 0 or unit.message.role == "assistant":
            group[-1:] = [*self.encode_results(results), group[-1]]
            return
        blocks = self._read_blocks(group[-1])
        blocks[block:block] = [self.encode_result(each) for each in results]
        group[-1] = replace_value(group[-1], (self.blocks_key,), b"[" + b",".join(blocks) + b"]")


class _GeminiForm(_BlockForm):
    def encode_result(self, result: HiddenResult) -> bytes:
        ident = {} if result.call_id == result.name else {"id": result.call_id}  # a call without an id has its name
        return _encode({"functionResponse": {**ident, "name": result.name, "response": {"output": result.text}}})

    def encode_text(self, text: str) -> bytes:
        return _encode({"text": text})


class _ItemForm:
    """OpenAI's dialects: a result is an item of its own. Here: chat, where an answer is one item."""

    key = "messages"

    def encode_answer(self, messages: Sequence[JsonObject]) -> list[bytes]:
        return [_encode(each) for each in messages]

    def encode_results(self, results: Sequence[HiddenResult]) -> list[bytes]:
        return [_encode({"role": "tool", "tool_call_id": each.call_id, "content": each.text}) for each in results]

    def insert_results(self, items: list[list[bytes]], unit: HostUnit, results: Sequence[HiddenResult]) -> None:
        items[unit.items[0]][0:0] = self.encode_results(results)

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        group = items[unit.items[0]]
        item = group[-1]
        said = decode_object(item.decode("utf-8", "replace")).get("content")
        new: list[bytes] = []
        for answer in answers[:-1]:
            text = "".join(part.text for part in answer.message.parts if isinstance(part, Text))
            splits = isinstance(said, str) and said.startswith(text)
            if splits and isinstance(said, str):
                said = said[len(text) :]
            calls = [msgspec.Raw(bytes(call.raw)) for call in answer.calls]
            new.append(
                _encode({"role": "assistant", "content": text if splits and text else None, "tool_calls": calls})
            )
            new += self.encode_results(answer.results)
        if isinstance(said, str) and len(answers) > 1:
            item = replace_value(item, ("content",), _encode(said or None))
        if answers[-1].calls:
            item = self._insert_calls(item, answers[-1])
        if said or "tool_calls" in find_members(item):
            new.append(item)
        group[-1:] = new

    def _insert_calls(self, item: bytes, answer: HiddenAnswer) -> bytes:
        member = find_members(item)["tool_calls"]
        listed = item[member.value : member.end]
        own = [listed[each.start : each.end] for each in find_elements(listed)]
        hidden = {call.id: bytes(call.raw) for call in answer.calls}
        calls = [part for part in answer.message.parts if isinstance(part, Call)]
        new = [hidden[call.id] if call.id in hidden else own.pop(0) for call in calls if call.id in hidden or own]
        return item[: member.value] + rebuild_array(listed, [*new, *own]) + item[member.end :]


class _ResponsesForm(_ItemForm):
    """Responses: an answer is several items. One with a server's id needs the reasoning that it was made with."""

    key = "input"

    def encode_answer(self, messages: Sequence[JsonObject]) -> list[bytes]:
        if any(each.get("type") == "reasoning" for each in messages):
            return [_encode(each) for each in messages]
        return [_encode({key: value for key, value in each.items() if key != "id"}) for each in messages]

    def encode_results(self, results: Sequence[HiddenResult]) -> list[bytes]:
        return [
            _encode({"type": "function_call_output", "call_id": each.call_id, "output": each.text}) for each in results
        ]

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        places = unit.items
        parts = {
            origin.item: part for part, origin in reversed(list(zip(unit.message.parts, unit.origins, strict=True)))
        }
        placed = [_PlacedPart(parts[place], items[place][-1]) for place in places]
        new: list[bytes] = []
        for answer, own in zip(answers, _arrange(placed, answers), strict=True):
            raw = {bytes(call.raw) for call in answer.calls}
            has_reasoning = any(_is_reasoning(each) for each in own)
            new += [remove_member(each, "id") if each in raw and not has_reasoning else each for each in own]
            new += self.encode_results(answer.results)
        before = [item for place in places for item in items[place][:-1]]
        for place in places:
            items[place] = []
        items[places[0]] = [*before, *new]


def _is_reasoning(item: bytes) -> bool:
    return decode_object(item.decode("utf-8", "replace")).get("type") == "reasoning"


_FORMS: Mapping[str, _BlockForm | _ItemForm] = MappingProxyType(
    {
        "anthropic": _BlockForm("messages", "content", "assistant"),
        "gemini": _GeminiForm("contents", "parts", "model"),
        "openai_chat": _ItemForm(),
        "openai_responses": _ResponsesForm(),
    }
)
