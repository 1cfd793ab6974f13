"""The program that the tools `list` and `grep` run in a separate process: `python -I -S search_program.py JSON`.

Patterns come from a model and from .gitignore files. A bad pattern can keep Python's `re` busy without end, and only a
process can be stopped. The program uses nothing but the standard library, so that it starts quickly; therefore it does
not share the code of `paths`, which opens folders in the same way.

Folders are opened by descriptor and no link is followed, so the search stays below its root.
"""

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAX_DEPTH = 40
_MAX_FILE_BYTES = 16 << 20
_MAX_LINE_CHARS = 300
_SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache"}
)
"""Folders that are listed but not searched, even if no .gitignore names them."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class IgnoreRule(NamedTuple):
    """A line of a .gitignore."""

    pattern: re.Pattern[str]
    is_negated: bool
    folders_only: bool


class FolderEntry(NamedTuple):
    name: str
    kind: str


def parse_gitignore(text: str, base: str) -> list[IgnoreRule]:
    rules: list[IgnoreRule] = []
    for line in text.splitlines()[:1000]:
        line = line.rstrip()
        keeps, line = line.startswith("!"), line.removeprefix("!")
        folders, body = line.endswith("/"), line.rstrip("/")
        if not body or line.startswith("#"):
            continue
        start = "" if "/" in body else "(?:.*/)?"
        try:
            pattern = re.compile(re.escape(base) + start + _translate_glob(body.lstrip("/")), re.DOTALL)
        except re.error:
            continue
        rules.append(IgnoreRule(pattern, keeps, folders))
    return rules


def _translate_glob(glob: str) -> str:
    out, at = "", 0
    while at < len(glob):
        rest = glob[at:]
        if rest.startswith("**/"):
            out, at = out + "(?:.*/)?", at + 3
        elif rest.startswith("**"):
            out, at = out + ".*", at + 2
        elif rest[0] == "[" and "]" in rest[2:]:
            end = glob.index("]", at + 2)
            inner = glob[at + 1 : end].replace("\\", "\\\\")
            out, at = out + "[" + ("^" + inner[1:] if inner[:1] in ("!", "^") else inner) + "]", end + 1
        else:
            single = {"*": "[^/]*", "?": "[^/]"}
            out, at = out + single.get(rest[0], re.escape(rest[0])), at + 1
    return out


def is_ignored(path: str, folder: bool, rules: list[IgnoreRule]) -> bool:
    """Return whether a path is ignored. The last rule that matches decides."""
    for rule in reversed(rules):
        if (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
            return not rule.is_negated
    return False


def open_subfolder(root: int, parts: list[str]) -> int:
    folder = os.dup(root)
    for part in parts:
        inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
        os.close(folder)
        folder = inner
    return folder


def list_entries(folder: int, base: str, rules: list[IgnoreRule]) -> list[FolderEntry]:
    """List the entries of a folder that are not ignored, folders first. Its .gitignore is added to the rules."""
    rules += parse_gitignore(read_text_file(folder, ".gitignore", 1 << 18), base)
    entries: list[FolderEntry] = []
    with os.scandir(folder) as scanned:
        for each in scanned:
            kind = "link" if each.is_symlink() else "folder" if each.is_dir(follow_symlinks=False) else "file"
            if not is_ignored(base + each.name, kind == "folder", rules):
                entries.append(FolderEntry(each.name, kind))
    return sorted(entries, key=lambda entry: (entry.kind != "folder", entry.name))


def read_text_file(folder: int, name: str, most: int) -> str:
    """Return the text of a plain file; "" if it is too large, not text, missing or not readable."""
    try:
        file = os.open(name, _READ_FLAGS, dir_fd=folder)
    except (OSError, ValueError):
        return ""
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return ""
        data = stream.read(most)
    return "" if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def replace_controls(text: str) -> str:
    return _CONTROL.sub("?", text)


def _print_line(text: str) -> None:
    """Print a line at once, so that it is not lost if the time runs out."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


# --- list -------------------------------------------------------------------------------------------------------------


class _ListedFolder(NamedTuple):
    """The entries of a folder, and how many of them are shown."""

    entries: list[FolderEntry]
    shown: int


def print_tree(root: int, parts: list[str], depth: int, most: int) -> None:
    """Print a tree. It is read level by level, so that one large folder does not use up `most` entries."""
    folders: dict[str, _ListedFolder] = {}
    waiting: list[tuple[str, list[IgnoreRule]]] = [("", [])]
    for _ in range(min(depth, _MAX_DEPTH)):
        below: list[tuple[str, list[IgnoreRule]]] = []
        for base, rules in waiting:
            if most <= 0:
                break
            rules = list(rules)
            try:
                folder = open_subfolder(root, [*parts, *base.split("/")[:-1]])
            except OSError:
                if not base:
                    raise
                continue
            try:
                entries = list_entries(folder, base, rules)
            finally:
                os.close(folder)
            folders[base] = _ListedFolder(entries, min(len(entries), most, 100 if base else 400))
            most -= folders[base].shown
            inner = (each.name for each in entries[: folders[base].shown] if each.kind == "folder")
            below += [(f"{base}{name}/", rules) for name in inner if name not in _SKIPPED_FOLDERS]
        waiting = below
    _print_subtree(folders, "")
    if not folders.get("", _ListedFolder([], 0)).entries:
        _print_line("[empty]")


def _print_subtree(folders: dict[str, _ListedFolder], base: str) -> None:
    here = folders[base]
    blanks = "  " * base.count("/")
    for each in here.entries[: here.shown]:
        inner = f"{base}{each.name}/"
        end = {"folder": "/" if inner in folders else "/ ...", "link": " (link)", "file": ""}[each.kind]
        _print_line(f"{blanks}{replace_controls(each.name)}{end}")
        if each.kind == "folder" and inner in folders:
            _print_subtree(folders, inner)
    if len(here.entries) > here.shown:
        _print_line(f"{blanks}[{len(here.entries) - here.shown:,} more: list {replace_controls(base) or '.'} alone]")


# --- grep -------------------------------------------------------------------------------------------------------------


def walk_files(folder: int, base: str, rules: list[IgnoreRule], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield each file as its folder, its name and its path."""
    rules = list(rules)
    for each in list_entries(folder, base, rules):
        if each.kind == "file":
            yield folder, each.name, base + each.name
        elif each.kind == "folder" and each.name not in _SKIPPED_FOLDERS and depth < _MAX_DEPTH:
            try:
                inner = os.open(each.name, _FOLDER_FLAGS, dir_fd=folder)
            except OSError:
                continue
            try:
                yield from walk_files(inner, f"{base}{each.name}/", rules, depth + 1)
            finally:
                os.close(inner)


def find_files(root: int, parts: list[str]) -> Iterator[tuple[int, str, str]]:
    try:
        folder = open_subfolder(root, parts)
    except NotADirectoryError:
        yield open_subfolder(root, parts[:-1]), parts[-1], parts[-1]
        return
    yield from walk_files(folder, "", [])


def print_matches(root: int, parts: list[str], pattern: re.Pattern[str], glob: str, most: int) -> None:
    files = match_count = 0
    for folder, name, path in find_files(root, parts):
        if glob and not (fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(path, glob)):
            continue
        files += 1
        for number, line in enumerate(read_text_file(folder, name, _MAX_FILE_BYTES).splitlines(), 1):
            hit = pattern.search(line)
            if hit is None:
                continue
            if match_count == most:
                _print_line(f"[{most} lines are shown and there are more: a narrower pattern, path or glob shows them]")
                return
            match_count += 1
            start = max(0, min(hit.start() - 80, len(line) - _MAX_LINE_CHARS))
            _print_line(f"{replace_controls(path)}:{number}:{replace_controls(line[start : start + _MAX_LINE_CHARS])}")
    if not match_count:
        _print_line(f"[nothing found in {files:,} files]")


def run_search_program(request: dict[str, Any]) -> None:
    root = os.open(request["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if request["act"] == "list":
        print_tree(root, request["parts"], request["depth"], request["most"])
        return
    print_matches(
        root, request["parts"], re.compile(request["pattern"], request["flags"]), request["glob"], request["most"]
    )


if __name__ == "__main__":
    run_search_program(json.loads(sys.argv[1]))
