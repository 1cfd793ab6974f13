"""A gateway in a thread of its own, with clients in it: a browser that is driven from this thread can look at it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, run_gateway, upstream_of
from tests.web.sample_sessions import HOSTILE, SECRET

T = TypeVar("T")
LONG_STEPS = 24
"""Requests of the session `claude-long`. They fill a window of 16,000 tokens several times."""


class LiveGateway:
    """`call` runs a coroutine in the thread of the gateway and returns what it returns."""

    def __init__(self, running: Running, loop: asyncio.AbstractEventLoop) -> None:
        self.running = running
        self._loop = loop

    @property
    def url(self) -> str:
        return self.running.url

    def call(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(DEADLINE)

    def talk(self, steps: int, *, first: str = "Start.", result: str = "", **headers: str) -> None:
        """A client that makes so many requests, with long results, so that a small window overflows."""

        async def run() -> None:
            async with open_http() as http:
                client = ScriptedClient(
                    "anthropic", self.url, http, {name.replace("_", "-"): value for name, value in headers.items()}
                )
                client.say(first)
                for number in range(steps):
                    await client.turn(result or f"line {number} of a result that is long\n" * 100)

        self.call(run())


@contextmanager
def live_gateway(folder: Path, make: Callable[[Fake], Any] = upstream_of, **settings: Any) -> Iterator[LiveGateway]:
    started: list[LiveGateway] = []
    is_up, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with (
            Fake("anthropic", map(step_answer, count())) as fake,
            run_gateway(folder, make(fake), **settings) as running,
        ):
            started.append(LiveGateway(running, asyncio.get_running_loop()))
            is_up.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not is_up.wait(0.05):
            assert thread.is_alive(), "the gateway did not start"
        yield started[0]
    finally:
        stop.set()
        thread.join()


def fill(gateway: LiveGateway, token: str) -> None:
    """Sessions to look at: a long one with compactions, one with words that would be script, one with sub-agents."""
    same = {"x_tidegate_token": token}
    gateway.talk(2, first="A short one.", x_tidegate_session="short", **same)
    gateway.talk(
        1,
        first=f"{HOSTILE[0]} password={SECRET}",
        result=f"{HOSTILE[1]}\n{HOSTILE[2]}",
        x_tidegate_session="hostile",
        **same,
    )
    for agent, parent in (("", ""), ("a1", ""), ("a2", "a1"), ("a3", "a2")):
        more = {
            "x_claude_code_session_id": "main",
            "x_claude_code_agent_id": agent,
            "x_claude_code_parent_agent_id": parent,
        }
        gateway.talk(2, first=f"Agent {agent}.", **same, **{name: value for name, value in more.items() if value})
    gateway.talk(LONG_STEPS, first="The port is 7421. Start.", x_claude_code_session_id="long", **same)
