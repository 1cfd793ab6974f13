"""`tidegate serve` is killed at random times: nothing acknowledged is lost, and the next request has the same bytes."""

import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.fake.server import KEY, Fake, Json, Step
from tests.free_port import find_free_port
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import DEADLINE, open_http
from tidegate.core.events import MessageAdded
from tidegate.core.messages import calls_of, text_of
from tidegate.datafolder.data_folder import DataFolder

KILLS = int(os.environ.get("TIDEGATE_GATEWAY_KILLS", "4"))
MOMENTS = ("seen", "bytes", "soon")
"""When the gateway is killed: when the provider has the request, after some bytes of the answer, at any time."""


async def start_gateway(folder: Path, port: int, *more: str) -> Process:
    command = [sys.executable, "-m", "tidegate", "serve", "--quiet", "--data", str(folder), "--port", str(port), *more]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stderr=asyncio.subprocess.DEVNULL, cwd=folder
    )
    async with asyncio.timeout(DEADLINE), open_http() as http:
        while True:
            with suppress(httpx.HTTPError):
                if (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200:
                    return process
            assert process.returncode is None, "the gateway did not start"
            await asyncio.sleep(0.05)


def next_step(body: Json) -> Step:
    """The model as a function of the request: the step after the newest result, also if it is asked again."""
    last = body["messages"][-1]["content"]
    done = int(last[0]["tool_use_id"].removeprefix("call")) if isinstance(last, list) else -1
    return step_answer(done + 1)


async def ask_streamed(client: ScriptedClient, on_bytes: Callable[[int], object] = id) -> list[Json]:
    """The answer of a stream, only if its last event arrived: then it is acknowledged."""
    raw = json.dumps(client.body() | {"stream": True}).encode()
    client.sent.append(raw)
    data = b""
    async with client.http.stream("POST", client.url + "/v1/messages", content=raw, headers=client.headers) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            data += piece
            on_bytes(len(data))
    assert b"message_stop" in data
    number = int(data.split(b'"id":"call')[1].split(b'"')[0])
    call = {"type": "tool_use", "id": f"call{number}", "name": "step", "input": {"n": number}}
    return [{"type": "text", "text": f"Step {number}."}, call]


class KilledRuns:
    """A client whose gateway is killed again and again: before a request is forwarded or during an answer."""

    def __init__(self, folder: Path, fake: Fake, http: httpx.AsyncClient) -> None:
        self.folder, self.port = folder, find_free_port()
        # Without "refuse", a request is forwarded as the client wrote it if a busy machine's store answers late.
        refuse = ("--on-store-failure", "refuse")
        self.options = ("--upstream", f"anthropic={fake.host}", "--window", "16000", *refuse)
        self.client = ScriptedClient("anthropic", f"http://127.0.0.1:{self.port}", http, {"x-tidegate-session": "s"})
        self.client.say("start")
        self.acknowledged: list[int] = []
        self._chance = random.Random(7)

    async def start(self) -> Process:
        return await start_gateway(self.folder, self.port, *self.options)

    async def run_until_killed(self, moment: str, kill_when_seen: list[Callable[[], None]]) -> None:
        process = await self.start()
        limit, delay = self._chance.randint(1, 900), self._chance.uniform(0, 0.05)

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

        def kill_after(size: int) -> None:
            if size >= limit:
                kill()

        with suppress(httpx.HTTPError, AssertionError):
            for _ in range(self._chance.randint(0, 3)):
                await self.take_turn(id)
            kill_when_seen[:] = [kill] if moment == "seen" else []
            if moment == "soon":
                asyncio.get_running_loop().call_later(delay, kill)
            await self.take_turn(kill_after if moment == "bytes" else id)
        kill_when_seen.clear()
        kill()
        assert await process.wait() == -signal.SIGKILL

    async def ask_until_answered(self) -> None:
        async with asyncio.timeout(DEADLINE):
            while True:
                with suppress(httpx.HTTPError, AssertionError):
                    return await self.take_turn(id)
                await asyncio.sleep(0.05)

    async def take_turn(self, on_bytes: Callable[[int], object]) -> None:
        content = await ask_streamed(self.client, on_bytes)
        number = int(content[1]["id"].removeprefix("call"))
        self.acknowledged.append(number)
        result = {"type": "tool_result", "tool_use_id": f"call{number}", "content": f"line {number}\n" * 300}
        self.client.messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]


def find_differing_repeats(fake: Fake) -> list[int]:
    """The steps for which different bytes were forwarded. A request that is sent again must have the same."""
    sent: dict[int, set[bytes]] = {}
    for seen in fake.seen:
        last = seen.body["messages"][-1]["content"]
        step = int(last[0]["tool_use_id"].removeprefix("call")) if isinstance(last, list) else -1
        sent.setdefault(step, set()).add(seen.raw)
    return [step for step, bodies in sent.items() if len(bodies) > 1]


def check_killed_runs(folder: Path, moments: Sequence[str]) -> None:
    """Kill the gateway at these moments, one after the other."""

    async def run() -> list[int]:
        kill_when_seen: list[Callable[[], None]] = []

        def answer(body: Json) -> Step:
            for kill in kill_when_seen:
                kill()
            return next_step(body)

        async with Fake("anthropic", answer, window=16_000) as fake, open_http() as http:
            runs = KilledRuns(folder, fake, http)
            for moment in moments:
                await runs.run_until_killed(moment, kill_when_seen)
            process = await runs.start()
            await runs.ask_until_answered()
            process.terminate()
            assert await process.wait() == 0
        assert fake.refused == []
        assert find_differing_repeats(fake) == []
        return runs.acknowledged

    acknowledged = asyncio.run(run())
    data = DataFolder(folder)
    said = [event.payload.message for event in data.open_log("s").read() if isinstance(event.payload, MessageAdded)]
    data.close()
    assert set(acknowledged) <= {int(call.id.removeprefix("call")) for message in said for call in calls_of(message)}
    assert any(text_of(message) == "start" for message in said)
    assert KEY not in str(said)


def test_a_killed_gateway_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    check_killed_runs(tmp_path, ("seen", "bytes"))


@pytest.mark.exhaustive
def test_a_gateway_that_is_killed_at_random_times_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    check_killed_runs(tmp_path, random.Random(7).choices(MOMENTS, k=KILLS))
