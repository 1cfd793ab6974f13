"""Failures that come with a 200: frames inside a stream, and answers that are whole and say nothing."""

from typing import Any, get_args

import msgspec
import pytest

from tidegate.models.errors.classification import classify_frame, classify_reply
from tidegate.wire.streaming.reply import Reply, StopReason

OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."

FRAMES: list[tuple[str, str, str]] = [
    ("anthropic", '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "server"),
    ("anthropic", '{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}', "rate_limit"),
    ("anthropic", '{"type":"error","error":{"type":"api_error","message":"Hm"}}', "server"),
    ("anthropic", '{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}', "overflow"),
    ("openai_chat", '{"error":{"message":"prompt is too long","code":400}}', "overflow"),
    ("openai_chat", '{"error":"boom"}', "server"),
    ("openai_chat", '{"error":{"code":502,"message":"Gone"},"choices":[{"finish_reason":"error"}]}', "server"),
    ("openai_chat", '{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}', "server"),
    ("openai_chat", '{"choices":[{"delta":{},"finish_reason":"model_context_window_exceeded"}]}', "overflow"),
    ("openai_chat", '{"base_resp":{"status_code":1039,"status_msg":"token limit"},"choices":null}', "overflow"),
    ("openai_chat", '{"object":"error","message":"prompt is too long","type":"BadRequestError"}', "overflow"),
    ("openai_responses", '{"type":"error","code":"context_length_exceeded","message":"Your input."}', "overflow"),
    ("openai_responses", '{"type":"response.failed","response":{"error":{"code":"server_error"}}}', "server"),
    (
        "openai_responses",
        '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}',
        "rate_limit",
    ),
    ("openai_responses", '{"type":"error","error":{"code":"server_is_overloaded","message":"Later."}}', "server"),
    ("gemini", '{"error":{"code":503,"message":"Later.","status":"UNAVAILABLE"}}', "server"),
    ("gemini", '{"error":{"code":429,"message":"Later.","status":"RESOURCE_EXHAUSTED"}}', "rate_limit"),
    ("gemini", '{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{}}', "refused"),
]


def test_frames_that_tell_of_a_failure() -> None:
    for dialect, frame, kind in FRAMES:
        fault = classify_frame(msgspec.json.decode(frame))
        assert fault is not None, (dialect, frame)
        assert fault.kind == kind, (dialect, frame)


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"choices": [{"index": 0, "delta": {"content": OVERFLOW}, "finish_reason": None}], "error": None},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "base_resp": {"status_code": 0}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "error: " + OVERFLOW}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "response.completed", "response": {"status": "completed", "error": None, "output": []}},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "MAX_TOKENS"}]},
        {"candidates": [{"finishReason": "SAFETY"}], "promptFeedback": {"safetyRatings": []}},
    ],
)
def test_ordinary_frames(frame: dict[str, Any]) -> None:
    assert classify_frame(frame) is None


def reply(message: dict[str, Any], stop: StopReason, reason: str = "", **usage: Any) -> Reply:
    return Reply([message], usage, stop, "m", reason)


def test_replies_that_say_nothing() -> None:
    empty = {"role": "assistant", "content": ""}
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    cut = classify_reply(reply(empty, "length", prompt_tokens=8000, completion_tokens=0))
    assert cut is not None
    assert (cut.kind, cut.prompt_tokens, cut.window) == ("overflow", 8000, None)
    full = classify_reply(reply(thought, "length", input_tokens=7000, output_tokens=1190), window=8192)
    assert full is not None
    assert full.kind == "overflow"
    spent = classify_reply(reply(thought, "length", input_tokens=700, output_tokens=1024), window=8192)
    assert spent is not None
    assert (spent.kind, spent.requested_output) == ("output_cap", 1024)
    stops: tuple[StopReason, ...] = ("refused", "filtered")
    for stop in stops:
        refused = classify_reply(reply(empty, stop, input_tokens=7))
        assert refused is not None
        assert refused.kind == "refused"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "Half an ans"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "Half"}]},
    ],
)
def test_replies_that_say_something(message: dict[str, Any]) -> None:
    for stop in get_args(StopReason):
        assert classify_reply(reply(message, stop, prompt_tokens=8000)) is None


def test_replies_of_several_items() -> None:
    items: list[dict[str, Any]] = [{"type": "reasoning", "summary": []}, {"type": "function_call", "name": "f"}]
    usage: dict[str, Any] = {"input_tokens": 9, "output_tokens": 0}
    assert classify_reply(Reply(items, usage, "length", "m", "max_output_tokens")) is None
    assert classify_reply(Reply(items[:1], usage, "length", "m", "max_output_tokens")) is not None
    assert classify_reply(Reply([], {}, "end", "m", "")) is None


def test_a_stop_reason_that_tells_of_a_failure() -> None:
    half = {"role": "assistant", "content": "Half an ans"}
    cut = classify_reply(reply(half, "unknown", "model_context_window_exceeded"))
    assert cut is not None
    assert cut.kind == "overflow"
    for reason in ("stop", "max_tokens", "MAX_TOKENS", "length", "tool_use", ""):
        assert classify_reply(reply(half, "unknown", reason)) is None
