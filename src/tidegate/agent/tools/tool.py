"""The types of tools: what a tool is, its context and its result.

A tool never raises except for a cancellation: an error becomes a result that tells the model what to do next.

    class Words(msgspec.Struct):
        text: Annotated[str, Meta(description="what to count")]

    async def count(words: Words, context: ToolContext) -> ToolResult:
        return ToolResult(str(len(words.text.split())))

    tool = FunctionTool("count", "Count the words of a text.", Words, count)
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tidegate.agent.environment import allowed_environment
from tidegate.agent.tools.arguments import build_arguments_schema, convert_arguments
from tidegate.core.errors import TidegateError
from tidegate.core.messages import Tool
from tidegate.core.text.clip import clip_bytes, cut_json_array
from tidegate.datafolder.earlier_sessions import EarlierSessions
from tidegate.memory.notes import Notes
from tidegate.memory.search import Search
from tidegate.session.session import Session
from tidegate.wire.parsing import repair_unicode

MAX_RESULT_BYTES = 64 * 1024
"""Bytes of a result value or an error message."""
MAX_STREAM_BYTES = 256 * 1024
"""Bytes of the output of a process: its end is kept."""

_NARROW_HINT = "To see others, use a narrower pattern or filter. Do NOT guess or invent them."

_A = TypeVar("_A", bound=msgspec.Struct)


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a call. Process output may be longer, and is cut at its beginning.

    `notice` is about the result, for the model. It is a separate part, so that a text in JSON stays valid. `denied_by`
    says who or what denied the call; it is empty for a call that was run.
    """

    text: str
    is_error: bool = False
    is_process_output: bool = False
    notice: str = ""
    denied_by: str = ""


class ToolFailed(Exception):
    """Raised inside a tool to end it; the text becomes its result."""


def make_failure_result(error: Exception) -> ToolResult:
    """Return the result for an error."""
    if isinstance(error, ToolFailed | TidegateError):
        return ToolResult(str(error), is_error=True)
    if isinstance(error, OSError):
        return ToolResult(f"It failed: {error.strerror or type(error).__name__}.", is_error=True)
    return ToolResult(f"It failed: {type(error).__name__}: {error}", is_error=True)


def bound_result(result: ToolResult) -> ToolResult:
    """Clip the result to its limit and repair its text, so that any provider accepts it. A JSON array stays one."""
    text = repair_unicode(result.text)
    if not result.is_process_output and len(text.encode()) > MAX_RESULT_BYTES:
        cut = cut_json_array(text, lambda some: len(some.encode()) <= MAX_RESULT_BYTES)
        if cut is not None:
            notice = f"[The tool returned {cut.total:,} items; only the first {cut.shown:,} are here. {_NARROW_HINT}]"
            return msgspec.structs.replace(result, text=cut.text, notice=notice)
    text = (
        keep_last_bytes(text, MAX_STREAM_BYTES) if result.is_process_output else clip_bytes(text, MAX_RESULT_BYTES).text
    )
    return msgspec.structs.replace(result, text=text)


def keep_last_bytes(text: str, limit: int, *, before: int = 0) -> str:
    """Return the end of a text, if possible from the start of a line, with the number of bytes left out.

    `before` is the number of bytes that were left out already.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit - (80 if before else 0):
        tail, line = raw, 0
    else:
        tail = raw[-(limit - 80) :]
        line = tail.find(b"\n") + 1
    tail = tail[line:] if 0 < line < len(tail) // 2 else tail
    before += len(raw) - len(tail)
    return (f"[{before:,} bytes before this are left out]\n" if before else "") + tail.decode("utf-8", "ignore")


class ToolData(Protocol):
    """The part of a data folder that tools use."""

    @property
    def root(self) -> Path: ...
    @property
    def notes(self) -> Notes: ...
    def open_search(self) -> Search: ...


@dataclass
class ToolContext:
    """The context of the tools of one session.

    `environment` has the variables that processes see. `requested_compaction` is set by the tool `compact`; the loop
    handles it when the results of all calls are in the log, since nothing may be cut while a call is open.
    `earlier_sessions` are those of the project, if the user allows reading them.
    """

    workspace: Path
    session: Session
    session_folder: Path | None = None
    session_name: str = ""
    data: ToolData | None = None
    clock: Callable[[], float] = time.time
    environment: Mapping[str, str] = field(default_factory=lambda: allowed_environment(os.environ))
    requested_compaction: str | None = None
    earlier_sessions: EarlierSessions | None = None

    @property
    def protected_folders(self) -> list[Path]:
        """Folders of tidegate that may be inside the workspace and that tools must not change."""
        ours = (self.session_folder, None if self.data is None else self.data.root)
        return [folder for folder in ours if folder is not None]


class AgentTool(Protocol):
    """A tool of an agent. Calls of one with `runs_in_parallel` may run at the same time."""

    @property
    def tool(self) -> Tool: ...
    @property
    def runs_in_parallel(self) -> bool: ...
    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult: ...


class FunctionTool(Generic[_A]):
    """A tool from a struct of its arguments and a function."""

    runs_in_parallel = False

    def __init__(
        self, name: str, description: str, arguments: type[_A], act: Callable[[_A, ToolContext], Awaitable[ToolResult]]
    ) -> None:
        self.tool = Tool(name, description, build_arguments_schema(arguments))
        self._arguments_type = arguments
        self._function = act

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            return bound_result(await self._function(convert_arguments(self._arguments_type, arguments), context))
        except Exception as error:  # noqa: BLE001 - the model gets every error as a result
            return bound_result(make_failure_result(error))
