"""The bytes of a client's request, decoded only where they differ from those of its last request.

A client sends its whole history with each request, so most of the bytes are the same as before. Up to the first byte
that differs, the items of the last list are used again: JSON that begins with the same bytes has the same values there.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import find_elements, find_members

_SPACE = b" \t\r\n"
_PIECE = 65_536
"""Bytes that are compared at once."""
_SHORT_PIECE = 64


class OutputItem(NamedTuple):
    """An item of the list to send. `place` is its place in the client's list; -1 for one that is new.

    Adjacent items of the client that are kept are one item without a role, with the place of the first.
    """

    role: str
    text: bytes
    place: int = -1


class ItemSpans:
    """Where the items of a list are in a text, in arrays of numbers: these are copied much faster than lists."""

    def __init__(self, starts: "array[int]", ends: "array[int]") -> None:
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    def continue_with(self, count: int, following: "ItemSpans", shift: int) -> "ItemSpans":
        """The first `count` of these, and others that are at `shift` bytes more than they say."""
        starts = self.starts[:count] + array("q", [start + shift for start in following.starts])
        return ItemSpans(starts, self.ends[:count] + array("q", [end + shift for end in following.ends]))


_NO_ITEMS: Final = ItemSpans(array("q"), array("q"))


class ItemTexts:
    """The bytes of the items of a list by their places. Only those that are asked for are copied."""

    def __init__(self, text: bytes, items: ItemSpans) -> None:
        self._text = text
        self._items = items

    def __getitem__(self, place: int) -> bytes:
        return self._text[self._items.starts[place] : self._items.ends[place]]

    def copy_run(self, first: int, last: int) -> bytes:
        """The bytes from one item to another, with what is between them."""
        return self._text[self._items.starts[first] : self._items.ends[last]]


@dataclass
class ListText:
    """The bytes of a request, and the key of its list of messages."""

    text: bytes
    key: str
    _items: ItemSpans | None = field(default=None, compare=False, repr=False)

    def list_items(self) -> ItemSpans:
        """Where the items of the list are in the text. They are looked for once."""
        if self._items is None:
            self._items = find_items(self.text, self.key)
        return self._items

    def shares_start(self, text: bytes) -> bool:
        """Whether another text is the same up to the end of the first message."""
        try:
            ends = self.list_items().ends
        except BadInput:
            return False
        end = ends[0] if ends else 0
        last = slice(max(0, end - _SHORT_PIECE), end)  # as a rule this differs if anything does
        return end > 0 and text[last] == self.text[last] and text.startswith(self.text[:end])

    def read_head(self) -> bytes:
        """The request with the number 0 in place of its messages: what is before and after them."""
        items = self.list_items()
        return self.text[: items.starts[0]] + b"0" + self.text[items.ends[-1] :] if items else self.text

    def replace_head(self, head: bytes) -> "ListText":
        """The request with another head. The messages are not searched, however many there are."""
        items = self.list_items()
        if not items:
            return ListText(head, self.key)
        place, start = find_items(head, self.key), items.starts[0]
        listed = memoryview(self.text)[start : items.ends[-1]]
        text = b"".join([head[: place.starts[0]], listed, head[place.ends[0] :]])
        return ListText(text, self.key, _NO_ITEMS.continue_with(0, items, place.starts[0] - start))

    def change_head_of(self, edited: bytes, change: Callable[[bytes], bytes]) -> bytes:
        """Another version of this request, as a rule with other messages, after a change outside of them."""
        items = self.list_items()
        start, tail = (items.starts[0], self.text[items.ends[-1] :]) if items else (0, self.text)
        end = len(edited) - len(tail)
        if not items or end < start or edited[:start] != self.text[:start] or not edited.endswith(tail):
            return change(edited)
        head = edited[:start] + b"0" + tail
        new_head = change(head)
        if new_head == head:
            return edited
        place = find_items(new_head, self.key)
        return b"".join([new_head[: place.starts[0]], memoryview(edited)[start:end], new_head[place.ends[0] :]])


@dataclass
class RequestText:
    """A request and its JSON."""

    listed: ListText
    body: JsonObject

    @property
    def text(self) -> bytes:
        return self.listed.text

    @property
    def key(self) -> str:
        return self.listed.key


def find_items(text: bytes, key: str) -> ItemSpans:
    """Where the items of the list under this key are in the text; nowhere if it is not a list."""
    member = find_members(text).get(key)
    listed = text[member.value : member.end] if member else b""
    spans = _find_spans(listed) if listed[:1] == b"[" else _NO_ITEMS
    return _NO_ITEMS.continue_with(0, spans, member.value if member else 0)


def _find_spans(listed: bytes) -> ItemSpans:
    elements = find_elements(listed)
    return ItemSpans(array("q", [each.start for each in elements]), array("q", [each.end for each in elements]))


def decode_request(text: bytes, key: str, last: RequestText | None = None) -> RequestText | None:
    """Decode a request with the help of the last one; None if it is not a JSON object."""
    continued_request = _decode_rest(text, last) if last is not None and last.key == key else None
    if continued_request is not None:
        return continued_request
    body = _decode_object(text)
    return None if body is None else RequestText(ListText(text, key), body)


def _decode_object(text: bytes) -> JsonObject | None:
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _decode_rest(text: bytes, last: RequestText) -> RequestText | None:
    """Decode only what follows the items that both requests have. None if that is not possible or not worth it."""
    same = count_common_bytes(last.text, text)
    if 2 * same < len(last.text):
        return None
    try:
        old_spans = last.listed.list_items()
        count = bisect_left(old_spans.ends, same)  # what follows an item must be the same, too
        if not count:
            return None
        place = _find_next_item(text, old_spans.ends[count - 1])
        tail = last.text[old_spans.ends[-1] :]
        if text.endswith(tail) and place <= len(text) - len(tail):  # what is around the list is the same
            before, rest = b"[", b"[" + text[place : len(text) - len(tail)] + b"]"
            body, new_items, items = dict(last.body), _decode_list(rest), _find_spans(rest)
        else:
            before = text[: old_spans.starts[0]]
            rest = before + text[place:]
            body = _decode_object(rest) or {}
            new_items, items = body.get(last.key), find_items(rest, last.key)
    except BadInput:
        return None
    first = last.body.get(last.key)
    if not isinstance(first, list) or not isinstance(new_items, list):
        return None
    body[last.key] = first[:count] + new_items
    return RequestText(ListText(text, last.key, old_spans.continue_with(count, items, place - len(before))), body)


def _decode_list(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _find_next_item(text: bytes, end: int) -> int:
    """Where the item after the one that ends here begins, or the end of the list."""
    rest = text[end : end + 1_000].lstrip(_SPACE)
    if rest[:1] == b"]":
        return end
    if rest[:1] != b",":
        raise BadInput("No comma follows the item.", "Decode the whole request.")
    if rest[1:].lstrip(_SPACE)[:1] in (b"", b"]"):
        raise BadInput("No item follows the comma.", "Decode the whole request.")
    return text.index(b",", end) + 1


def count_common_bytes(first: bytes, second: bytes) -> int:
    """How many bytes at the start are the same."""
    size, place, view = min(len(first), len(second)), 0, memoryview(first)  # a slice of it copies nothing
    while place < size and second.startswith(view[place : place + _PIECE], place):
        place += _PIECE
    end = min(place + _PIECE, size)
    while place < end:
        middle = (place + end + 1) // 2
        if second.startswith(view[place:middle], place):
            place = middle
        else:
            end = middle - 1
    return min(place, size)


def join_items(text: bytes, items: ItemSpans, output: Sequence[OutputItem]) -> bytes:
    """The text with other items in its list. The spaces between items stay."""
    return b"".join([text[: items.starts[0]], *_space_items(text, items, output), text[items.ends[-1] :]])


def join_list(text: bytes, items: ItemSpans, output: Sequence[OutputItem]) -> bytes:
    """The items of such a list, with the spaces between them."""
    return b"".join(_space_items(text, items, output))


def _space_items(text: bytes, items: ItemSpans, output: Sequence[OutputItem]) -> Iterator[bytes]:
    starts, ends = items.starts, items.ends
    gap = text[ends[0] : starts[1]] if len(items) > 1 else b","
    for number, item in enumerate(output):
        if number:
            yield text[ends[item.place - 1] : starts[item.place]] if item.place > 0 else gap
        yield item.text
