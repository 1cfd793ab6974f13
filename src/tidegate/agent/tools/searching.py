"""Looking through folders: the program that `list` and `grep` run, in a process of its own.

Patterns come from a model and from files of strangers; a bad one keeps Python's `re` busy for ever, and only a process
can be stopped. It needs nothing but the standard library, so that it starts quickly: `python -I -S searching.py JSON`.

Folders are walked by their descriptors and no link is followed, so the walk stays where it began.
"""

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

DEEPEST = 40
MAX_FILE = 16 << 20
WIDE = 300
CLOSED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache"})
"""Folders that are named and not opened, also where no .gitignore says so."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Rule(NamedTuple):
    """A line of a .gitignore."""

    matches: re.Pattern[str]
    keeps: bool
    folders: bool


class Entry(NamedTuple):
    name: str
    kind: str


def rules_of(text: str, base: str) -> list[Rule]:
    found: list[Rule] = []
    for line in text.splitlines()[:1000]:
        line = line.rstrip()
        keeps, line = line.startswith("!"), line.removeprefix("!")
        folders, body = line.endswith("/"), line.rstrip("/")
        if not body or line.startswith("#"):
            continue
        start = "" if "/" in body else "(?:.*/)?"
        try:
            pattern = re.compile(re.escape(base) + start + _pattern(body.lstrip("/")), re.DOTALL)
        except re.error:
            continue
        found.append(Rule(pattern, keeps, folders))
    return found


def _pattern(glob: str) -> str:
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


def ignored(path: str, folder: bool, rules: list[Rule]) -> bool:
    """The last rule that speaks of it decides."""
    for rule in reversed(rules):
        if (folder or not rule.folders) and rule.matches.fullmatch(path):
            return not rule.keeps
    return False


def open_folder(root: int, parts: list[str]) -> int:
    folder = os.dup(root)
    for part in parts:
        inner = os.open(part, _FOLDER, dir_fd=folder)
        os.close(folder)
        folder = inner
    return folder


def entries(folder: int, base: str, rules: list[Rule]) -> list[Entry]:
    """What is in a folder and not ignored, folders first. Its .gitignore is added to the rules."""
    rules += rules_of(read_text(folder, ".gitignore", 1 << 18), base)
    found: list[Entry] = []
    with os.scandir(folder) as scanned:
        for each in scanned:
            kind = "link" if each.is_symlink() else "folder" if each.is_dir(follow_symlinks=False) else "file"
            if not ignored(base + each.name, kind == "folder", rules):
                found.append(Entry(each.name, kind))
    return sorted(found, key=lambda entry: (entry.kind != "folder", entry.name))


def read_text(folder: int, name: str, most: int) -> str:
    """The text of a plain file, or nothing: too large, not text, not there, not ours to read."""
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except (OSError, ValueError):
        return ""
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return ""
        data = opened.read(most)
    return "" if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def clean(text: str) -> str:
    return _CONTROL.sub("?", text)


def say(text: str) -> None:
    """At once, so that what was found before the time ran out is not lost."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


# --- list -------------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A folder that was opened: what it has, and how much of that is shown."""

    entries: list[Entry]
    shown: int


def list_tree(root: int, parts: list[str], depth: int, most: int) -> None:
    """Level by level, so that a large folder does not use up the room of the others."""
    known: dict[str, Known] = {}
    waiting: list[tuple[str, list[Rule]]] = [("", [])]
    for _ in range(min(depth, DEEPEST)):
        below: list[tuple[str, list[Rule]]] = []
        for base, rules in waiting:
            if most <= 0:
                break
            rules = list(rules)
            try:
                folder = open_folder(root, [*parts, *base.split("/")[:-1]])
            except OSError:
                if not base:
                    raise
                continue
            try:
                found = entries(folder, base, rules)
            finally:
                os.close(folder)
            known[base] = Known(found, min(len(found), most, 100 if base else 400))
            most -= known[base].shown
            inner = (each.name for each in found[: known[base].shown] if each.kind == "folder")
            below += [(f"{base}{name}/", rules) for name in inner if name not in CLOSED]
        waiting = below
    say_tree(known, "")
    if not known.get("", Known([], 0)).entries:
        say("[empty]")


def say_tree(known: dict[str, Known], base: str) -> None:
    here = known[base]
    blanks = "  " * base.count("/")
    for each in here.entries[: here.shown]:
        inner = f"{base}{each.name}/"
        end = {"folder": "/" if inner in known else "/ ...", "link": " (link)", "file": ""}[each.kind]
        say(f"{blanks}{clean(each.name)}{end}")
        if each.kind == "folder" and inner in known:
            say_tree(known, inner)
    if len(here.entries) > here.shown:
        say(f"{blanks}[{len(here.entries) - here.shown:,} more: list {clean(base) or '.'} alone]")


# --- grep -------------------------------------------------------------------------------------------------------------


def walk(folder: int, base: str, rules: list[Rule], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Each file as its folder, its name and its path."""
    rules = list(rules)
    for each in entries(folder, base, rules):
        if each.kind == "file":
            yield folder, each.name, base + each.name
        elif each.kind == "folder" and each.name not in CLOSED and depth < DEEPEST:
            try:
                inner = os.open(each.name, _FOLDER, dir_fd=folder)
            except OSError:
                continue
            try:
                yield from walk(inner, f"{base}{each.name}/", rules, depth + 1)
            finally:
                os.close(inner)


def files_below(root: int, parts: list[str]) -> Iterator[tuple[int, str, str]]:
    try:
        folder = open_folder(root, parts)
    except NotADirectoryError:
        yield open_folder(root, parts[:-1]), parts[-1], parts[-1]
        return
    yield from walk(folder, "", [])


def grep(root: int, parts: list[str], pattern: re.Pattern[str], glob: str, most: int) -> None:
    files = found = 0
    for folder, name, path in files_below(root, parts):
        if glob and not (fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(path, glob)):
            continue
        files += 1
        for number, line in enumerate(read_text(folder, name, MAX_FILE).splitlines(), 1):
            hit = pattern.search(line)
            if hit is None:
                continue
            if found == most:
                say(f"[{most} lines are shown and there are more: a narrower pattern, path or glob shows them]")
                return
            found += 1
            start = max(0, min(hit.start() - 80, len(line) - WIDE))
            say(f"{clean(path)}:{number}:{clean(line[start : start + WIDE])}")
    if not found:
        say(f"[nothing found in {files:,} files]")


def main(asked: dict[str, Any]) -> None:
    root = os.open(asked["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if asked["act"] == "list":
        list_tree(root, asked["parts"], asked["depth"], asked["most"])
        return
    grep(root, asked["parts"], re.compile(asked["pattern"], asked["flags"]), asked["glob"], asked["most"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
