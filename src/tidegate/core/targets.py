"""What a call was about: the files it named, whether it looked at them or changed them."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidegate.core.facts import both_ends, fact_of, runs_of
from tidegate.core.messages import Call

_CHANGE: Final = re.compile(r"edit|writ|patch|creat|replac|insert|save|updat|append", re.I)
_WRITE: Final = re.compile(r"writ|creat|save", re.I)
_READ: Final = re.compile(r"^(?:read|view|open|cat)|read_?file|file_?read", re.I)
_PATH: Final = re.compile(r"path|file|notebook|target|dest|source|uri|url", re.I)
_OLD: Final = re.compile(r"^old|^search|^find|^before", re.I)
_LONG: Final = 200
SHELL: Final = ("command", "cmd", "script")
"""Arguments that hold a command."""
MANY: Final = 64
"""Entries of one object or list that are looked at."""
DEEP: Final = 6
_PARSED: Final = 400_000
_REMEMBERED: Final = 16_000
_HEAD: Final = 1_000
_READ_OF: Final = 4_000  # characters of a text in which files are looked for
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^(?:\+\+\+|---) [ab]/(.+)$", re.M)


class Written(NamedTuple):
    """A long text among the arguments. `key` leads to it; what is `old` is what an edit took away."""

    key: str
    text: str
    old: bool


class Target(NamedTuple):
    """`files` by their last name: the same file goes by many paths. `whole`: all of the file was read or written.
    `runs`: it was a command."""

    files: frozenset[str]
    changes: bool
    whole: bool
    runs: bool
    texts: tuple[Written, ...]


def is_content(value: str) -> bool:
    """An argument that is long, or of several lines, is content: of it lines are chosen. A shorter one says what was
    done, and stays."""
    return len(value) > _LONG or "\n" in value


def last_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0]


def files_in(text: str) -> frozenset[str]:
    """The files a text names."""
    return _files_in(both_ends(text, _READ_OF))


@lru_cache(maxsize=1_024)
def _files_in(text: str) -> frozenset[str]:
    """What was said stays in a view for long, and is asked again at every sweep."""
    facts = [fact_of(run) for run in set(runs_of(text)) if "." in run]
    found = (last_name(fact.value) for fact in facts if fact is not None and fact.kind in ("path", "file"))
    return frozenset(name for name in found if "." in name)


def arguments_of(call: Call) -> Any:
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


def target_of(call: Call) -> Target:
    if len(call.arguments) > _REMEMBERED:
        return _target(call.name, arguments_of(call))
    return _remembered(call.name, call.arguments)


@lru_cache(maxsize=1_024)
def _remembered(name: str, arguments: str) -> Target:
    return _target(name, _parsed(arguments))


def _target(name: str, arguments: Any) -> Target:
    files: set[str] = set()
    texts: list[Written] = []
    partial = False
    for key, value in strings(arguments):
        if is_content(value):
            files.update(last_name(one or two) for one, two in _PATCHED.findall(value))
            texts.append(Written(key, value, _OLD.search(key) is not None))
        elif _PATH.search(key):
            files.add(last_name(value))
        else:
            files |= files_in(value[:_HEAD])
    if isinstance(arguments, dict):
        partial = any(key in arguments for key in ("offset", "limit", "start_line", "view_range", "start", "end"))
    patches = any("*** " in text.text[:40] for text in texts)
    changes = patches or _CHANGE.search(name) is not None
    anew = bool(texts) and not patches and not any(text.old for text in texts) and _WRITE.search(name) is not None
    whole = not partial and (anew if changes else _READ.search(name) is not None)
    runs = isinstance(arguments, dict) and any(key in arguments for key in SHELL)
    return Target(frozenset(files), changes, whole, runs, tuple(texts))


def strings(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > DEEP:
        return
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in list(value.items())[:MANY]:
            yield from strings(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value[:MANY]:
            yield from strings(inner, key, depth + 1)
