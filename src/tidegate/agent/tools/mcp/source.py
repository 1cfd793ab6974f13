"""Tools of MCP servers, through the official SDK (the extra `mcp`).

    source = McpSource(McpServer("files", command=("uvx", "some-server")))
    toolbox = Toolbox([*list_standard_tools(), *await source.start()])
    ...
    await source.close()

Servers are not trusted: the names of their tools start with the name of the server, their results are limited, and a
server that does not start, hangs or dies affects its own tools only.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec

from tidegate.agent.tools.mcp.connection import (
    McpConnection,
    describe_innermost_error,
    describe_server,
    is_connection_lost,
)
from tidegate.agent.tools.mcp.transport import McpServer
from tidegate.agent.tools.modules import make_mcp_tool_name
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult, bound_result
from tidegate.core.messages import Tool
from tidegate.core.text.clip import clip_bytes
from tidegate.wire.limits import ServerLimits

__all__ = ["McpServer", "McpSource", "McpTool"]

_MAX_RESTARTS: Final = 5
FIRST_RESTART_SECONDS: Final = 1.0
"""The restarts of a server in all, and the seconds before the first one, which double with each."""
_REPEATED_FAILURE_HINT = "If this repeats, go on without its tools."


class McpTool:
    """A tool of a server."""

    runs_in_parallel = False

    def __init__(self, source: "McpSource", name: str, tool: Tool) -> None:
        self.tool = tool
        self._source = source
        self._name = name

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self._source.call(self._name, dict(arguments))


class McpSource:
    """A server and its tools. If it dies, the next call starts it again, at most `max_restarts` times in all.

    `problem` says why the server is not connected, with the end of its error output, or which tools are left out.
    """

    def __init__(
        self,
        server: McpServer,
        clock: Callable[[], float] = time.monotonic,
        max_restarts: int = _MAX_RESTARTS,
        limits: ServerLimits | None = None,
    ) -> None:
        self.server = server
        self.limits = limits or ServerLimits()
        self.tools: list[AgentTool] = []
        self.problem = ""
        self._clock = clock
        self._connection: McpConnection | None = None
        self._lock = asyncio.Lock()
        self._max_restarts = max_restarts
        self._restarts = 0
        self._not_before = 0.0

    async def start(self) -> list[AgentTool]:
        """Connect and return the tools; none if the connection fails, and `problem` says why."""
        connection = await self._connect()
        self.tools = [McpTool(self, each.name, _make_definition(self.server.name, each)) for each in connection.tools]
        if connection.omitted_tools:
            why = f"beyond {self.limits.tools:,}, or with a name of more than {self.limits.name} characters"
            self.problem = describe_server(
                self.server, f"lists {connection.omitted_tools:,} tools that are left out: {why}"
            )
        return list(self.tools)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool and return its result. Nothing is raised except a cancellation."""
        connection = await self._get_connection()
        if connection is None or connection.client is None:
            why = self.problem or describe_server(self.server, "is not connected")
            return bound_result(ToolResult(f"{why} Its tools cannot be used now; go on without them.", is_error=True))
        try:
            async with asyncio.timeout(self.server.timeout):
                answer = await connection.client.call_tool(name, arguments)
        except TimeoutError:
            text = connection.describe(f"did not answer {name} within {self.server.timeout:g} s")
            return bound_result(
                ToolResult(f"{text} It may still be at work; whether it was done is not known.", is_error=True)
            )
        except Exception as error:  # noqa: BLE001 - every failure of a server is a result
            connection.is_lost = is_connection_lost(error)
            text = connection.describe(
                f"failed at {name}: {connection.exceeded_limit or describe_innermost_error(error)}"
            )
            if connection.exceeded_limit:
                return bound_result(
                    ToolResult(f"{text} Ask it for less at once. {_REPEATED_FAILURE_HINT}", is_error=True)
                )
            return bound_result(ToolResult(f"{text} {_REPEATED_FAILURE_HINT}", is_error=True))
        return bound_result(ToolResult(_render_answer(answer), is_error=bool(answer.is_error)))

    async def _get_connection(self) -> McpConnection | None:
        """Return the connection, after a restart if it is lost. A call that was interrupted is not repeated."""
        async with self._lock:
            connection = self._connection
            if connection is None or not self.tools or connection.is_alive:
                return connection
            if self._restarts >= self._max_restarts or self._clock() < self._not_before:
                return None
            self._restarts += 1
            self._not_before = self._clock() + FIRST_RESTART_SECONDS * 2**self._restarts
            await connection.close()
            return await self._connect()

    async def _connect(self) -> McpConnection:
        self._connection = connection = McpConnection(self.server, self.limits, self._clock)
        await connection.start()
        self.problem = connection.problem
        return connection


def _make_definition(server: str, tool: types.Tool) -> Tool:
    return Tool(
        make_mcp_tool_name(server, tool.name), tool.description or "", msgspec.json.encode(tool.input_schema).decode()
    )


def _render_answer(answer: types.CallToolResult) -> str:
    texts = [_render_block(block) for block in answer.content]
    if not any(texts) and answer.structured_content is not None:
        texts = [msgspec.json.encode(answer.structured_content).decode()]
    return "\n".join(texts) or "[no content]"


def _render_block(block: Any) -> str:
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
