"""Gateway workers on one PostgreSQL, killed at random: the client sees an error it can retry, and nothing is lost."""

import asyncio
import os
import random
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.fake.server import Fake, Json, Step
from tests.free_port import find_free_port
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http
from tests.gateway.test_killed import ask_streamed, find_differing_repeats, next_step, start_gateway
from tidegate.core.events import BranchStarted, MessageAdded
from tidegate.core.messages import calls_of
from tidegate.datafolder.data_folder import DataFolder

KILLS = int(os.environ.get("TIDEGATE_WORKER_KILLS", "10"))


def read_calls(folder: Path, store: str) -> list[str]:
    """The ids of the calls of the conversation, in order. An answer that was logged but not passed on whole is asked
    for again; the conversation then branches before it.
    """
    data = DataFolder(folder, store=store, secrets=[])
    events = list(data.open_log("s").read())
    data.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    after: list[list[str]] = [[]]  # the calls of the conversation after each event
    for event in events:
        calls, what = after[-1], event.payload
        if isinstance(what, BranchStarted):
            calls = after[what.edit]
        elif isinstance(what, MessageAdded) and what.message.agent_visible:
            calls = calls + [call.id for call in calls_of(what.message)]
        after.append(calls)
    return after[-1]


class KilledWorkers:
    """A client that takes turns with whichever worker answers, and repeats a request whose connection broke."""

    def __init__(self, client: ScriptedClient, urls: list[str], chance: random.Random) -> None:
        self.client, self.urls, self.chance = client, urls, chance
        self.acknowledged: list[int] = []
        self.errors = 0

    async def take_turn(self, on_bytes: Callable[[int], object] = id, first: str = "") -> None:
        last_error = ""
        for attempt in range(40):
            self.client.url = first if first and not attempt else self.chance.choice(self.urls)
            try:
                content = await ask_streamed(self.client, on_bytes)
                break
            except (httpx.HTTPError, AssertionError) as error:
                self.errors += 1
                last_error = repr(error)
                await self._wait_for_worker()
        else:
            raise AssertionError(f"forty tries were not enough, the last one: {last_error}")
        number = int(content[1]["id"].removeprefix("call"))
        self.acknowledged.append(number)
        result = {"type": "tool_result", "tool_use_id": f"call{number}", "content": f"line {number}\n" * 300}
        self.client.messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]

    async def _wait_for_worker(self) -> None:
        """Both workers may be starting: one was killed before the replacement of the other was ready."""
        async with asyncio.timeout(600):
            while True:
                for url in self.urls:
                    with suppress(httpx.HTTPError):
                        if (await self.client.http.get(f"{url}/healthz", timeout=5)).status_code == 200:
                            return
                await asyncio.sleep(0.05)


def find_children(pid: int) -> list[int]:
    """The workers of a gateway: its children that serve, without the process that multiprocessing keeps for itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


class Gateways:
    """One gateway with two workers, or two gateways with one each and data folders of their own."""

    def __init__(self, folder: Path, hosts: int, fake: Fake, store: str) -> None:
        self.hosts = hosts
        self.ports = [find_free_port() for _ in range(hosts)]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self._folders = [folder / f"host{number}" for number in range(hosts)]
        self._options = ["--upstream", f"anthropic={fake.host}", "--window", "16000", "--store", store]
        self._options += ["--workers", "2"] if hosts == 1 else []
        self._processes: list[Process] = []

    async def start(self) -> None:
        for folder, port in zip(self._folders, self.ports, strict=True):
            folder.mkdir()
            self._processes.append(await start_gateway(folder, port, *self._options))

    def find_workers(self, host: int) -> list[int]:
        pid = self._processes[host].pid
        return [pid] if self.hosts > 1 else find_children(pid)

    async def restart(self, host: int) -> None:
        """A gateway with workers starts another one by itself."""
        if self.hosts > 1:
            assert await self._processes[host].wait() == -signal.SIGKILL
            self._processes[host] = await start_gateway(self._folders[host], self.ports[host], *self._options)

    async def stop(self) -> None:
        for process in self._processes:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 300) == 0


async def take_turns_and_kill(runs: KilledWorkers, gateways: Gateways, kills: list[Callable[[], None]]) -> None:
    """Kill a worker when the upstream sees a request or after some bytes of an answer, and continue with the others."""
    chance = runs.chance
    for _ in range(KILLS):
        await runs.take_turn()
        host = chance.randrange(gateways.hosts)
        pid, limit = chance.choice(gateways.find_workers(host)), chance.randint(1, 900)

        def kill(pid: int = pid) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        def kill_after(size: int, limit: int = limit, kill: Callable[[], None] = kill) -> None:
            if size >= limit:
                kill()

        kill_by_bytes = chance.random() < 0.5
        kills[:] = [] if kill_by_bytes else [kill]
        await runs.take_turn(kill_after if kill_by_bytes else id, first=gateways.urls[host])
        kills.clear()
        kill()
        await gateways.restart(host)
    await runs.take_turn()


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_killed_worker_loses_nothing(tmp_path: Path, pooled_url: str, hosts: int) -> None:
    kills: list[Callable[[], None]] = []

    def answer(body: Json) -> Step:
        for kill in kills:
            kill()
        return next_step(body)

    async def run() -> tuple[KilledWorkers, list[int]]:
        async with Fake("anthropic", answer, window=16_000) as fake, open_http() as http:
            gateways = Gateways(tmp_path, hosts, fake, pooled_url)
            await gateways.start()
            client = ScriptedClient("anthropic", gateways.urls[0], http, {"x-tidegate-session": "s"})
            client.say("start")
            runs = KilledWorkers(client, gateways.urls, random.Random(11))
            await take_turns_and_kill(runs, gateways, kills)
            await gateways.stop()
            return runs, find_differing_repeats(fake)

    runs, differing = asyncio.run(run())
    assert runs.acknowledged == list(range(len(runs.acknowledged))), "each step was acknowledged once, in order"
    assert runs.errors > 0, "no request was interrupted: the test shows nothing"
    assert differing == [], "a request that was repeated was forwarded with other bytes"
    calls = read_calls(tmp_path / "reader", pooled_url)
    assert calls == [f"call{number}" for number in runs.acknowledged], "something is lost or there twice"
