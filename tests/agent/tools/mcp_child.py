"""An MCP server for the tests, on the SDK's own server class: `python mcp_child.py [http PORT | fail]`."""

import os
import sys
from typing import Any

if sys.argv[1:] == ["fail"]:
    sys.stderr.write("no license found\n")
    sys.exit(2)

from mcp.server.mcpserver import MCPServer

server = MCPServer("workshop")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def much() -> str:
    """Far more than anyone wants to read."""
    return "x" * 1_000_000


@server.tool()
def broken() -> str:
    """Always fails."""
    raise ValueError("the printer is on fire")


@server.tool()
def shape() -> dict[str, Any]:
    """Answers with an object."""
    return {"width": 3, "keys": sorted(name for name in os.environ if name.endswith("_KEY"))}


@server.tool(description="d" * 5000)
def wordy() -> str:
    return ""


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            server.run("streamable-http", port=int(port))
        case _:
            server.run("stdio")
