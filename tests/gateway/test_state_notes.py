"""State notes through the gateway: the client's own request with one instruction more, and every way to fail."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import Fake, Json, Step
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import Running, open_http, run_gateway, until, upstream_of
from tests.session.noted import write_answer
from tidegate.core.events import STATE_NOTE, NoteAdded

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
