"""What was found of short texts that come again and again: the words and lines of a view, whenever it is swept."""

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class BoundedMemo(dict[str, _T]):
    """Within bounds: only of texts that are not too long, and if there are too many all are forgotten. That does not
    show: they are found again."""

    def __init__(self, find: Callable[[str], _T], *, longest: int, most: int) -> None:
        super().__init__()
        self._find, self._longest, self._most = find, longest, most

    def __missing__(self, text: str) -> _T:
        found = self._find(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = found
        return found
