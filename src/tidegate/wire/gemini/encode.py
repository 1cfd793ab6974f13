"""Encodes an answer in the form of Gemini, for scripted providers and fake servers."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import StopReason
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer, cut_pieces

_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"length": "MAX_TOKENS", "filtered": "SAFETY", "refused": "PROHIBITED_CONTENT", "unknown": "OTHER"}
)


def _encode_candidate(answer: ScriptedAnswer, parts: list[JsonObject], last: bool) -> JsonObject:
    candidate: JsonObject = {"content": {"role": "model", "parts": parts}, "index": 0}
    body: JsonObject = {"candidates": [candidate], "modelVersion": answer.model}
    if not last:
        return body
    candidate["finishReason"] = _STOPS.get(answer.effective_stop, "STOP")
    if answer.usage:
        body["usageMetadata"] = {
            "promptTokenCount": answer.usage.input_tokens,
            "candidatesTokenCount": answer.usage.output_tokens,
            "cachedContentTokenCount": answer.usage.cache_read,
            "totalTokenCount": answer.usage.input_tokens + answer.usage.output_tokens,
        }
    return body


def _list_parts(answer: ScriptedAnswer) -> list[list[JsonObject]]:
    """Yield the parts in the order of the stream. The first call is signed; without calls, the end of the text."""
    parts: list[list[JsonObject]] = [[{"text": piece, "thought": True}] for piece in cut_pieces(answer.thinking)]
    parts += [[{"text": piece}] for piece in cut_pieces(answer.text)]
    sealed: JsonObject = {"thoughtSignature": answer.signature} if answer.signature else {}
    for call in answer.calls:
        parts.append(
            [{"functionCall": {"name": call.name, "args": decode_object(call.arguments), "id": call.id}, **sealed}]
        )
        sealed = {}
    return [*parts, [{"text": "", **sealed}]] if sealed or not parts else parts


def encode_frames(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    parts = _list_parts(answer)
    for place, each in enumerate(parts):
        yield _encode_candidate(answer, each, place == len(parts) - 1)


def encode_body(answer: ScriptedAnswer) -> JsonObject:
    texts: list[JsonObject] = [{"text": answer.thinking, "thought": True}] if answer.thinking else []
    texts += [{"text": answer.text}] if answer.text else []
    bare = msgspec.structs.replace(answer, text="", thinking="")
    rest = [part for each in _list_parts(bare) for part in each]
    return _encode_candidate(answer, texts + (rest if answer.calls or answer.signature or not texts else []), True)
