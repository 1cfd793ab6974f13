"""Where the members and elements of a JSON text are, in bytes.

The text is never parsed and written again: msgspec finds where each value ends (`Raw`), and the spans follow from the
lengths. Every span is compared with what msgspec read, so a text that repeats a key is refused, not misread.
"""

import re
from bisect import bisect_left
from typing import NamedTuple, TypeVar

import msgspec

from tidegate.core.errors import BadInput

_T = TypeVar("_T")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_KEY = re.compile(rb'[\s,]*"(?:[^"\\]|\\.)*"\s*:\s*', re.DOTALL)
_GAP = re.compile(rb"[\s,]*")


class Member(NamedTuple):
    """A member of an object: from the comma or brace before its key, where its value starts, where it ends."""

    start: int
    value: int
    end: int


class Element(NamedTuple):
    start: int
    end: int


def find_members(text: bytes) -> dict[str, Member]:
    """The members of a JSON object by key."""
    members: dict[str, Member] = {}
    place = text.index(b"{") + 1
    for key, raw in _decode(_object, text).items():
        match = _KEY.match(text, place)
        value = match.end() if match else -1
        place = _check_value(text, value, raw)
        members[key] = Member(match.start() if match else -1, value, place)
    if text[place:].strip() != b"}":
        raise _unreadable("a key is there twice")
    return members


def find_elements(text: bytes) -> list[Element]:
    """The elements of a JSON array."""
    elements: list[Element] = []
    place = text.index(b"[") + 1
    for raw in _decode(_array, text):
        gap = _GAP.match(text, place)
        start = gap.end() if gap else place
        place = _check_value(text, start, raw)
        elements.append(Element(start, place))
    return elements


def _check_value(text: bytes, start: int, raw: msgspec.Raw) -> int:
    value = bytes(raw)
    end = start + len(value)
    if start < 0 or text[start:end] != value:
        raise _unreadable("a key is there twice")
    return end


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise _unreadable(str(fault)) from fault


def _unreadable(why: str) -> BadInput:
    return BadInput(f"The JSON cannot be edited in place: {why}.", "Send it unedited.")


def replace_value(text: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    """The object with the value at the end of this path of keys replaced; unchanged if the path is not there."""
    member = find_members(text).get(path[0])
    if member is None:
        return text
    if len(path) > 1:
        value = replace_value(text[member.value : member.end], path[1:], value)
    return text[: member.value] + value + text[member.end :]


def remove_member(text: bytes, key: str) -> bytes:
    """The object without this member; unchanged if it has none."""
    members = find_members(text)
    if key not in members:
        return text
    target = members.pop(key)
    if text[target.start : target.value].lstrip().startswith(b","):
        return text[: target.start] + text[target.end :]
    following = min((member.start for member in members.values() if member.start >= target.end), default=None)
    if following is None:
        return text[: target.start] + text[target.end :]
    comma = text.index(b",", target.end)
    return text[: target.start] + text[comma + 1 :]


def rebuild_array(text: bytes, elements: list[bytes]) -> bytes:
    """An array with other elements. Those that it had before keep the space before them."""
    old = find_elements(text)
    if not old:
        return b"[" + b",".join(elements) + b"]"
    places: dict[bytes, list[int]] = {}
    for number, each in enumerate(old):
        places.setdefault(text[each.start : each.end], []).append(number)
    gap = text[old[0].end : old[1].start] if len(old) > 1 else b","
    pieces = [text[: old[0].start]]
    place = 0
    for number, element in enumerate(elements):
        old_places = places.get(element, [])
        after = bisect_left(old_places, place)
        same = old_places[after] if after < len(old_places) else -1
        if number:
            pieces.append(text[old[same - 1].end : old[same].start] if same > 0 else gap)
        place = same + 1 if same >= 0 else place
        pieces.append(element)
    return b"".join([*pieces, text[old[-1].end :]])
