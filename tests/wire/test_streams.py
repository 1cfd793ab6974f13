"""From a provider's stream to a reply, and from the reply into a session and back out, valid."""

from typing import Any

import msgspec
import pytest

from tests.fake.recorded import CLAUDE_CALLS, GEMINI_CALLS, RECORDED, RESPONSES_CALLS, Recorded
from tidegate import Session
from tidegate.core.messages import Call, Text, calls_of
from tidegate.wire.answers import create_assembler, parse_reply, read_response
from tidegate.wire.streaming.reply import Delta, IncompleteReply, Reply, ReplyAssembler
from tidegate.wire.streaming.sse import SseReader, decode_frame

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("read", "grep")
]
ALL = pytest.mark.parametrize("name", RECORDED)


def played(recorded: Recorded, data: bytes) -> ReplyAssembler:
    reader, answer = SseReader(), create_assembler(recorded.wire)
    for frame in reader.feed(data):
        if (value := decode_frame(frame)) is not None:
            answer.feed(value)
    return answer


@ALL
def test_reply_is_what_was_said(name: str) -> None:
    recorded = RECORDED[name]
    reply = played(recorded, recorded.to_bytes()).finish()
    assert reply.messages == recorded.messages
    assert (reply.stop, reply.usage) == (recorded.stop, recorded.usage)
    assert reply.model == recorded_model(recorded)


def recorded_model(recorded: Recorded) -> str:
    models = {"anthropic": "claude-opus-4-8", "openai_responses": "gpt-5.4", "gemini": "gemini-3.1-pro-preview"}
    return models.get(recorded.wire, "gpt-4o")


@ALL
def test_cut_at_every_byte_is_whole_or_refused(name: str) -> None:
    recorded = RECORDED[name]
    data = recorded.to_bytes()
    wholes = 0
    for place in range(len(data)):
        answer = played(recorded, data[:place])
        if not answer.done:
            with pytest.raises(IncompleteReply, match="ended before the answer did"):
                answer.finish()
            continue
        wholes += 1
        reply = answer.finish()
        assert (reply.messages, reply.stop) == (recorded.messages, recorded.stop), place
        assert reply.usage in (recorded.usage, {}), place
    assert wholes < len(data) / 2


@ALL
def test_deltas_spell_the_texts(name: str) -> None:
    recorded = RECORDED[name]
    reader, answer = SseReader(), create_assembler(recorded.wire)
    frames = [decode_frame(frame) for frame in reader.feed(recorded.to_bytes())]
    deltas = [delta for frame in frames if frame for delta in answer.feed(frame)]
    (message,) = parse_reply(recorded.wire, answer.finish())
    said = "".join(part.text for part in message.parts if isinstance(part, Text))
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == said
    spelled: dict[int, list[str]] = {}
    for delta in deltas:
        if delta.kind == "call":
            spelled.setdefault(delta.call_index, []).append(delta.text)
    shown = [(texts[0], msgspec.json.decode("".join(texts[1:]) or "{}")) for texts in spelled.values()]
    assert shown == [(call.name, msgspec.json.decode(call.arguments)) for call in calls_of(message)]


@ALL
@pytest.mark.parametrize("merged", [True, False], ids=["as one message", "as they came"])
def test_reply_goes_through_a_session_and_back(name: str, merged: bool) -> None:
    recorded = RECORDED[name]
    session = Session("m", wire=recorded.wire, window=50_000, tools=TOOLS)
    session.add({"role": "user", "content": "Read both files."})
    session.prepare()
    reply = played(recorded, recorded.to_bytes()).finish()
    said = session.add(*parse_reply(recorded.wire, reply)) if merged else session.add(*reply.messages)
    session.record(reply.usage)
    calls = [call for ident in said for call in calls_of(session.recall(ident))]
    for call in calls:
        session.add({"role": "tool", "tool_call_id": call.id, "content": f"result of {call.id}"})
    if not calls:
        session.add({"role": "user", "content": "Go on."})
    sent = session.prepare().to_bytes().decode()
    assert [opaque for opaque in recorded.opaque if opaque not in sent] == []
    assert [call.id for call in calls if f"result of {call.id}" not in sent] == []


WHOLE: dict[str, dict[str, Any]] = {
    "chat calls": {
        "model": "gpt-4o",
        "choices": [
            {"index": 0, "finish_reason": "tool_calls", "message": RECORDED["chat calls"].messages[0]},
            {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "other"}},
        ],
        "usage": RECORDED["chat calls"].usage,
    },
    "deepseek reasoning": {
        "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": RECORDED["deepseek reasoning"].messages[0]}],
        "usage": RECORDED["deepseek reasoning"].usage,
    },
    "claude thinking and calls": {
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": CLAUDE_CALLS.messages[0]["content"],
        "stop_reason": "tool_use",
        "usage": CLAUDE_CALLS.usage,
    },
    "responses reasoning and calls": RESPONSES_CALLS.frames[-1]["response"],
    "gemini thoughts and calls": {
        "candidates": [{"content": GEMINI_CALLS.messages[0], "finishReason": "STOP"}],
        "usageMetadata": GEMINI_CALLS.usage,
        "modelVersion": "gemini-3.1-pro-preview",
    },
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_answer_gives_the_same_reply(name: str) -> None:
    recorded = RECORDED[name]
    assert read_response(recorded.wire, WHOLE[name]) == played(recorded, recorded.to_bytes()).finish()


def test_whole_answer_that_is_not_finished_is_refused() -> None:
    for name, body in WHOLE.items():
        body = {key: value for key, value in body.items() if key not in ("choices", "stop_reason", "candidates")}
        with pytest.raises(IncompleteReply):
            read_response(RECORDED[name].wire, body | {"status": "in_progress"})


def test_said_joins_the_items_of_a_response() -> None:
    (message,) = parse_reply(
        "openai_responses", read_response("openai_responses", WHOLE["responses reasoning and calls"])
    )
    assert [type(part).__name__ for part in message.parts] == ["Thinking", "Text", "Call", "Call"]
    assert isinstance(message.parts[3], Call)


def test_names_of_the_end_are_not_asked_for_twice() -> None:
    """A frame behind the end changes nothing but the usage, which chat sends last."""
    for recorded in (RECORDED["chat calls"], CLAUDE_CALLS, RESPONSES_CALLS):
        answer = played(recorded, recorded.to_bytes())
        late = [each for each in recorded.frames if each is not recorded.frames[-1]]
        assert [delta for frame in late for delta in answer.feed(frame)] == []
        assert answer.finish().messages == recorded.messages


def test_reply_holds_its_message() -> None:
    assert Reply([{"role": "assistant"}], {}, "end").message == {"role": "assistant"}
    assert Reply([], {}, "end").message == {}
    assert Delta("text", "a") == ("text", "a", 0)
