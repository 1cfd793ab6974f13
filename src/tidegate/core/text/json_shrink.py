"""Shortening of JSON that keeps it valid.

Call arguments may only be shortened if they stay what a provider accepts: one JSON object. Strings carry nearly all
of the weight, so they go first; names of keys say what was done and go last.
"""

import json
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern

_LEAST = 24  # a clipped string keeps at least this much, marker included, while there is another way
_WRAPPED = "clipped"
_MAX_DESCENT = 8  # objects in objects, to find the array in them
_SPACE = LazyPattern(r"[ \t\n\r]*")


class JsonCut(msgspec.Struct, frozen=True):
    """Valid JSON with the first `shown` of `total` items of its array, in the original text."""

    text: str
    shown: int
    total: int


class _Caps(NamedTuple):
    keys: int
    string: int
    items: int
    depth: int


def shrink_json(arguments: str, max_chars: int) -> str:
    """A JSON object in at most `max_chars` (at least 2) characters. Text that is not an object is put into one."""
    limit = max(max_chars, 2)
    value = _object(arguments)
    if value is not None and len(arguments) <= limit and _strict(arguments):
        return arguments
    if value is None:
        value = {_WRAPPED: arguments} if arguments.strip() else {}
    for caps in _ladder(limit):
        if len(dump_json(_shrunk(value, caps))) <= limit:
            return _widest(value, caps, limit)
    return _keys_only(value, limit)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _strict(text: str) -> bool:
    """Whether the text is JSON without NaN and infinities, which Python reads but which are not JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def dump_json(value: Any) -> str:
    """The value as compact JSON without lone surrogates, which no provider accepts."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _ladder(limit: int) -> list[_Caps]:
    """The caps to try, from the least loss to the greatest. The first that fits is then widened."""
    items = [limit, 16, 8, 4, 2, 1]
    lists = [_Caps(limit, _LEAST, count, 24) for count in items]
    return lists + [_Caps(limit, _LEAST, 1, depth) for depth in (4, 3, 2, 1)]


def _widest(value: dict[str, Any], caps: _Caps, limit: int) -> str:
    """The longest strings that fit, found by bisection: a larger cap never makes a shorter text."""
    low, high = caps.string, limit
    best = dump_json(_shrunk(value, caps))
    while low < high:
        middle = (low + high + 1) // 2
        text = dump_json(_shrunk(value, caps._replace(string=middle)))
        if len(text) <= limit:
            low, best = middle, text
        else:
            high = middle - 1
    return best


def _shrunk(value: Any, caps: _Caps) -> Any:
    if isinstance(value, str):
        return _short(value, caps.string)
    if isinstance(value, list):
        if caps.depth <= 0 and value:
            return f"…[{len(value)} items]"
        inner = caps._replace(depth=caps.depth - 1)
        items = [_shrunk(item, inner) for item in value[: caps.items]]
        return items if len(value) <= caps.items else [*items, f"…[{len(value) - caps.items} more]"]
    if isinstance(value, dict):
        if caps.depth <= 0 and value:
            return f"…[{len(value)} keys]"
        inner = caps._replace(depth=caps.depth - 1)
        # A key takes at least four characters: no more than the limit of them is ever looked at.
        return {key: _shrunk(item, inner) for key, item in islice(value.items(), caps.keys)}
    return value


def _short(text: str, cap: int) -> str:
    if len(text) <= cap:
        return text
    marker = f"…[{len(text)} chars]"
    keep = max(cap - len(marker), 0)
    while keep and "\ud800" <= text[keep - 1] <= "\udbff":
        keep -= 1
    return text[:keep] + marker


def _keys_only(value: dict[str, Any], limit: int) -> str:
    """As many keys as fit. The remaining room goes to their values, in order."""
    result: dict[str, Any] = {}
    room = limit - 2
    for key in islice(value, limit):
        size = len(dump_json({key: "…"})) - 2 + bool(result)
        if size <= room:
            result[key] = "…"
            room -= size
    for key in result:
        short = _shrunk(value[key], _Caps(limit, _LEAST, 0, 0))
        more = len(dump_json(short)) - 3
        if more <= room:
            result[key] = short
            room -= more
    return dump_json(result)


def cut_json_array(text: str, fits: Callable[[str], bool]) -> JsonCut | None:
    """The first items of an array that `fits` accepts, or None: no array, or not even one item fits.

    The array may be the largest value of an object, as in `{"results": [...], "next": 2}`: the rest of it stays.
    """
    array = _find_array(text)
    if array is None:
        return None
    ends, rest = array.ends, text[array.end :]
    if fits(text):
        return JsonCut(text, len(ends), len(ends))
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[: ends[middle - 1]] + rest):
            low = middle
        else:
            high = middle - 1
    return JsonCut(text[: ends[low - 1]] + rest, low, len(ends)) if low else None


class _ArrayPlace(NamedTuple):
    """An array in a text: the index at which each item ends, and that of its closing bracket."""

    ends: list[int]
    end: int


def _find_array(text: str) -> _ArrayPlace | None:
    """The array that a text is, or that is the largest value of the object it is. None if it is neither."""
    at = _skip(text, 0)
    try:
        end = json.JSONDecoder().raw_decode(text, at)[1]
        if text[end:].strip():
            return None
        for _ in range(_MAX_DESCENT):
            if text[at] != "{":
                break
            at = max(_list_values(text, at), key=lambda span: span[1] - span[0], default=(end - 1, end))[0]
        items = _read_items(text, at) if text[at] == "[" else None
    except (ValueError, IndexError, RecursionError):
        return None
    return items if items is not None and items.ends else None


def _list_values(text: str, at: int) -> list[tuple[int, int]]:
    """Where each value of an object begins and ends. The text was parsed before, so it is well-formed."""
    decoder = json.JSONDecoder()
    values: list[tuple[int, int]] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        at = _skip(text, decoder.raw_decode(text, at)[1])  # the key
        start = _skip(text, at + 1)
        end = decoder.raw_decode(text, start)[1]
        values.append((start, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return values


def _read_items(text: str, at: int) -> _ArrayPlace:
    decoder = json.JSONDecoder()
    ends: list[int] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        end = decoder.raw_decode(text, at)[1]
        ends.append(end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return _ArrayPlace(ends, at)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
