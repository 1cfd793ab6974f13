# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Compaction by the provider: what it replaced is not counted, its block stays, and the log has all of it."""

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.fake.server import Fake, Json, Step
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.events import ViewEdited
from tidegate.core.messages import compacts_history
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.message_text import render_message_text
from tidegate.session.recall import recall_message, recall_text

RULE = "Never touch the file secrets.txt."
LINE = "a line of the tool. "
BETA = {"x-tidegate-session": "s", "anthropic-beta": "compact-2026-01-12"}
MANAGED: dict[str, object] = {
    "anthropic": {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 3_000}}]},
    "openai_responses": [{"type": "compaction", "compact_threshold": 3_000}],
}
each_wire = pytest.mark.parametrize("wire", list(MANAGED))


KEYS = {"anthropic": "messages", "openai_responses": "input"}


def make_steps() -> Iterator[Step]:
    return map(step_answer, count())


def list_pairs(fake: Fake, client: ScriptedClient) -> list[tuple[list[Json], list[Json]]]:
    """The messages of each request as they were forwarded, and as the client sent them."""
    key, sent = KEYS[fake.wire], [json.loads(raw) for raw in client.sent]
    return [(seen.body[key], body[key]) for seen, body in zip(fake.seen, sent, strict=True)]


async def take_steps(wire: str, folder: Path, window: int, steps: int) -> tuple[Fake, ScriptedClient]:
    async with open_http() as http, Fake(wire, make_steps(), window=window) as fake:
        async with run_gateway(folder, upstream_of(fake), window=window) as running:
            client = ScriptedClient(wire, running.url, http, BETA)
            client.model = "claude-sonnet-4-5"
            client.say(f"Count the teapots. {RULE}")
            for number in range(steps):
                response = await client.ask(context_management=MANAGED[wire])
                assert response.status_code == 200, response.text
                client.keep(response.json(), f"result {number}: " + LINE * 100)
    return fake, client


@each_wire
def test_what_the_provider_compacted_is_not_counted_and_nothing_is_edited(wire: str, tmp_path: Path) -> None:
    """The client appends, so its list has several times the window, of which the model reads the end."""
    fake, client = asyncio.run(take_steps(wire, tmp_path, 6_000, 40))
    assert fake.refused == []
    assert all(seen == sent for seen, sent in list_pairs(fake, client))
    assert len(client.sent[-1]) > 4 * 6_000
    with DataFolder(tmp_path) as data, data.open("s", wire=wire, restore=False) as session:
        assert not any(isinstance(event.payload, ViewEdited) for event in session.log.read())
        assert compacts_history(session.view.items[0].message)
        shown = render_message_text(recall_message(session.log, session.view.items[0].message.id))
        assert "a compaction by the provider in place of m" in shown
        assert RULE in recall_text(session.log, "teapots").text
        assert RULE in [line.text for line in session.rules]


@pytest.mark.exhaustive
@each_wire
def test_a_sweep_leaves_the_block_as_it_is_and_at_the_front(wire: str, tmp_path: Path) -> None:
    """The window is reached before the provider compacts again."""
    managed = MANAGED[wire]
    high = json.loads(json.dumps(managed).replace("3000", "5500"))

    async def run() -> tuple[Fake, ScriptedClient]:
        async with open_http() as http, Fake(wire, make_steps(), window=5_000) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=5_000) as running:
                client = ScriptedClient(wire, running.url, http, BETA)
                client.model = "claude-sonnet-4-5"
                client.say(f"Count the teapots. {RULE}")
                for number in range(30):
                    response = await client.ask(context_management=managed if number < 8 else high)
                    assert response.status_code == 200, response.text
                    client.keep(response.json(), f"result {number}: " + LINE * 100)
        return fake, client

    fake, client = asyncio.run(run())
    assert fake.refused == []
    edited = [seen for seen, sent in list_pairs(fake, client) if seen != sent]
    assert edited
    block = next(message for message in client.messages[::-1] if "compaction" in json.dumps(message))
    for messages in edited:
        place = next(n for n, message in enumerate(messages) if "compaction" in json.dumps(message))
        assert messages[place] == block
        assert place == 0
        assert RULE in json.dumps(messages[place + 1 :])


def test_tokens_that_context_editing_cleared_are_not_counted(tmp_path: Path) -> None:
    """The provider leaves out old results itself, and reports a request of which less than half was read."""

    async def run() -> None:
        async with open_http() as http, Fake("anthropic", make_steps(), window=6_000, clears_to=1_500) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=6_000) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.model = "claude-sonnet-4-5"
                client.say("Count the teapots.")
                for number in range(30):
                    response = await client.ask(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]})
                    assert response.status_code == 200, response.text
                    client.keep(response.json(), f"result {number}: " + LINE * 100)
        assert all(seen == sent for seen, sent in list_pairs(fake, client))

    asyncio.run(run())
