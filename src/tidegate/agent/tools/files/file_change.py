"""The change that a call makes to a file, as lines: for the cards and questions of the chat, and for `/review`.

A call is recognized by the names of its arguments, so the edits of other agents in imported sessions are shown, too.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

DiffMark = Literal["+", "-", " ", "…"]
_PATH_NAMES: Final = ("path", "file_path")
_BEFORE_NAMES: Final = ("old", "old_string", "old_str")
_AFTER_NAMES: Final = ("new", "new_string", "new_str")
_WHOLE_NAMES: Final = ("text", "content", "file_text")
_ALL_NAMES: Final = ("all", "replace_all")
_EDIT_NAMES: Final = frozenset((*_PATH_NAMES, *_BEFORE_NAMES, *_AFTER_NAMES, *_ALL_NAMES))
_WRITE_NAMES: Final = frozenset((*_PATH_NAMES, *_WHOLE_NAMES))
_WRITE_TOOLS: Final = frozenset({"write", "write_file", "create", "create_file"})
_MAX_COMPARED_LINES: Final = 2_000
"""Lines of a text that are compared; a longer text is shown as removed and added as a whole."""
_CONTEXT_LINES: Final = 3
_MAX_READ_BYTES: Final = 1 << 20


class FileChange(NamedTuple):
    """A file before and after a call. `before` is None for a file that is written whole and was not read.

    `is_everywhere`: the text is replaced at each place where it occurs.
    """

    path: str
    before: str | None
    after: str
    is_everywhere: bool = False


class DiffLine(NamedTuple):
    """A line that was added (+), removed (-) or kept, or (…) a remark about kept lines that are left out."""

    mark: DiffMark
    text: str


class FileDiff(NamedTuple):
    lines: list[DiffLine]
    added: int
    removed: int

    @property
    def counts(self) -> str:
        return f"+{self.added:,} -{self.removed:,}" if self.removed else f"+{self.added:,}"


def find_file_change(tool: str, arguments: str | Mapping[str, Any]) -> FileChange | None:
    """Return the change that a call makes. None if it edits no file, or has an argument that is not known here."""
    values = _decode_arguments(arguments) if isinstance(arguments, str) else arguments
    path = _find_text(values, _PATH_NAMES)
    if path is None:
        return None
    before, after = _find_text(values, _BEFORE_NAMES), _find_text(values, _AFTER_NAMES)
    if before is not None and after is not None and values.keys() <= _EDIT_NAMES:
        return FileChange(path, before, after, any(values.get(name) is True for name in _ALL_NAMES))
    whole = _find_text(values, _WHOLE_NAMES)
    if whole is not None and values.keys() <= _WRITE_NAMES and tool.casefold() in _WRITE_TOOLS:
        return FileChange(path, None, whole)
    return None


def _decode_arguments(arguments: str) -> dict[str, Any]:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _find_text(values: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if isinstance(values.get(name), str)), None)


def read_text_before(change: FileChange, workspace: Path) -> FileChange:
    """Return the change of a file that is written whole with the text that the file has now, if it is in the workspace,
    not large, and a text."""
    if change.before is not None:
        return change
    try:
        root = workspace.resolve()
        path = (root / change.path).resolve()
        if not path.is_relative_to(root) or not path.is_file() or path.stat().st_size > _MAX_READ_BYTES:
            return change
        return change._replace(before=path.read_text("utf-8"))
    except (OSError, ValueError):
        return change


def compare_lines(change: FileChange, context: int = _CONTEXT_LINES) -> FileDiff:
    """Compare the lines before and after, with this many lines that stayed around each change."""
    before, after = (change.before or "").splitlines(), change.after.splitlines()
    if max(len(before), len(after)) > _MAX_COMPARED_LINES or not before or not after:
        diff_lines = [DiffLine("-", line) for line in before] + [DiffLine("+", line) for line in after]
        return FileDiff(diff_lines, len(after), len(before))
    lines: list[DiffLine] = []
    additions = removals = 0
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            lines += _shorten_kept(before[start:end], context, is_first=start == 0, is_last=end == len(before))
            continue
        lines += [DiffLine("-", line) for line in before[start:end]]
        lines += [DiffLine("+", line) for line in after[new_start:new_end]]
        removals, additions = removals + end - start, additions + new_end - new_start
    return FileDiff(lines, additions, removals)


def _shorten_kept(lines: list[str], context: int, *, is_first: bool, is_last: bool) -> list[DiffLine]:
    """Return the lines near the changes around them, and a remark in place of the others between two changes."""
    head, tail = (0 if is_first else context), (0 if is_last else context)
    omitted_count = len(lines) - head - tail
    if omitted_count <= 0:
        return [DiffLine(" ", line) for line in lines]
    remark = [] if is_first or is_last else [DiffLine("…", f"{omitted_count:,} lines are the same")]
    near = [DiffLine(" ", line) for line in (*lines[:head], *lines[len(lines) - tail :])]
    return [*near[:head], *remark, *near[head:]]
