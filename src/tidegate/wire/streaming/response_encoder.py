"""Encodes an answer as a provider would send it, as the frames of a stream or whole.

For scripted providers and fake servers. An assembler reads the same answer back.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tidegate.core.messages import Call
from tidegate.wire.parsing import decode_object
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import StopReason
from tidegate.wire.usage import Usage

_CHUNK_CHARS = 16


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers. `signature` signs the thinking. Without `stop` the ordinary stop reason is used;
    without `usage` none is reported. `number` makes the ids of the answer unique in a conversation.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    signature: str = ""
    stop: StopReason | None = None
    usage: Usage | None = None
    model: str = ""
    number: int = 0

    @property
    def effective_stop(self) -> StopReason:
        return self.stop or ("calls" if self.calls else "end")


class _ResponseFormat(NamedTuple):
    frames: Callable[[ScriptedAnswer], Iterator[JsonObject]]
    body: Callable[[ScriptedAnswer], JsonObject]


def encode_frames(wire: str, spoken: ScriptedAnswer) -> list[JsonObject]:
    """The frames of a stream."""
    return list(_RESPONSE_FORMATS[get_dialect(wire).family].frames(spoken))


def encode_response_body(wire: str, spoken: ScriptedAnswer) -> JsonObject:
    """Encode the answer to a request without streaming."""
    return _RESPONSE_FORMATS[get_dialect(wire).family].body(spoken)


def encode_sse(wire: str, frames: list[JsonObject]) -> bytes:
    """Encode frames as the bytes of a stream. Two dialects name their events, one marks the end."""
    family = get_dialect(wire).family
    named = family in ("anthropic", "openai_responses")
    found = []
    for frame in frames:
        name = b"event: %s\n" % str(frame.get("type")).encode() if named else b""
        found.append(b"%sdata: %s\n\n" % (name, msgspec.json.encode(frame)))
    return b"".join(found) + (b"data: [DONE]\n\n" if family == "openai_chat" else b"")


def _pieces(text: str) -> Iterator[str]:
    yield from (text[at : at + _CHUNK_CHARS] for at in range(0, len(text), _CHUNK_CHARS))


# --- chat completions ---------------------------------------------------------------------------------------------

_CHAT_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"calls": "tool_calls", "length": "length", "filtered": "content_filter"}
)


def _chat_usage(usage: Usage) -> JsonObject:
    total = usage.input_tokens + usage.output_tokens
    found: JsonObject = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total,
    }
    return {**found, "prompt_tokens_details": {"cached_tokens": usage.cache_read}}


def _chat_frames(spoken: ScriptedAnswer) -> Iterator[JsonObject]:
    top: JsonObject = {
        "id": f"chatcmpl-{spoken.number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": spoken.model,
    }

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**top, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in _pieces(spoken.thinking))
    yield from (chunk({"content": piece}) for piece in _pieces(spoken.text))
    for index, call in enumerate(spoken.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        for piece in _pieces(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _CHAT_STOPS.get(spoken.effective_stop, "stop"))
    if spoken.usage:
        yield {**top, "choices": [], "usage": _chat_usage(spoken.usage)}


def _chat_body(spoken: ScriptedAnswer) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": spoken.text or None}
    if spoken.thinking:
        message["reasoning_content"] = spoken.thinking
    if spoken.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in spoken.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_STOPS.get(spoken.effective_stop, "stop")}
    found: JsonObject = {
        "id": f"chatcmpl-{spoken.number}",
        "object": "chat.completion",
        "created": 0,
        "model": spoken.model,
    }
    return {**found, "choices": [choice], **({"usage": _chat_usage(spoken.usage)} if spoken.usage else {})}


# --- Anthropic ----------------------------------------------------------------------------------------------------

_ANTHROPIC_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"calls": "tool_use", "length": "max_tokens", "refused": "refusal", "filtered": "refusal", "paused": "pause_turn"}
)


def _anthropic_blocks(spoken: ScriptedAnswer) -> list[JsonObject]:
    found: list[JsonObject] = []
    if spoken.thinking or spoken.signature:
        found.append({"type": "thinking", "thinking": spoken.thinking, "signature": spoken.signature})
    if spoken.text:
        found.append({"type": "text", "text": spoken.text})
    found += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": decode_object(call.arguments)}
        for call in spoken.calls
    ]
    return found


def _anthropic_body(spoken: ScriptedAnswer) -> JsonObject:
    usage = spoken.usage or Usage(0, 0, 0, 0)
    return {
        "id": f"msg_{spoken.number}",
        "type": "message",
        "role": "assistant",
        "model": spoken.model,
        "content": _anthropic_blocks(spoken),
        "stop_reason": _ANTHROPIC_STOPS.get(spoken.effective_stop, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens - usage.cache_read - usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output_tokens,
        },
    }


def _anthropic_frames(spoken: ScriptedAnswer) -> Iterator[JsonObject]:
    body = _anthropic_body(spoken)
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    raw = iter(call.arguments for call in spoken.calls)
    for index, block in enumerate(_anthropic_blocks(spoken)):
        kind = str(block["type"])
        key = {"tool_use": "partial_json"}.get(kind, kind)
        empty = {**block, kind: "", "signature": ""} if kind == "thinking" else {**block, "text": ""}
        empty = {**block, "input": {}} if kind == "tool_use" else empty
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        text = next(raw) if kind == "tool_use" else str(block[kind])
        deltas: list[JsonObject] = [
            {"type": "input_json_delta" if kind == "tool_use" else f"{kind}_delta", key: piece}
            for piece in _pieces(text)
        ]
        if kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": spoken.signature})
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    stopped = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": body["usage"]}
    yield {"type": "message_stop"}


# --- Responses ----------------------------------------------------------------------------------------------------


def _response_items(spoken: ScriptedAnswer) -> list[JsonObject]:
    said = [str(spoken.number), spoken.text, spoken.thinking, spoken.signature, *(call.id for call in spoken.calls)]
    tag = blake2b(msgspec.msgpack.encode(said), digest_size=6).hexdigest()  # ids differ between answers
    found: list[JsonObject] = []
    if spoken.thinking or spoken.signature:
        summary = [{"type": "summary_text", "text": spoken.thinking}] if spoken.thinking else []
        sealed = {"encrypted_content": spoken.signature} if spoken.signature else {}
        found.append({"type": "reasoning", "id": f"rs_{tag}", "summary": summary, **sealed})
    if spoken.text:
        content = [{"type": "output_text", "text": spoken.text, "annotations": []}]
        shown = {"type": "message", "id": f"msg_{tag}", "status": "completed", "role": "assistant"}
        found.append({**shown, "content": content})
    for n, call in enumerate(spoken.calls):
        named = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        found.append({"type": "function_call", "id": f"fc_{tag}{n}", "status": "completed", **named})
    return found


def _response_body(spoken: ScriptedAnswer) -> JsonObject:
    reason = {"length": "max_output_tokens", "filtered": "content_filter"}.get(spoken.effective_stop)
    found: JsonObject = {"id": f"resp_{spoken.number}", "object": "response", "created_at": 0, "model": spoken.model}
    found |= {"status": "incomplete" if reason else "completed", "output": _response_items(spoken), "error": None}
    found |= {"incomplete_details": {"reason": reason} if reason else None, "parallel_tool_calls": True}
    found |= {"tool_choice": "auto", "tools": []}
    if spoken.usage:
        found["usage"] = {
            "input_tokens": spoken.usage.input_tokens,
            "input_tokens_details": {"cached_tokens": spoken.usage.cache_read, "cache_write_tokens": 0},
            "output_tokens": spoken.usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": spoken.usage.input_tokens + spoken.usage.output_tokens,
        }
    return found


def _response_frames(spoken: ScriptedAnswer) -> Iterator[JsonObject]:
    for number, frame in enumerate(_response_events(spoken)):
        yield {**frame, "sequence_number": number}


def _response_events(spoken: ScriptedAnswer) -> Iterator[JsonObject]:
    whole = _response_body(spoken)
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    for place, item in enumerate(_response_items(spoken)):
        at: JsonObject = {"output_index": place, "item_id": item["id"]}
        kind = item["type"]
        empty = {**item, "content": []} if kind == "message" else {**item, "summary": []}
        empty = {**item, "arguments": ""} if kind == "function_call" else empty
        yield {"type": "response.output_item.added", "output_index": place, "item": {**empty, "status": "in_progress"}}
        if kind == "message":
            at |= {"content_index": 0}
            part: JsonObject = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **at, "part": part}
            for piece in _pieces(spoken.text):
                yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": spoken.text, "logprobs": []}
        elif kind == "function_call":
            for piece in _pieces(str(item["arguments"])):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        else:
            for piece in _pieces(spoken.thinking):
                yield {"type": "response.reasoning_summary_text.delta", **at, "summary_index": 0, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


# --- Gemini -------------------------------------------------------------------------------------------------------

_GEMINI_STOPS: Mapping[StopReason, str] = MappingProxyType(
    {"length": "MAX_TOKENS", "filtered": "SAFETY", "refused": "PROHIBITED_CONTENT", "unknown": "OTHER"}
)


def _gemini_candidate(spoken: ScriptedAnswer, parts: list[JsonObject], last: bool) -> JsonObject:
    found: JsonObject = {"content": {"role": "model", "parts": parts}, "index": 0}
    body: JsonObject = {"candidates": [found], "modelVersion": spoken.model}
    if not last:
        return body
    found["finishReason"] = _GEMINI_STOPS.get(spoken.effective_stop, "STOP")
    if spoken.usage:
        body["usageMetadata"] = {
            "promptTokenCount": spoken.usage.input_tokens,
            "candidatesTokenCount": spoken.usage.output_tokens,
            "cachedContentTokenCount": spoken.usage.cache_read,
            "totalTokenCount": spoken.usage.input_tokens + spoken.usage.output_tokens,
        }
    return body


def _gemini_parts(spoken: ScriptedAnswer) -> list[list[JsonObject]]:
    """Yield the parts in the order of the stream. The first call is signed; without calls, the end of the text."""
    parts: list[list[JsonObject]] = [[{"text": piece, "thought": True}] for piece in _pieces(spoken.thinking)]
    parts += [[{"text": piece}] for piece in _pieces(spoken.text)]
    sealed: JsonObject = {"thoughtSignature": spoken.signature} if spoken.signature else {}
    for call in spoken.calls:
        parts.append(
            [{"functionCall": {"name": call.name, "args": decode_object(call.arguments), "id": call.id}, **sealed}]
        )
        sealed = {}
    return [*parts, [{"text": "", **sealed}]] if sealed or not parts else parts


def _gemini_frames(spoken: ScriptedAnswer) -> Iterator[JsonObject]:
    parts = _gemini_parts(spoken)
    for place, each in enumerate(parts):
        yield _gemini_candidate(spoken, each, place == len(parts) - 1)


def _gemini_body(spoken: ScriptedAnswer) -> JsonObject:
    texts: list[JsonObject] = [{"text": spoken.thinking, "thought": True}] if spoken.thinking else []
    texts += [{"text": spoken.text}] if spoken.text else []
    bare = msgspec.structs.replace(spoken, text="", thinking="")
    rest = [part for each in _gemini_parts(bare) for part in each]
    return _gemini_candidate(spoken, texts + (rest if spoken.calls or spoken.signature or not texts else []), True)


_RESPONSE_FORMATS: Mapping[str, _ResponseFormat] = MappingProxyType(
    {
        "openai_chat": _ResponseFormat(_chat_frames, _chat_body),
        "anthropic": _ResponseFormat(_anthropic_frames, _anthropic_body),
        "openai_responses": _ResponseFormat(_response_frames, _response_body),
        "gemini": _ResponseFormat(_gemini_frames, _gemini_body),
    }
)
