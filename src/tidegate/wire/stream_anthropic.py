"""Anthropic Messages as a stream: blocks that are started, grown by deltas and stopped, told apart by index.

A block is kept as the server sent it, unknown ones too: thinking with its signature, redacted thinking, the blocks of
tools that the server runs. Only what deltas bring is put in its place.
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
        "end_turn": "end",
        "stop_sequence": "end",
        "tool_use": "calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "pause_turn": "paused",
        "refusal": "refused",
    }
)
# A delta's type, the field it grows and what the screen calls it.
_GROWS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
        "signature_delta": ("signature", ""),
        "compaction_delta": ("content", ""),
    }
)


class _Growing(msgspec.Struct, eq=False):
    """Pieces are joined once, at the end: a long answer is not copied with every word."""

    block: Json
    grown: dict[str, list[str]]
    json: list[str]

    @property
    def is_call(self) -> bool:
        return self.block.get("type") == "tool_use"

    def arguments(self) -> str:
        given = self.block.get("input")
        return "".join(self.json) or (msgspec.json.encode(given).decode() if given else "")

    def whole(self) -> Json:
        block = dict(self.block)
        if block.get("type") == "text":
            block.setdefault("text", "")
        for key, pieces in self.grown.items():
            block[key] = a_str(block.get(key)) + "".join(pieces)
        if text := "".join(self.json):
            block["input"] = msgspec.json.decode(text) if is_object(text) else text
        elif self.is_call and not isinstance(block.get("input"), dict):
            block["input"] = {}
        return block


class AnthropicAssembler:
    def __init__(self) -> None:
        self.error: Json | None = None
        self._blocks: dict[int, _Growing] = {}
        self._calls = self._citations = 0
        self._usage: Json = {}
        self._model = self._reason = ""
        self._ended = False

    @property
    def done(self) -> bool:
        """Why it stopped is said behind the last block."""
        return bool(self._reason) and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        kind = frame.get("type")
        if kind == "error" or (kind is None and frame.get("error")):
            self.error = error_in(frame)
        elif self._ended:
            return []
        elif kind == "message_start":
            message = a_map(frame.get("message"))
            self._model = a_str(message.get("model"))
            self._usage = more_usage(self._usage, message.get("usage"))
        elif kind == "content_block_start" and not self._reason:
            return self._start(frame)
        elif kind == "content_block_delta" and not self._reason:
            return self._grow(frame)
        elif kind == "message_delta":
            self._reason = a_str(a_map(frame.get("delta")).get("stop_reason")) or self._reason
            self._usage = more_usage(self._usage, frame.get("usage"))
        elif kind == "message_stop":
            self._ended = True
        return []

    def _start(self, frame: Mapping[str, object]) -> list[Delta]:
        block = a_map(frame.get("content_block"))
        place = place_of(frame.get("index"), len(self._blocks))
        while place in self._blocks:  # a server that numbers every block alike
            place += 1
        self._blocks[place] = growing = _Growing(block, {}, [])
        self._calls += growing.is_call
        bound_parts(len(self._blocks), self._calls)
        if growing.is_call:
            return [Delta("call", a_str(block.get("name")), place)]
        text = a_str(block.get("text")) or a_str(block.get("thinking"))
        return [Delta("thinking" if block.get("type") == "thinking" else "text", text, place)] if text else []

    def _grow(self, frame: Mapping[str, object]) -> list[Delta]:
        delta = a_map(frame.get("delta"))
        kind = a_str(delta.get("type"))
        place = place_of(frame.get("index"), max(self._blocks, default=0))
        growing = self._blocks.get(place)
        if growing is None:
            if kind not in ("text_delta", "thinking_delta"):
                return []
            growing = self._blocks[place] = _Growing({"type": _GROWS[kind][0]}, {}, [])
            bound_parts(len(self._blocks), self._calls)
        if kind == "input_json_delta":
            piece = a_str(delta.get("partial_json"))
            growing.json.append(piece)
            return [Delta("call", piece, place)] if piece and growing.is_call else []
        if kind == "citations_delta":
            self._citations += 1
            bound_parts(self._citations, self._calls)
            cited = [*a_seq(growing.block.get("citations")), delta.get("citation")]
            growing.block = {**growing.block, "citations": cited}
            return []
        if kind not in _GROWS:
            return []
        key, shown = _GROWS[kind]
        piece = a_str(delta.get(key))
        growing.grown.setdefault(key, []).append(piece)
        if shown == "text":
            return [Delta("text", piece, place)] if piece else []
        return [Delta("thinking", piece, place)] if piece and shown else []

    def finish(self) -> Reply:
        if not self.done:
            raise cut()
        ordered = [self._blocks[place] for place in sorted(self._blocks)]
        calls = [each for each in ordered if each.is_call]
        ids = own_ids([a_str(each.block.get("id")) for each in calls])
        left = iter(ids)
        content: list[Json] = []
        for each in ordered:
            block = each.whole()
            if each.is_call:
                block |= {"id": next(left), "name": a_str(block.get("name"))}
            content.append(block)
        stop = stop_of(_STOPS.get(self._reason, "unknown"), bool(calls))
        message: Json = {"role": "assistant", "content": content}
        bad = broken(ids, [each.arguments() for each in calls])
        return readable("anthropic", Reply([message], self._usage, stop, self._model, self._reason, bad))


def whole(body: Mapping[str, object]) -> list[Json]:
    """An answer that did not come as a stream, as the frames it would have been."""
    if body.get("type") == "error" or body.get("error"):
        return [{"type": "error", "error": body.get("error")}]
    frames: list[Json] = [{"type": "message_start", "message": body}]
    for place, block in enumerate(a_seq(body.get("content"))):
        frames.append({"type": "content_block_start", "index": place, "content_block": block})
    return [*frames, {"type": "message_delta", "delta": {"stop_reason": body.get("stop_reason")}}]
