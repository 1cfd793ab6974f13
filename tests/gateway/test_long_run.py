# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""A long run in a small window: a fact of the third step is recalled at the end, and the client does not see how.

The requests have the shape of Claude Code (Anthropic, streamed, thinking) and Codex (Responses, streamed, reasoning).
`make test-clients` makes 300 steps in a window of 32,000 tokens; `make test` fewer, in a smaller one.
"""

import asyncio
import json
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import PATHS, ScriptedClient
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tests.scale import mark_all_but
from tidegate.core.messages import Call
from tidegate.wire.answers import create_assembler
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.streaming.sse import SseReader, decode_frame

Json = dict[str, Any]
STEPS = int(os.environ.get("TIDEGATE_LONG_RUN", "60"))
WINDOW = 32_000 if STEPS >= 300 else 8_000
FACT_AT, MIXED_AT, RECALL_AT = 3, STEPS * 2 // 3, STEPS - 1
FACT = "the teapot on shelf 9f3a prefers oolong"
FOUND = re.compile(r"m\d+ tool[^:]*: [^\"]*teapot on shelf 9f3a prefers (\w+)")


class ScriptedModel:
    """Makes a step per request. It recalls the fact in two steps: beside a step, and alone."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._answers = 0

    def answer(self, body: Json) -> ScriptedAnswer:
        text = json.dumps(body)
        steps = [int(number) for number in re.findall(r"call_step_(\d+)", text)]
        step = max(steps, default=-1) + 1
        self._answers += 1
        signed: Json = {"thinking": f"Now step {step}.", "signature": f"c2ln{self._answers:04}"}
        call = Call(f"call_step_{step}", "step", json.dumps({"n": step}))
        recall = Call(f"call_recall_{step}", "recall", json.dumps({"what": "teapot"}))
        if step == MIXED_AT:
            return ScriptedAnswer(text="Both.", calls=(recall, call), **signed)
        if step == RECALL_AT and recall.id not in text:
            return ScriptedAnswer(text="I have to look.", calls=(recall,), **signed)
        if step in (MIXED_AT + 1, RECALL_AT):
            self.found += FOUND.findall(text)[-1:]
        if step == STEPS:
            return ScriptedAnswer(text=f"It prefers {self.found[-1]}.")
        return ScriptedAnswer(text=f"Step {step}.", calls=(call,), **signed)


class StreamingClient(ScriptedClient):
    """A client that reads streams and sends back what it got, thinking included."""

    async def take_turn(self) -> list[str]:
        raw = json.dumps(self.body() | {"stream": True}).encode()
        response = await self.http.post(self.url + PATHS[self.wire], content=raw, headers=self.headers)
        assert response.status_code == 200, response.text
        reader, assembler = SseReader(), create_assembler(self.wire)
        for frame in reader.feed(response.content):
            if (value := decode_frame(frame)) is not None:
                assembler.feed(value)
        self.messages += assembler.finish().messages
        return re.findall(r"call_step_\d+", json.dumps(assembler.finish().messages))

    def give_results(self, calls: list[str], text: str) -> None:
        if self.wire == "anthropic":
            results = [{"type": "tool_result", "tool_use_id": ident, "content": text} for ident in calls]
            self.messages.append({"role": "user", "content": results})
        else:
            self.messages += [{"type": "function_call_output", "call_id": ident, "output": text} for ident in calls]


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", mark_all_but(["anthropic", "openai_responses"], "anthropic"))
def test_a_fact_of_the_third_step_is_recalled_in_the_last(wire: str, tmp_path: Path) -> None:
    model = ScriptedModel()

    def make_output(step: int) -> str:
        """Lines that are all as unusual as the fact, so that it is not kept for being the only such line."""
        names = [blake2b(f"{step} {number}".encode(), digest_size=6).hexdigest() for number in range(24)]
        lines = [f"the {name[:5]} on shelf {name[5:9]} prefers {name[9:]}" for name in names]
        return "\n".join([*lines[:12], *([FACT] if step == FACT_AT else []), *lines[12:]])

    async def run() -> None:
        async with Fake(wire, model.answer, window=WINDOW, binding="prefix") as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True, window=WINDOW) as running:
                async with open_http() as http:
                    client = StreamingClient(wire, running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                    client.say("Run all the steps.")
                    for step in range(STEPS):
                        (call,) = await client.take_turn()
                        client.give_results([call], make_output(step))
                    assert await client.take_turn() == []
        assert fake.refused == []
        assert model.found == ["oolong", "oolong"]
        assert "It prefers oolong." in json.dumps(client.messages[-1])
        assert "recall" not in json.dumps(client.messages)
        assert FACT not in fake.seen[MIXED_AT].raw.decode(), "the view still had it"

    asyncio.run(run())
