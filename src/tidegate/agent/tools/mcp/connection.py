"""A connection to an MCP server.

It runs in a separate task, because the SDK requires that it is closed in the task that opened it. A cancel scope ends
it: cancelling the task itself would break the SDK's shields and leave a process and its pipes open.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from tidegate.agent.tools.mcp.transport import McpProcess, McpServer, McpTrafficLimiter, open_http_transport
from tidegate.core.text.clip import clip_chars
from tidegate.wire.limits import ServerLimits

_MAX_PAGES: Final = 20
_CLOSE_SECONDS: Final = 10.0


class McpConnection:
    """`client` is None unless it is connected. `tools` are those the server listed; `problem` says why there is no
    connection. `is_lost` is set if a call found the connection closed.
    """

    def __init__(
        self, server: McpServer, limits: ServerLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.server = server
        self.client: Client | None = None
        self.tools: list[types.Tool] = []
        self.problem = ""
        self.is_lost = False
        self._limiter = McpTrafficLimiter(limits or ServerLimits(), clock)
        self._stdio = McpProcess(server, self._limiter) if server.command and not server.url else None
        self._scope = anyio.CancelScope()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def exceeded_limit(self) -> str:
        return self._limiter.exceeded_limit

    @property
    def omitted_tools(self) -> int:
        """How many tools the server listed beyond the limit."""
        return self._limiter.omitted_tools

    async def start(self) -> None:
        """Connect within the timeout of the server. Nothing is raised: `problem` says what failed."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        try:
            async with asyncio.timeout(self.server.timeout):
                await ready.wait()
        except TimeoutError:
            await self.close()
            self.problem = self.describe(f"did not answer within {self.server.timeout:g} s")
        except asyncio.CancelledError:
            self._scope.cancel()
            raise

    async def close(self) -> None:
        self._stop.set()
        if self._task is None:
            return
        if self.client is None:  # still connecting, and may hang
            self._scope.cancel()
        finished_tasks, _ = await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
        if not finished_tasks:
            self._scope.cancel()
            await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether a call can be sent, as far as known."""
        has_ended = self._stdio is not None and self._stdio.has_ended
        return self.client is not None and not (self.is_lost or self.exceeded_limit or has_ended)

    def describe(self, what: str) -> str:
        return describe_server(self.server, what, self._stdio.error_output if self._stdio is not None else b"")

    async def _run(self, ready: asyncio.Event) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(Client(self._open_transport()))
                    self.tools = await self._list_tools(client)
                    self.client = client
                    ready.set()
                    await self._stop.wait()
                    self.client = None
        except Exception as error:  # noqa: BLE001 - `problem` reports it
            if not self._stop.is_set():
                self.problem = self.describe(
                    f"could not be used: {self.exceeded_limit or describe_innermost_error(error)}"
                )
        finally:
            self.client = None
            ready.set()

    def _open_transport(self) -> Any:
        if self.server.url:
            return open_http_transport(self.server, self._limiter)
        if self._stdio is None:
            raise ValueError("it has neither a command nor a url")
        return self._stdio.connect()

    async def _list_tools(self, client: Client) -> list[types.Tool]:
        tools_by_name: dict[str, types.Tool] = {}
        cursor: str | None = None
        max_tools = self._limiter.limits.tools
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            for each in page.tools:
                tools_by_name.setdefault(each.name, each)
            cursor = page.next_cursor
            if cursor is None or len(tools_by_name) >= max_tools:
                break
        self._limiter.omitted_tools += max(0, len(tools_by_name) - max_tools)
        return list(tools_by_name.values())[:max_tools]


def is_connection_lost(error: BaseException) -> bool:
    """Return whether the connection failed and not the tool. An answer of the server is an error of the tool."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return not isinstance(error, MCPError) or error.error.code == types.CONNECTION_CLOSED


def describe_server(server: McpServer, what: str, error_output: bytes = b"") -> str:
    wrote = error_output.decode("utf-8", "replace").strip()[-500:]
    return f"The MCP server {server.name!r} {what}." + (f" It wrote: {wrote}" if wrote else "")


def describe_innermost_error(error: BaseException) -> str:
    """Return the text of the first error inside groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return clip_chars(str(error) or type(error).__name__, 500).text.rstrip(".")
