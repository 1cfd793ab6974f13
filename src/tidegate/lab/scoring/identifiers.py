"""Find the names in the arguments of a call: paths, files, ids, hashes, numbers, quoted names.

An agent has such a name from somewhere, most often from what it read before. A name that occurred earlier in the
session is therefore a *reference*, and whether a request still contains it can be checked without a model.

The kinds are searched one after the other. What one kind matched is blanked out for the next, so that a path does not
count again as a file and as a dotted word. Only quoted text stays, since it may contain names.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tidegate.wire.parsing import repair_json_unicode

ARGUMENT_HEAD_CHARS: Final = 400
"""Characters read of each argument. Beyond them an argument is mostly content, not names."""
_MIN_NAME_CHARS: Final = 5
_MIN_NUMBER_CHARS: Final = 4
_MAX_QUOTED_WORDS: Final = 6
SYMBOL_KIND: Final = "symbol"
"""Code symbols: many are guessed rather than remembered, so only the strict reading takes them."""
PATH_SUFFIX_KIND: Final = "path-suffix"

_GAP: Final = " \x00 "
_PATH_CHAR: Final = r"[\w.@+-]"
_HEX: Final = "[0-9a-fA-F]"
_FILE_EXTENSIONS: Final = """
c cc cfg cpp css csv docx go h hpp html ini java js json jsonl jsx kt lock md mjs mod pdf php pl png ps1 py rb rs rst sh
sql sum svg swift toml ts tsx txt xlsx xml yaml yml
""".split()
# A path may start inside a run of its own characters only behind a sign that begins one (~ or a drive): trying every
# place of a long run would cost its length squared, and cannot find what its first place did not.
_PATH_START: Final = rf"(?:(?:~|[A-Za-z]:)[/\\]?|(?<!{_PATH_CHAR})\.{{1,2}}[/\\]?|[/\\]|(?<!{_PATH_CHAR}))"
_PATH: Final = rf"{_PATH_START}(?:{_PATH_CHAR}++[/\\])+{_PATH_CHAR}+"
_PATTERNS: Final = {
    "url": r"https?://[^\s\"'<>)\]`]{5,}",
    "email": r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b",
    "uuid": rf"\b{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}\b",
    "path": _PATH,
    "file": rf"\b[\w-]+(?:\.[\w-]+)*\.(?:{'|'.join(_FILE_EXTENSIONS)})\b",
    "hash": r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b",
    "dotted": r"\b[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+\b",
    "id": r"(?<![\w-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d)[A-Za-z0-9_][\w-]{4,}\b",
    "number": r"(?<![\w.])\d{4,}(?![\w.]\w)",
    "quoted": r"[\"'`]([^\"'`\n\\]{5,80})[\"'`]",
    SYMBOL_KIND: r"\b(?:[A-Za-z]+_\w{2,}|[a-z]+[A-Z]\w{3,}|[A-Z][a-z]+[A-Z]\w{2,})\b",
}
_KIND_SUBSTITUTIONS: Final = tuple((kind, re.compile(pattern).sub) for kind, pattern in _PATTERNS.items())
# Data, not names; and some patterns would try each of its places up to its end.
_LONG_RUN: Final = re.compile(r"(?<![\w.@+/\\-])[\w.@+/\\-]{2000,}+").sub
_YEAR: Final = re.compile(r"(?:19|20)\d\d").fullmatch
_TUNING_KEY: Final = re.compile(
    r"(?:_ms|timeout|tokens|limit|offset|max|min|count|lines?|depth|width|height|workdir|cwd|description)$", re.I
).search
_SKIPPED_KEYS: Final = frozenset({"workdir", "cwd", "description"})
# Names that occur everywhere, and what the recordings' own masking writes.
_COMMON_NAMES: Final = frozenset(
    "python3 utf-8 UTF-8 sha256 base64 ipv4 ipv6 http2 dev/null /dev/null origin/main".split()
)
_MASK_TEXT: Final = "REDACTED"
_split_path: Final = re.compile(r"[/\\]").split


class Identifier(NamedTuple):
    """A name as it was written, and its kind."""

    name: str
    kind: str


def find_identifiers(arguments: str, head: int | None = ARGUMENT_HEAD_CHARS) -> list[Identifier]:
    """Return the distinct names in the arguments of one call, in order. With `head` None all of each argument is
    read.
    """
    try:
        values = list(_iterate_values(_load_arguments(arguments)))
    except (ValueError, RecursionError):
        values = [arguments]
    kinds_by_name: dict[str, str] = {}
    for value in values:
        text = value[:head] if head else _LONG_RUN(_GAP, value)
        for kind, sub in _KIND_SUBSTITUTIONS:
            text = sub(_make_collector(kind, kinds_by_name), text)
    return [Identifier(name, kind) for name, kind in kinds_by_name.items()]


def _make_collector(kind: str, kinds_by_name: dict[str, str]) -> Callable[[re.Match[str]], str]:
    def take(match: re.Match[str]) -> str:
        if kind == "quoted":
            name = match[1].strip(".,;:")
            if not (" " in name.strip() and len(name.split()) > _MAX_QUOTED_WORDS) and _is_countable(
                name, _MIN_NAME_CHARS
            ):
                kinds_by_name.setdefault(name, kind)
            return match[0]
        name = match[0].strip(".,;:")
        if kind == "number":
            if _is_countable(name, _MIN_NUMBER_CHARS) and not name.endswith("00") and not _YEAR(name):
                kinds_by_name.setdefault(name, kind)
        elif _is_countable(name, _MIN_NAME_CHARS):
            name = _shorten_path(name) if kind == "path" else name
            if len(name) >= _MIN_NAME_CHARS:
                kinds_by_name.setdefault(name, kind)
        return _GAP

    return take


def _is_countable(name: str, least: int) -> bool:
    return len(name) >= least and name not in _COMMON_NAMES and _MASK_TEXT not in name


def _iterate_values(value: object, key: str = "") -> Iterator[str]:
    """Yield the arguments that can name something: no working directory, and no number that only tunes a tool."""
    if isinstance(value, str):
        if key not in _SKIPPED_KEYS:
            yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _iterate_values(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_values(inner, key)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _TUNING_KEY(key):
        yield str(value)


def _shorten_path(path: str) -> str:
    """Return the last three parts, so that absolute and relative spellings of a path are equal."""
    parts = [part for part in _split_path(path) if part]
    return "/".join(parts[-3:]) if len(parts) > 3 else path


def iterate_path_suffixes(path: str) -> Iterator[str]:
    """Yield ever shorter ends of a path, as it may be written elsewhere; a bare file name only if it has a dot."""
    parts = _split_path(path)
    for first in range(1, len(parts) - 1):
        yield "/".join(parts[first:])
    if len(parts[-1]) >= _MIN_NAME_CHARS and "." in parts[-1]:
        yield parts[-1]


def _load_arguments(arguments: str) -> object:
    """Parse arguments; half a surrogate pair in an escape, which cannot be encoded, is repaired."""
    value = json.loads(arguments)
    return repair_json_unicode(value) if "\\ud" in arguments.lower() else value


def flatten_arguments(arguments: object) -> str:
    """Return the texts in the arguments with JSON escapes resolved, so that a name is found as it was meant."""
    try:
        value = _load_arguments(arguments)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return arguments if isinstance(arguments, str) else json.dumps(arguments)
    return "\n".join(_iterate_leaves(value))


def _iterate_leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _iterate_leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def chat_text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict) and part.get("type") == "text")


def iterate_chat_calls(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for call in message.get("tool_calls") or ():
        yield call["function"]


def searchable_text_of(message: Mapping[str, Any]) -> str:
    """Return all text of a message that can be searched: content, names of calls, their arguments."""
    calls = [f"{call['name']} {flatten_arguments(call['arguments'])}" for call in iterate_chat_calls(message)]
    return "\n".join([chat_text_of(message), *calls])
