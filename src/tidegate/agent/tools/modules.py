"""The modules and actions that a configuration can name, and their tools."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolResult

MODULE_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "hello": {"greet": "hello"},
        "filesystem": {
            "read": "read",
            "write": "write",
            "edit": "edit",
            "list": "list",
            "find": "list",
            "grep": "grep",
        },
        "shell": {"run": "shell"},
        "memory": {"write": "memory_write", "search": "memory_search"},
        "context": {"recall": "recall", "compact": "compact"},
        "skills": {"read": "skills"},
        "agents": {"task": "task"},
    }
)
ALWAYS_OFFERED_TOOLS: Final = frozenset({"recall"})
"""Always offered: without `recall`, messages that left the window could not be read back."""
BUILTIN_TOOL_NAMES: Final = frozenset(tool for actions in MODULE_ACTIONS.values() for tool in actions.values())


def make_mcp_tool_name(server: str, tool: str) -> str:
    """The name under which a tool of an MCP server is offered."""
    return f"{server}__{tool}"


class HelloArguments(msgspec.Struct):
    name: Annotated[str, Meta(description="who to greet", max_length=80)] = ""


async def _run_hello(greet: HelloArguments, context: ToolContext) -> ToolResult:
    return ToolResult(f"Hello, {greet.name or 'world'}.")


HELLO_TOOL = FunctionTool("hello", "Say hello: shows that tools work.", HelloArguments, _run_hello)
