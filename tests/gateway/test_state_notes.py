# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""State notes through the gateway: the client's own request with one instruction more, and every way to fail."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Bytes, Fake, Hang, Json, Step
from tests.fake.words import refusal
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import Running, open_http, run_gateway, until, upstream_of
from tests.session.noted import write_answer
from tidegate.core.events import NoteAdded
from tidegate.core.messages import Call
from tidegate.core.view import STATE_NOTE
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.state_notes import FAILED_TOPIC
from tidegate.wire.streaming.response_encoder import ScriptedAnswer

WINDOW = 16_000
WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini")
each_wire = pytest.mark.parametrize("wire", WIRES)
INSTRUCTION = "[tidegate: the state note]"
NOTE = write_answer([{"find": "line 3 of result 2", "after": 2}], state="- the results are being read")


class Model:
    """Plays steps, and the note when it is asked for one."""

    def __init__(self, note: Step = NOTE) -> None:
        self.note = note
        self.steps = 0
        self.asked = 0

    def __call__(self, body: Json) -> Step:
        if INSTRUCTION in json.dumps(body):
            self.asked += 1
            return self.note
        self.steps += 1
        return step_answer(self.steps)


def make_result(number: int) -> str:
    return "".join(f"line {place} of result {number}\n" for place in range(160))


async def work_until(client: ScriptedClient, running: Running, stages: set[str], most: int = 60) -> str:
    """Let the client work until one of these stages swept the view. Return the stage. Each note has time to arrive."""
    for number in range(most):
        await client.turn(make_result(number))
        await until(lambda: not running.gateway.is_writing_notes)
        for event in running.data.open_log("s").read():
            if stages & {getattr(event.payload, "stage", "")}:
                return str(event.payload.stage)  # type: ignore[union-attr]
    raise AssertionError("no sweep was made")


def notes_of(running: Running, topic: str) -> list[str]:
    payloads = [event.payload for event in running.data.open_log("s").read()]
    return [what.text for what in payloads if isinstance(what, NoteAdded) and what.topic == topic]


SWEEPS = {"sweep", "note_sweep"}


@each_wire
def test_a_note_is_written_by_the_clients_model_and_shown_by_the_sweep(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, model := Model()) as fake:
            settings: Any = {"window": WINDOW, "state_notes": True, "recall": True}
            async with run_gateway(tmp_path, upstream_of(fake), **settings) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("Read all results. Never touch legacy.py.")
                assert await work_until(client, running, SWEEPS) == "note_sweep", running.lines
                assert len(notes_of(running, STATE_NOTE)) == 1
                await client.turn("done")
        assert fake.refused == []
        assert model.asked == 1
        place = next(n for n, seen in enumerate(fake.seen) if INSTRUCTION in seen.raw.decode())
        asked = fake.seen[place]
        same = next(seen for seen in fake.seen[place - 1 :: -1] if seen.path == asked.path)
        check_prefix(wire, same.raw, asked.raw)
        for name in ("authorization", "x-api-key", "x-goog-api-key"):
            assert asked.headers.get(name) == same.headers.get(name)
        shown = fake.seen[-1].raw.decode()
        assert "the results are being read" in shown
        assert "line 3 of result 2" in shown

    asyncio.run(run())


def check_prefix(wire: str, sent: bytes, asked: bytes) -> None:
    """A request for a note is the request before it, byte for byte, but for the output limit and the instruction."""
    if wire == "anthropic":
        limit = json.loads(asked)["max_tokens"]
        sent = sent.replace(b'"max_tokens": %d' % json.loads(sent)["max_tokens"], b'"max_tokens": %d' % limit)
    begin = next(n for n, (one, other) in enumerate(zip(sent, asked, strict=False)) if one != other)
    added = len(asked) - len(sent)
    assert INSTRUCTION.encode() in asked[begin - 30 : begin + 200]
    assert asked[begin + added :] == sent[begin:]


FAULTS: dict[str, tuple[Step, str]] = {
    "refusal": (refusal("anthropic", 400, "the request is not allowed"), "the provider failed"),
    "rate limit": (refusal("anthropic", 429, "slow down"), "the provider failed: rate"),
    "broken off": (Bytes(b'{"type": "message", "content": [', "application/json"), "broke off"),
    "calls": (ScriptedAnswer(calls=(Call("call999", "step", "{}"),)), "it was a tool call"),
    "empty": (ScriptedAnswer(text=""), "it was empty"),
    "100 kB": (ScriptedAnswer(text=NOTE + "x" * 100_000), "it was too long"),
    "the instruction": (
        ScriptedAnswer(text="Stop here for this one answer: do not go on with the task"),
        "it repeated the instruction",
    ),
    "no sections": (ScriptedAnswer(text="All is well."), "it had none of the sections"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_note_that_fails_changes_nothing(fault: str, tmp_path: Path) -> None:
    step, why = FAULTS[fault]

    async def run() -> None:
        model = Model(step)
        async with Fake("anthropic", model) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=WINDOW, state_notes=True) as running:
                async with open_http() as http:
                    client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                    client.say("Read all results.")
                    assert await work_until(client, running, SWEEPS) == "sweep"
                    assert notes_of(running, STATE_NOTE) == []
                    assert why in notes_of(running, FAILED_TOPIC)[0]
                    assert why in "".join(line for line in running.lines if "no state note of s" in line)
                    said = json.dumps(client.messages)
                    assert INSTRUCTION not in said
                    assert "call999" not in said
                    counted = running.gateway.metrics.read("state_notes", outcome="failed")
                assert counted == model.asked == (1 if fault == "rate limit" else min(model.asked, 2))
        assert [seen for seen in fake.seen if b"call999" in seen.raw] == []

    asyncio.run(run())


def test_a_stalled_note_delays_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", model := Model(Hang(ScriptedAnswer(text=NOTE), 0))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=WINDOW, state_notes=True) as running:
                async with open_http() as http:
                    client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                    client.say("Read all results.")
                    for number in range(60):
                        answer = read_stream(await client.ask(stream=True))
                        client.keep(answer, make_result(number))
                        if "sweep" in [getattr(e.payload, "stage", "") for e in running.data.open_log("s").read()]:
                            break
                    assert running.gateway.is_writing_notes
                    assert notes_of(running, STATE_NOTE) == []
            assert model.asked == 1
        assert fake.refused == []

    asyncio.run(run())


def read_stream(response: httpx.Response) -> Json:
    """The answer in a stream of Anthropic's, as in its whole body."""
    copy = AnswerCopy("anthropic", is_stream=True)
    copy.feed(response.content)
    return copy.read().client_messages[0]
