"""Tools of MCP servers, through the official SDK (the extra `mcp`).

    source = McpSource(McpServer("files", command=("uvx", "some-server")))
    toolbox = Toolbox([*standard_tools(), *await source.start()])
    ...
    await source.close()

A server is a stranger: its tools carry its name, what they say is bounded, and one that does not start, hangs or dies
costs its own tools and nothing else.
"""

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx2
import mcp_types as types
import msgspec
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tidegate.agent.tools.tool import AgentTool, Context, ToolResult, capped
from tidegate.core.clip import clip_bytes, clip_chars
from tidegate.core.messages import Tool

MAX_DESCRIPTION = 1000
MAX_SCHEMA = 16_000
MAX_TOOLS = 200
_PAGES = 20
_PATIENCE = 10.0
_SAID = 2000
_ANYTHING = '{"type":"object","properties":{}}'


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run, or the URL of one that runs. `environment` is what its process gets beside PATH and HOME."""

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    seconds: float = 60.0


class McpTool:
    def __init__(self, source: "McpSource", name: str, tool: Tool) -> None:
        self.tool = tool
        self._source = source
        self._name = name

    async def __call__(self, arguments: Mapping[str, Any], context: Context) -> ToolResult:
        return await self._source.call(self._name, dict(arguments))


class McpSource:
    """The connection lives in a task of its own: the SDK wants it closed where it was opened.

    `fault` says why the server is not there, with the end of what it wrote on its error output.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.tools: list[AgentTool] = []
        self.fault = ""
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._said: deque[bytes] = deque(maxlen=4)

    async def start(self) -> list[AgentTool]:
        """Connect, and give the tools there are. If there is no connection: none, and `fault` says why."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._serve(ready))
        try:
            async with asyncio.timeout(self.server.seconds):
                await ready.wait()
        except TimeoutError:
            await self.close()
            self.fault = self._sentence(f"did not answer within {self.server.seconds:g} s")
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        return list(self.tools)

    async def close(self) -> None:
        self._stop.set()
        task, self._task = self._task, None
        if task is None:
            return
        if self._client is None:  # on its way in, and may stay there
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=_PATIENCE)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_PATIENCE)

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """The answer of the server. Whatever it does, this is a result."""
        if self._client is None:
            why = self.fault or self._sentence("is not connected")
            return capped(ToolResult(f"{why} Its tools cannot be used now; go on without them.", error=True))
        try:
            async with asyncio.timeout(self.server.seconds):
                answer = await self._client.call_tool(name, arguments)
        except TimeoutError:
            text = self._sentence(f"did not answer {name} within {self.server.seconds:g} s")
            return capped(ToolResult(f"{text} It may still be at work; whether it was done is not known.", error=True))
        except Exception as error:  # noqa: BLE001 - a stranger's failure is a result
            text = self._sentence(f"failed at {name}: {_innermost(error)}")
            return capped(ToolResult(f"{text} If this repeats, go on without its tools.", error=True))
        return capped(ToolResult(_text_of(answer), error=bool(answer.is_error)))

    async def _serve(self, ready: asyncio.Event) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(Client(await self._transport(stack)))
                self.tools = await self._listed(client)
                self._client = client
                ready.set()
                await self._stop.wait()
                self._client = None
        except Exception as error:  # noqa: BLE001 - it is told by `fault`, and in every result
            if not self._stop.is_set():
                self.fault = self._sentence(f"could not be used: {_innermost(error)}")
        finally:
            self._client = None
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
        return stdio_client(parameters, errlog=self._errors(stack))

    def _errors(self, stack: AsyncExitStack) -> Any:
        """The server's error output goes into a pipe of which the end is kept: it must not write on the screen."""
        loop = asyncio.get_running_loop()
        out, into = os.pipe()
        os.set_blocking(out, False)

        def take() -> None:
            with suppress(OSError):
                if data := os.read(out, _SAID):
                    self._said.append(data)
                else:
                    loop.remove_reader(out)

        loop.add_reader(out, take)
        stack.callback(os.close, out)
        stack.callback(loop.remove_reader, out)
        return stack.enter_context(os.fdopen(into, "w"))

    async def _listed(self, client: Client) -> list[AgentTool]:
        found: dict[str, AgentTool] = {}
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            for each in page.tools[: MAX_TOOLS - len(found)]:
                found.setdefault(each.name, McpTool(self, each.name, _definition(self.server.name, each)))
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_TOOLS:
                break
        return list(found.values())

    def _sentence(self, what: str) -> str:
        said = b"".join(self._said).decode("utf-8", "replace").strip()[-500:]
        return f"The MCP server {self.server.name!r} {what}." + (f" It wrote: {said}" if said else "")


def _innermost(error: BaseException) -> str:
    """Groups of errors say nothing themselves."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return clip_chars(str(error) or type(error).__name__, 500).text.rstrip(".")


def _definition(server: str, tool: types.Tool) -> Tool:
    schema = msgspec.json.encode(tool.input_schema).decode()
    description = clip_chars(tool.description or tool.title or "", MAX_DESCRIPTION, mode="head").text
    if len(schema) > MAX_SCHEMA:
        schema, description = _ANYTHING, f"{description} (Its arguments are too long to be shown.)".strip()
    return Tool(f"{server}__{tool.name}", description, schema)


def _text_of(answer: types.CallToolResult) -> str:
    texts = [_block(block) for block in answer.content]
    if not any(texts) and answer.structured_content is not None:
        texts = [msgspec.json.encode(answer.structured_content).decode()]
    return "\n".join(texts) or "[no content]"


def _block(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        return f"[{block.mime_type}, {len(block.data) * 3 // 4:,} bytes, not shown]"
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        text = inner.text if isinstance(inner, types.TextResourceContents) else "[binary, not shown]"
        return f"{inner.uri}:\n{text}"
    if isinstance(block, types.ResourceLink):
        return f"[{block.name}: {block.uri}]"
    return clip_bytes(str(block), 1000).text
