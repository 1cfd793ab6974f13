"""The tools `list` and `grep`. Both run `search_program.py` in a process that can be stopped."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidegate.agent.tools.files.paths import ConfinedPath, resolve_read_path
from tidegate.agent.tools.process_group import run_process_group
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, FunctionTool, ToolContext, ToolFailed, ToolResult

_TIMEOUT_SECONDS = 20
_MAX_ENTRIES = 400
MAX_GREP_LINES = 200
_MAX_PATTERN_CHARS = 2000
_PROGRAM = Path(__file__).with_name("search_program.py")


class ListArguments(msgspec.Struct):
    path: str = "."
    depth: Annotated[int, Meta(ge=1, le=20)] = 2


class GrepArguments(msgspec.Struct):
    pattern: Annotated[str, Meta(description="Python regex")]
    path: str = "."
    glob: Annotated[str, Meta(description="only files like *.py")] = ""
    ignore_case: bool = False


async def _run_list(arguments: ListArguments, context: ToolContext) -> ToolResult:
    place = resolve_read_path(context, arguments.path)
    return await _run_program(place, {"act": "list", "depth": arguments.depth, "most": _MAX_ENTRIES})


async def _run_grep(arguments: GrepArguments, context: ToolContext, seconds: float) -> ToolResult:
    if len(arguments.pattern) > _MAX_PATTERN_CHARS:
        raise ToolFailed(f"The pattern has more than {_MAX_PATTERN_CHARS} characters. Give a shorter one.")
    flags = re.IGNORECASE if arguments.ignore_case else 0
    try:
        re.compile(arguments.pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolFailed(
            f"The pattern is not valid: {error}. Put a backslash before characters meant as they are."
        ) from error
    what = {
        "act": "grep",
        "pattern": arguments.pattern,
        "flags": int(flags),
        "glob": arguments.glob[:_MAX_PATTERN_CHARS],
    }
    return await _run_program(resolve_read_path(context, arguments.path), {**what, "most": MAX_GREP_LINES}, seconds)


async def _run_program(place: ConfinedPath, what: dict[str, Any], seconds: float = _TIMEOUT_SECONDS) -> ToolResult:
    pieces: list[bytes] = []
    ran = await run_process_group(
        [sys.executable, "-I", "-S", str(_PROGRAM), json.dumps({**what, "root": place.root, "parts": place.parts})],
        cwd=place.root,
        environment={"PYTHONUTF8": "1"},
        seconds=seconds,
        max_bytes=2 * MAX_RESULT_BYTES,
        on_output=pieces.append,
    )
    text = b"".join(pieces).decode("utf-8", "replace").rstrip()
    if ran.exceeded_limit == "time":
        return ToolResult(f"{text}\n[stopped after {seconds:g} s; look in a smaller place or for less]", is_error=True)
    if ran.exit_code:
        raise ToolFailed(f"{place.display_name} cannot be searched: {_extract_reason(text)}. List shows what there is.")
    return ToolResult(text)


def create_grep_tool(seconds: float = _TIMEOUT_SECONDS) -> FunctionTool[GrepArguments]:
    async def act(arguments: GrepArguments, context: ToolContext) -> ToolResult:
        return await _run_grep(arguments, context, seconds)

    return FunctionTool("grep", "Find lines that match, as path:line:text.", GrepArguments, act)


def _extract_reason(text: str) -> str:
    """Return the last line of a traceback without paths of this machine."""
    last = text.rsplit("\n", 1)[-1]
    return re.sub(r"^\w+(?:\.\w+)*: (?:\[Errno \d+\] )?|: '.*'$", "", last)[:200] or "unknown"


LIST_TOOL = FunctionTool("list", "List a folder as a tree, without what .gitignore names.", ListArguments, _run_list)
GREP_TOOL = create_grep_tool()
