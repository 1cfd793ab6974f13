"""Marks for the provider's cache (`cache_control`), which a client puts on blocks of its newest messages.

Without its mark, a request reads and writes nothing in the cache beyond the mark before. So an edit that takes the
marked block away leaves the mark on another block of the message.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.wire.parsing import decode_object
from tidegate.wire.splicing.spans import find_elements, find_members

_KEY: Final = "cache_control"
_QUOTED_KEY: Final = b'"cache_control"'
_UNMARKED_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
"""Blocks on which the provider refuses a mark."""


def keep_marks(old: Sequence[bytes], new: list[bytes]) -> list[bytes]:
    """Return the new blocks of a message. If fewer have a mark than of the old ones, the last gets the last mark."""
    if not any(_QUOTED_KEY in block for block in old):
        return new
    marks = [mark for block in old for mark in _find_marks(block)]
    if sum(1 for block in new for _ in _find_marks(block)) >= len(marks):
        return new
    place = next((place for place in reversed(range(len(new))) if _may_be_marked(new[place])), None)
    if place is None or _KEY in find_members(new[place]):
        return new
    block = new[place].rstrip()
    marked = block[:-1] + b"," + _QUOTED_KEY + b":" + marks[-1] + b"}"
    return [*new[:place], marked, *new[place + 1 :]]


def _find_marks(block: bytes) -> Iterator[bytes]:
    """The marks of a block and of the blocks in it."""
    if _QUOTED_KEY not in block or block.lstrip()[:1] != b"{":
        return
    members = find_members(block)
    content = members.get("content")
    inner = block[content.value : content.end] if content is not None else b""
    for element in find_elements(inner) if inner[:1] == b"[" else ():
        if inner[element.start : element.start + 1] == b"{":
            yield from _find_marks(inner[element.start : element.end])
    mark = members.get(_KEY)
    if mark is not None and block[mark.value : mark.end] != b"null":
        yield block[mark.value : mark.end]


def _may_be_marked(block: bytes) -> bool:
    read = decode_object(block.decode("utf-8", "replace"))
    kind = read.get("type")
    return isinstance(kind, str) and kind not in _UNMARKED_TYPES and read.get("text") != ""
