"""Assembler for Anthropic streams: blocks are started, extended by deltas and stopped, identified by index.

A block is kept as the server sent it, unknown types included: thinking with its signature, redacted thinking, the
blocks of tools that the server runs. Only the content of deltas is added.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.anthropic.parse import parse_message
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
        "end_turn": "end",
        "stop_sequence": "end",
        "tool_use": "calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "pause_turn": "paused",
        "refusal": "refused",
    }
)
# The type of a delta, the field it extends and its kind for display.
_DELTA_FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
        "signature_delta": ("signature", ""),
        "compaction_delta": ("content", ""),
    }
)


class _PartialBlock:
    """Pieces are joined once, at the end, so that a long answer is not copied with every piece."""

    def __init__(self, block: JsonObject) -> None:
        self.block = block
        self.is_call = block.get("type") == "tool_use"
        self.pieces_by_key: dict[str, list[str]] = {}
        self.json: list[str] = []

    def arguments(self) -> str:
        block_input = self.block.get("input")
        return "".join(self.json) or (msgspec.json.encode(block_input).decode() if block_input else "")

    def whole(self) -> JsonObject:
        block = dict(self.block)
        if block.get("type") == "text":
            block.setdefault("text", "")
        for key, pieces in self.pieces_by_key.items():
            block[key] = as_string(block.get(key)) + "".join(pieces)
        if text := "".join(self.json):
            block["input"] = msgspec.json.decode(text) if is_object_text(text) else text
        elif self.is_call and not isinstance(block.get("input"), dict):
            block["input"] = {}
        return block


class AnthropicAssembler:
    def __init__(self) -> None:
        self.error: JsonObject | None = None
        self._blocks: dict[int, _PartialBlock] = {}
        self._calls = self._citations = 0
        self._usage: JsonObject = {}
        self._model = self._reason = ""
        self._ended = False
        self.done = False  # whether the stop reason has come, which follows the last block

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        kind = frame.get("type")
        if kind == "content_block_delta":  # nearly all frames
            return [] if self._ended or self._reason else self._grow(frame)
        if kind == "error" or (kind is None and frame.get("error")):
            self.error, self.done = extract_error(frame), False
        elif self._ended:
            return []
        elif kind == "message_start":
            message = as_object(frame.get("message"))
            self._model = as_string(message.get("model"))
            self._usage = merge_usage(self._usage, message.get("usage"))
        elif kind == "content_block_start" and not self._reason:
            return self._start(frame)
        elif kind == "message_delta":
            self._reason = as_string(as_object(frame.get("delta")).get("stop_reason")) or self._reason
            self._usage = merge_usage(self._usage, frame.get("usage"))
            self.done = bool(self._reason) and self.error is None
        elif kind == "message_stop":
            self._ended = True
        return []

    def _start(self, frame: Mapping[str, object]) -> list[Delta]:
        block = as_object(frame.get("content_block"))
        place = as_index(frame.get("index"), len(self._blocks))
        while place in self._blocks:  # some servers give every block the same index
            place += 1
        self._blocks[place] = growing = _PartialBlock(block)
        self._calls += growing.is_call
        bound_parts(len(self._blocks), self._calls)
        if growing.is_call:
            return [Delta("call", as_string(block.get("name")), place)]
        text = as_string(block.get("text")) or as_string(block.get("thinking"))
        return [Delta("thinking" if block.get("type") == "thinking" else "text", text, place)] if text else []

    def _grow(self, frame: Mapping[str, object]) -> list[Delta]:
        delta, place = as_object(frame.get("delta")), frame.get("index")
        kind = as_string(delta.get("type"))
        if type(place) is not int:
            place = max(self._blocks, default=0)
        growing = self._blocks.get(place)
        if growing is None:
            if kind not in ("text_delta", "thinking_delta"):
                return []
            growing = self._blocks[place] = _PartialBlock({"type": _DELTA_FIELDS[kind][0]})
            bound_parts(len(self._blocks), self._calls)
        if kind == "input_json_delta":
            piece = as_string(delta.get("partial_json"))
            growing.json.append(piece)
            return [Delta("call", piece, place)] if piece and growing.is_call else []
        if kind == "citations_delta":
            self._citations += 1
            bound_parts(self._citations, self._calls)
            cited = [*as_list(growing.block.get("citations")), delta.get("citation")]
            growing.block = {**growing.block, "citations": cited}
            return []
        if kind not in _DELTA_FIELDS:
            return []
        key, channel = _DELTA_FIELDS[kind]
        piece = as_string(delta.get(key))
        growing.pieces_by_key.setdefault(key, []).append(piece)
        if channel == "text":
            return [Delta("text", piece, place)] if piece else []
        return [Delta("thinking", piece, place)] if piece and channel else []

    def finish(self) -> Reply:
        if not self.done:
            raise incomplete_reply_error()
        ordered = [self._blocks[place] for place in sorted(self._blocks)]
        content = [each.whole() for each in ordered]
        calls = [each for each in ordered if each.is_call]
        arguments = [each.arguments() for each in calls]
        ids = assign_unique_ids([as_string(each.block.get("id")) for each in calls])
        left = iter(ids)
        for each, block in zip(ordered, content, strict=True):
            if each.is_call:
                block |= {"id": next(left), "name": as_string(block.get("name"))}
        stop = normalize_stop(_STOPS.get(self._reason, "unknown"), bool(calls))
        message: JsonObject = {"role": "assistant", "content": content}
        bad = find_broken_calls(ids, arguments)
        return ensure_parseable(parse_message, Reply([message], self._usage, stop, self._model, self._reason, bad))


def frames_from_body(body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to the frames of a stream."""
    if body.get("type") == "error" or body.get("error"):
        return [{"type": "error", "error": body.get("error")}]
    frames: list[JsonObject] = [{"type": "message_start", "message": body}]
    for place, block in enumerate(as_list(body.get("content"))):
        frames.append({"type": "content_block_start", "index": place, "content_block": block})
    return [*frames, {"type": "message_delta", "delta": {"stop_reason": body.get("stop_reason")}}]
