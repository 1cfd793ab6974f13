"""Answers as the providers stream them, frame by frame, and the same answers whole.

Written down from the providers' documented streams: what matters is the order of the events, where ids, signatures and
usage stand, and what comes last.
"""

from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]


class Recorded(NamedTuple):
    """`opaque` are the texts that must come back in the next request, byte for byte."""

    name: str
    wire: str
    frames: list[Json]
    messages: list[Json]
    stop: str
    usage: Json
    opaque: tuple[str, ...] = ()
    named: bool = False
    done: bool = False

    def to_bytes(self) -> bytes:
        found = b""
        for frame in self.frames:
            if self.named:
                found += b"event: " + frame["type"].encode() + b"\n"
            found += b"data: " + msgspec.json.encode(frame) + (b"\r\n\r\n" if self.wire == "gemini" else b"\n\n")
        return found + (b"data: [DONE]\n\n" if self.done else b"")


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [choice], **more}


def piece(index: int, arguments: str, **more: Any) -> Json:
    name = more.pop("name", None)
    function = {"name": name, "arguments": arguments} if name is not None else {"arguments": arguments}
    return {"tool_calls": [{"index": index, **more, "function": function}]}


def called(ident: str, name: str, arguments: str) -> Json:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT_USAGE = {"prompt_tokens": 91, "completion_tokens": 17, "total_tokens": 108}
CHAT_END = {"id": "chatcmpl-1", "model": "gpt-4o", "choices": [], "usage": CHAT_USAGE}
CHAT_TEXT = Recorded(
    "chat text",
    "openai_chat",
    [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        *[chunk({"content": text}) for text in ("Grüße", " aus ", "東京", " \U0001f30a")],
        chunk({}, "stop"),
        CHAT_END,
    ],
    [{"role": "assistant", "content": "Grüße aus 東京 \U0001f30a"}],
    "end",
    CHAT_USAGE,
    done=True,
)
CHAT_CALLS = Recorded(
    "chat calls",
    "openai_chat",
    [
        chunk({"role": "assistant", "content": None}),
        chunk(piece(0, "", id="call_a", type="function", name="read")),
        chunk(piece(0, '{"path"')),
        chunk(piece(0, ': "a.txt"}')),
        chunk(piece(1, "", id="call_b", type="function", name="grep")),
        chunk(piece(1, '{"words": "tide"}')),
        chunk({}, "tool_calls"),
        CHAT_END,
    ],
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                called("call_a", "read", '{"path": "a.txt"}'),
                called("call_b", "grep", '{"words": "tide"}'),
            ],
        }
    ],
    "calls",
    CHAT_USAGE,
    done=True,
)
DEEPSEEK = Recorded(
    "deepseek reasoning",
    "deepseek",
    [
        chunk({"role": "assistant", "content": None, "reasoning_content": "The user"}),
        chunk({"reasoning_content": " wants a.txt."}),
        chunk({"content": "Reading."}),
        chunk(piece(0, '{"path": "a.txt"}', id="call_c", type="function", name="read")),
        chunk({"content": ""}, "tool_calls", usage=CHAT_USAGE),
    ],
    [
        {
            "role": "assistant",
            "content": "Reading.",
            "reasoning_content": "The user wants a.txt.",
            "tool_calls": [called("call_c", "read", '{"path": "a.txt"}')],
        }
    ],
    "calls",
    CHAT_USAGE,
    ("The user wants a.txt.",),
    done=True,
)


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


def grown(kind: str, key: str, *texts: str) -> list[Json]:
    return [{"type": kind, key: text} for text in texts]


CLAUDE_START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-opus-4-8",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 40, "cache_read_input_tokens": 900, "output_tokens": 1},
    },
}


def claude_end(reason: str) -> list[Json]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 55}}, {"type": "message_stop"}]


CLAUDE_USAGE = {"input_tokens": 40, "cache_read_input_tokens": 900, "output_tokens": 55}
CLAUDE_CALLS = Recorded(
    "claude thinking and calls",
    "anthropic",
    [
        CLAUDE_START,
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            *grown("thinking_delta", "thinking", "Two files", " to read."),
            *grown("signature_delta", "signature", "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="),
        ),
        {"type": "ping"},
        *block(1, {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyI="}),
        *block(2, {"type": "text", "text": ""}, *grown("text_delta", "text", "I read", " both.")),
        *block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            *grown("input_json_delta", "partial_json", "", '{"path": "a', '.txt"}'),
        ),
        *block(4, {"type": "tool_use", "id": "toolu_2", "name": "grep", "input": {}}),
        *claude_end("tool_use"),
    ],
    [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "Two files to read.",
                    "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk=",
                },
                {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyI="},
                {"type": "text", "text": "I read both."},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
                {"type": "tool_use", "id": "toolu_2", "name": "grep", "input": {}},
            ],
        }
    ],
    "calls",
    CLAUDE_USAGE,
    (
        '"thinking":"Two files to read.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="',
        "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyI=",
    ),
    named=True,
)

MADE = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo_reasoning=="}
SPOKEN = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "I read both.", "annotations": []}],
}
ASKED = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "call_1",
    "name": "read",
    "arguments": '{"path":"a.txt"}',
}
ALSO = {**ASKED, "id": "fc_2", "call_id": "call_2", "name": "grep", "arguments": '{"words":"tide"}'}
RESPONSES_USAGE = {"input_tokens": 77, "output_tokens": 30, "total_tokens": 107}


def response(status: str, output: list[Json], **more: Any) -> Json:
    return {"id": "resp_1", "object": "response", "model": "gpt-5.4", "status": status, "output": output, **more}


def item(place: int, value: Json, *deltas: Json) -> list[Json]:
    empty: Json = {
        key: [] if key in ("content", "summary") else "" if key == "arguments" else v for key, v in value.items()
    }
    return [
        {"type": "response.output_item.added", "output_index": place, "item": empty},
        *[{"output_index": place, **delta} for delta in deltas],
        {"type": "response.output_item.done", "output_index": place, "item": value},
    ]


def grew(kind: str, *texts: str) -> list[Json]:
    return [{"type": f"response.{kind}.delta", "content_index": 0, "delta": text} for text in texts]


RESPONSES_CALLS = Recorded(
    "responses reasoning and calls",
    "openai_responses",
    [
        {"type": "response.created", "response": response("in_progress", [])},
        *item(0, MADE),
        *item(1, SPOKEN, *grew("output_text", "I read", " both.")),
        *item(2, ASKED, *grew("function_call_arguments", '{"path":', '"a.txt"}')),
        *item(3, ALSO, *grew("function_call_arguments", '{"words":', '"tide"}')),
        {
            "type": "response.completed",
            "response": response("completed", [MADE, SPOKEN, ASKED, ALSO], usage=RESPONSES_USAGE),
        },
    ],
    [MADE, SPOKEN, ASKED, ALSO],
    "calls",
    RESPONSES_USAGE,
    ("gAAAAABo_reasoning==",),
    named=True,
)


def candidate(*parts: Json, finish: str = "", **more: Any) -> Json:
    found: Json = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        found["finishReason"] = finish
    return {"candidates": [found], "modelVersion": "gemini-3.1-pro-preview", **more}


GEMINI_USAGE = {"promptTokenCount": 60, "candidatesTokenCount": 21, "totalTokenCount": 81}
GEMINI_CALLS = Recorded(
    "gemini thoughts and calls",
    "gemini",
    [
        candidate({"text": "Two files", "thought": True}, usageMetadata={"promptTokenCount": 60}),
        candidate({"text": " to read.", "thought": True}, usageMetadata={"promptTokenCount": 60}),
        candidate({"text": "I read"}),
        candidate({"text": " both."}),
        candidate(
            {"functionCall": {"name": "read", "args": {"path": "a.txt"}}, "thoughtSignature": "CoMBAdHtim8=="},
            {"functionCall": {"name": "read", "args": {"path": "b.txt"}}},
        ),
        candidate({"text": ""}, finish="STOP", usageMetadata=GEMINI_USAGE),
    ],
    [
        {
            "role": "model",
            "parts": [
                {"text": "Two files to read.", "thought": True},
                {"text": "I read both."},
                {
                    "functionCall": {"name": "read", "args": {"path": "a.txt"}, "id": "read"},
                    "thoughtSignature": "CoMBAdHtim8==",
                },
                {"functionCall": {"name": "read", "args": {"path": "b.txt"}, "id": "read_2"}},
                {"text": ""},
            ],
        }
    ],
    "calls",
    GEMINI_USAGE,
    ("CoMBAdHtim8==",),
)
GEMINI_TEXT = Recorded(
    "gemini signed text",
    "gemini",
    [
        candidate({"text": "High tide"}),
        candidate({"text": " at noon."}),
        candidate({"text": "", "thoughtSignature": "EsIBCr8BAdHtim9text=="}, finish="STOP", usageMetadata=GEMINI_USAGE),
    ],
    [
        {
            "role": "model",
            "parts": [{"text": "High tide at noon."}, {"text": "", "thoughtSignature": "EsIBCr8BAdHtim9text=="}],
        }
    ],
    "end",
    GEMINI_USAGE,
    ("EsIBCr8BAdHtim9text==",),
)

RECORDED = {
    each.name: each
    for each in (CHAT_TEXT, CHAT_CALLS, DEEPSEEK, CLAUDE_CALLS, RESPONSES_CALLS, GEMINI_CALLS, GEMINI_TEXT)
}
