"""Modules and their actions, as a configuration names them, and the tools behind them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidegate.agent.tools.tool import Built, Context, ToolResult

MODULES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
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
KEPT: Final = frozenset({"recall"})
"""Offered whatever modules are named: without it, what left the window could not be read back."""
TOOLS: Final = frozenset(tool for actions in MODULES.values() for tool in actions.values())


class Greet(msgspec.Struct):
    name: Annotated[str, Meta(description="who to greet", max_length=80)] = ""


async def _greet(greet: Greet, context: Context) -> ToolResult:
    return ToolResult(f"Hello, {greet.name or 'world'}.")


HELLO = Built("hello", "Say hello: shows that tools work.", Greet, _greet)
