"""Where a name last stood in a session.

Searching a megabyte backwards for each of a thousand names is most of the work of measuring. A name stands whole only
where each word in it stands whole, so pages are found by their words first, and only those are searched.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

_MAX_PARTIAL_MATCHES: Final = 200
"""A name that is part of so many longer words, counted back from the end, counts as not there."""

_find_words: Final = re.compile(r"\w+").findall


def _is_whole_match(text: str, at: int, name: str) -> bool:
    """The name at this place is not a part of a longer word."""
    end = at + len(name)
    before = text[at - 1] if at else " "
    behind = text[end] if end < len(text) else " "
    return not (_is_word_char(before) and _is_word_char(name[0])) and not (
        _is_word_char(behind) and _is_word_char(name[-1])
    )


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def contains_whole_name(text: str, name: str) -> bool:
    """Does the name stand in the text as a whole?"""
    at = text.find(name)
    while at >= 0:
        if _is_whole_match(text, at, name):
            return True
        at = text.find(name, at + 1)
    return False


class WordPageIndex:
    """Pages of text, one a message, and which of them have a word."""

    def __init__(self, pages: Sequence[str]) -> None:
        self._pages_by_word: dict[str, list[int]] = {}
        for number, page in enumerate(pages):
            for word in set(_find_words(page)):
                self._pages_by_word.setdefault(word, []).append(number)

    def candidate_pages(self, text: str, before: int, *, whole: bool) -> Iterator[int] | None:
        """Pages before this one that may hold the text, newest first. None if its words tell nothing.

        If it need not stand whole, the words at its two ends may be parts of longer ones, and are not asked.
        """
        words = _find_words(text)
        if not whole and words:
            words = words[1 if _is_word_char(text[0]) else 0 : -1 if _is_word_char(text[-1]) else None]
        if not words:
            return None
        places = min((self._pages_by_word.get(word, []) for word in words), key=len)
        return (places[at] for at in range(bisect_left(places, before) - 1, -1, -1))


class PageStream:
    """Some of the pages, as one text in which each is followed by a mark. Places are offsets into that text."""

    def __init__(self, pages: Sequence[str], shelf: WordPageIndex, chosen: Sequence[int] | None = None) -> None:
        self._index = shelf
        self.page_numbers = list(range(len(pages))) if chosen is None else list(chosen)
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
        """Where this page, or the next one that is here, begins."""
        at = bisect_left(self.page_numbers, page)
        return self._starts[at] if at < len(self._starts) else self._length

    def page_at(self, place: int) -> int:
        """The page that holds this place."""
        return self.page_numbers[max(0, bisect_left(self._starts, place + 1) - 1)]

    def find_last(self, text: str, before: int, *, whole: bool = True) -> int:
        """Where the text last stands before this page, or -1."""
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
        while at >= 0 and not _is_whole_match(page, at, text):
            at = page.rfind(text, 0, at + len(text) - 1)
        return at

    def _is_hidden(self, text: str, place: int, end: int) -> bool:
        """Do too many longer words stand behind this place? Counted one by one only if they could be."""
        if self._text.count(text, place + 1, end) * len(text) <= _MAX_PARTIAL_MATCHES:
            return False
        return self._search_back(text, end) != place

    def _search_back(self, text: str, end: int) -> int:
        at, parts = self._text.rfind(text, 0, end), 0
        while at >= 0 and not _is_whole_match(self._text, at, text):
            parts += 1
            if parts > _MAX_PARTIAL_MATCHES:
                return -1
            at = self._text.rfind(text, 0, at + len(text) - 1)
        return at
