"""Chat completions as a stream, from OpenAI and everyone who speaks it.

Reasoning goes by three names and comes as text, as Mistral's parts or as OpenRouter's details; it is given back under
the name it came with. Calls come in pieces that are told apart by index, by id or by neither.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.blocks import Json
from tidegate.wire.reading import is_object
from tidegate.wire.replies import (
    Delta,
    Reply,
    Stop,
    a_map,
    a_seq,
    a_str,
    bound_parts,
    broken,
    cut,
    error_in,
    more_usage,
    own_ids,
    place_of,
    readable,
    stop_of,
)

_STOPS: Mapping[str, Stop] = MappingProxyType(
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
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


_LONGEST_CHECKED = 65_536
"""Characters of arguments up to which a piece under another id is compared with them: see `_slot`."""


class _Called(msgspec.Struct, eq=False):
    """Pieces are joined once, at the end: long arguments are not copied with every piece."""

    index: int | None
    place: int
    id: str = ""
    name: str = ""
    pieces: list[str] = []
    length: int = 0
    opaque: Json = {}

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        return self.length <= _LONGEST_CHECKED and is_object(self.arguments)


class ChatAssembler:
    def __init__(self) -> None:
        self.error: Json | None = None
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thought: list[str] = []
        self._thought_key = ""
        self._details: list[Json] = []
        self._grown: list[dict[str, list[str]]] = []  # for each of them, what is still to be added to its texts
        self._calls: list[_Called] = []
        self._usage: Json = {}
        self._model = self._reason = ""

    @property
    def done(self) -> bool:
        return bool(self._reason) and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        if frame.get("error"):
            self.error = error_in(frame)
            return []
        self._usage = more_usage(self._usage, frame.get("usage"))
        self._model = a_str(frame.get("model")) or self._model
        deltas: list[Delta] = []
        for each in a_seq(frame.get("choices")):
            choice = a_map(each)
            if self._reason or place_of(choice.get("index"), 0) != 0:
                continue
            if choice.get("error"):
                return self.feed({"error": choice["error"]})
            deltas += self._take(a_map(choice.get("delta") or choice.get("message")))
            reason = a_str(choice.get("finish_reason"))
            self._reason = "" if reason == "null" else reason  # some write null as a word
            self._usage = more_usage(self._usage, choice.get("usage"))
        return deltas

    def _take(self, delta: Json) -> list[Delta]:
        deltas = self._think(delta)
        content = delta.get("content")
        for text in [content] if isinstance(content, str) else map(self._part, a_seq(content)):
            if isinstance(text, str) and text:
                self._text.append(text)
                deltas.append(Delta("text", text))
            elif isinstance(text, Delta) and text.text:
                deltas.append(text)
        if refusal := a_str(delta.get("refusal")):
            self._refusal.append(refusal)
            deltas.append(Delta("text", refusal))
        for each in a_seq(delta.get("tool_calls")):
            deltas += self._call(a_map(each))
        if old := a_map(delta.get("function_call")):
            deltas += self._call({"index": 0, "function": old})
        return deltas

    def _think(self, delta: Json) -> list[Delta]:
        for piece in a_seq(delta.get("reasoning_details")):
            self._detail(a_map(piece))
        for key in _REASONING:
            if text := a_str(delta.get(key)):
                self._thought_key = self._thought_key or key
                self._thought.append(text)
                return [Delta("thinking", text)]
        return []

    def _detail(self, piece: Json) -> None:
        """OpenRouter: pieces of one index belong together; their texts grow, a signature comes once."""
        last = self._details[-1] if self._details else {}
        if not last or last.get("type") != piece.get("type") or last.get("index") != piece.get("index"):
            self._details.append(dict(piece))
            self._grown.append({})
            bound_parts(len(self._details), len(self._calls))
            return
        for key, value in piece.items():
            grows = key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str)
            if grows:
                self._grown[-1].setdefault(key, []).append(a_str(value))
            elif value is not None:
                last[key] = value

    def _part(self, value: object) -> str | Delta:
        part = a_map(value)
        if part.get("type") != "thinking":
            return a_str(part.get("text"))
        inner = part.get("thinking")
        text = inner if isinstance(inner, str) else "".join(a_str(a_map(each).get("text")) for each in a_seq(inner))
        self._thought_key = self._thought_key or _REASONING[0]
        self._thought.append(text)
        return Delta("thinking", text)

    def _call(self, piece: Json) -> list[Delta]:
        function = a_map(piece.get("function") or piece.get("custom"))
        name, given = a_str(function.get("name")), function.get("arguments", function.get("input"))
        arguments = given if isinstance(given, str) or given is None else msgspec.json.encode(given).decode()
        called = self._slot(piece, name)
        started = not called.name and bool(name)
        called.id = called.id or a_str(piece.get("id"))
        called.name = called.name or name
        if arguments:
            called.pieces.append(arguments)
            called.length += len(arguments)
        extra = {key: value for key, value in piece.items() if key not in ("index", "id", "type", "function")}
        called.opaque = called.opaque | extra
        bound_parts(len(called.opaque), len(self._calls))
        shown = [Delta("call", name, called.place)] if started else []
        return [*shown, Delta("call", arguments, called.place)] if arguments else shown

    def _slot(self, piece: Json, name: str) -> _Called:
        """The call a piece belongs to. Some servers give every call the index 0, or none: another id or a second name
        then begins another call."""
        given, ident = piece.get("index"), a_str(piece.get("id"))
        index = given if isinstance(given, int) and not isinstance(given, bool) else None
        same = [each for each in self._calls if index is None or each.index == index]
        if same:
            last = same[-1]
            other = bool(ident and last.id and ident != last.id) and (bool(name) or last.is_whole)
            again = bool(name and last.name) and (index is None or (name != last.name and not ident))
            if not other and not again:
                return last
        self._calls.append(_Called(index, len(self._calls)))
        bound_parts(len(self._details), len(self._calls))
        return self._calls[-1]

    def finish(self) -> Reply:
        if not self.done:
            raise cut()
        calls = [each for each in self._calls if each.name or each.length]
        message: Json = {"role": "assistant", "content": "".join(self._text) or None}
        if self._thought:
            message[self._thought_key] = "".join(self._thought)
        if self._details:
            message["reasoning_details"] = [
                detail | {key: a_str(detail.get(key)) + "".join(pieces) for key, pieces in grown.items()}
                for detail, grown in zip(self._details, self._grown, strict=True)
            ]
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        ids = own_ids([each.id for each in calls])
        if calls:
            message["tool_calls"] = [_written(each, ident) for each, ident in zip(calls, ids, strict=True)]
        stop = stop_of(_STOPS.get(self._reason, "unknown"), bool(calls))
        stop = "refused" if stop == "end" and self._refusal else stop
        bad = broken(ids, ["" if _free(each) else each.arguments for each in calls])
        return readable("openai_chat", Reply([message], self._usage, stop, self._model, self._reason, bad))


def _free(called: _Called) -> bool:
    """A custom tool takes text of any form."""
    return "custom" in called.opaque


def _written(called: _Called, ident: str) -> Json:
    extra = {key: value for key, value in called.opaque.items() if key != "custom"}
    if _free(called):
        return {"id": ident, "type": "custom", "custom": {"name": called.name, "input": called.arguments}, **extra}
    function = {"name": called.name, "arguments": called.arguments}
    return {"id": ident, "type": "function", "function": function, **extra}


def whole(body: Mapping[str, object]) -> list[Json]:
    """An answer that did not come as a stream, as the frames it would have been."""
    choices = [a_map(each) for each in a_seq(body.get("choices"))]
    for choice in choices[:1]:
        message = a_map(choice.get("message"))
        calls = [{**a_map(each), "index": place} for place, each in enumerate(a_seq(message.get("tool_calls")))]
        choices = [{**choice, "index": 0, "message": {**message, "tool_calls": calls}}]
    return [{**body, "choices": choices}]
