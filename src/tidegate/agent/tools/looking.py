"""`list` and `grep`: both run `searching.py` in a process that can be stopped."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidegate.agent.tools.places import Place, find_place
from tidegate.agent.tools.process import run_group
from tidegate.agent.tools.tool import MAX_RESULT, Built, Context, Failed, ToolResult

SECONDS = 20
ENTRIES = 400
HITS = 200
LONGEST_PATTERN = 2000
_PROGRAM = Path(__file__).with_name("searching.py")


class List(msgspec.Struct):
    path: str = "."
    depth: Annotated[int, Meta(ge=1, le=20)] = 2


class Grep(msgspec.Struct):
    pattern: Annotated[str, Meta(description="Python regex")]
    path: str = "."
    glob: Annotated[str, Meta(description="only files like *.py")] = ""
    ignore_case: bool = False


async def _list(asked: List, context: Context) -> ToolResult:
    place = find_place(context, asked.path)
    return await _search(place, {"act": "list", "depth": asked.depth, "most": ENTRIES})


async def _grep(asked: Grep, context: Context, seconds: float) -> ToolResult:
    if len(asked.pattern) > LONGEST_PATTERN:
        raise Failed(f"The pattern has more than {LONGEST_PATTERN} characters. Give a shorter one.")
    flags = re.IGNORECASE if asked.ignore_case else 0
    try:
        re.compile(asked.pattern, flags)
    except (re.error, OverflowError, RecursionError) as bad:
        raise Failed(f"The pattern is not valid: {bad}. Put a backslash before characters meant as they are.") from bad
    what = {"act": "grep", "pattern": asked.pattern, "flags": int(flags), "glob": asked.glob[:LONGEST_PATTERN]}
    return await _search(find_place(context, asked.path), {**what, "most": HITS}, seconds)


async def _search(place: Place, what: dict[str, Any], seconds: float = SECONDS) -> ToolResult:
    pieces: list[bytes] = []
    ran = await run_group(
        [sys.executable, "-I", "-S", str(_PROGRAM), json.dumps({**what, "root": place.root, "parts": place.parts})],
        cwd=place.root,
        environment={"PYTHONUTF8": "1"},
        seconds=seconds,
        most=2 * MAX_RESULT,
        take=pieces.append,
    )
    text = b"".join(pieces).decode("utf-8", "replace").rstrip()
    if ran.stopped == "time":
        return ToolResult(f"{text}\n[stopped after {seconds:g} s; look in a smaller place or for less]", error=True)
    if ran.code:
        raise Failed(f"{place.shown} cannot be looked through: {_reason(text)}. List shows what there is.")
    return ToolResult(text)


def grep_tool(seconds: float = SECONDS) -> Built[Grep]:
    async def act(asked: Grep, context: Context) -> ToolResult:
        return await _grep(asked, context, seconds)

    return Built("grep", "Find lines that match, as path:line:text.", Grep, act)


def _reason(text: str) -> str:
    """The last line of a traceback, without the path of ours that it may name."""
    last = text.rsplit("\n", 1)[-1]
    return re.sub(r"^\w+(?:\.\w+)*: (?:\[Errno \d+\] )?|: '.*'$", "", last)[:200] or "unknown"


LIST = Built("list", "List a folder as a tree, without what .gitignore names.", List, _list)
GREP = grep_tool()
