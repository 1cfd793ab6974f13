"""The focus of the work: what the newest words and calls have in common with a few lines of old results.

A line of an old result is likelier to be needed if it has words of the newest request, of what the agent said last, or
of what it is writing: the section of a reference about the command in question, the callers of the function that is
being changed. A word counts the more the fewer old lines have it, as in BM25. Code and prose are read alike.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidegate.core.messages import calls_of, is_user_request, text_of
from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import INCIDENTAL_KEYS, iterate_strings, parse_call_arguments
from tidegate.core.turns import Group

_TERM: Final = LazyPattern(r"[^\W\d]\w{3,}")
_REQUESTS: Final = 2  # of the user, the newest: a short one such as "yes" says what it is about in the one before
_READ_CHARS: Final = 8_000  # of each text, and of each argument of a call
_COMMON_LINES: Final = 20  # a word in more old lines than these, and in more than the share of them, says nothing
_COMMON_SHARE: Final = 0.02
_MOST_TERMS: Final = 3  # of a line: further ones add nothing


def _find_terms(text: str) -> frozenset[str]:
    return frozenset(map(str.lower, _TERM.findall(text)))


_TERMS: Final = BoundedMemo(_find_terms, longest=400, most=1 << 15)


class Focus:
    """The words of the newest groups, those from `first` on, and of the newest requests, each with its weight."""

    def __init__(self, units: Sequence[Group], first: int) -> None:
        terms: frozenset[str] = frozenset().union(*map(_find_terms, _newest_texts(units, first)))
        counts: Counter[str] = Counter()
        total = 1
        for unit in units[:first]:
            for item in unit.items[1:]:
                for line in text_of(item.message).split("\n"):
                    total += 1
                    for term in terms & _TERMS[line]:
                        counts[term] += 1
        common = max(_COMMON_LINES, total * _COMMON_SHARE)
        self._weights = {
            term: math.log(1 + total / count) / math.log(1 + total) for term, count in counts.items() if count <= common
        }
        self._rated = frozenset(self._weights)

    def rate(self, line: str) -> float:
        """How much a line has to do with the work, from 0 to 3."""
        shared = _TERMS[line] & self._rated
        if not shared:
            return 0.0
        weights = sorted((self._weights[term] for term in shared), reverse=True)
        return sum(weights[:_MOST_TERMS])


def _newest_texts(units: Sequence[Group], first: int) -> list[str]:
    messages = [unit.items[0].message for unit in units]
    texts = [text_of(message)[:_READ_CHARS] for message in messages if is_user_request(message)][-_REQUESTS:]
    for message in messages[first:]:
        if message.role == "assistant":
            texts.append(text_of(message)[:_READ_CHARS])
            for call in calls_of(message):
                values = iterate_strings(parse_call_arguments(call), skip=INCIDENTAL_KEYS)
                texts += [value[:_READ_CHARS] for _, value in values]
    return texts
