"""The start of the last edited view as it was written, so that the next request writes only what is new.

Between two sweeps a view only grows. All edits are at its start; after them come items that are copied. The start is
used again for the same units and the same bytes of the client.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.wire.splicing.request_text import ItemSpans


class WrittenStart(NamedTuple):
    """What was written for `units` from the client's items before `place`, which were the bytes `source`."""

    units: Sequence[object]
    source: bytes
    place: int
    text: bytes


class WriteMemo:
    """The start of the last edited view of a conversation."""

    def __init__(self) -> None:
        self._last: WrittenStart | None = None

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        last = self._last
        return len(last.source) + len(last.text) if last is not None else 0

    def find(self, body: bytes, items: ItemSpans, units: Sequence[object]) -> WrittenStart | None:
        """The start of this view, if it was written before from the same bytes."""
        last = self._last
        if last is None or last.place >= len(items) or not body.startswith(last.source, items.starts[0]):
            return None
        has_place = items.starts[last.place] == items.starts[0] + len(last.source)
        return last if has_place and units[: len(last.units)] == last.units else None

    def keep(self, body: bytes, items: ItemSpans, units: Sequence[object], place: int, text: bytes) -> None:
        """Keep what was written for these units from the items before `place`."""
        self._last = WrittenStart(units, body[items.starts[0] : items.starts[place]], place, text)
