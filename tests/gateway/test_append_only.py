# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Between two edits, a request is the one before it with more at its end: nothing else of it changes."""

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.fake.server import Fake, Json, Seen
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.events import ViewEdited
from tidegate.wire.registry import DIALECTS

WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini")
CHOICES: dict[str, Json] = {
    "anthropic": {"tool_choice": {"type": "any"}},
    "openai_chat": {"tool_choice": "required"},
    "openai_responses": {"tool_choice": "required"},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
}


def split(wire: str, seen: Seen) -> tuple[dict[str, bytes], list[bytes]]:
    """The fields of a request besides its messages, and the messages, as bytes."""
    key = DIALECTS[wire].messages_key
    fields = {name: bytes(raw) for name, raw in msgspec.json.decode(seen.raw, type=dict[str, msgspec.Raw]).items()}
    fields.pop("max_tokens", None)  # lowered as the view grows; no cache depends on it
    listed = msgspec.json.decode(fields.pop(key), type=list[msgspec.Raw])
    return fields, [bytes(raw) for raw in listed]


@pytest.mark.parametrize("wire", WIRES)
def test_only_an_edit_changes_what_was_sent_before(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        answers = (step_answer(number) for number in range(99))
        async with Fake(wire, answers, window=12_000) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=12_000, recall=True) as running:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("Start. Never touch main.")
                for number in range(40):
                    await client.turn(f"line {number} of a result that is long\n" * 60)
                payloads = [event.payload for event in running.data.open_log("s").read()]
        edits = sum(isinstance(payload, ViewEdited) for payload in payloads)
        assert 0 < edits < 12
        requests = [split(wire, seen) for seen in fake.seen]
        assert len({tuple(sorted(fields.items())) for fields, _ in requests}) == 1
        changes = 0
        for (_, before), (_, after) in pairwise(requests):
            changes += after[: len(before)] != before
        assert changes <= edits
        assert fake.refused == []

    asyncio.run(run())


@pytest.mark.parametrize("wire", WIRES)
def test_the_tools_stay_the_same_when_a_call_is_demanded(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        answers = (step_answer(number) for number in range(9))
        async with Fake(wire, answers) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("Start.")
                await client.turn("a result")
                client.keep((await client.ask(**CHOICES[wire])).json(), "a result")
                await client.turn("a result")
        assert len({split(wire, seen)[0]["tools"] for seen in fake.seen}) == 1
        assert b'"recall"' in fake.seen[0].raw

    asyncio.run(run())
