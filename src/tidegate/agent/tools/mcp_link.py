"""A connection to an MCP server, from its start to its end.

It lives in a task of its own, for the SDK wants it closed where it was opened, and it is ended by a cancel scope: to
cancel the task itself would break the SDK's shields and leave a process and its pipes behind.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import IO, Any, Final, TextIO

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tidegate.core.clip import clip_chars

MAX_TOOLS: Final = 200
_PAGES: Final = 20
_PATIENCE: Final = 10.0
_DOUBT: Final = 5.0
_SAID: Final = 2000


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run, or the URL of one that runs. `environment` is what its process gets beside PATH and HOME."""

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    seconds: float = 60.0


class Link:
    """`client` while it is connected, `listed` the tools it named then, `fault` why there is no connection.

    `gone`: a call found nobody at the other end.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.client: Client | None = None
        self.listed: list[types.Tool] = []
        self.fault = ""
        self.gone = False
        self._silent = self._starting = self._ended = False
        self._scope = anyio.CancelScope()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._said: deque[bytes] = deque(maxlen=4)
        self._errlog: IO[str] | None = None
        self._listen: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Connect, within the server's time. It never fails: `fault` says what happened."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._serve(ready))
        try:
            async with asyncio.timeout(self.server.seconds):
                await ready.wait()
        except TimeoutError:
            await self.close()
            self.fault = self.sentence(f"did not answer within {self.server.seconds:g} s")
        except asyncio.CancelledError:
            self._end()
            raise

    async def close(self) -> None:
        self._stop.set()
        if self._task is None:
            return
        if self.client is None:  # on its way in, and may stay there
            self._end()
        done, _ = await asyncio.wait([self._task], timeout=_PATIENCE)
        if not done:
            self._end()
            await asyncio.wait([self._task], timeout=_PATIENCE)

    def _end(self) -> None:
        """Now, or as soon as its process has started: asyncio loses one whose start is cancelled."""
        self._ended = True
        if not self._starting:
            self._scope.cancel()

    @asynccontextmanager
    async def _started(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        self._starting = True
        try:
            async with transport as streams:
                self._starting = False
                if self._ended:
                    self._scope.cancel()
                yield streams
        finally:
            self._starting = False

    async def lives(self) -> bool:
        """Is anybody there? A process that closed its error output has ended, or does not use it: it is asked."""
        if self.client is None or self.gone:
            return False
        self._listen()
        if self._silent:
            try:
                async with asyncio.timeout(_DOUBT):
                    await self.client.list_tools()
                self._silent = False
            except Exception:  # noqa: BLE001 - whatever it is, nobody answered
                self.gone = True
        return not self.gone

    def sentence(self, what: str) -> str:
        return sentence(self.server, what, b"".join(self._said))

    async def _serve(self, ready: asyncio.Event) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(Client(await self._transport(stack)))
                    if self._errlog is not None:
                        self._errlog.close()  # the process has its own end: when that closes, it has ended
                    self.listed = await _listed(client)
                    self.client = client
                    ready.set()
                    await self._stop.wait()
                    self.client = None
        except Exception as error:  # noqa: BLE001 - it is told by `fault`, and in every result
            if not self._stop.is_set():
                self.fault = self.sentence(f"could not be used: {innermost(error)}")
        finally:
            self.client = None
            ready.set()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        server = self.server
        if server.url:
            timeout = httpx2.Timeout(30, read=300)
            client = httpx2.AsyncClient(headers=server.headers, timeout=timeout)
            return streamable_http_client(server.url, http_client=await stack.enter_async_context(client))
        if not server.command:
            raise ValueError("it has neither a command nor a url")
        parameters = StdioServerParameters(
            command=server.command[0], args=list(server.command[1:]), env=dict(server.environment)
        )
        self._errlog = self._errors(stack)
        return self._started(stdio_client(parameters, errlog=self._errlog))

    def _errors(self, stack: AsyncExitStack) -> TextIO:
        """The server's error output goes into a pipe of which the end is kept: it must not write on the screen."""
        loop = asyncio.get_running_loop()
        out, into = os.pipe()
        os.set_blocking(out, False)

        def take() -> None:
            with suppress(OSError):
                if data := os.read(out, _SAID):
                    self._said.append(data)
                else:
                    self._silent = True
                    loop.remove_reader(out)

        self._listen = take
        loop.add_reader(out, take)
        stack.callback(os.close, out)
        stack.callback(loop.remove_reader, out)
        return stack.enter_context(os.fdopen(into, "w"))


async def _listed(client: Client) -> list[types.Tool]:
    found: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        for each in page.tools[: MAX_TOOLS - len(found)]:
            found.setdefault(each.name, each)
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_TOOLS:
            break
    return list(found.values())


def gone(error: BaseException) -> bool:
    """Did the connection fail, rather than the tool? What a server answers is of the protocol, whatever it says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return not isinstance(error, MCPError) or error.error.code == types.CONNECTION_CLOSED


def sentence(server: McpServer, what: str, said: bytes = b"") -> str:
    wrote = said.decode("utf-8", "replace").strip()[-500:]
    return f"The MCP server {server.name!r} {what}." + (f" It wrote: {wrote}" if wrote else "")


def innermost(error: BaseException) -> str:
    """Groups of errors say nothing themselves."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return clip_chars(str(error) or type(error).__name__, 500).text.rstrip(".")
