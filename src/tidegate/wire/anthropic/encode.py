"""Encodes an answer in the form of Anthropic, for scripted providers and fake servers."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tidegate.core.usage import Usage
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import StopReason
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer, cut_pieces

_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"calls": "tool_use", "length": "max_tokens", "refused": "refusal", "filtered": "refusal", "paused": "pause_turn"}
)


def _list_blocks(answer: ScriptedAnswer) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if answer.thinking or answer.signature:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": answer.signature})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": decode_object(call.arguments)}
        for call in answer.calls
    ]
    return blocks


def encode_body(answer: ScriptedAnswer) -> JsonObject:
    usage = answer.usage or Usage(0, 0, 0, 0)
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _list_blocks(answer),
        "stop_reason": _STOPS.get(answer.effective_stop, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens - usage.cache_read - usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output_tokens,
        },
    }


def encode_frames(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    body = encode_body(answer)
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    raw = iter(call.arguments for call in answer.calls)
    for index, block in enumerate(_list_blocks(answer)):
        kind = str(block["type"])
        key = {"tool_use": "partial_json"}.get(kind, kind)
        empty = {**block, kind: "", "signature": ""} if kind == "thinking" else {**block, "text": ""}
        empty = {**block, "input": {}} if kind == "tool_use" else empty
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        text = next(raw) if kind == "tool_use" else str(block[kind])
        deltas: list[JsonObject] = [
            {"type": "input_json_delta" if kind == "tool_use" else f"{kind}_delta", key: piece}
            for piece in cut_pieces(text)
        ]
        if kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": answer.signature})
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    stopped = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": body["usage"]}
    yield {"type": "message_stop"}
