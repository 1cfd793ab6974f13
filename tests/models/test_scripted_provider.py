"""The scripted provider: the same through every dialect, failing where the script says so."""

import asyncio

import msgspec
import pytest

from tidegate import Session
from tidegate.core.errors import GiveUp
from tidegate.core.messages import Call, Text, Thinking, calls_of
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.provider import Delta, Provider, Reply, collect_reply
from tidegate.models.scripted_provider import BrokenAnswer, ScriptedAnswer, ScriptedProvider
from tidegate.wire.answers import (
    create_assembler,
    encode_response_body,
    encode_response_frames,
    encode_sse,
    parse_reply,
    read_response,
    read_usage,
)
from tidegate.wire.registry import DIALECTS
from tidegate.wire.streaming.sse import SseReader, decode_frame

RICH = ScriptedAnswer(
    text="I read both files, the long one first.",
    calls=(Call("c1", "read", '{"path":"a.txt"}'), Call("c2", "grep", '{"words":"high tide"}')),
    thinking="Two files are to be read.",
    signature="c2lnbmF0dXJl",
    usage=Usage(120, 30, 100, 0),
    model="m-1",
)
PLAIN = ScriptedAnswer(text="Good morning.", usage=Usage(12, 3, 0, 0), model="m-1")
WIRES = pytest.mark.parametrize("wire", DIALECTS)


@WIRES
@pytest.mark.parametrize("spoken", [RICH, PLAIN, ScriptedAnswer(), ScriptedAnswer(calls=RICH.calls)])
def test_frames_and_body_say_the_same(wire: str, spoken: ScriptedAnswer) -> None:
    answer = create_assembler(wire)
    for frame in SseReader().feed(encode_sse(wire, encode_response_frames(wire, spoken))):
        if (value := decode_frame(frame)) is not None:
            answer.feed(value)
    reply = answer.finish()
    whole = read_response(wire, encode_response_body(wire, spoken))
    assert (parse_reply(wire, reply), reply.usage, reply.stop) == (parse_reply(wire, whole), whole.usage, whole.stop)
    assert reply.model == whole.model == spoken.model
    assert reply.stop == ("calls" if spoken.calls else "end")


@WIRES
def test_what_is_said_comes_through(wire: str) -> None:
    provider: Provider = ScriptedProvider(wire, [RICH])
    reply = asyncio.run(collect_reply(provider, b"{}"))
    (message,) = parse_reply(wire, reply)
    assert [part.text for part in message.parts if isinstance(part, Text) and part.text] == [RICH.text]
    assert calls_of(message)[0].name == "read"
    assert [msgspec.json.decode(call.arguments) for call in calls_of(message)] == [
        {"path": "a.txt"},
        {"words": "high tide"},
    ]
    assert [call.id for call in calls_of(message)] == ["c1", "c2"]
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    assert RICH.thinking in thoughts[0].text + thoughts[0].block
    assert read_usage(reply.usage) == RICH.usage
    if DIALECTS[wire].family != "openai_chat":  # chat has no place for a seal
        assert RICH.signature in msgspec.json.encode(message).decode()


@WIRES
@pytest.mark.parametrize("stop", ["length", "filtered"])
def test_stops_are_told(wire: str, stop: str) -> None:
    spoken = ScriptedAnswer(text="a", stop="length" if stop == "length" else "filtered")
    reply = asyncio.run(collect_reply(ScriptedProvider(wire, [spoken]), b"{}"))
    assert reply.stop == ("refused" if (wire, stop) == ("anthropic", "filtered") else stop)


async def read(provider: ScriptedProvider, request: bytes = b"{}") -> list[Delta | Reply]:
    return [each async for each in provider.stream(request)]


def test_reply_comes_last_and_once() -> None:
    found = asyncio.run(read(ScriptedProvider("anthropic", [RICH])))
    assert [isinstance(each, Reply) for each in found] == [False] * (len(found) - 1) + [True]
    assert "".join(each.text for each in found if isinstance(each, Delta) and each.kind == "text") == RICH.text


def test_steps_in_order_and_what_was_sent() -> None:
    async def later(request: bytes) -> str:
        await asyncio.sleep(0)
        return f"later {len(request)}"

    provider = ScriptedProvider("openai_chat", ["one", lambda request: f"two {request.decode()}", later])
    replies = [asyncio.run(collect_reply(provider, body)) for body in (b"{}", b'{"a":1}', b"{ }")]
    assert [reply.message["content"] for reply in replies] == ["one", 'two {"a":1}', "later 3"]
    assert provider.bodies == [{}, {"a": 1}, {}]
    with pytest.raises(GiveUp, match="no step 4"):
        asyncio.run(collect_reply(provider, b"{}"))
    asyncio.run(provider.close())
    assert provider.closed


def test_faults_before_and_under_way() -> None:
    busy = classify_response(529, b"Overloaded")
    provider = ScriptedProvider(
        "gemini", [busy, BrokenAnswer(PLAIN, 0, busy), BrokenAnswer(RICH, 2, busy), BrokenAnswer(PLAIN, 99, busy)]
    )
    for deltas in (0, 0, 2, 1):
        found: list[Delta | Reply] = []

        async def collect(into: list[Delta | Reply] = found) -> None:
            async for each in provider.stream(b"{}"):
                into.append(each)

        with pytest.raises(ProviderError, match="Overloaded"):
            asyncio.run(collect())
        assert len(found) == deltas


def test_usage_is_counted_unless_the_script_lies() -> None:
    provider = ScriptedProvider(
        "openai_chat", ["four", ScriptedAnswer(text="a", usage=Usage(0, 0, 0, 0)), "b"], count=len
    )
    assert read_usage(asyncio.run(collect_reply(provider, b"{  }")).usage) == Usage(4, 4, 0, 0)
    assert read_usage(asyncio.run(collect_reply(provider, b"{  }")).usage) == Usage(0, 0, 0, 0)
    assert asyncio.run(collect_reply(ScriptedProvider("openai_chat", ["b"]), b"{}")).usage == {}


def test_interrupted_between_deltas() -> None:
    seen: list[Delta | Reply] = []

    async def stopped() -> None:
        async def collect() -> None:
            async for each in ScriptedProvider("anthropic", [RICH]).stream(b"{}"):
                seen.append(each)
                if len(seen) == 2:
                    task.cancel()

        task = asyncio.ensure_future(collect())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert len(seen) == 2


@WIRES
def test_a_conversation(wire: str) -> None:
    provider = ScriptedProvider(wire, [RICH, PLAIN])
    session = Session("m", wire=wire, window=50_000, tools=[{"name": "read"}, {"name": "grep"}])
    session.add({"role": "user", "content": "Read."})
    for _ in range(2):
        reply = asyncio.run(collect_reply(provider, session.prepare().to_bytes()))
        session.record(reply.usage)
        for ident in session.add(*parse_reply(wire, reply)):
            for call in calls_of(session.recall(ident)):
                session.add({"role": "tool", "tool_call_id": call.id, "content": f"read by {call.id}"})
    assert b"read by c1" in provider.requests[1]
    assert b"read by c2" in provider.requests[1]
