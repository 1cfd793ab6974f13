"""Requests that continue an answer which the provider has stored (`previous_response_id`).

The provider puts the stored conversation before the `input` of such a request; `instructions` and `tools` are those of
the new request: https://developers.openai.com/api/docs/guides/conversation-state
Here the stored conversation is written again from the log, so that a request can be sent without the id.

Reasoning is not written: the log may lack its content, and an item of an answer whose reasoning is missing is refused
if it has the server's id. Calls that the provider ran itself (web search and others) are left out for the same reason;
what came of them is in the text of the answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidegate.core.messages import (
    OPAQUE_MEDIA,
    Call,
    Compaction,
    Image,
    Message,
    Part,
    Result,
    Text,
    result_of,
)
from tidegate.wire.openai_chat.render import build_data_url
from tidegate.wire.parsing import decode_object, encode_json_text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import find_elements, find_members, remove_member, replace_value

PREVIOUS_ID = "previous_response_id"


def stores_answer(body: Mapping[str, object]) -> bool:
    """Whether a later request can continue the answer to this one by its id. `store` is true unless it is set."""
    return body.get("store") is not False


def read_previous_id(body: Mapping[str, object]) -> str:
    """The id of the stored answer that a request continues; empty if it has more of its conversation stored."""
    ident = body.get(PREVIOUS_ID)
    others = any(body.get(key) is not None for key in ("conversation", "prompt"))
    return ident if isinstance(ident, str) and not others else ""


def has_previous_id(text: bytes) -> bool:
    return PREVIOUS_ID in find_members(text)


def replace_previous_id(text: bytes, ident: str) -> bytes:
    return replace_value(text, (PREVIOUS_ID,), encode_json_text(ident).encode())


def write_whole(text: bytes, items: Sequence[JsonObject]) -> bytes:
    """The request with these items before its own, and without the id of a stored answer."""
    member = find_members(text)["input"]
    listed = text[member.value : member.end]
    if listed[:1] != b"[":
        listed = b'[{"role":"user","content":' + listed + b"}]"
    own = [listed[each.start : each.end] for each in find_elements(listed)]
    new = [*(encode_json_text(item).encode() for item in items), *own]
    text = text[: member.value] + b"[" + b",".join(new) + b"]" + text[member.end :]
    return remove_member(text, PREVIOUS_ID)


def list_phases(items: Sequence[JsonObject]) -> list[str]:
    """The `phase` of each text of an answer; empty if it has none. A later request must repeat it."""
    phases: list[str] = []
    for item in items:
        content = item.get("content") if item.get("type") == "message" else None
        phases += [str(item.get("phase") or "")] * len(content if isinstance(content, list) else ())
    return phases if any(phases) else []


def render_stored(messages: Iterable[Message], tools: object, phases: Mapping[str, Sequence[str]]) -> list[JsonObject]:
    """The items for messages of the log. `tools` are those of the request: they say of which kind a call is.

    `phases` has those of the answers that have some, by the id of the message.
    """
    writer = _StoredWriter(tools)
    return [item for message in messages for item in writer.write(message, phases.get(message.id, ()))]


class _StoredWriter:
    def __init__(self, tools: object) -> None:
        self._custom: set[str] = set()
        self._namespaces: dict[str, str] = {}
        self._outputs: dict[str, str] = {}  # by call: the type of the item with its result
        self._read_tools(tools)

    def _read_tools(self, tools: object, namespace: str = "") -> None:
        for tool in tools if isinstance(tools, list) else []:
            name = str(tool.get("name")) if isinstance(tool, dict) else ""
            if not isinstance(tool, dict):
                continue
            if tool.get("type") == "namespace":
                self._read_tools(tool.get("tools"), name)
            elif tool.get("type") == "custom":
                self._custom.add(name)
            if namespace:
                self._namespaces[name] = namespace

    def write(self, message: Message, phases: Sequence[str]) -> Iterator[JsonObject]:
        result = result_of(message)
        if result is not None:
            yield self._write_result(result)
        elif message.role == "assistant":
            yield from self._write_answer(message.parts, iter(phases))
        else:
            yield from _write_given("developer" if message.role == "system" else "user", message.parts)

    def _write_result(self, result: Result) -> JsonObject:
        kind = self._outputs.get(result.call_id, "function_call_output")
        first = result.parts[0] if len(result.parts) == 1 else None
        output = first.text if isinstance(first, Text) else [_write_block(part) for part in result.parts]
        return {"type": kind, "call_id": result.call_id, "output": output}

    def _write_answer(self, parts: Sequence[Part], phases: Iterator[str]) -> Iterator[JsonObject]:
        for part in parts:
            if isinstance(part, Call):
                yield self._write_call(part)
            elif isinstance(part, Text):
                phase = next(phases, "")
                content = [{"type": "output_text", "text": part.text, "annotations": []}]
                item: JsonObject = {"type": "message", "role": "assistant", "content": content}
                if part.text.strip():
                    yield {**item, "phase": phase} if phase else item
            elif isinstance(part, Compaction):
                yield _without_id(decode_object(part.block))

    def _write_call(self, call: Call) -> JsonObject:
        item = decode_object(call.arguments)
        if call.name.endswith("_call") and item.get("type") == call.name:  # such as local_shell_call, logged whole
            self._outputs[call.id] = f"{call.name}_output"
            return _without_id(item)
        space = {"namespace": self._namespaces[call.name]} if call.name in self._namespaces else {}
        if call.name in self._custom:
            self._outputs[call.id] = "custom_tool_call_output"
            raw_input = item.get("input")
            call_input = raw_input if isinstance(raw_input, str) else call.arguments
            return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, **space, "input": call_input}
        return {"type": "function_call", "call_id": call.id, "name": call.name, **space, "arguments": call.arguments}


def _without_id(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key != "id"}


def _write_given(role: str, parts: Sequence[Part]) -> Iterator[JsonObject]:
    """The item of a message of the user, and items of kinds that the engine does not know."""
    blocks: list[JsonObject] = []
    for part in parts:
        block = _write_block(part)
        if str(block.get("type")).startswith("input_"):
            blocks.append(block)
        else:
            yield _without_id(block)
    if blocks:
        yield {"type": "message", "role": role, "content": blocks}


def _write_block(part: Part) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if not isinstance(part, Image):
        return {"type": "input_text", "text": ""}
    if part.media == OPAQUE_MEDIA:
        return decode_object(part.data)
    if part.data and not part.media.startswith("image/"):
        return {"type": "input_file", "filename": "file", "file_data": f"data:{part.media};base64,{part.data}"}
    return {"type": "input_image", "image_url": build_data_url(part), "detail": "auto"}
