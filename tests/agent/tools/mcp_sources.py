"""MCP servers and their sources. The SDK takes seconds to import, so it is imported when a test makes one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.agent.tools.mcp.source import McpServer, McpSource


def make_server(command: tuple[str, ...] = (), **more: Any) -> "McpServer":
    from tidegate.agent.tools.mcp.source import McpServer

    return McpServer("w", command, **more)


def make_source(server: "McpServer", **more: Any) -> "McpSource":
    from tidegate.agent.tools.mcp.source import McpSource

    return McpSource(server, **more)
