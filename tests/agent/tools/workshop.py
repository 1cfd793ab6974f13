"""A workspace with a session beside it, and the use of one tool."""

import asyncio
from pathlib import Path
from typing import Any

from tidegate import DataFolder, Session
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult


def make_context(tmp_path: Path, **more: Any) -> ToolContext:
    workspace = tmp_path / "workspace"
    kept = tmp_path / "kept"
    workspace.mkdir(exist_ok=True)
    kept.mkdir(exist_ok=True)
    return ToolContext(**{"workspace": workspace, "session": Session("gpt-4o"), "session_folder": kept, **more})


def kept_context(tmp_path: Path, name: str = "s", policy: str = "default") -> ToolContext:
    """A session in a data folder."""
    data = DataFolder(tmp_path / "data", secrets=[])
    session = data.open(name, "gpt-4o", policy=policy)
    return make_context(
        tmp_path, session=session, session_name=name, session_folder=data.session_files(name).root, data=data
    )


def use(tool: AgentTool, context: ToolContext, /, **arguments: Any) -> ToolResult:
    async def act() -> ToolResult:
        return await tool(arguments, context)

    return asyncio.run(act())
