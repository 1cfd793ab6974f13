"""Find where a name last occurred in a session.

Searching a megabyte backwards for each of a thousand names would be most of the work of scoring. A name occurs as a
whole only where each of its words does, so pages are found by their words first, and only those are searched.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

_MAX_PARTIAL_MATCHES: Final = 200
"""A name that is part of so many longer words, counted back from the end, counts as not there."""

_find_words: Final = re.compile(r"\w+").findall


def is_whole_match(text: str, at: int, name: str) -> bool:
    """Return whether the name at this offset is not part of a longer word."""
    end = at + len(name)
    before = text[at - 1] if at else " "
    behind = text[end] if end < len(text) else " "
    return not (_is_word_char(before) and _is_word_char(name[0])) and not (
        _is_word_char(behind) and _is_word_char(name[-1])
    )


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def contains_whole_name(text: str, name: str) -> bool:
    """Return whether the text contains the name as a whole."""
    at = text.find(name)
    while at >= 0:
        if is_whole_match(text, at, name):
            return True
        at = text.find(name, at + 1)
    return False


class WordPageIndex:
    """Pages of text, one per message, and which pages contain a word."""

    def __init__(self, pages: Sequence[str]) -> None:
        self._pages_by_word: dict[str, list[int]] = {}
        for number, page in enumerate(pages):
            for word in set(_find_words(page)):
                self._pages_by_word.setdefault(word, []).append(number)

    def candidate_pages(self, text: str, before: int, *, whole: bool) -> Iterator[int] | None:
        """Return the pages before this one that may contain the text, newest first. None if its words decide nothing.

        If it need not occur as a whole, the words at its ends may be parts of longer ones and are not looked up.
        """
        words = _find_words(text)
        if not whole and words:
            words = words[1 if _is_word_char(text[0]) else 0 : -1 if _is_word_char(text[-1]) else None]
        if not words:
            return None
        places = min((self._pages_by_word.get(word, []) for word in words), key=len)
        return (places[at] for at in range(bisect_left(places, before) - 1, -1, -1))


class PageStream:
    """Some of the pages as one text, each followed by a separator. Positions are offsets into that text."""

    def __init__(self, pages: Sequence[str], shelf: WordPageIndex, numbers: Sequence[int] | None = None) -> None:
        self._index = shelf
        self.page_numbers = list(range(len(pages))) if numbers is None else list(numbers)
        self._start_by_page: dict[int, int] = {}
        self._starts: list[int] = []
        offset = 0
        for number in self.page_numbers:
            self._start_by_page[number] = offset
            self._starts.append(offset)
            offset += len(pages[number]) + 1
        self._length = offset
        self._pages = pages
        self._text = "\x01".join([*(pages[number] for number in self.page_numbers), ""])

    def page_start(self, page: int) -> int:
        """Return the offset at which this page, or the next one that is included, starts."""
        at = bisect_left(self.page_numbers, page)
        return self._starts[at] if at < len(self._starts) else self._length

    def page_at(self, place: int) -> int:
        """Return the page at this offset."""
        return self.page_numbers[max(0, bisect_left(self._starts, place + 1) - 1)]

    def find_last(self, text: str, before: int, *, whole: bool = True) -> int:
        """Return the offset of the last occurrence before this page, or -1."""
        end = self.page_start(before)
        pages = self._index.candidate_pages(text, before, whole=whole)
        if pages is None:
            return self._search_back(text, end) if whole else self._text.rfind(text, 0, end)
        for page in pages:
            if page not in self._start_by_page:
                continue
            at = self._find_in_page(self._pages[page], text) if whole else self._pages[page].rfind(text)
            if at >= 0:
                place = self._start_by_page[page] + at
                return -1 if whole and self._is_hidden(text, place, end) else place
        return -1

    def _find_in_page(self, page: str, text: str) -> int:
        at = page.rfind(text)
        while at >= 0 and not is_whole_match(page, at, text):
            at = page.rfind(text, 0, at + len(text) - 1)
        return at

    def _is_hidden(self, text: str, place: int, end: int) -> bool:
        """Return whether too many longer words follow this offset. They are counted only if there could be."""
        if self._text.count(text, place + 1, end) * len(text) <= _MAX_PARTIAL_MATCHES:
            return False
        return self._search_back(text, end) != place

    def _search_back(self, text: str, end: int) -> int:
        at, parts = self._text.rfind(text, 0, end), 0
        while at >= 0 and not is_whole_match(self._text, at, text):
            parts += 1
            if parts > _MAX_PARTIAL_MATCHES:
                return -1
            at = self._text.rfind(text, 0, at + len(text) - 1)
        return at
