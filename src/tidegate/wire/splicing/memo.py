"""What is remembered of the last request of a conversation: what the next one repeats is not read or written again."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tidegate.wire.splicing.request_text import ItemSpans

_T = TypeVar("_T")
_Unit = TypeVar("_Unit")


class LastList(Generic[_T]):
    """The items of the last list of a client or framework, compared with those of the next one.

    As a rule a list has only grown, and its objects are the same. Python compares two lists of the same length without
    touching objects that are identical: this takes one or two nanoseconds for each, a slice twenty.
    """

    def __init__(self) -> None:
        self.items: list[_T] = []
        self._copied: _T | None = None  # the first item of the last list, if it was a copy of the one in `items`

    def update(self, items: list[_T]) -> int:
        """Take over the items of the next list. Return how many items at the start are unchanged.

        Equal objects take the place of those here, because as a rule the same ones come with the next call. Those of a
        host that copies its messages for each call do not: what is here serves as well, and nothing must be freed.
        """
        old_items, count = self.items, len(self.items)
        old_items += items[count:]
        copied = None
        if not is_equal(old_items, items):
            pairs = enumerate(zip(old_items, items, strict=False))
            count = min(count, next((place for place, pair in pairs if not is_equal(*pair)), len(items)))
            old_items[:] = items
        elif count and old_items[0] is not items[0]:
            copied = items[0]
            if self._copied is None or self._copied is copied:
                old_items[:] = items
        elif count:
            old_items[count - 1] = items[count - 1]  # the last item of a request is decoded again with the next one
        self._copied = copied
        return count


def is_equal(first: object, second: object) -> bool:
    """Whether two values are equal; False if they cannot be compared."""
    try:
        return first is second or bool(first == second)
    except Exception:  # noqa: BLE001 - values in messages of a framework, such as arrays, may refuse to be compared
        return False


class ReadMemo:
    """What was read from the last request of a client. Parts that a request repeats are not read again.

    Readers look back at earlier items: from the first item that differs, all are read.
    """

    def __init__(self) -> None:
        self._last = LastList[object]()
        self._found: list[Any] = []
        self._units: list[Any] = []
        self._ends: list[int] = []  # for each item the number of units up to its end
        self.known_units = 0  # units at the start of the last request that the one before it had, too
        self._fields: dict[str, tuple[object, Any]] = {}

    def read_items(self, items: list[object], read: Callable[[object, int, _T | None], _T]) -> list[_T]:
        """What `read` returns for each item, its place, and what was found for the item before it.

        The list is valid until the next call.
        """
        results: list[_T] = self._found
        del results[self._last.update(items) :]
        del self._ends[max(0, len(results) - 1) :]  # the last item that is known may have another one after it
        for place in range(len(results), len(items)):
            results.append(read(items[place], place, results[-1] if results else None))
        return results

    def read_units(
        self,
        items: list[object],
        read: Callable[[object, int, _T | None], _T],
        list_units: Callable[[_T, _T | None], Sequence[_Unit]],
    ) -> tuple[list[_T], list[_Unit]]:
        """The same, and the units in the items: `list_units` gets what was found for an item and for the one after it.

        Both lists are valid until the next call.
        """
        results, units = self.read_items(items, read), self._units
        first, known_count = len(self._ends), self._ends[-1] if self._ends else 0
        before = units[known_count:]
        del units[known_count:]
        for place in range(first, len(results)):
            units += list_units(results[place], results[place + 1] if place + 1 < len(results) else None)
            self._ends.append(len(units))
        for old, new in zip(before, units[known_count:], strict=False):
            if old is not new:
                break
            known_count += 1
        self.known_units = known_count
        return results, units

    def read_field(self, name: str, value: object, read: Callable[[], _T]) -> _T:
        """What `read` returns for a field of the request."""
        entry = self._fields.get(name)
        if entry is None or entry[0] != value:
            entry = self._fields[name] = value, read()
        return entry[1]


class WrittenStart(NamedTuple):
    """What was written for `units` from the client's items before `place`, which were the bytes `source`."""

    units: Sequence[object]
    source: bytes
    place: int
    text: bytes


class WriteMemo:
    """The start of the last edited view of a conversation, so that the next request writes only what is new.

    Between two sweeps a view only grows. All edits are at its start; after them come items that are copied. The start
    is used again for the same units and the same bytes of the client.
    """

    def __init__(self) -> None:
        self._last: WrittenStart | None = None
        self.size = 0
        """The bytes that are kept."""

    def find(self, body: bytes, items: ItemSpans, units: Sequence[object]) -> WrittenStart | None:
        """The start of this view, if it was written before from the same bytes."""
        last = self._last
        if last is None or last.place >= len(items) or not body.startswith(last.source, items.starts[0]):
            return None
        has_place = items.starts[last.place] == items.starts[0] + len(last.source)
        return last if has_place and units[: len(last.units)] == last.units else None

    def keep(self, body: bytes, items: ItemSpans, units: Sequence[object], place: int, text: bytes) -> None:
        """Keep what was written for these units from the items before `place`."""
        source = body[items.starts[0] : items.starts[place]]
        self._last, self.size = WrittenStart(units, source, place, text), len(source) + len(text)
