"""An MCP server with many tools: `python mcp_warehouse.py COUNT` adds COUNT tools in four groups to two others."""

import json
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.agent.tools.plain_mcp_server import NUMBER, PlainTool, serve

GROUPS = ("stock", "orders", "billing", "transport")


def list_paths(count: int) -> str:
    return json.dumps([f"src/module_{number:05}/file_{number:05}.py" for number in range(count)])


def report(name: str, item: str, depth: int = 1) -> str:
    return f"{name} of {item} at depth {depth}"


def report_tools(count: int) -> dict[str, PlainTool]:
    tools = {}
    for number in range(count):
        group = GROUPS[number % len(GROUPS)]
        name = f"{group}_report_{number}"
        about = f"Report number {number} about {group}: quantities, dates and names."
        properties = {"item": {"type": "string"}, "depth": {**NUMBER, "default": 1}}
        tools[name] = PlainTool(about, properties, partial(report, name))
    return tools


serve(
    {
        "find_files": PlainTool("List the paths of so many files, as JSON.", {"count": NUMBER}, list_paths),
        "dump_line": PlainTool("One line of so many characters.", {"length": NUMBER}, lambda length: "x" * length),
        **report_tools(int(sys.argv[1])),
    }
)
