"""Encodes an answer in the form of OpenAI chat, for scripted providers and fake servers."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tidegate.core.usage import Usage
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import StopReason
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer, cut_pieces

_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"calls": "tool_calls", "length": "length", "filtered": "content_filter"}
)


def _encode_usage(usage: Usage) -> JsonObject:
    total = usage.input_tokens + usage.output_tokens
    report: JsonObject = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total,
    }
    return {**report, "prompt_tokens_details": {"cached_tokens": usage.cache_read}}


def encode_frames(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    top: JsonObject = {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": answer.model,
    }

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**top, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in cut_pieces(answer.thinking))
    yield from (chunk({"content": piece}) for piece in cut_pieces(answer.text))
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        for piece in cut_pieces(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _STOPS.get(answer.effective_stop, "stop"))
    if answer.usage:
        yield {**top, "choices": [], "usage": _encode_usage(answer.usage)}


def encode_body(answer: ScriptedAnswer) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _STOPS.get(answer.effective_stop, "stop")}
    body: JsonObject = {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
    }
    return {**body, "choices": [choice], **({"usage": _encode_usage(answer.usage)} if answer.usage else {})}
