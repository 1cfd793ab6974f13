"""An MCP server with many tools: `python mcp_warehouse.py COUNT` adds COUNT tools in four groups to `find_files`."""

import json
import sys

from mcp.server.mcpserver import MCPServer

GROUPS = ("stock", "orders", "billing", "transport")
server = MCPServer("warehouse")


@server.tool()
def find_files(count: int) -> str:
    """List the paths of so many files, as JSON."""
    return json.dumps([f"src/module_{number:05}/file_{number:05}.py" for number in range(count)])


@server.tool()
def dump_line(length: int) -> str:
    """One line of so many characters."""
    return "x" * length


def add_report(name: str, about: str) -> None:
    @server.tool(name=name, description=about)
    def report(item: str, depth: int = 1) -> str:
        return f"{name} of {item} at depth {depth}"


for number in range(int(sys.argv[1])):
    group = GROUPS[number % len(GROUPS)]
    add_report(f"{group}_report_{number}", f"Report number {number} about {group}: quantities, dates and names.")

server.run()
