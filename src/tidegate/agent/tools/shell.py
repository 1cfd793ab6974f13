"""`shell`: a command in the workspace, and what it left on the screen."""

import asyncio
import shutil
import signal
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.tools.process import Ran, run_group
from tidegate.agent.tools.terminal import Terminal
from tidegate.agent.tools.tool import Built, Context, Failed, ToolResult

SECONDS = 120
MOST_SECONDS = 3600
MOST_READ = 64 << 20
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody is there to turn a page or type a password."""


class Shell(msgspec.Struct):
    command: str
    timeout: Annotated[int, Meta(ge=1, le=MOST_SECONDS, description="seconds")] = SECONDS


async def _shell(asked: Shell, context: Context) -> ToolResult:
    if "\0" in asked.command:
        raise Failed("The command has a NUL in it; it was not run. Write it without.")
    terminal = Terminal()
    ran = await run_group(
        [shutil.which("bash", path=context.environment.get("PATH")) or "/bin/sh", "-c", asked.command],
        cwd=str(context.workspace),
        environment={**_QUIET, **context.environment},
        seconds=asked.timeout,
        most=MOST_READ,
        take=terminal.feed,
    )
    text = await asyncio.to_thread(terminal.text)
    note = _ending(ran, asked.timeout)
    return ToolResult(f"{text}\n[{note}]" if text else f"[no output; {note}]", error=ran.code != 0, streamed=True)


def _ending(ran: Ran, seconds: int) -> str:
    if ran.stopped == "time":
        return f"stopped after {seconds} s with all it had started; give a longer timeout, or do less at once"
    if ran.stopped == "output":
        return f"stopped: it wrote more than {MOST_READ >> 20} MB; send its output to a file and read that"
    code = ran.code or 0
    how = f"exit code {code}" if code >= 0 else f"ended by {_name(-code)}"
    return how + ("; what it left running was ended" if ran.left else "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


SHELL = Built("shell", "Run a command in the workspace. No input; what it starts ends with it.", Shell, _shell)
