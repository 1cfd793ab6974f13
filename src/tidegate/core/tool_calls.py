"""What a call was about: the files it named, whether it looked at them or changed them."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.text.facts import classify_run, head_and_tail, split_runs

_CHANGE: Final = re.compile(r"edit|writ|patch|creat|replac|insert|save|updat|append", re.I)
_WRITE: Final = re.compile(r"writ|creat|save", re.I)
_READ: Final = re.compile(r"^(?:read|view|open|cat)|read_?file|file_?read", re.I)
_PATH: Final = re.compile(r"path|file|notebook|target|dest|source|uri|url", re.I)
_OLD: Final = re.compile(r"^old|^search|^find|^before", re.I)
_LONG: Final = 200
COMMAND_KEYS: Final = ("command", "cmd", "script")
"""Arguments that hold a command."""
MAX_ARGUMENT_ENTRIES: Final = 64
"""Entries of one object or list that are looked at."""
MAX_ARGUMENT_DEPTH: Final = 6
_PARSED: Final = 400_000
_REMEMBERED: Final = 16_000
_HEAD: Final = 1_000
_READ_OF: Final = 4_000  # characters of a text in which files are looked for
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^(?:\+\+\+|---) [ab]/(.+)$", re.M)


class ContentArgument(NamedTuple):
    """A long text among the arguments. `key` leads to it; what is `old` is what an edit took away."""

    key: str
    text: str
    is_replaced_text: bool


class CallTarget(NamedTuple):
    """`files` by their last name: the same file goes by many paths. `whole`: all of the file was read or written.
    `runs`: it was a command."""

    files: frozenset[str]
    writes: bool
    whole_file: bool
    runs_command: bool
    texts: tuple[ContentArgument, ...]


def is_content_argument(value: str) -> bool:
    """An argument that is long, or of several lines, is content: of it lines are chosen. A shorter one says what was
    done, and stays."""
    return len(value) > _LONG or "\n" in value


def file_name_of(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0]


def find_file_names(text: str) -> frozenset[str]:
    """The files a text names."""
    return _files_in(head_and_tail(text, _READ_OF))


@lru_cache(maxsize=1_024)
def _files_in(text: str) -> frozenset[str]:
    """What was said stays in a view for long, and is asked again at every sweep."""
    facts = [classify_run(run) for run in set(split_runs(text)) if "." in run]
    found = (file_name_of(fact.value) for fact in facts if fact is not None and fact.kind in ("path", "file"))
    return frozenset(name for name in found if "." in name)


def parse_call_arguments(call: Call) -> Any:
    """The arguments as they were parsed, or their text. Not to be changed: others are given the same."""
    if len(call.arguments) > _PARSED:
        return call.arguments
    return _parsed(call.arguments) if len(call.arguments) <= _REMEMBERED else _parsed.__wrapped__(call.arguments)


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> Any:
    """A sweep asks for the same arguments several times, and the next one again for those that stayed."""
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def call_target_of(call: Call) -> CallTarget:
    if len(call.arguments) > _REMEMBERED:
        return _target(call.name, parse_call_arguments(call))
    return _remembered(call.name, call.arguments)


@lru_cache(maxsize=1_024)
def _remembered(name: str, arguments: str) -> CallTarget:
    return _target(name, _parsed(arguments))


def _target(name: str, arguments: Any) -> CallTarget:
    files: set[str] = set()
    texts: list[ContentArgument] = []
    partial = False
    for key, value in iterate_strings(arguments):
        if is_content_argument(value):
            files.update(file_name_of(one or two) for one, two in _PATCHED.findall(value))
            texts.append(ContentArgument(key, value, _OLD.search(key) is not None))
        elif _PATH.search(key):
            files.add(file_name_of(value))
        else:
            files |= find_file_names(value[:_HEAD])
    if isinstance(arguments, dict):
        partial = any(key in arguments for key in ("offset", "limit", "start_line", "view_range", "start", "end"))
    patches = any("*** " in text.text[:40] for text in texts)
    changes = patches or _CHANGE.search(name) is not None
    anew = (
        bool(texts)
        and not patches
        and not any(text.is_replaced_text for text in texts)
        and _WRITE.search(name) is not None
    )
    whole = not partial and (anew if changes else _READ.search(name) is not None)
    runs = isinstance(arguments, dict) and any(key in arguments for key in COMMAND_KEYS)
    return CallTarget(frozenset(files), changes, whole, runs, tuple(texts))


def iterate_strings(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > MAX_ARGUMENT_DEPTH:
        return
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in list(value.items())[:MAX_ARGUMENT_ENTRIES]:
            yield from iterate_strings(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value[:MAX_ARGUMENT_ENTRIES]:
            yield from iterate_strings(inner, key, depth + 1)
