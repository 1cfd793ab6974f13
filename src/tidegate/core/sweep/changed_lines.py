"""The lines that a call changes in files, as a short diff: what an edit, a patch or a new file says to a reader.

An edit quotes much that it does not change, so that it is found. Of that only the nearest declaration stays, which says
where the change is.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.sweep.key_lines import GAP_MARK, clip_line, is_comment, is_outline
from tidegate.core.text.tool_calls import (
    MAX_ARGUMENT_DEPTH,
    MAX_ARGUMENT_ENTRIES,
    classify_call,
    find_command,
    is_patch,
    iterate_strings,
    parse_call_arguments,
)

_OLD_KEYS: Final = re.compile(r"^(?:old|search|find|before)", re.I)
_NEW_KEYS: Final = re.compile(
    r"^(?:new|replace|after|content|insert|file_?text|text|code)(?!_?(?:path|name|all))", re.I
)
_COMPARED_LINES: Final = 300
"""Of longer texts only their beginnings and ends are compared. `bench/plan.py` shows what comparing costs."""
_PATCH_FILE: Final = re.compile(r"\*\*\* (?:Update|Add|Delete) File: |\+\+\+ ")
_PATCH_NOISE: Final = re.compile(r"\*\*\* |--- |\\ No newline|index |diff ")


class Hunk(NamedTuple):
    """Lines in one place of a file: those removed, those added. `place`: the declaration that they belong to, or ""."""

    place: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


@lru_cache(maxsize=1_024)
def changed_hunks_of(call: Call) -> tuple[Hunk, ...]:
    """What a call changes, in order; () if it changes no text, or by a command that is no patch."""
    arguments = parse_call_arguments(call)
    if classify_call(call) != "write" and not find_command(call):
        return ()
    texts = [value for _, value in iterate_strings(arguments) if "\n" in value]
    patches = [text for text in texts if is_patch(text) or "\n@@ " in text]
    if patches:
        return tuple(hunk for text in patches for hunk in _split_patch(text))
    return () if find_command(call) else tuple(_find_edits(arguments, 0))


def render_hunks(hunks: Sequence[Hunk], chars: int, without: frozenset[str] = frozenset()) -> list[str]:
    """The hunks in about `chars` characters, without added lines in `without`. Every hunk keeps its beginning."""
    kept = [hunk._replace(added=tuple(line for line in hunk.added if line.strip() not in without)) for hunk in hunks]
    kept = [hunk for hunk, before in zip(kept, hunks, strict=True) if hunk.added or not before.added]
    done: list[str] = []
    for most in _LINES_OF_HUNK:
        done = [line for hunk in kept for line in _render_hunk(hunk, most)]
        if sum(len(line) + 5 for line in done) <= chars:  # 5: for the bar in front of it
            return done
    return cut_lines(done, chars)


def cut_lines(lines: Sequence[str], chars: int) -> list[str]:
    """The first lines, in about `chars` characters, with a mark if some are left out."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 5
        if size > chars:
            return [*lines[:count], GAP_MARK] if count else []
    return list(lines)


_LINES_OF_HUNK: Final = (400, 60, 40, 30, 24, 20, 17, 15, 13, 11, 10, 9, 8, 7, 6, 5, 4, 3)
_OUTLINED: Final = 40  # lines: of a longer text headings and declarations come first
_REMOVED_LINES: Final = 3  # of a hunk that also adds some: what was there before says little


def _render_hunk(hunk: Hunk, most: int) -> Iterator[str]:
    if hunk.place:
        yield f"@@ {clip_line(hunk.place.strip())}"
    removed = hunk.removed[: min(_REMOVED_LINES, max(1, most // 5)) if hunk.added else most]
    yield from (f"-{clip_line(line)}" for line in removed)
    if len(removed) < len(hunk.removed):
        yield f"-{GAP_MARK}"
    if len(hunk.added) <= most:
        yield from (f"+{clip_line(line)}" for line in hunk.added)
        return
    places = [place for place, line in enumerate(hunk.added) if not is_comment(line)]
    if len(hunk.added) > _OUTLINED:
        outline = [place for place in places if is_outline(hunk.added[place])]
        places = sorted({*outline[:most], *places[: max(3, most - len(outline))]})
    last = -1
    for place in places[:most]:
        if place > last + 1:
            yield f"+{GAP_MARK}"
        yield f"+{clip_line(hunk.added[place])}"
        last = place
    if last + 1 < len(hunk.added):
        yield f"+{GAP_MARK}"


def _find_edits(value: Any, depth: int) -> Iterator[Hunk]:
    if depth > MAX_ARGUMENT_DEPTH:
        return
    if isinstance(value, dict):
        texts = {key: inner for key, inner in value.items() if isinstance(key, str) and isinstance(inner, str)}
        old = next((text for key, text in texts.items() if _OLD_KEYS.search(key)), None)
        new = next((text for key, text in texts.items() if _NEW_KEYS.search(key) and text != old), None)
        if new is not None or old is not None:
            yield from _compare((old or "").split("\n"), (new or "").split("\n"))
        for inner in list(value.values())[:MAX_ARGUMENT_ENTRIES]:
            if isinstance(inner, dict | list):
                yield from _find_edits(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value[:MAX_ARGUMENT_ENTRIES]:
            yield from _find_edits(inner, depth + 1)


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[begin : len(old) - end], new[begin : len(new) - end]
    parts = [(0, len(before), 0, len(after))]
    if before and after and max(len(before), len(after)) <= _COMPARED_LINES:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        parts = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    for first, last, first_new, last_new in parts:
        removed = tuple(line for line in before[first:last] if line.strip())
        added = tuple(line for line in after[first_new:last_new] if line.strip())
        above = new[: begin + first_new]
        place = next((line for line in reversed(above) if is_outline(line)), "") or next(
            (line for line in reversed(above) if line.strip() and not is_comment(line)), ""
        )
        if removed or added:
            yield Hunk(place, removed, added)


def _split_patch(text: str) -> Iterator[Hunk]:
    """The hunks of a patch. The line that names a file is the place of its first hunk."""
    place, named = "", ""
    removed: list[str] = []
    added: list[str] = []
    for line in [*text.split("\n"), " "]:
        if line[:1] in "+-" and line and not _PATCH_FILE.match(line) and not _PATCH_NOISE.match(line):
            if line[1:].strip():
                (added if line[0] == "+" else removed).append(line[1:])
            continue
        if removed or added:
            yield Hunk(", ".join(filter(None, (named, place))), tuple(removed), tuple(added))
            removed, added, named, place = [], [], "", ""
        if _PATCH_FILE.match(line):
            named = line[_PATCH_FILE.match(line).end() :].strip()  # type: ignore[union-attr]
        elif line.startswith("@@"):
            place = re.sub(r"^@@(?:[-+ \d,]+@@)?", "", line).strip() or place
        elif is_outline(line[1:]):
            place = line[1:].strip()
