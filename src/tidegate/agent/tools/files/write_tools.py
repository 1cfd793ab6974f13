"""The tools `write` and `edit`: write a whole file, or replace an exact text in one."""

import asyncio
from difflib import SequenceMatcher
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.tools.files.paths import (
    ConfinedPath,
    open_confined_file,
    read_file_stamp,
    resolve_write_path,
    write_confined_file,
)
from tidegate.agent.tools.files.read_tool import refuse_binary_file
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolFailed, ToolResult

MAX_WRITE_BYTES = 8 << 20
_MAX_COMPARED_LINES = 3000
_MAX_COMPARED_CHARS = 200


class WriteArguments(msgspec.Struct):
    path: str
    text: Annotated[str, Meta(description="the whole file")]


class EditArguments(msgspec.Struct):
    path: str
    old: Annotated[str, Meta(description="exact text, there once")]
    new: str
    all: Annotated[bool, Meta(description="replace every occurrence")] = False


async def _run_write(arguments: WriteArguments, context: ToolContext) -> ToolResult:
    place = resolve_write_path(context, arguments.path)
    data = arguments.text.encode("utf-8", "replace")
    if len(data) > MAX_WRITE_BYTES:
        raise ToolFailed(
            f"The text has {len(data):,} bytes, more than {MAX_WRITE_BYTES:,}; nothing was written. Write less."
        )
    new = await asyncio.to_thread(write_confined_file, place, data)
    lines = arguments.text.count("\n") + (not arguments.text.endswith("\n") and bool(arguments.text))
    return ToolResult(f"{'Made' if new else 'Replaced'} {place.display_name}: {lines:,} lines, {len(data):,} bytes.")


async def _run_edit(arguments: EditArguments, context: ToolContext) -> ToolResult:
    if not arguments.old:
        raise ToolFailed("`old` is empty. Give the text to replace, or use write for a whole file.")
    if arguments.old == arguments.new:
        raise ToolFailed("`old` and `new` are the same; nothing was changed.")
    return await asyncio.to_thread(_replace_text, arguments, resolve_write_path(context, arguments.path))


def _replace_text(arguments: EditArguments, place: ConfinedPath) -> ToolResult:
    with open_confined_file(place) as file, open(file, "rb", closefd=False) as stream:
        stamp = read_file_stamp(file)
        refuse_binary_file(place, stream.read(8192), stamp.size)
        if stamp.size > MAX_WRITE_BYTES:
            raise ToolFailed(
                f"{place.display_name} has {stamp.size:,} bytes, more than edit takes. Use a program for it."
            )
        stream.seek(0)
        # Bytes that are not UTF-8 stay as they are.
        text = stream.read().decode("utf-8", "surrogateescape")
    old, new = _match_line_endings(text, arguments.old, arguments.new)
    count = text.count(old)
    if not count:
        raise ToolFailed(
            f"`old` is not in {place.display_name}; nothing was changed. {_find_similar_lines(text, arguments.old)}"
        )
    if count > 1 and not arguments.all:
        raise ToolFailed(
            f"`old` is {count} times in {place.display_name}, at lines {_list_line_numbers(text, old)}; nothing was"
            " changed. Give more of the lines around it, or all=true."
        )
    at = text.count("\n", 0, text.find(old)) + 1
    write_confined_file(place, text.replace(old, new).encode("utf-8", "surrogateescape"), expected_stamp=stamp)
    return ToolResult(f"Changed {place.display_name}: {count} place{'s' if count > 1 else ''}, the first at line {at}.")


def _match_line_endings(text: str, old: str, new: str) -> tuple[str, str]:
    """Give both texts the line ends of the file: a model writes \\n, even if the file uses others."""
    old, new = (_replace_surrogates(part) for part in (old, new))
    if text.count("\r\n") * 2 <= text.count("\n") or "\r" in old:
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _list_line_numbers(text: str, old: str) -> str:
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < 10:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(numbers) + (", ..." if at >= 0 else "")


def _find_similar_lines(text: str, old: str) -> str:
    """Return the lines most like the first line of `old`: often only a blank or a quote differs."""
    first_line = next((line.strip() for line in old.splitlines() if line.strip()), "")[:_MAX_COMPARED_CHARS]
    if not first_line:
        return "It is only blanks."
    matcher = SequenceMatcher(None, "", first_line, autojunk=False)
    scored: list[tuple[float, int, str]] = []
    for number, line in enumerate(text.splitlines()[:_MAX_COMPARED_LINES], 1):
        matcher.set_seq1(line.strip()[:_MAX_COMPARED_CHARS])
        if matcher.real_quick_ratio() > 0.6 and matcher.quick_ratio() > 0.6 and (ratio := matcher.ratio()) > 0.6:
            scored.append((ratio, -number, line[:_MAX_COMPARED_CHARS]))
    near = sorted(scored, reverse=True)[:3]
    if not near:
        return "No line is like it. Read the file again."
    lines = "\n".join(f"{-number}\t{line}" for _, number, line in near)
    return f"The lines most like it:\n{lines}"


WRITE_TOOL = FunctionTool("write", "Write a file whole.", WriteArguments, _run_write)
EDIT_TOOL = FunctionTool("edit", "Replace an exact text in a file.", EditArguments, _run_edit)
