"""The state of a folder's git repository when a client stopped, and what changed until the next one starts.

Git is not trusted: it runs no hooks, no file-system monitor, no filters and no programs of submodules, waits for no
lock, and is stopped at a deadline. Without git, without a repository, or if it takes too long, there is no state.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidegate.core.events import Event
from tidegate.core.notes import FileState, RepositoryState, is_note, read_note
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line

_DEADLINE: Final = 5.0
_MAX_OUTPUT: Final = 1_000_000
_MAX_FILES: Final = 500
_MAX_NAMED: Final = 12
_MAX_NAME_CHARS: Final = 120
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SETTINGS: Final = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.untrackedCache=false",
    "submodule.recurse=false",
    "protocol.allow=never",
)


def read_repository_state(folder: Path, *, deadline: float = _DEADLINE) -> RepositoryState | None:
    """The state of the repository that a folder is in; None without one, or if git cannot say it in time."""
    disabled = _find_filters(folder, deadline)
    if disabled is None:
        return None
    command = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=all")
    text = _run_git(folder, disabled, command, deadline)
    root = _run_git(folder, disabled, ("rev-parse", "--show-toplevel"), deadline)
    return None if text is None or root is None else _parse_status(text, Path(root.rstrip("\n")))


def _run_git(folder: Path, disabled: Sequence[str], command: Sequence[str], deadline: float) -> str | None:
    settings = [part for setting in (*_SETTINGS, *disabled) for part in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    safe = {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ATTR_SOURCE": _EMPTY_TREE,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    try:
        process = subprocess.run(
            ["git", *settings, *command],
            cwd=folder,
            env={**environment, **safe},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode not in (0, 1) or len(process.stdout) > _MAX_OUTPUT:
        return None
    return process.stdout.decode("utf-8", "replace")


def _find_filters(folder: Path, deadline: float) -> list[str] | None:
    """Settings that switch off the filters of the repository: `git status` would run them. None without git."""
    text = _run_git(folder, (), ("config", "--name-only", "-z", "--get-regexp", r"^filter\."), deadline)
    if text is None:
        return None
    names = {name.rpartition(".")[0] for name in text.split("\0") if name.count(".") >= 2}
    return [f"{name}.{key}" for name in sorted(names) for key in ("clean=", "smudge=", "process=", "required=false")]


def _parse_status(text: str, root: Path) -> RepositoryState:
    branch = commit = ""
    files: list[FileState] = []
    records = iter(text.split("\0"))
    for record in records:
        if record.startswith("# branch.oid "):
            commit = record[13:] if "(" not in record else ""
        elif record.startswith("# branch.head "):
            branch = record[14:] if "(" not in record else ""
        elif record[:2] in ("1 ", "2 ", "u "):
            fields = record.split(" ", {"1": 8, "2": 9, "u": 10}[record[0]])
            if record[0] == "2":
                next(records, "")  # the name that the file had before
            files.append(_look_at(root, fields[-1], fields[1]))
        elif record.startswith("? "):
            files.append(_look_at(root, record[2:], "??"))
        if len(files) >= _MAX_FILES:
            break
    return RepositoryState(branch, commit, tuple(files))


def _look_at(root: Path, name: str, state: str) -> FileState:
    try:
        status = os.lstat(root / name)
    except (OSError, ValueError):
        return FileState(name, state)
    return FileState(name, state, status.st_size, status.st_mtime_ns)


def find_repository_state(events: Sequence[Event]) -> RepositoryState | None:
    """The newest state that a log has; None if it has none."""
    newest = next((event.payload for event in reversed(events) if is_note(event.payload, RepositoryState)), None)
    return None if newest is None else read_note(newest, RepositoryState)


def describe_change(before: RepositoryState, now: RepositoryState) -> list[str]:
    """Three lines: the repository when the last client stopped, as it is now, and what changed between."""
    return [
        f"Repository when the last client stopped: {_describe(before)}.",
        f"Repository now: {_describe(now)}.",
        f"Changed since: {_compare(before, now)}.",
    ]


def _describe(state: RepositoryState) -> str:
    tracked = [file.name for file in state.files if file.state != "??"]
    untracked = [file.name for file in state.files if file.state == "??"]
    place = f"branch {_clean(state.branch)}" if state.branch else "no branch"
    commit = f"commit {_clean(state.commit[:12])}" if state.commit else "no commit"
    return f"{place}, {commit}, changed: {_list_names(tracked)}, untracked: {_list_names(untracked)}"


def _compare(before: RepositoryState, now: RepositoryState) -> str:
    differences: list[str] = []
    if before.branch != now.branch:
        differences.append("the branch")
    if before.commit != now.commit:
        differences.append("the commit")
    then, files = {file.name: file for file in before.files}, {file.name: file for file in now.files}
    edited = [name for name, file in files.items() if then.get(name) != file]
    clean = [name for name in then if name not in files]
    if edited:
        differences.append(f"files {_list_names(edited)}")
    if clean:
        differences.append(f"no longer changed {_list_names(clean)}")
    return "; ".join(differences) or "nothing"


def _list_names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    first_names = ", ".join(map(_clean, names[:_MAX_NAMED]))
    more = len(names) - _MAX_NAMED
    return f"{first_names} and {format_count(more, 'other')}" if more > 0 else first_names


def _clean(text: str) -> str:
    return clean_line(text)[:_MAX_NAME_CHARS]
