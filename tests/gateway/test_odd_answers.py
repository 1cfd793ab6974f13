"""Answers with hidden calls that no model gives, but a broken or hostile upstream may."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Bytes, Fake, Json, Step
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of
from tests.scale import parametrize_pairs
from tidegate.core.messages import Call
from tidegate.wire.answers import encode_response_frames, encode_sse
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini")
each_wire = pytest.mark.parametrize("wire", WIRES)
each_form = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def recall(number: int, arguments: str = '{"what": "m2"}') -> Call:
    return Call(f"recall{number}", "recall", arguments)


async def ask(client: ScriptedClient, stream: bool) -> httpx.Response | None:
    """The answer; None if it broke off."""
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse" if stream and client.wire == "gemini" else ""
    try:
        return await client.ask(path, **({"stream": True} if stream and client.wire != "gemini" else {}))
    except httpx.RemoteProtocolError:
        return None


def talk(wire: str, folder: Path, steps: list[Step], *, stream: bool) -> tuple[Fake, httpx.Response | None, Running]:
    """One request, then a second one that must be answered."""

    async def run() -> tuple[Fake, httpx.Response | None, Running]:
        async with Fake(wire, [*steps, "Fine."]) as fake:
            async with run_gateway(folder, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                response = await ask(client, stream)
                seen = len(fake.seen)
                if response is not None and response.status_code == 200 and not stream:
                    client.keep(response.json())
                    client.say("go on")
                assert (await client.ask()).status_code == 200
                assert len(fake.seen) == seen + 1
            return fake, response, running

    return asyncio.run(run())


@each_form
@parametrize_pairs(("wire", "text"), WIRES, ["", "Look."])
def test_more_calls_than_an_answer_may_have(wire: str, text: str, stream: bool, tmp_path: Path) -> None:
    """The request is not sent again and again, and the client is not left with half an answer that looks whole."""
    calls = tuple(recall(number) for number in range(200))
    fake, response, running = talk(wire, tmp_path, [ScriptedAnswer(text=text, calls=calls)], stream=stream)
    assert len(fake.seen) == 2
    assert response is None or response.status_code == 502
    assert any("hidden calls cannot be read" in line for line in running.lines)


ODD_ARGUMENTS = {
    "cut off": '{"what": "x',
    "a list": "[1]",
    "none": "",
    "long": json.dumps({"what": "x" * 50_000}),
    "many values": json.dumps({"what": [1] * 60_000}),
}


@each_form
@parametrize_pairs(("kind", "wire"), ODD_ARGUMENTS, WIRES)
def test_arguments_that_no_request_may_have(wire: str, kind: str, stream: bool, tmp_path: Path) -> None:
    """The call is answered, and is sent back without them: the provider refused the request otherwise."""
    arguments = ODD_ARGUMENTS[kind]
    if wire == "gemini" and len(arguments) > 60_000 and stream:
        pytest.skip("a frame with so many values is not read at all")
    steps: list[Step] = [ScriptedAnswer(text="Look.", calls=(recall(1, arguments),)), "The rest."]
    fake, response, _ = talk(wire, tmp_path, steps, stream=stream)
    assert fake.refused == []
    assert len(fake.seen) == 3
    assert response is not None
    assert response.status_code == 200
    assert "The rest." in response.text
    assert "recall" not in response.text
    assert len(fake.seen[-1].raw) < 10_000


def chat_stream(*deltas: Json | str) -> Bytes:
    """Pieces of a chat answer; a text is a finish reason."""
    frames: list[Any] = []
    for each in deltas:
        reason = each if isinstance(each, str) else None
        choice = {"index": 0, "delta": {} if isinstance(each, str) else each, "finish_reason": reason}
        frames.append({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})
    return Bytes(b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames) + b"data: [DONE]\n\n")


def piece(index: Any, ident: str, name: str) -> Json:
    function = {"name": name, "arguments": "{}"}
    return {"tool_calls": [{"index": index, "id": ident, "type": "function", "function": function}]}


def test_calls_after_the_end_of_an_answer_are_not_answered(tmp_path: Path) -> None:
    odd = chat_stream({"role": "assistant", "content": "Done."}, "stop", piece(0, "r1", "recall"), "tool_calls")
    fake, response, _ = talk("openai_chat", tmp_path, [odd], stream=True)
    assert len(fake.seen) == 2
    assert response is not None
    assert "Done." in response.text


def test_calls_that_share_an_index_are_told_apart(tmp_path: Path) -> None:
    """Some servers number every call 0. A call of the client beside a hidden one is passed on."""
    odd = chat_stream(piece(0, "r1", "recall"), piece(0, "s1", "step"), "tool_calls")
    fake, response, _ = talk("openai_chat", tmp_path, [odd], stream=True)
    assert len(fake.seen) == 2
    assert response is not None
    assert '"s1"' in response.text
    assert "recall" not in response.text


def anthropic_stream(*frames: Json) -> Bytes:
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}}
    end = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}, {"type": "message_stop"}]
    return Bytes(b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in [start, *frames, *end]))


def block(index: Any, kind: str, **fields: Any) -> list[Json]:
    content = {"type": kind, **fields}
    delta = {"type": "input_json_delta", "partial_json": "{}"} if kind == "tool_use" else {"type": "text_delta"}
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        {"type": "content_block_delta", "index": index, "delta": {**delta, "text": "words"}},
        {"type": "content_block_stop", "index": index},
    ]


def test_blocks_that_share_an_index_are_told_apart(tmp_path: Path) -> None:
    call = block(0, "tool_use", id="r1", name="recall", input={})
    odd = anthropic_stream(*block(0, "text", text=""), *call)
    fake, response, _ = talk("anthropic", tmp_path, [odd, "The rest."], stream=True)
    assert len(fake.seen) == 3
    assert response is not None
    assert "The rest." in response.text
    assert "partial_json" not in response.text


def responses_stream(index: Any) -> Bytes:
    item = {"type": "function_call", "id": "fc_1", "call_id": "r1", "name": "recall", "arguments": "{}"}
    frames = [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item], "usage": {}}},
    ]
    return Bytes(b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames))


ODD_TYPES: list[Any] = [[], {}, None, 7]
MAKE_WITH_INDEX: dict[str, Callable[[Any], Bytes]] = {
    "anthropic": lambda index: anthropic_stream(*block(index, "tool_use", id="r1", name="recall", input={})),
    "openai_chat": lambda index: chat_stream(piece(index, "r1", "recall"), "tool_calls"),
    "openai_responses": responses_stream,
}


@parametrize_pairs(("wire", "index"), MAKE_WITH_INDEX, [[], {}, None, "0", 1.5, -1, 10**30, True])
def test_an_index_can_be_anything(wire: str, index: Any, tmp_path: Path) -> None:
    fake, response, _ = talk(wire, tmp_path, [MAKE_WITH_INDEX[wire](index), "The rest."], stream=True)
    assert fake.refused == []
    assert response is not None
    assert "The rest." in response.text


@parametrize_pairs(("wire", "kind"), WIRES, ODD_TYPES)
def test_an_event_may_have_any_type(wire: str, kind: Any, tmp_path: Path) -> None:
    frames = [{"type": kind}, *encode_response_frames(wire, ScriptedAnswer(text="So."))]
    odd = Bytes(encode_sse(wire, frames), "text/event-stream")
    fake, response, _ = talk(wire, tmp_path, [odd], stream=True)
    assert fake.refused == []
    assert response is not None
    assert (response.status_code, "So." in response.text) == (200, True)


def test_a_list_of_anything(tmp_path: Path) -> None:
    """Gemini streams a list of answers if it is not asked for events."""
    odd = Bytes(b'[7, null, [], {"candidates": [{"content": {"parts": [7, {"text": "So."}]}}, 7]}]', "application/json")
    _, response, _ = talk("gemini", tmp_path, [odd], stream=True)
    assert response is not None
    assert (response.status_code, "So." in response.text) == (200, True)


def test_recall_is_not_offered_with_several_answers(tmp_path: Path) -> None:
    """Only one of them could be continued."""

    async def run() -> None:
        several: list[tuple[str, Json]] = [
            ("openai_chat", {"n": 2}),
            ("gemini", {"generationConfig": {"candidateCount": 2}}),
        ]
        for wire, more in several:
            async with (
                Fake(wire, ["one"]) as fake,
                run_gateway(tmp_path / wire, upstream_of(fake), recall=True) as running,
                open_http() as http,
            ):
                client = ScriptedClient(wire, running.url, http)
                client.say("start")
                assert (await client.ask(**more)).status_code == 200
            assert fake.seen[0].raw == client.sent[0]

    asyncio.run(run())


def test_an_answer_that_no_request_may_contain_is_not_sent_back(tmp_path: Path) -> None:
    """It recalls, and a part of it has a field that the provider does not know itself."""
    parts = [{"text": "Look.", "type": [[]]}, {"functionCall": {"name": "recall", "args": {"what": "m1"}}}]
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    odd = Bytes(json.dumps(answer).encode(), "application/json")
    fake, response, running = talk("gemini", tmp_path, [odd], stream=False)
    assert fake.refused == []
    assert len(fake.seen) == 2
    assert response is not None
    assert response.status_code == 502
    assert any("was not continued" in line for line in running.lines)
