"""The text of a file after the edits that the log shows, applied to what a tool read or wrote before them.

Only edits with their old and new text count, and each must fit exactly: else there is no such text.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.state_note.text_block import strip_line_numbers
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import MAX_ARGUMENT_DEPTH, changed_paths_of, parse_call_arguments

_OLD_KEY: Final = LazyPattern(r"^old(?:_?(?:str|string|text|content))?$", re.I)
_NEW_KEY: Final = LazyPattern(r"^new(?:_?(?:str|string|text|content))?$", re.I)
_ALL_KEY: Final = LazyPattern(r"^replace_?all$", re.I)
_PATCH_FILE: Final = LazyPattern(r"^\*\*\* Update File: (.+)$")


class FileEdit(NamedTuple):
    """A replacement in a file by the call of a message."""

    id: str
    file: str
    old: str
    new: str
    is_everywhere: bool = False


def list_edits(ident: str, call: Call, path: str) -> list[FileEdit]:
    """The replacements that a call makes; `path` is the file that it names."""
    arguments = parse_call_arguments(call)
    paths = changed_paths_of(call)
    file = path or (paths[0] if len(paths) == 1 else "")
    return list(_walk(ident, arguments, file, MAX_ARGUMENT_DEPTH))


def _walk(ident: str, value: Any, file: str, depth: int) -> Iterator[FileEdit]:
    if isinstance(value, str):
        if value.lstrip().startswith("*** "):
            yield from _read_patch(ident, value)
        return
    if depth == 0:
        return
    if isinstance(value, list):
        for each in value:
            yield from _walk(ident, each, file, depth - 1)
    elif isinstance(value, dict):
        texts = {key: each for key, each in value.items() if isinstance(key, str) and isinstance(each, str)}
        old = next((each for key, each in texts.items() if _OLD_KEY.match(key)), None)
        new = next((each for key, each in texts.items() if _NEW_KEY.match(key)), None)
        if old and new is not None:
            is_everywhere = any(isinstance(key, str) and _ALL_KEY.match(key) and each for key, each in value.items())
            yield FileEdit(ident, file, old, new, is_everywhere)
            return
        for each in value.values():
            yield from _walk(ident, each, file, depth - 1)


def _read_patch(ident: str, patch: str) -> Iterator[FileEdit]:
    """The hunks of a patch that update files."""
    file, old, new = "", list[str](), list[str]()
    for line in [*patch.split("\n"), "*** End"]:
        if line.startswith(("*** ", "@@")):
            if file and old != new:
                yield FileEdit(ident, file, "\n".join(old), "\n".join(new))
            old, new = [], []
            if not line.startswith("@@"):
                match = _PATCH_FILE.match(line)
                file = match[1].strip() if match else ""
        elif file:
            mark, text = line[:1], line[1:]
            if mark != "+":
                old.append(text)
            if mark != "-":
                new.append(text)


def apply_edits(text: str, edits: list[FileEdit]) -> str | None:
    """The text after these edits, without numbers of lines. None if one of them changes it in a way that is unclear.

    The text may be a part of the file: an edit of which it has no line is elsewhere.
    """
    current = "\n".join(strip_line_numbers(text.split("\n")))
    for edit in edits:
        count = current.count(edit.old) if edit.old else 0
        if count == 1 or (count and edit.is_everywhere):
            current = current.replace(edit.old, edit.new)
        elif count or not edit.old.strip() or _has_line_of(current, edit.old):
            return None
    return current


def _has_line_of(text: str, part: str) -> bool:
    lines = {line.strip() for line in text.split("\n")}
    return any(line.strip() in lines for line in part.split("\n") if len(line.strip()) > 3)
