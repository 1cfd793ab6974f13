"""What was read from the last list of a client or framework, so that what the next list repeats is not read again."""

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


def update_copy(copy: list[_T], items: list[_T]) -> int:
    """Make `copy`, a copy of an earlier list, equal to `items`. Return how many items at the start are unchanged.

    As a rule a list has only grown, and its objects are the same. Python compares two lists of the same length without
    touching objects that are identical: this takes one or two nanoseconds for each, a slice twenty.
    """
    count = len(copy)
    copy += items[count:]
    if not _is_equal(copy, items):
        pairs = enumerate(zip(copy, items, strict=False))
        count = min(count, next((place for place, pair in pairs if not _is_equal(*pair)), len(items)))
        copy[:] = items
    elif count and copy[0] is not items[0]:  # equal, but other objects: from now on these are compared
        copy[:] = items
    return count


def _is_equal(first: object, second: object) -> bool:
    try:
        return first is second or bool(first == second)
    except Exception:  # noqa: BLE001 - values in messages of a framework, such as arrays, may refuse to be compared
        return False


class ReadMemo:
    """What was read from the last request of a client. Parts that a request repeats are not read again.

    Readers look back at earlier items: from the first item that differs, all are read.
    """

    def __init__(self) -> None:
        self._items: list[object] = []
        self._found: list[Any] = []
        self._fields: dict[str, tuple[object, Any]] = {}

    def read_items(self, items: list[object], read: Callable[[object, int, _T | None], _T]) -> list[_T]:
        """What `read` returns for each item, its place, and what was found for the item before it.

        The list is valid until the next call.
        """
        found: list[_T] = self._found
        del found[update_copy(self._items, items) :]
        for place in range(len(found), len(items)):
            found.append(read(items[place], place, found[-1] if found else None))
        return found

    def read_field(self, name: str, value: object, read: Callable[[], _T]) -> _T:
        """What `read` returns for a field of the request."""
        known = self._fields.get(name)
        if known is None or known[0] != value:
            known = self._fields[name] = value, read()
        return known[1]
