"""The places of the messages of one kind in a list that only grows, found without looking at every message again."""

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.messages import Message


class _HasMessage(Protocol):
    @property
    def message(self) -> Message: ...


class KindIndex:
    """Knows the places of one kind in the list that it was asked about last."""

    def __init__(self) -> None:
        self._items: Sequence[_HasMessage] = ()
        self._kind = ""
        self._places: list[int] = []
        self._read = 0

    def find(self, items: Sequence[_HasMessage], kind: str) -> Sequence[int]:
        """The places of the items of a kind. A list object that was passed before may have grown at its end."""
        if items is not self._items or kind != self._kind:
            self._items, self._kind, self._places, self._read = items, kind, [], 0
        for place in range(self._read, len(items)):
            if items[place].message.kind == kind:
                self._places.append(place)
        self._read = len(items)
        return self._places
