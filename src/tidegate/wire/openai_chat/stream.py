"""Assembler for Chat Completions streams, of OpenAI and of compatible servers.

Reasoning has three names and comes as text, as Mistral's parts or as OpenRouter's details; it is sent back under the
name it came with. Calls come in pieces that are identified by index, by id or by neither.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.openai_chat.parse import parse_message
from tidegate.wire.parsing import is_object_text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import (
    Delta,
    Reply,
    StopReason,
    as_index,
    as_list,
    as_object,
    as_string,
    assign_unique_ids,
    bound_parts,
    ensure_parseable,
    extract_error,
    find_broken_calls,
    incomplete_reply_error,
    merge_usage,
    normalize_stop,
)

_STOPS: Mapping[str, StopReason] = MappingProxyType(
    {
        "stop": "end",
        "eos": "end",
        "end_turn": "end",
        "tool_calls": "calls",
        "function_call": "calls",
        "length": "length",
        "max_tokens": "length",
        "model_length": "length",
        "model_context_window_exceeded": "length",
        "content_filter": "filtered",
    }
)
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")


_LONGEST_CHECKED = 65_536
"""Characters of arguments up to which a piece with another id is compared with them."""


class PartialCall(msgspec.Struct, eq=False):
    """A call. Its pieces are joined once, at the end, so that long arguments are not copied with every piece."""

    index: int | None
    place: int
    id: str = ""
    name: str = ""
    pieces: list[str] = []
    length: int = 0
    opaque: JsonObject = {}

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        return self.length <= _LONGEST_CHECKED and is_object_text(self.arguments)


class PartialCalls:
    """The calls of an answer, from pieces that are identified by index, by id or by neither."""

    def __init__(self) -> None:
        self.calls: list[PartialCall] = []
        self._last_by_index: dict[int | None, PartialCall] = {}

    def take(self, piece: JsonObject) -> tuple[PartialCall, list[Delta]]:
        """Add a piece to its call. Return the call, and the piece as it is displayed."""
        function = as_object(piece.get("function") or piece.get("custom"))
        name, payload = as_string(function.get("name")), function.get("arguments", function.get("input"))
        arguments = payload if isinstance(payload, str) or payload is None else msgspec.json.encode(payload).decode()
        call = self._find(piece, name)
        started = not call.name and bool(name)
        call.id = call.id or as_string(piece.get("id"))
        call.name = call.name or name
        if arguments:
            call.pieces.append(arguments)
            call.length += len(arguments)
        extra = {key: value for key, value in piece.items() if key not in ("index", "id", "type", "function")}
        call.opaque = call.opaque | extra
        deltas = [Delta("call", name, call.place)] if started else []
        return call, [*deltas, Delta("call", arguments, call.place)] if arguments else deltas

    def _find(self, piece: JsonObject, name: str) -> PartialCall:
        """Return the call that a piece belongs to. Some servers give every call the index 0, or none: another id or
        a second name then starts another call.
        """
        raw_index, ident = piece.get("index"), as_string(piece.get("id"))
        index = raw_index if isinstance(raw_index, int) and not isinstance(raw_index, bool) else None
        last = self._last_by_index.get(index) if index is not None else next(reversed(self.calls), None)
        if last is not None:
            other = bool(ident and last.id and ident != last.id) and (bool(name) or last.is_whole)
            again = bool(name and last.name) and (index is None or (name != last.name and not ident))
            if not other and not again:
                return last
        self.calls.append(PartialCall(index, len(self.calls)))
        self._last_by_index[index] = self.calls[-1]
        return self.calls[-1]


class ChatAssembler:
    def __init__(self) -> None:
        self.error: JsonObject | None = None
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thought: list[str] = []
        self._thought_key = ""
        self._details: list[JsonObject] = []
        self._grown: list[dict[str, list[str]]] = []  # for each of them, the pieces to be added to its texts
        self._calls = PartialCalls()
        self._usage: JsonObject = {}
        self._model = self._reason = ""

    @property
    def done(self) -> bool:
        return bool(self._reason) and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        if frame.get("error"):
            self.error = extract_error(frame)
            return []
        self._usage = merge_usage(self._usage, frame.get("usage"))
        self._model = as_string(frame.get("model")) or self._model
        deltas: list[Delta] = []
        for each in as_list(frame.get("choices")):
            choice = as_object(each)
            if self._reason or as_index(choice.get("index"), 0) != 0:
                continue
            if choice.get("error"):
                return self.feed({"error": choice["error"]})
            deltas += self._take(as_object(choice.get("delta") or choice.get("message")))
            reason = as_string(choice.get("finish_reason"))
            self._reason = "" if reason == "null" else reason  # some servers write null as a string
            self._usage = merge_usage(self._usage, choice.get("usage"))
        return deltas

    def _take(self, delta: JsonObject) -> list[Delta]:
        deltas = self._think(delta)
        content = delta.get("content")
        for text in [content] if isinstance(content, str) else map(self._part, as_list(content)):
            if isinstance(text, str) and text:
                self._text.append(text)
                deltas.append(Delta("text", text))
            elif isinstance(text, Delta) and text.text:
                deltas.append(text)
        if refusal := as_string(delta.get("refusal")):
            self._refusal.append(refusal)
            deltas.append(Delta("text", refusal))
        for each in as_list(delta.get("tool_calls")):
            deltas += self._call(as_object(each))
        if old := as_object(delta.get("function_call")):
            deltas += self._call({"index": 0, "function": old})
        return deltas

    def _think(self, delta: JsonObject) -> list[Delta]:
        for piece in as_list(delta.get("reasoning_details")):
            self._detail(as_object(piece))
        for key in _REASONING_KEYS:
            if text := as_string(delta.get(key)):
                self._thought_key = self._thought_key or key
                self._thought.append(text)
                return [Delta("thinking", text)]
        return []

    def _detail(self, piece: JsonObject) -> None:
        """Merge OpenRouter's pieces: those of one index belong together; their texts grow, a signature comes once."""
        last = self._details[-1] if self._details else {}
        if not last or last.get("type") != piece.get("type") or last.get("index") != piece.get("index"):
            self._details.append(dict(piece))
            self._grown.append({})
            bound_parts(len(self._details), len(self._calls.calls))
            return
        for key, value in piece.items():
            grows = key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str)
            if grows:
                self._grown[-1].setdefault(key, []).append(as_string(value))
            elif value is not None:
                last[key] = value

    def _part(self, value: object) -> str | Delta:
        part = as_object(value)
        if part.get("type") != "thinking":
            return as_string(part.get("text"))
        inner = part.get("thinking")
        text = (
            inner
            if isinstance(inner, str)
            else "".join(as_string(as_object(each).get("text")) for each in as_list(inner))
        )
        self._thought_key = self._thought_key or _REASONING_KEYS[0]
        self._thought.append(text)
        return Delta("thinking", text)

    def _call(self, piece: JsonObject) -> list[Delta]:
        call, deltas = self._calls.take(piece)
        bound_parts(max(len(call.opaque), len(self._details)), len(self._calls.calls))
        return deltas

    def finish(self) -> Reply:
        if not self.done:
            raise incomplete_reply_error()
        calls = [each for each in self._calls.calls if each.name or each.length]
        message: JsonObject = {"role": "assistant", "content": "".join(self._text) or None}
        if self._thought:
            message[self._thought_key] = "".join(self._thought)
        if self._details:
            message["reasoning_details"] = [
                detail | {key: as_string(detail.get(key)) + "".join(pieces) for key, pieces in growth.items()}
                for detail, growth in zip(self._details, self._grown, strict=True)
            ]
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        ids = assign_unique_ids([each.id for each in calls])
        if calls:
            message["tool_calls"] = [_encode_call(each, ident) for each, ident in zip(calls, ids, strict=True)]
        stop = normalize_stop(_STOPS.get(self._reason, "unknown"), bool(calls))
        stop = "refused" if stop == "end" and self._refusal else stop
        bad = find_broken_calls(ids, ["" if _is_custom_call(each) else each.arguments for each in calls])
        return ensure_parseable(parse_message, Reply([message], self._usage, stop, self._model, self._reason, bad))


def _is_custom_call(call: PartialCall) -> bool:
    """Build the call of a custom tool, which takes text of any form."""
    return "custom" in call.opaque


def _encode_call(call: PartialCall, ident: str) -> JsonObject:
    extra = {key: value for key, value in call.opaque.items() if key != "custom"}
    if _is_custom_call(call):
        return {"id": ident, "type": "custom", "custom": {"name": call.name, "input": call.arguments}, **extra}
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": ident, "type": "function", "function": function, **extra}


def frames_from_body(body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to the frames of a stream."""
    choices = [as_object(each) for each in as_list(body.get("choices"))]
    for choice in choices[:1]:
        message = as_object(choice.get("message"))
        calls = [{**as_object(each), "index": place} for place, each in enumerate(as_list(message.get("tool_calls")))]
        choices = [{**choice, "index": 0, "message": {**message, "tool_calls": calls}}]
    return [{**body, "choices": choices}]
