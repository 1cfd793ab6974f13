# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Between two edits, a request is the one before it with more at its end: nothing else of it changes."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Literal

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


@pytest.mark.parametrize(
    ("wire", "model", "binding"),
    [
        ("anthropic", "claude-opus-5-5", "prefix"),
        pytest.param("anthropic", "claude-sonnet-4-5", "block", marks=pytest.mark.exhaustive),
        ("openai_responses", "gpt-5", ""),
    ],
)
def test_thinking_does_not_make_the_prefix_change_more_often(
    wire: str, model: str, binding: Literal["", "block", "prefix"], tmp_path: Path
) -> None:
    async def count_changes(thinks: bool) -> int:
        answers = (step_answer(number, thinks) for number in range(99))
        async with Fake(wire, answers, window=12_000, binding=binding) as fake, open_http() as http:
            async with run_gateway(tmp_path / str(thinks), upstream_of(fake), window=12_000, recall=True) as running:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"}, thinking=thinks)
                client.model = model
                client.say("Start. Never touch main.")
                for number in range(40):
                    await client.turn(f"line {number} of a result that is long\n" * 60)
        assert fake.refused == []
        requests = [split(wire, seen)[1] for seen in fake.seen]
        return sum(after[: len(before)] != before for before, after in pairwise(requests))

    plain, thinking = (asyncio.run(count_changes(each)) for each in (False, True))
    assert 0 < thinking <= plain + 1


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


class MarkingClient(ScriptedClient):
    """Marks the last block of its newest message for the cache, or a block inside it, as clients do."""

    is_inner = False

    def say_after(self, text: str) -> None:
        """Put two texts behind the results of the newest message."""
        reminder = f"<system-reminder>{text * 30}</system-reminder>"
        self.messages[-1]["content"] += [{"type": "text", "text": reminder}, {"type": "text", "text": text * 120}]

    def body(self) -> Json:
        body: Json = msgspec.json.decode(msgspec.json.encode(super().body()))
        content = body["messages"][-1]["content"]
        for block in content if isinstance(content, list) else []:
            if self.is_inner and block["type"] == "tool_result" and isinstance(block["content"], str):
                block["content"] = [{"type": "text", "text": block["content"]}]
        if isinstance(content, list):
            marked = content[0]["content"][0] if self.is_inner else content[-1]
            marked["cache_control"] = {"type": "ephemeral"}
        return body


@pytest.mark.parametrize("is_inner", [False, True])
def test_an_edited_message_keeps_its_mark_for_the_cache(is_inner: bool, tmp_path: Path) -> None:
    """Also if the marked block is one that an edit takes away or writes anew."""

    async def run() -> None:
        async with Fake("anthropic", (step_answer(n) for n in range(99)), window=16_000) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=16_000) as running:
                client = MarkingClient("anthropic", running.url, http, {"x-claude-code-session-id": "abc"})
                client.is_inner = is_inner
                client.say("Start.")
                for number in range(16):
                    if number:
                        client.say_after("more words of the user ")
                    await client.turn(f"line {number} of a result that is long\n" * (900 if number % 7 == 6 else 60))
        mark = b'"cache_control"'
        own = [sent.count(mark) for sent in client.sent]
        assert [seen.raw.count(mark) for seen in fake.seen] == own
        assert sum(own) == 15
        assert any(seen.raw != sent for seen, sent in zip(fake.seen, client.sent, strict=True))
        assert fake.refused == []

    asyncio.run(run())
