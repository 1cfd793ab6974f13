"""A gateway on a free port, between a test and the strict fake server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvicorn

from tests.fake.server import Fake
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.conversations import MakeWatcher
from tidegate.gateway.http_messages import AsgiMessage, Receive, Send
from tidegate.gateway.server import make_server
from tidegate.gateway.settings import Family, GatewaySettings, Upstream
from tidegate.store.store import Store
from tidegate.web.live.pages import GatewayPage

FAMILIES: dict[str, Family] = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}


DEADLINE = 300
"""Seconds after which a test that waits has failed. Nothing is measured with it: it only ends a test that hangs."""


PATIENT: dict[str, Any] = {"store_timeout": DEADLINE, "connect_timeout": DEADLINE, "header_timeout": DEADLINE}
"""The gateway's own deadlines. On a machine with much to do, one of seconds would end what is only slow."""


def open_http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=DEADLINE)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.005)


PAGE_TOKEN = "the-page-token-of-the-tests"


class Running(NamedTuple):
    url: str
    gateway: Gateway
    data: DataFolder
    lines: list[str]
    server: uvicorn.Server

    @property
    def page_headers(self) -> dict[str, str]:
        """The headers of someone who may look at the page of a gateway without tokens."""
        return {"x-tidegate-token": PAGE_TOKEN}


class RecordingGateway(Gateway):
    """A gateway that keeps the bodies of all requests, as the clients sent them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.bodies: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        pieces: list[bytes] = []

        async def record() -> AsgiMessage:
            message = await receive()
            if message["type"] == "http.request":
                pieces.append(message.get("body", b""))
                if not message.get("more_body") and any(pieces):
                    self.bodies.append(b"".join(pieces))
            return message

        await super().__call__(scope, record, send)


def upstream_of(fake: Fake, **more: Any) -> Upstream:
    family = FAMILIES[fake.wire]
    return Upstream(family, family, fake.host, **more)


@asynccontextmanager
async def run_gateway(
    folder: Path,
    *upstreams: Upstream,
    make: Callable[..., Gateway] = Gateway,
    recall: bool = False,
    make_watcher: MakeWatcher | None = None,
    store: str | Store = "",
    **settings: Any,
) -> AsyncIterator[Running]:
    """Without `recall`, unlike the default: most tests compare what is forwarded byte for byte."""
    settings = PATIENT | settings
    chosen = GatewaySettings(port=0, upstreams=upstreams, recall=recall, page_token=PAGE_TOKEN, **settings)
    data = DataFolder(folder, store=store)
    lines: list[str] = []
    gateway = make(chosen, data, lines.append, make_watcher=make_watcher)
    gateway.page = GatewayPage(chosen, data, gateway.activity)
    server = make_server(gateway, chosen, loop="asyncio")
    task = asyncio.ensure_future(server.serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.002)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", gateway, data, lines, server)
    finally:
        await stop_server(server, task)
        data.close()


async def stop_server(server: uvicorn.Server, task: "asyncio.Future[None]") -> None:
    """Stop the server. If it has nothing left to do, uvicorn's two pauses of 0.1 seconds are skipped."""
    for _ in range(100):
        if not server.server_state.tasks:
            break
        await asyncio.sleep(0)  # requests of a client that has just left
    if server.should_exit or server.server_state.tasks:
        server.should_exit = True
        await task
        return
    task.cancel()
    await asyncio.wait([task])
    for each in server.servers:
        each.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    await server.lifespan.shutdown()


async def wait_until_ready(running: Running, http: httpx.AsyncClient) -> None:
    """Return when the gateway has noticed that its store answers."""
    async with asyncio.timeout(DEADLINE):
        while (await http.get(running.url + "/readyz")).status_code != 200:
            await asyncio.sleep(0.005)


async def read_metric(running: Running, web: httpx.AsyncClient, name: str) -> int:
    text = (await web.get(running.url + "/metrics")).text
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"tidegate_{name} "))
