# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""What left and is named now comes back at the end of a client's request, under every dialect and with thinking."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import Fake, Json
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.messages import Call
from tidegate.wire.streaming.response_encoder import ScriptedAnswer

WINDOW = 12_000
HEAD = "[Earlier work that left the view"
CODE = "def compute_sales_tax(order):\n" + "".join(f"    total += rate_of_zone_{n}(order) * {n}\n" for n in range(99))
POLICY = """
name: eager
reserve: 1000
moments:
  before_call:
    - {stage: sweep, when: {fill: "> 1"}}
    - {stage: bring_back}
"""


def messages_of(body: Json) -> list[Json]:
    found: list[Json] = body.get("messages") or body.get("input") or body.get("contents") or []
    return found


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat", "openai_responses", "gemini", "thinking"])
def test_the_client_s_request_gets_it_at_its_end_and_keeps_it(wire: str, tmp_path: Path) -> None:
    thinks = wire == "thinking"
    wire = "anthropic" if thinks else wire
    steps = [step_answer(number, thinking=thinks) for number in range(60)]
    for number in range(42, 46):  # a view that is nearly full has no room for it
        named = Call(f"named{number}", "step", '{"n": 1, "about": "compute_sales_tax"}')
        more: Json = {"thinking": "Which zone?", "signature": f"sig{number}"} if thinks else {}
        steps[number] = ScriptedAnswer(text="I look at the tax.", calls=(named,), **more)
    policy = tmp_path / "eager.yaml"
    policy.write_text(POLICY)

    async def run() -> None:
        settings: Any = {"window": WINDOW, "policy": str(policy)}
        binding: Any = {"binding": "prefix"} if thinks else {}
        async with Fake(wire, steps, window=WINDOW, **binding) as fake, open_http() as http:
            async with run_gateway(tmp_path / "data", upstream_of(fake), **settings) as running:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"}, thinking=thinks)
                client.say("Look after the shop.")
                await client.turn(CODE)
                for turn in range(48):
                    await client.turn("".join(f"value_{turn}_{n} = {n * turn}  # of a file\n" for n in range(120)))
                stages = [getattr(event.payload, "stage", "") for event in running.data.open_log("s").read()]
        assert fake.refused == []
        assert stages.count("bring_back") in (1, 2), "once between two sweeps"
        first = next(n for n, seen in enumerate(fake.seen) if HEAD in seen.raw.decode())
        assert HEAD not in json.dumps(messages_of(fake.seen[first].body)[:-1]), "it is in the last message"
        shown = json.dumps(messages_of(fake.seen[first].body)[-1])
        assert "rate_of_zone_0(order) * 0" in shown
        begin = json.dumps(messages_of(fake.seen[first].body))[:-2]
        assert json.dumps(messages_of(fake.seen[first + 1].body)).startswith(begin), "the prefix changed"

    asyncio.run(run())
