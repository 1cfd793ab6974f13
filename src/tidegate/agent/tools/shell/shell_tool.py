"""The tool `shell`: run a command in the workspace and return its output as a screen would show it."""

import asyncio
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.tools.process_group import ProcessResult, run_process_group
from tidegate.agent.tools.shell.terminal_output import TerminalOutput
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolFailed, ToolResult

_DEFAULT_SECONDS = 120
MAX_SHELL_SECONDS = 3600
_MAX_OUTPUT_BYTES = 64 << 20
QUIET_ENVIRONMENT = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Variables that keep programs from waiting for a key or a password."""


class ShellArguments(msgspec.Struct):
    command: str
    timeout: Annotated[int, Meta(ge=1, le=MAX_SHELL_SECONDS, description="seconds")] = _DEFAULT_SECONDS


async def _run_shell(arguments: ShellArguments, context: ToolContext) -> ToolResult:
    if "\0" in arguments.command:
        raise ToolFailed("The command has a NUL in it; it was not run. Write it without.")
    return await run_shell_command(arguments.command, context.workspace, context.environment, arguments.timeout)


async def run_shell_command(
    command: str, workspace: Path, environment: Mapping[str, str], seconds: int = MAX_SHELL_SECONDS
) -> ToolResult:
    """Run a command without input and return its output as a screen would show it, with its exit code."""
    terminal = TerminalOutput()
    ran = await run_process_group(
        [shutil.which("bash", path=environment.get("PATH")) or "/bin/sh", "-c", command],
        cwd=str(workspace),
        environment={**QUIET_ENVIRONMENT, **environment},
        seconds=seconds,
        max_bytes=_MAX_OUTPUT_BYTES,
        on_output=terminal.feed,
    )
    text = await asyncio.to_thread(terminal.render)
    note = _describe_end(ran, seconds)
    return ToolResult(
        f"{text}\n[{note}]" if text else f"[no output; {note}]", is_error=ran.exit_code != 0, is_process_output=True
    )


def _describe_end(ran: ProcessResult, seconds: int) -> str:
    if ran.exceeded_limit == "time":
        return f"stopped after {seconds} s with all it had started; give a longer timeout, or do less at once"
    if ran.exceeded_limit == "output":
        return f"stopped: it wrote more than {_MAX_OUTPUT_BYTES >> 20} MB; send its output to a file and read that"
    code = ran.exit_code or 0
    how = f"exit code {code}" if code >= 0 else f"ended by {_signal_name(-code)}"
    return how + ("; what it left running was ended" if ran.left_processes else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


SHELL_TOOL = FunctionTool(
    "shell", "Run a command in the workspace. No input; what it starts ends with it.", ShellArguments, _run_shell
)
