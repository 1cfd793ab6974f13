"""A gateway whose PostgreSQL, or the pooler before it, accepts connections and statements and answers nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, read_metric, run_gateway, upstream_of, wait_until_ready
from tests.store.relay import HangingRelay
from tidegate.gateway.settings import StoreFailure

CLIENTS = 24
"""More than the store has connections, and the gateway threads for its calls."""


@pytest.fixture
def relay(store_url: str) -> Iterator[HangingRelay]:
    found = HangingRelay(store_url)
    yield found
    found.close()


def say(running: Running, web: httpx.AsyncClient, number: int, words: str) -> ScriptedClient:
    client = ScriptedClient("anthropic", running.url, web, {"x-tidegate-session": f"s{number}"})
    client.say(words)
    return client


@pytest.mark.parametrize("reaction", ["forward", "refuse"])
def test_requests_do_not_wait_for_a_pooler_that_hangs(
    reaction: StoreFailure, relay: HangingRelay, tmp_path: Path
) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(999))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), store=relay.url) as running:
                for number in range(2):
                    await say(running, web, number, "before it hangs").turn()
            settings: dict[str, Any] = {"store_timeout": 0.5, "store_check_timeout": 0.01, "on_store_failure": reaction}
            async with run_gateway(tmp_path, upstream_of(fake), store=relay.url, **settings) as running:
                relay.hang()
                timeouts, expected = 0, 200 if reaction == "forward" else 503
                for _ in range(2):  # of sessions that are in the store, and of new ones
                    clients = [say(running, web, number, "while it hangs") for number in range(CLIENTS)]
                    asked = asyncio.gather(*(client.ask() for client in clients))
                    assert (await web.get(running.url + "/healthz")).status_code == 200
                    assert {answer.status_code for answer in await asked} == {expected}
                    timeouts = await read_metric(running, web, "store_timeouts_total")
                assert timeouts <= CLIENTS, "the second time none waited"
                assert await read_metric(running, web, "store_silent") == 1
                assert (await web.get(running.url + "/readyz")).status_code == 503
                page = await web.get(running.url + "/ui/api/sessions", headers=running.page_headers)
                assert page.status_code == 503
                assert relay.accepted_while_hung, "the gateway tried whether it is back"
                relay.flow()
                await wait_until_ready(running, web)
                async with asyncio.timeout(DEADLINE):
                    for number in range(999):  # to a busy machine, the store may be too slow for half a second
                        words = f"after it, attempt {number}"
                        if (await say(running, web, 100 + number, words).ask()).status_code == 200:
                            events = running.data.open_log(f"s{100 + number}").read()
                            if words in str([event.payload for event in events]):
                                return
                raise AssertionError("no request was logged after the pooler returned")

    asyncio.run(run())
