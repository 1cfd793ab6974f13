"""The tool `shell`: run a command in the workspace and return its output as a screen would show it."""

import asyncio
import codecs
import re
import shutil
import signal
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.tools.process_group import ProcessResult, run_process_group
from tidegate.agent.tools.tool import (
    MAX_STREAM_BYTES,
    FunctionTool,
    ToolContext,
    ToolFailed,
    ToolResult,
    keep_last_bytes,
)

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
        raise ToolFailed("The command contains a NUL character; it was not run. Write it without.")
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


_SCREEN_ROWS = 50
MAX_TERMINAL_CHARS = 1 << 20
"""Characters that are kept in memory: more than a result may have."""
_MAX_OPEN_LINE_CHARS = 1 << 13
_COLOR_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_CURSOR_CONTROLS = re.compile(r"[\x00-\x0c\x0e-\x1f\x7f]")
"""Controls, other than a carriage return, that only the emulator can handle. A tab is one of them."""


class TerminalOutput:
    """The output of a process as a screen would show it: of a progress bar only the last state is kept.

    The emulator, pyte, is exact and slow, and most output does not need it. Colors and plain carriage returns are
    handled line by line as the output arrives. Only the part from the first line that moves the cursor goes through it.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pieces: deque[str] = deque()
        self._held_chars = 0
        self._open_line = ""
        self._line_is_continued = False
        self.dropped_bytes = 0

    def feed(self, data: bytes) -> None:
        lines = (self._open_line + self._decode(data)).split("\n")
        self._open_line = lines.pop()
        for line in lines:
            self._hold_text(self._finish_line(line) + "\n")
            self._line_is_continued = False
        if len(self._open_line) > _MAX_OPEN_LINE_CHARS:
            self._shorten_open_line()

    def _finish_line(self, line: str) -> str:
        """Return a finished line. A line whose beginning was stored already is left to the emulator."""
        return line.rstrip("\r") if self._line_is_continued else _collapse_line(line)

    def _shorten_open_line(self) -> None:
        """Shorten a line without an end: collapse it if it is a progress bar, else store it in pieces."""
        *before, last = self._open_line.split("\r")
        beginning = _collapse_line("\r".join(before))
        if before and not self._line_is_continued and not _CONTROL.search(beginning):
            self._open_line = f"{beginning}\r{last}"
        if len(self._open_line) > _MAX_OPEN_LINE_CHARS:
            self._hold_text(self._open_line)
            self._open_line, self._line_is_continued = "", True

    def _hold_text(self, piece: str) -> None:
        self._pieces.append(piece)
        self._held_chars += len(piece)
        while self._held_chars > MAX_TERMINAL_CHARS and len(self._pieces) > 1:
            oldest = self._pieces.popleft()
            self._held_chars -= len(oldest)
            self.dropped_bytes += len(oldest.encode("utf-8", "replace"))

    def render(self) -> str:
        whole = "".join(self._pieces) + self._finish_line(self._open_line + self._decode(b"", True))
        first = _CONTROL.search(whole)
        if first is not None:
            start = first.start()
            for _ in range(_SCREEN_ROWS):  # the cursor cannot move above the screen
                start = whole.rfind("\n", 0, max(start, 0))
            whole = whole[: start + 1] + emulate_terminal(whole[start + 1 :])
        return keep_last_bytes(whole.rstrip(), MAX_STREAM_BYTES, before=self.dropped_bytes)


def _collapse_line(line: str) -> str:
    """Return a line without colors; if it moves no cursor, also as its last carriage return left it."""
    if "\x1b" in line:
        line = _COLOR_SEQUENCE.sub("", line)
    if "\r" not in line:
        return line
    line = line.rstrip("\r")
    if not line.isascii() or _CURSOR_CONTROLS.search(line):
        return line
    collapse_line = ""
    for piece in line.split("\r"):
        collapse_line = piece + collapse_line[len(piece) :]
    return collapse_line


def emulate_terminal(text: str) -> str:
    from tidegate.agent.tools.shell.screen import draw_screen  # noqa: PLC0415 - importing pyte takes a while

    try:
        return draw_screen(text, _SCREEN_ROWS)
    except Exception:  # noqa: BLE001 - some sequences are not in its tables; the text is worth more than the form
        return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))
