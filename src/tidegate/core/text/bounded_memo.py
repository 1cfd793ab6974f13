"""A bounded cache for functions of short texts, such as the words and lines of a view. Facts and key lines share it."""

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class BoundedMemo(dict[str, _T]):
    """Results of `find` by text. Texts over `longest` characters are not cached; it is emptied at `most` entries."""

    def __init__(self, find: Callable[[str], _T], *, longest: int, most: int) -> None:
        super().__init__()
        self._find, self._longest, self._most = find, longest, most

    def __missing__(self, text: str) -> _T:
        missing = self._find(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = missing
        return missing
