"""A gateway on a free port, between a test and the strict fake server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvicorn

from tests.fake.server import Fake
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.conversations import MakeWatcher
from tidegate.gateway.http_body import AsgiMessage, Receive, Send
from tidegate.gateway.server import make_server
from tidegate.gateway.settings import Family, GatewaySettings, Upstream
from tidegate.web.live.pages import GatewayPage

FAMILIES: dict[str, Family] = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}


def open_http() -> httpx.AsyncClient:
    """Patient: loading a vocabulary takes seconds on a busy machine."""
    return httpx.AsyncClient(timeout=60)


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
    make: type[Gateway] = Gateway,
    recall: bool = False,
    make_watcher: MakeWatcher | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Without `recall`, unlike the default: most tests compare what is forwarded byte for byte."""
    chosen = GatewaySettings(port=0, upstreams=upstreams, recall=recall, page_token=PAGE_TOKEN, **settings)
    data = DataFolder(folder)
    lines: list[str] = []
    gateway = make(chosen, data, lines.append, make_watcher=make_watcher)
    gateway.page = GatewayPage(chosen, data, gateway.activity)
    server = make_server(gateway, chosen, loop="asyncio")
    task = asyncio.ensure_future(server.serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", gateway, data, lines, server)
    finally:
        server.should_exit = True
        await task
        data.close()
