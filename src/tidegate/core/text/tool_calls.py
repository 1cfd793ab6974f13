"""The meaning of a tool call: which files it names, and whether it reads or changes something.

This is the only place that decides it. The sweep, the ledger, the digest and the recall statistics ask here.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.recognition.client_outputs import WRAPPED_COMMAND
from tidegate.core.recognition.shell_commands import CREATED, DELETED, EDITED, WRITTEN, PathChange, effect_of
from tidegate.core.text.facts import classify_run, head_and_tail, split_runs
from tidegate.core.text.lazy_pattern import LazyPattern

ToolAccess = Literal["write", "read", "other"]

_WRITES: Final = LazyPattern(r"edit|writ|patch|creat|replac|insert|save|updat|append|delet|remov|move|renam", re.I)
_READS: Final = LazyPattern(r"read|view|cat|open|get|list|ls|grep|search|find|glob|fetch|show", re.I)
_WRITES_WHOLE_FILE: Final = LazyPattern(r"writ|creat|save", re.I)
_READS_WHOLE_FILE: Final = LazyPattern(r"^(?:read|view|open|cat)|read_?file|file_?read", re.I)
_PATH_KEYS: Final = LazyPattern(r"path|file|notebook|target|dest|source|uri|url", re.I)
REPLACED_TEXT_KEYS: Final = LazyPattern(r"^old|^search|^find|^before", re.I)
"""Arguments of an edit with the text that it replaces."""
NEW_TEXT_KEYS: Final = LazyPattern(r"^new_?(?:str|text|content|$)|^replace|^after", re.I)
"""Arguments with what it puts there."""
_SHOWS_FILE: Final = LazyPattern(r"\s*(?:cd \S+ *&& *)?(?:sed -n|cat|head|tail|nl|less|bat|Get-Content)\b(?!.*<<)")
_PARTIAL_READ_KEYS: Final = ("offset", "limit", "start_line", "view_range", "start", "end")
_CONTENT_CHARS: Final = 200
COMMAND_KEYS: Final = ("command", "cmd", "script")
_RUNS_SCRIPTS: Final = LazyPattern(r"bash|shell|terminal|command|exec|run", re.I)
"""Arguments that hold a command."""
INCIDENTAL_KEYS: Final = frozenset({"workdir", "cwd", "description", "timeout", "explanation"})
"""Arguments that say how or why a call is made, not what it is about."""
MAX_ARGUMENT_ENTRIES: Final = 64
"""Entries of one object or list that are read."""
MAX_ARGUMENT_DEPTH: Final = 6
_MAX_TODOS: Final = 40
_CLOSED_STATUSES: Final = ("completed", "done", "cancelled")
_MAX_PARSED_CHARS: Final = 400_000
_MAX_CACHED_CHARS: Final = 16_000
_ARGUMENT_HEAD_CHARS: Final = 1_000
_FILE_NAME_CHARS: Final = 4_000  # characters of a text in which file names are searched for
_PATCHED_FILES: Final = LazyPattern(
    r"^\*\*\* (?:(Update|Add|Delete) File: (.+)|Move to: (.+))$|^(?:\+\+\+|---) [ab]/(.+)$", re.M
)
_PATCH_STATES: Final = {"Update": EDITED, "Add": CREATED, "Delete": DELETED}
_DELETES: Final = LazyPattern(r"delet|remov", re.I)
_CREATED_FILE: Final = LazyPattern(r"\bcreated?\b", re.I)
_CREATED_CHARS: Final = 200
_SCRIPT_CHARS: Final = 2_000


class ContentArgument(NamedTuple):
    """A long text among the arguments. `is_replaced_text`: it is the old text that an edit removes."""

    text: str
    is_replaced_text: bool


class CallTarget(NamedTuple):
    """The files that a call names, and what it does.

    `files` are names without folders, because the same file is named by many paths. `whole_file`: all of the file was
    read or written. `shows_file`: it is a command that only prints a file or a part of it (`sed -n`, `cat`).
    """

    files: frozenset[str]
    writes: bool
    whole_file: bool
    runs_command: bool
    texts: tuple[ContentArgument, ...]
    shows_file: bool = False


def is_content_argument(value: str) -> bool:
    """Whether an argument is content, of which a sweep keeps some lines: it is long or has several lines.

    A shorter argument says what was done, and is kept whole.
    """
    return len(value) > _CONTENT_CHARS or "\n" in value


def file_name_of(path: str) -> str:
    """The last part of a path, without a line number."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0]


def find_file_names(text: str) -> frozenset[str]:
    """The files that a text names, without folders."""
    return _find_file_names(head_and_tail(text, _FILE_NAME_CHARS))


@lru_cache(maxsize=1_024)
def _find_file_names(text: str) -> frozenset[str]:
    # Cached because every sweep asks again for the messages that are still in the view.
    facts = [classify_run(run) for run in set(split_runs(text)) if "." in run]
    names = (file_name_of(fact.value) for fact in facts if fact is not None and fact.kind in ("path", "file"))
    return frozenset(name for name in names if "." in name)


def parse_call_arguments(call: Call) -> Any:
    """The arguments as JSON values, or their text if they are not JSON. Do not change them: the value is shared."""
    if len(call.arguments) > _MAX_PARSED_CHARS:
        return call.arguments
    parse = _parse_cached if len(call.arguments) <= _MAX_CACHED_CHARS else _parse
    return parse(call.arguments)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


# Cached because a sweep asks several times for the same arguments, and the next sweep asks again for those that stayed.
_parse_cached = lru_cache(maxsize=1_024)(_parse)


def classify_call(call: Call) -> ToolAccess:
    """Whether a call changes something, reads something, or does neither.

    The name of the tool decides; one that fits both (`search_and_replace`) writes. A patch among the arguments writes,
    regardless of the name of the tool. What a shell command writes is found by `effect_of`.
    """
    return _classify(call.name, (value for _, value in iterate_strings(parse_call_arguments(call))))


def _classify(tool_name: str, arguments: Iterable[str]) -> ToolAccess:
    if _WRITES.search(tool_name) or any(map(_is_patch, arguments)):
        return "write"
    return "read" if _READS.search(tool_name) else "other"


def classify_tool(name: str) -> ToolAccess:
    """The same for the name of a tool alone."""
    return _classify(name, ())


def _is_patch(value: str) -> bool:
    return "*** " in value[:40] and is_content_argument(value)


def call_target_of(call: Call) -> CallTarget:
    """The files that a call names, and what it does."""
    if len(call.arguments) > _MAX_CACHED_CHARS:
        return _find_target(call.name, parse_call_arguments(call))
    return _find_target_cached(call.name, call.arguments)


@lru_cache(maxsize=1_024)
def _find_target_cached(name: str, arguments: str) -> CallTarget:
    return _find_target(name, _parse_cached(arguments))


def _find_target(name: str, arguments: Any) -> CallTarget:
    files: set[str] = set()
    texts: list[ContentArgument] = []
    for key, value in iterate_strings(arguments):
        if is_content_argument(value):
            files.update(file_name_of(a or b or c) for _, a, b, c in _PATCHED_FILES.findall(value))
            texts.append(ContentArgument(value, REPLACED_TEXT_KEYS.search(key) is not None))
        elif _PATH_KEYS.search(key):
            files.add(file_name_of(value))
        else:
            files |= find_file_names(value[:_ARGUMENT_HEAD_CHARS])
    keys = arguments.keys() if isinstance(arguments, dict) else ()
    writes = _classify(name, (text.text for text in texts)) == "write"
    if writes:
        is_edit = any(text.is_replaced_text or _is_patch(text.text) for text in texts)
        whole = bool(texts) and not is_edit and _WRITES_WHOLE_FILE.search(name) is not None
    else:
        whole = _READS_WHOLE_FILE.search(name) is not None
    whole = whole and not any(key in keys for key in _PARTIAL_READ_KEYS)
    commands = [arguments[key] for key in COMMAND_KEYS if key in keys]
    shows = bool(files) and any(_SHOWS_FILE.match(each) for each in commands if isinstance(each, str))
    return CallTarget(frozenset(files), writes, whole, bool(commands), tuple(texts), shows)


def changed_paths_of(call: Call) -> list[str]:
    """The paths of the files that a call changes, as it names them."""
    return [change.path for change in file_changes_of(call)]


def file_changes_of(call: Call, output: str = "") -> list[PathChange]:
    """The files that a call changes, each with its state afterwards. `output`: the result, which may name it."""
    command = find_command(call)
    if command and not _is_patch(command):
        return list(effect_of(command).changes)
    if classify_call(call) != "write":
        return []
    state = _state_after(call.name, output)
    states: dict[str, str] = {}
    for key, value in iterate_strings(parse_call_arguments(call)):
        if is_content_argument(value):
            for verb, path, new_path, old in _PATCHED_FILES.findall(value):
                if new_path:
                    origin = next(reversed(states), "")
                    states[origin], states[new_path] = f"moved to {new_path}", f"moved from {origin}"
                elif path or old:
                    states.setdefault(path or old, _PATCH_STATES.get(verb, EDITED))
        elif _PATH_KEYS.search(key) and "." in file_name_of(value):
            states[value] = state
    return [PathChange(path, after) for path, after in states.items() if path]


def _state_after(tool_name: str, output: str) -> str:
    if _DELETES.search(tool_name):
        return DELETED
    if _CREATED_FILE.search(output[:_CREATED_CHARS]):
        return CREATED
    return WRITTEN if _WRITES_WHOLE_FILE.search(tool_name) else EDITED


def find_command(call: Call) -> str:
    """The command that a call runs, or ""."""
    if len(call.arguments) > _MAX_CACHED_CHARS:
        return _find_command(call.name, parse_call_arguments(call))
    return _find_command_cached(call.name, call.arguments)


@lru_cache(maxsize=1_024)
def _find_command_cached(name: str, arguments: str) -> str:
    return _find_command(name, _parse_cached(arguments))


def _find_command(name: str, arguments: Any) -> str:
    script = arguments.get("input") if isinstance(arguments, dict) else arguments
    if isinstance(script, str) and (wrapped := WRAPPED_COMMAND.search(script[:_SCRIPT_CHARS])):
        return wrapped[1].replace('\\"', '"')
    for key in COMMAND_KEYS if isinstance(arguments, dict) else ():
        value = arguments.get(key)
        if key == "script" and not _RUNS_SCRIPTS.search(name):
            continue  # a script in another language, such as that of a workflow
        if isinstance(value, list):
            is_shell = len(value) == 3 and value[1] in ("-lc", "-c")
            value = str(value[2]) if is_shell else " ".join(map(str, value))
        if isinstance(value, str):
            return value
    return ""


def iterate_strings(
    value: Any, key: str = "", depth: int = 0, *, skip: Container[str] = ()
) -> Iterator[tuple[str, str]]:
    """Every string in the arguments with its key. Keys in `skip` are left out with all below them."""
    if depth > MAX_ARGUMENT_DEPTH or key in skip:
        return
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in list(value.items())[:MAX_ARGUMENT_ENTRIES]:
            yield from iterate_strings(inner, str(name), depth + 1, skip=skip)
    elif isinstance(value, list):
        for inner in value[:MAX_ARGUMENT_ENTRIES]:
            yield from iterate_strings(inner, key, depth + 1, skip=skip)


def is_todo_list(arguments: Any) -> bool:
    """Whether a call writes a to-do list, as several agents keep one with a tool. An empty list clears it."""
    return _todo_items_of(arguments) is not None


def _todo_items_of(arguments: Any) -> list[Any] | None:
    lists = (arguments.get("todos"), arguments.get("plan")) if isinstance(arguments, dict) else ()
    item_lists = [items for items in lists if isinstance(items, list)]
    return max(item_lists, key=len, default=None)


def open_todos_of(arguments: Any) -> list[str]:
    """The open items of a to-do list."""
    todos = []
    for item in (_todo_items_of(arguments) or ())[:_MAX_TODOS]:
        if isinstance(item, dict) and item.get("status") not in _CLOSED_STATUSES:
            text = item.get("content") or item.get("step") or item.get("title")
            if isinstance(text, str) and text:
                todos.append(text)
    return todos


def describe_todos(arguments: Any) -> str:
    """How many items of a to-do list are open: `2 of 5 items open`, or "" if there is no list."""
    items = _todo_items_of(arguments)
    return f"{len(open_todos_of(arguments))} of {len(items)} items open" if items and len(items) <= _MAX_TODOS else ""
