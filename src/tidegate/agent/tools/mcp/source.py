"""Tools of MCP servers, through the official SDK (the extra `mcp`).

    source = McpSource(McpServer("files", command=("uvx", "some-server")))
    toolbox = Toolbox([*standard_tools(), *await source.start()])
    ...
    await source.close()

A server is a stranger: its tools carry its name, what they say is bounded, and one that does not start, hangs or dies
costs its own tools and nothing else.
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
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult, bound_result
from tidegate.core.messages import Tool
from tidegate.core.text.clip import clip_bytes
from tidegate.wire.limits import ServerLimits

__all__ = ["McpServer", "McpSource", "McpTool"]

_MAX_RESTARTS: Final = 5
FIRST_RESTART_SECONDS: Final = 1.0
"""How often a server is started again in all, and the seconds before the next time, which double."""
_REPEATED_FAILURE_HINT = "If this repeats, go on without its tools."


class McpTool:
    def __init__(self, source: "McpSource", name: str, tool: Tool) -> None:
        self.tool = tool
        self._source = source
        self._name = name

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self._source.call(self._name, dict(arguments))


class McpSource:
    """A server and its tools. One that dies is started again by the next call, `again` times in all and not in haste.

    `fault` says why the server is not there, with the end of what it wrote on its error output, or which of its tools
    are left out.
    """

    def __init__(
        self,
        server: McpServer,
        clock: Callable[[], float] = time.monotonic,
        again: int = _MAX_RESTARTS,
        limits: ServerLimits | None = None,
    ) -> None:
        self.server = server
        self.limits = limits or ServerLimits()
        self.tools: list[AgentTool] = []
        self.fault = ""
        self._clock = clock
        self._link: McpConnection | None = None
        self._turn = asyncio.Lock()
        self._again = again
        self._times = 0
        self._not_before = 0.0

    async def start(self) -> list[AgentTool]:
        """Connect, and give the tools there are. If there is no connection: none, and `fault` says why."""
        link = await self._connect()
        self.tools = [McpTool(self, each.name, _make_definition(self.server.name, each)) for each in link.listed]
        if link.left_out:
            why = f"beyond {self.limits.tools:,}, or with a name of more than {self.limits.name} characters"
            self.fault = describe_server(self.server, f"lists {link.left_out:,} tools that are left out: {why}")
        return list(self.tools)

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """The answer of the server. Whatever it does, this is a result."""
        link = await self._living()
        if link is None or link.client is None:
            why = self.fault or describe_server(self.server, "is not connected")
            return bound_result(ToolResult(f"{why} Its tools cannot be used now; go on without them.", error=True))
        try:
            async with asyncio.timeout(self.server.seconds):
                answer = await link.client.call_tool(name, arguments)
        except TimeoutError:
            text = link.sentence(f"did not answer {name} within {self.server.seconds:g} s")
            return bound_result(
                ToolResult(f"{text} It may still be at work; whether it was done is not known.", error=True)
            )
        except Exception as error:  # noqa: BLE001 - a stranger's failure is a result
            link.gone = is_connection_lost(error)
            text = link.sentence(f"failed at {name}: {link.exceeded or describe_innermost_error(error)}")
            if link.exceeded:
                return bound_result(ToolResult(f"{text} Ask it for less at once. {_REPEATED_FAILURE_HINT}", error=True))
            return bound_result(ToolResult(f"{text} {_REPEATED_FAILURE_HINT}", error=True))
        return bound_result(ToolResult(_render_answer(answer), error=bool(answer.is_error)))

    async def _living(self) -> McpConnection | None:
        """The connection, made anew if the last one is gone. A call that was under way then is not repeated."""
        async with self._turn:
            link = self._link
            if link is None or not self.tools or link.lives:
                return link
            if self._times >= self._again or self._clock() < self._not_before:
                return None
            self._times += 1
            self._not_before = self._clock() + FIRST_RESTART_SECONDS * 2**self._times
            await link.close()
            return await self._connect()

    async def _connect(self) -> McpConnection:
        self._link = link = McpConnection(self.server, self.limits, self._clock)
        await link.start()
        self.fault = link.fault
        return link


def _make_definition(server: str, tool: types.Tool) -> Tool:
    return Tool(f"{server}__{tool.name}", tool.description or "", msgspec.json.encode(tool.input_schema).decode())


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
