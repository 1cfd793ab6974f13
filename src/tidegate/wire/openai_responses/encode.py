"""Encodes an answer in the form of OpenAI Responses, for scripted providers and fake servers."""

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer, cut_pieces


def _list_items(answer: ScriptedAnswer) -> list[JsonObject]:
    sources = [str(answer.number), answer.text, answer.thinking, answer.signature, *(call.id for call in answer.calls)]
    tag = blake2b(msgspec.msgpack.encode(sources), digest_size=6).hexdigest()  # ids differ between answers
    items: list[JsonObject] = []
    if answer.thinking or answer.signature:
        summary = [{"type": "summary_text", "text": answer.thinking}] if answer.thinking else []
        sealed = {"encrypted_content": answer.signature} if answer.signature else {}
        items.append({"type": "reasoning", "id": f"rs_{tag}", "summary": summary, **sealed})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message_fields = {"type": "message", "id": f"msg_{tag}", "status": "completed", "role": "assistant"}
        items.append({**message_fields, "content": content})
    for n, call in enumerate(answer.calls):
        call_fields = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        items.append({"type": "function_call", "id": f"fc_{tag}{n}", "status": "completed", **call_fields})
    return items


def encode_body(answer: ScriptedAnswer) -> JsonObject:
    reason = {"length": "max_output_tokens", "filtered": "content_filter"}.get(answer.effective_stop)
    body: JsonObject = {"id": f"resp_{answer.number}", "object": "response", "created_at": 0, "model": answer.model}
    body |= {"status": "incomplete" if reason else "completed", "output": _list_items(answer), "error": None}
    body |= {"incomplete_details": {"reason": reason} if reason else None, "parallel_tool_calls": True}
    body |= {"tool_choice": "auto", "tools": []}
    if answer.usage:
        body["usage"] = {
            "input_tokens": answer.usage.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.usage.cache_read, "cache_write_tokens": 0},
            "output_tokens": answer.usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.usage.input_tokens + answer.usage.output_tokens,
        }
    return body


def encode_frames(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    for number, frame in enumerate(_list_events(answer)):
        yield {**frame, "sequence_number": number}


def _list_events(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    whole = encode_body(answer)
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    for place, item in enumerate(_list_items(answer)):
        at: JsonObject = {"output_index": place, "item_id": item["id"]}
        kind = item["type"]
        empty = {**item, "content": []} if kind == "message" else {**item, "summary": []}
        empty = {**item, "arguments": ""} if kind == "function_call" else empty
        yield {"type": "response.output_item.added", "output_index": place, "item": {**empty, "status": "in_progress"}}
        if kind == "message":
            at |= {"content_index": 0}
            part: JsonObject = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **at, "part": part}
            for piece in cut_pieces(answer.text):
                yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": answer.text, "logprobs": []}
        elif kind == "function_call":
            for piece in cut_pieces(str(item["arguments"])):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        else:
            for piece in cut_pieces(answer.thinking):
                yield {"type": "response.reasoning_summary_text.delta", **at, "summary_index": 0, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}
