# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""A conversation through the gateway sends what `tidegate replay` says it would."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.fake.server import Bytes, Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.gateway.hidden_recall import RECALL_TOOL
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.replay_report import ReplayReport
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.request_size import RequestSizer
from tidegate.models.token_counters import create_counter
from tidegate.presets import load
from tidegate.wire.answers import encode_response_body
from tidegate.wire.registry import parse_tools

STEPS, WINDOW = 40, 12_000


def answer_without_usage(number: int) -> Bytes:
    """A replay has no reports of usage, which would correct the gateway's count."""
    body = encode_response_body("openai_chat", step_answer(number))
    return Bytes(json.dumps({key: value for key, value in body.items() if key != "usage"}).encode(), "application/json")


@pytest.mark.exhaustive
def test_the_share_that_extends_the_request_before_is_that_of_the_replay(tmp_path: Path) -> None:
    sent, counter = ReplayReport("gateway"), create_counter("gpt-4o")
    sizer = RequestSizer(counter, WINDOW)

    async def run() -> ScriptedClient:
        async with Fake("openai_chat", list(map(answer_without_usage, range(STEPS + 1)))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=WINDOW, recall=True) as running:
                async with open_http() as http:
                    client = ScriptedClient("openai_chat", running.url, http)
                    client.say("start")
                    for number in range(STEPS + 1):
                        await client.turn(f"line {number} of the file\n" * 100)
            for seen in fake.seen:
                sent.add_size(sizer.measure(seen.body["messages"]))
            return client

    client = asyncio.run(run())
    lines = [RecordedLine(number, message) for number, message in enumerate(client.messages, 1)]
    tools = (*parse_tools(client.body()["tools"]), RECALL_TOOL)
    replayed = replay_session("replay", lines, ReplaySetup(load("default"), WINDOW, tools=tools))
    assert sent.requests == replayed.requests == STEPS + 1
    assert replayed.edits  # it did not fit as it was
    assert sent.mean_shared_share == replayed.mean_shared_share
