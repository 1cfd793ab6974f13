"""Ranking of messages for the words of a query: the one ranking behind every recall by words.

An inverted index in memory, built message by message. Long messages are split into passages, so that one matching
paragraph is not lost in a long file. The score of a passage is BM25 over stemmed words, the parts of identifiers and
whole identifiers (`terms_of`); the score of a message is that of its best passage, plus half of the scores of the
messages before and after it, because an answer often has none of the words of its question. The newest come first
among equals. The index holds no text.

This module is pure: `session/recall_index.py` reads the log.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from heapq import nlargest, nsmallest
from itertools import chain
from math import log
from typing import Final, NamedTuple

from tidegate.memory.passages import TextPiece, split_text
from tidegate.memory.stemmer import stem_word
from tidegate.memory.words import COMMON_WORDS, find_word_runs, normalize_text, split_identifier, split_unspaced

_CHAIN: Final = re.compile(r"\w+(?:[.\-]\w+)*")
_SEPARATORS: Final = re.compile(r"[.\-]")
_MAX_TERM_CHARS: Final = 64
_MAX_CHAIN_CHARS: Final = 160
"""A longer chain of words is data, not an identifier."""
_MAX_CACHED_CHAINS: Final = 65_536
_PASSAGE_CHARS: Final = 1_000
_MAX_QUERY_TERMS: Final = 64
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75
"""The usual parameters k1 and b of BM25."""
_NEIGHBOR_SHARE: Final = 0.5
_MAX_COUNT: Final = 255
MAX_RANKED: Final = 1_000
_MAX_POSTINGS: Final = 30_000
"""Postings of a query that are read in any case, rare terms first."""
_MAX_CANDIDATES: Final = 2_000
_MIN_PART_CHARS: Final = 4
_MAX_SIMILAR_TERMS: Final = 8


class RankedMessage(NamedTuple):
    """A message for a query. `offset` is where its best passage begins in its text."""

    seq: int
    score: float
    offset: int


@lru_cache(maxsize=_MAX_CACHED_CHAINS)
def _terms_of_chain(run: str) -> tuple[str, ...]:
    """Return the terms of words that are joined by dots, hyphens or underscores: their stems, and the whole."""
    # Cached, because texts repeat their words.
    if not run.isascii() and (unspaced := _split_scripts(run)):
        return unspaced
    if len(run) > _MAX_CHAIN_CHARS:
        return (run[:_MAX_TERM_CHARS].lower(),)
    pieces = [split_identifier(piece) for piece in _SEPARATORS.split(run)]
    parts = [part for piece in pieces for part in piece]
    if len(parts) == 1:
        return () if parts[0] in COMMON_WORDS else (stem_word(parts[0]),)
    wholes = ["".join(piece)[:_MAX_TERM_CHARS] for piece in pieces if len(piece) > 1] if len(pieces) > 1 else []
    return (*map(stem_word, parts), *wholes, "".join(parts)[:_MAX_TERM_CHARS]) if parts else ()


def _split_scripts(run: str) -> tuple[str, ...]:
    """Return the terms of a run that has characters of a script without spaces; none for any other run."""
    runs = find_word_runs(run)
    pairs = [split_unspaced(each) for each in runs]
    if not any(pairs):
        return ()
    return tuple(
        term for each, some in zip(runs, pairs, strict=True) for term in (some if some else _terms_of_chain(each))
    )


def terms_of(text: str) -> Iterator[str]:
    """Yield the terms of a text: `getUserById` has the terms get, user, by, id and getuserbyid."""
    return chain.from_iterable(map(_terms_of_chain, _CHAIN.findall(normalize_text(text))))


class MessageIndex:
    """The index of one session's messages, added in the order of their seqs."""

    def __init__(self) -> None:
        # Passages of a term, each with its count in the low byte. Most terms occur once: a number is smaller.
        self._postings: dict[str, int | array[int]] = {}
        self._seqs = array("Q")
        self._owners = array("I")
        self._lengths = array("I")
        self._offsets = array("I")
        self._term_count = 0

    def __len__(self) -> int:
        return len(self._seqs)

    def add(self, seq: int, text: str) -> None:
        """Add a message. Its seq is greater than those before it."""
        number, offset = len(self._seqs), 0
        self._seqs.append(seq)
        for _, passage in split_text(TextPiece(seq, text), _PASSAGE_CHARS):
            self._add_passage(number, offset, passage)
            offset += len(passage)

    def _add_passage(self, number: int, offset: int, text: str) -> None:
        counts = Counter(terms_of(text))
        if not counts:
            return
        mark, postings, find = len(self._owners) << 8, self._postings, self._postings.get
        for term, count in counts.items():
            posting = mark | count if count <= _MAX_COUNT else mark | _MAX_COUNT
            known = find(term)
            if known is None:
                postings[term] = posting
            elif isinstance(known, int):
                postings[term] = array("I", (known, posting))
            else:
                known.append(posting)
        length = counts.total()
        self._owners.append(number)
        self._lengths.append(length)
        self._offsets.append(offset)
        self._term_count += length

    def rank(self, query: str, *, is_allowed: Callable[[int], bool] | None = None) -> list[RankedMessage]:
        """Return the messages with words of the query and their neighbors, the best first, at most `MAX_RANKED`.

        `is_allowed` is given a seq. A message that is not allowed counts for nothing, as if it were not there.
        """
        seqs, count = self._seqs, len(self._seqs)
        scores, offsets = self._score_messages(self._find_terms(query))
        if is_allowed is not None:
            scores = {number: score for number, score in scores.items() if is_allowed(seqs[number])}
        totals = dict(scores)
        for number, score in scores.items():
            share = _NEIGHBOR_SHARE * score
            if number:
                totals[number - 1] = totals.get(number - 1, 0.0) + share
            if number + 1 < count:
                totals[number + 1] = totals.get(number + 1, 0.0) + share
        ranked = ((score, number) for number, score in totals.items() if is_allowed is None or is_allowed(seqs[number]))
        best = nlargest(MAX_RANKED, ranked)
        return [RankedMessage(seqs[number], score, offsets.get(number, 0)) for score, number in best]

    def find_all(self, text: str) -> list[int]:
        """Return the seqs of the messages that have every term of a text, newest first."""
        terms = list(dict.fromkeys(terms_of(text)))
        owners = [{self._owners[posting >> 8] for posting in self._read_postings(term)} for term in terms]
        both = set.intersection(*owners) if owners else set()
        return [self._seqs[number] for number in sorted(both, reverse=True)]

    def _read_postings(self, term: str) -> Sequence[int]:
        found = self._postings.get(term, ())
        return (found,) if isinstance(found, int) else found

    def _find_terms(self, query: str) -> list[str]:
        """Return the terms of a query; for those that occur nowhere, the most similar that do."""
        terms = list(dict.fromkeys(terms_of(query)))[:_MAX_QUERY_TERMS]
        pairs = [term for term in terms if len(term) > 1 or term.isascii()]  # not the last character of a run
        terms = pairs or terms
        known = [term for term in terms if term in self._postings]
        missing = [term for term in terms if not pairs or (term not in self._postings and len(term) >= _MIN_PART_CHARS)]
        if not missing:
            return known
        found = {term: list[str]() for term in missing}
        for word in self._postings:
            for term in missing:
                if term in word or (len(word) >= _MIN_PART_CHARS and term.startswith(word)):
                    found[term].append(word)
        similar = chain.from_iterable(nsmallest(_MAX_SIMILAR_TERMS, words, key=len) for words in found.values())
        known = list(dict.fromkeys([*known, *similar]))
        return known or list(chain.from_iterable(map(self._find_misspelled, missing)))

    def _find_misspelled(self, term: str) -> list[str]:
        words = [word for word in self._postings if word[0] == term[0] and abs(len(word) - len(term)) <= 2]
        return get_close_matches(term, words, _MAX_SIMILAR_TERMS, 0.75)

    def _score_messages(self, terms: Iterable[str]) -> tuple[dict[int, float], dict[int, int]]:
        """Return the score of the best passage of each message, and where it begins."""
        owners, starts = self._owners, self._offsets
        scores: dict[int, float] = {}
        offsets: dict[int, int] = {}
        for passage, score in self._score_passages(terms).items():
            number = owners[passage]
            if score > scores.get(number, 0.0):
                scores[number] = score
                offsets[number] = starts[passage]
        return scores, offsets

    def _score_passages(self, terms: Iterable[str]) -> dict[int, float]:
        """Score the passages that have these terms, rare terms first.

        Common terms can make many passages the best only if there is no rarer one, so they count only for the best so
        far once enough postings have been read: a query of many common words would read most of the index.
        """
        lengths, total = self._lengths, len(self._owners)
        base = _SATURATION * (1 - _LENGTH_WEIGHT)
        share = _SATURATION * _LENGTH_WEIGHT * total / max(1, self._term_count)
        scores: dict[int, float] = {}
        some = sorted((self._read_postings(term) for term in terms), key=len)
        left = _MAX_POSTINGS
        for postings in some:
            weight = log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5)) * (_SATURATION + 1)
            if len(postings) > left and scores:
                if left:
                    scores, left = {passage: scores[passage] for passage in _choose_best(scores)}, 0
                for passage in scores:
                    place = bisect_left(postings, passage << 8)
                    if place < len(postings) and postings[place] >> 8 == passage:
                        count = postings[place] & 255
                        scores[passage] += weight * count / (count + base + share * lengths[passage])
                continue
            left = max(1, left - len(postings))
            for posting in postings:
                passage, count = posting >> 8, posting & 255
                scores[passage] = scores.get(passage, 0.0) + weight * count / (count + base + share * lengths[passage])
        return scores


def _choose_best(scores: dict[int, float]) -> list[int]:
    """Return the passages with the best scores, the newest among equals."""
    return [passage for _, passage in nlargest(_MAX_CANDIDATES, ((score, at) for at, score in scores.items()))]
