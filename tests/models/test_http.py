"""The HTTP provider against the strict server: answers, cut streams, failures inside a stream, lies."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.fake.asking import RICH, WIRES, asked, faulted, provider_of, session_of
from tests.fake.server import KEY, Bytes, CutAt, Fake, Step
from tests.scale import scaled
from tidegate.core.messages import Call, Text, Thinking, calls_of
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.endpoints import is_loopback_url
from tidegate.models.http.provider import HttpProvider
from tidegate.models.provider import collect_reply
from tidegate.wire.answers import encode_response_body, encode_response_frames, encode_sse, parse_reply, read_usage
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

TURNS = scaled(14)

# --- answers ------------------------------------------------------------------------------------------------------


@WIRES
def test_answer(wire: str) -> None:
    ((found,), server) = asked(wire, [RICH])
    assert found.reply is not None
    (message,) = parse_reply(wire, found.reply)
    assert [part.text for part in message.parts if isinstance(part, Text)] == [RICH.text]
    assert [call.id for call in calls_of(message)] == ["c1", "c2"]
    assert any(isinstance(part, Thinking) for part in message.parts)
    assert found.reply.stop == "calls"
    assert read_usage(found.reply.usage).input_tokens > 10
    assert "".join(delta.text for delta in found.deltas if delta.kind == "text") == RICH.text
    assert server.refused == []


@WIRES
def test_an_event_may_have_any_type(wire: str) -> None:
    frames: list[dict[str, Any]] = [{"type": []}, *encode_response_frames(wire, ScriptedAnswer(text="Hello."))]
    ((found,), _) = asked(wire, [Bytes(encode_sse(wire, frames))])
    assert "".join(delta.text for delta in found.deltas if delta.kind == "text") == "Hello."


@WIRES
def test_bytes_are_ours_and_the_key_is_in_a_header(wire: str) -> None:
    (_, server) = asked(wire, ["Hello."])
    ours = session_of(wire).prepare().to_bytes()
    (seen,) = server.seen
    spliced = {
        "gemini": b"",
        "openai_chat": b',"stream":true,"stream_options":{"include_usage":true}',
        "deepseek": b',"stream":true,"stream_options":{"include_usage":true}',
    }.get(wire, b',"stream":true')
    assert seen.raw == ours[:-1] + spliced + b"}"
    assert KEY not in seen.path
    assert [name for name, value in seen.headers.items() if KEY in value] == [
        {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(wire, "authorization")
    ]


@WIRES
def test_a_conversation_in_a_small_window(wire: str) -> None:
    """Calls with results of hundreds of tokens in a window of four thousand: not one request is refused."""

    def answer(body: dict[str, Any]) -> Step:
        turn = len(server.seen)
        calls = (Call(f"c{turn}", "read", '{"path":"a"}'),)
        return ScriptedAnswer(text=f"Step {turn}.", calls=calls, thinking="Another one.", signature=f"c2ln{turn}")

    server = Fake(wire, answer, window=4_000, binding="prefix")

    async def run() -> None:
        async with server:
            provider = provider_of(server)
            session = session_of(wire, window=4_000, cache=True)
            for turn in range(TURNS):
                reply = await collect_reply(provider, session.prepare().to_bytes())
                session.record(reply.usage)
                for ident in session.add(*parse_reply(wire, reply)):
                    for call in calls_of(session.recall(ident)):
                        text = f"line {turn} of the file\n" * 60
                        session.add({"role": "tool", "tool_call_id": call.id, "content": text})
            await provider.close()

    asyncio.run(run())
    assert server.refused == []
    assert len(server.seen) == TURNS
    marks = [seen.raw.count(b'"cache_control":{"type":"ephemeral"}') for seen in server.seen]
    assert set(marks) == ({2, 3} if wire == "anthropic" else {0})


@WIRES
def test_server_that_does_not_stream(wire: str) -> None:
    body = msgspec.json.encode(encode_response_body(wire, RICH))
    data = encode_sse(wire, encode_response_frames(wire, RICH))
    steps = [Bytes(body, "application/json; charset=utf-8"), Bytes(b"\r\n" + body), Bytes(data, "application/json")]
    (found, _) = asked(wire, steps, count=3)
    for each in found:
        assert each.reply is not None
        assert each.reply.stop == "calls"
        assert "".join(delta.text for delta in each.deltas if delta.kind == "text") == RICH.text


def test_gemini_array() -> None:
    body = msgspec.json.encode(encode_response_frames("gemini", RICH))
    ((found,), _) = asked("gemini", [Bytes(body, "application/json")])
    assert found.reply is not None
    assert found.reply.stop == "calls"


def test_one_provider_in_two_loops_and_at_the_same_time() -> None:
    async def both(server: Fake, provider: HttpProvider) -> list[str]:
        request = session_of("openai_chat").prepare().to_bytes()
        replies = await asyncio.gather(collect_reply(provider, request), collect_reply(provider, request))
        await provider.close()
        return [str(reply.message["content"]) for reply in replies]

    async def run() -> list[str]:
        async with Fake("openai_chat", ["One.", "Two."]) as server:
            provider = provider_of(server)
            return await both(server, provider)

    assert sorted(asyncio.run(run())) == ["One.", "Two."]
    provider = HttpProvider("openai_chat", "m", key=KEY)

    async def again() -> list[str]:
        async with Fake("openai_chat", ["One.", "Two."]) as server:
            provider.url = f"{server.url}/chat/completions"
            return await both(server, provider)

    assert sorted(asyncio.run(again())) == sorted(asyncio.run(again())) == ["One.", "Two."]


def test_thinking_behind_another_past_is_refused() -> None:
    """The server's own strictness: without it the conversations above would prove less."""

    async def run() -> None:
        async with Fake("anthropic", [RICH, "Done."], binding="prefix") as server:
            provider, session = provider_of(server), session_of("anthropic")
            reply = await collect_reply(provider, session.prepare().to_bytes())
            session.add(*parse_reply("anthropic", reply))
            session.add({"role": "tool", "tool_call_id": "c1", "content": "a"})
            session.add({"role": "tool", "tool_call_id": "c2", "content": "b"})
            sent = session.prepare().to_bytes()
            with pytest.raises(ProviderError) as fault:
                await collect_reply(provider, sent.replace(b"Read both files.", b"Read all files."))
            assert fault.value.kind == "reasoning_state"
            assert (await collect_reply(provider, sent)).stop == "end"
            await provider.close()

    asyncio.run(run())


# --- cuts ---------------------------------------------------------------------------------------------------------


@WIRES
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "broken"])
def test_cut_stream_is_whole_or_a_fault(wire: str, clean: bool) -> None:
    told = msgspec.structs.replace(RICH, model="m", usage=Usage(100, 20, 0, 0))
    size = len(encode_sse(wire, encode_response_frames(wire, told)))
    places = [*range(0, size, max(size // scaled(12, size), 1)), *range(size - 4, size)]
    (found, _) = asked(wire, [told, *(CutAt(told, place, clean) for place in places)], count=len(places) + 1)
    first, *cuts = found
    assert first.reply is not None
    faults = 0
    for each in cuts:
        if each.reply is None:
            assert each.fault is not None
            assert each.fault.kind == "transport"
            faults += 1
        else:
            assert each.reply.messages == first.reply.messages
            assert each.reply.stop == first.reply.stop
    assert faults > len(places) / 2


NOTHING = [Bytes(b""), Bytes(b"\n"), Bytes(b": ping\n\n"), Bytes(b"{", "application/json"), Bytes(b"<p>"), Bytes(b"[]")]


@WIRES
def test_nothing_is_a_transport_fault(wire: str) -> None:
    (found, _) = asked(wire, NOTHING, count=len(NOTHING))
    assert [each.fault.kind if each.fault else "" for each in found] == ["transport"] * len(NOTHING)


def test_garbled_frame_is_not_passed_over() -> None:
    whole = encode_sse("openai_chat", encode_response_frames("openai_chat", RICH))
    garbled = whole.replace(b'"content":"s, the long one "', b'"content":"s, the', 1)
    assert garbled != whole
    fault = faulted("openai_chat", Bytes(garbled))
    assert fault.kind == "transport"
    assert "not a JSON object" in str(fault)


# --- failures inside a stream -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "frame", "kind"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "server"),
        (
            "openai_responses",
            {
                "type": "response.failed",
                "response": {"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context"}},
            },
            "overflow",
        ),
        ("openai_chat", {"error": {"message": "Rate limit reached", "code": 429}}, "rate_limit"),
        ("gemini", {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}, "server"),
    ],
)
def test_error_frame(wire: str, frame: dict[str, Any], kind: str) -> None:
    some = encode_response_frames(wire, RICH)[:-2]
    assert faulted(wire, Bytes(encode_sse(wire, [*some, frame]))).kind == kind


def test_answer_that_ended_because_the_window_is_full_is_an_overflow() -> None:
    frames = encode_response_frames("anthropic", ScriptedAnswer(text="The tide"))
    frames[-2] = {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}}
    ((found,), _) = asked("anthropic", [Bytes(encode_sse("anthropic", frames))])
    assert "".join(delta.text for delta in found.deltas) == "The tide"
    assert found.fault is not None
    assert found.fault.kind == "overflow"


@WIRES
def test_error_as_the_body_of_a_good_status(wire: str) -> None:
    text = "request (3031 tokens) exceeds the available context size (2048 tokens), try increasing it"
    error = {"code": 400, "type": "exceed_context_size_error", "message": text, "n_prompt_tokens": 3031, "n_ctx": 2048}
    fault = faulted(wire, Bytes(msgspec.json.encode({"error": error}), "application/json"))
    assert (fault.kind, fault.window, fault.prompt_tokens) == ("overflow", 2048, 3031)


def test_error_of_a_server_that_names_the_field() -> None:
    body = b'error: {"code":400,"message":"the request exceeds the available context size, try increasing it"}\n\n'
    assert faulted("openai_chat", Bytes(body)).kind == "overflow"


# --- lies ---------------------------------------------------------------------------------------------------------


def test_server_that_lies_and_one_that_truncates() -> None:
    ((found,), _) = asked("openai_chat", ["Hello."], usage=lambda usage: usage._replace(input_tokens=1))
    assert found.reply is not None
    assert read_usage(found.reply.usage).input_tokens == 1
    ((found,), _) = asked("openai_chat", ["Hello."], window=20, truncates=True)
    assert found.reply is not None
    assert read_usage(found.reply.usage).input_tokens == 10


@WIRES
def test_repeated_ids_and_cut_arguments(wire: str) -> None:
    twice = ScriptedAnswer(calls=(Call("c", "read"), Call("c", "read")))
    cut = ScriptedAnswer(calls=(Call("c", "read", '{"path": "a.t'),), stop="calls")
    ((first, second), _) = asked(wire, [twice, cut], count=2)
    assert first.reply is not None
    assert second.reply is not None
    (message,) = parse_reply(wire, first.reply)
    assert [call.id for call in calls_of(message)] == ["c", "c_2"]
    assert second.reply.stop == "calls"
    assert second.reply.broken_call_ids == (
        () if wire == "gemini" else ("c",)
    )  # Gemini sends arguments whole or not at all


def test_a_server_on_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    (_, server) = asked("openai_chat", ["Hello."])
    assert len(server.seen) == 1
    for url, here in (
        ("http://localhost:8080/v1", True),
        ("http://127.0.0.1:1", True),
        ("http://[::1]:80", True),
        ("https://api.example.com", False),
        ("http://127.example.com", False),
    ):
        assert is_loopback_url(url) is here
