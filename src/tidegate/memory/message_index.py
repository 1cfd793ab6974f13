"""Ranking of messages for the words of a query: the one ranking behind every recall by words.

An inverted index in memory, built message by message. Long messages are split into passages, so that one matching
paragraph is not lost in a long file. The score of a passage is BM25 over stemmed words, the parts of identifiers and
whole identifiers (`terms_of`). The score of a message is that of its best passage, plus shares of its next ones and of
the messages before and after it, because an answer often has none of the words of its question. The share of a
neighbor is large within an exchange (a question and its answer, a call and its result) and small elsewhere. The newest
come first among equals. The index holds no text.

This module is pure: `session/recall_index.py` reads the log.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from itertools import chain, islice
from math import log
from typing import Final, NamedTuple

import msgspec
from isal import isal_zlib

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.memory.stemmer import stem_word
from tidegate.memory.text_pieces import TextPiece, split_text
from tidegate.memory.words import COMMON_WORDS, find_word_runs, normalize_text, split_identifier, split_unspaced

_CHAIN: Final = LazyPattern(r"\w+(?:[.\-]\w+)*")
_SEPARATORS: Final = LazyPattern(r"[.\-]")
_MAX_TERM_CHARS: Final = 64
_MAX_CHAIN_CHARS: Final = 160
"""A longer chain of words is data, not an identifier."""
_MAX_CACHED_CHAINS: Final = 65_536
_PASSAGE_CHARS: Final = 1_000
_MAX_QUERY_TERMS: Final = 64
SATURATION, LENGTH_WEIGHT = 1.2, 0.75
"""The usual parameters k1 and b of BM25."""
_LINKED_SHARE: Final = 0.5
NEIGHBOR_SHARE: Final = 0.2
"""Shares of its score that a message gives to the messages beside it, by whether they belong to its exchange.

Chosen with `bench/recall.py` on half 0 of recorded sessions, as is the share of passages.
"""
PASSAGE_SHARE: Final = 0.3
MAX_PASSAGES: Final = 8
"""Passages beside the best that count for a message."""
_MAX_COUNT: Final = 255
MAX_RANKED: Final = 500
_MAX_POSTINGS: Final = 8_000
"""Postings of a query that are read in any case, rare terms first."""
_MAX_CANDIDATES: Final = 1_000
_MIN_PART_CHARS: Final = 4
_COMPRESSION: Final = 1
_MAX_SIMILAR_TERMS: Final = 8


class PackedIndex(msgspec.Struct, frozen=True, array_like=True):
    """An index as bytes. Each array is compressed, the postings with their first bytes together, then their second."""

    terms: bytes
    sizes: bytes
    postings: bytes
    seqs: bytes
    linked: bytes
    owners: bytes
    lengths: bytes
    offsets: bytes


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


def is_indexed_query(query: str) -> bool:
    """Whether a query has words of which even a part or a similar word would have been found."""
    return any(len(term) >= _MIN_PART_CHARS for term in terms_of(query))


class MessageIndex:
    """The index of one session's messages, added in the order of their seqs."""

    def __init__(self) -> None:
        # Passages of a term, each with its count in the low byte. Most terms occur once: a number is smaller.
        self._postings: dict[str, int | array[int]] = {}
        self._seqs = array("Q")
        self._linked = bytearray()
        self._owners = array("I")
        self._lengths = array("I")
        self._offsets = array("I")
        self._term_count = 0
        # All terms in one string: searching it is far quicker than a loop over them.
        self._vocabulary = ""
        self._vocabulary_size = 0

    def __len__(self) -> int:
        return len(self._seqs)

    @property
    def seqs(self) -> Sequence[int]:
        """The seqs of the messages, in the order added."""
        return self._seqs

    def add(self, seq: int, text: str, *, is_linked: bool = False) -> None:
        """Add a message. Its seq is greater than those before it.

        `is_linked`: it belongs to the exchange of the message before it.
        """
        number, offset = len(self._seqs), 0
        self._seqs.append(seq)
        self._linked.append(is_linked)
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
            entry = find(term)
            if entry is None:
                postings[term] = posting
            elif isinstance(entry, int):
                postings[term] = array("I", (entry, posting))
            else:
                entry.append(posting)
        length = counts.total()
        self._owners.append(number)
        self._lengths.append(length)
        self._offsets.append(offset)
        self._term_count += length

    def pack(self) -> PackedIndex:
        postings = array("I")
        for each in self._postings.values():
            postings.extend((each,) if isinstance(each, int) else each)
        sizes = array("I", (1 if isinstance(each, int) else len(each) for each in self._postings.values()))
        raw = postings.tobytes()
        parts = (
            "\n".join(self._postings).encode(),
            sizes.tobytes(),
            b"".join(raw[at :: postings.itemsize] for at in range(postings.itemsize)),
            self._seqs.tobytes(),
            bytes(self._linked),
            *(each.tobytes() for each in (self._owners, self._lengths, self._offsets)),
        )
        return PackedIndex(*(isal_zlib.compress(part, _COMPRESSION) for part in parts))

    @classmethod
    def unpack(cls, parts: PackedIndex) -> "MessageIndex":
        """Return the index that was packed. ValueError if it is damaged."""
        index = cls()
        try:
            terms, sizes, planes, seqs, linked, owners, lengths, offsets = map(
                isal_zlib.decompress, msgspec.structs.astuple(parts)
            )
            words = terms.decode().split("\n") if terms else []
        except isal_zlib.IsalError as damage:  # type: ignore[misc] # an exception, say its stubs not
            raise ValueError("an array cannot be read") from damage
        counts, postings = array("I", sizes), array("I")
        raw, count = bytearray(len(planes)), len(planes) // postings.itemsize
        for at in range(postings.itemsize):
            raw[at :: postings.itemsize] = planes[at * count : (at + 1) * count]
        postings.frombytes(raw)
        index._seqs.frombytes(seqs)
        index._linked.extend(linked)
        for column, part in ((index._owners, owners), (index._lengths, lengths), (index._offsets, offsets)):
            column.frombytes(part)
        start = 0
        for word, size in zip(words, counts, strict=True):
            index._postings[word] = postings[start] if size == 1 else postings[start : start + size]
            start += size
        if start != len(postings) or len(index._linked) != len(index._seqs):
            raise ValueError("the arrays do not fit each other")
        index._term_count = sum(index._lengths)
        return index

    def rank(self, query: str, *, allowed: Sequence[int] | None = None) -> list[RankedMessage]:
        """Return the messages with words of the query and their neighbors, the best first, at most `MAX_RANKED`.

        `allowed` has for each message, in the order added, whether it may be found. One that may not counts for
        nothing, as if it were not there.
        """
        count, linked = len(self._seqs), self._linked
        scores, offsets = self._score_messages(self._find_terms(query), allowed)
        totals = dict(scores)
        for number, score in scores.items():
            for neighbor, later in ((number - 1, number), (number + 1, number + 1)):
                if 0 <= neighbor < count and (allowed is None or allowed[neighbor]):
                    share = _LINKED_SHARE if linked[later] else NEIGHBOR_SHARE
                    totals[neighbor] = totals.get(neighbor, 0.0) + share * score
        best = sorted(zip(totals.values(), totals, strict=True), reverse=True)[:MAX_RANKED]
        return [RankedMessage(self._seqs[number], score, offsets.get(number, 0)) for score, number in best]

    def find_all(self, text: str) -> list[int]:
        """Return the seqs of the messages that have every term of a text, newest first."""
        terms = list(dict.fromkeys(terms_of(text)))
        owners = [{self._owners[posting >> 8] for posting in self._read_postings(term)} for term in terms]
        both = set.intersection(*owners) if owners else set()
        return [self._seqs[number] for number in sorted(both, reverse=True)]

    def _read_postings(self, term: str) -> Sequence[int]:
        entry = self._postings.get(term, ())
        return (entry,) if isinstance(entry, int) else entry

    def _find_terms(self, query: str) -> list[str]:
        """Return the terms of a query; for those that occur nowhere, the most similar that do."""
        terms = list(dict.fromkeys(terms_of(query)))[:_MAX_QUERY_TERMS]
        pairs = [term for term in terms if len(term) > 1 or term.isascii()]  # not the last character of a run
        terms = pairs or terms
        matches = [term for term in terms if term in self._postings]
        missing = [term for term in terms if not pairs or (term not in self._postings and len(term) >= _MIN_PART_CHARS)]
        if not missing:
            return matches
        similar = chain.from_iterable(map(self._find_similar, missing))
        matches = list(dict.fromkeys([*matches, *similar]))
        return matches or list(chain.from_iterable(map(self._find_misspelled, missing)))

    def _find_similar(self, term: str) -> list[str]:
        """Return the shortest terms of the index that contain a term, or that it begins with."""
        new_words = islice(self._postings, self._vocabulary_size, None)
        self._vocabulary += "".join(f"{word}\n" for word in new_words)
        self._vocabulary_size = len(self._postings)
        lengths = range(_MIN_PART_CHARS, len(term))
        matches = [term[:length] for length in lengths if term[:length] in self._postings]
        vocabulary, at = self._vocabulary, self._vocabulary.find(term)
        while at >= 0:
            start, end = vocabulary.rfind("\n", 0, at) + 1, vocabulary.find("\n", at)
            matches.append(vocabulary[start:end])
            at = vocabulary.find(term, end)
        return nsmallest(_MAX_SIMILAR_TERMS, matches, key=len)

    def _find_misspelled(self, term: str) -> list[str]:
        letters, most = set(term), max(1, len(term) // 4)
        words = [word for word in self._postings if word[0] == term[0] and abs(len(word) - len(term)) <= 2]
        words = [word for word in words if len(letters.symmetric_difference(word)) <= 2 * most]
        return get_close_matches(term, words, _MAX_SIMILAR_TERMS, 0.75)

    def _score_messages(
        self, terms: Iterable[str], allowed: Sequence[int] | None
    ) -> tuple[dict[int, float], dict[int, int]]:
        """Return the scores of messages, and where the best passage of each begins."""
        owners, starts = self._owners, self._offsets
        scores: dict[int, float] = {}
        offsets: dict[int, int] = {}
        counts = Counter[int]()
        for passage, score in _choose_best(self._score_passages(terms, allowed)):
            number = owners[passage]
            if number not in scores:
                scores[number] = score
                offsets[number] = starts[passage]
            elif counts[number] < MAX_PASSAGES:
                counts[number] += 1
                scores[number] += PASSAGE_SHARE * score
        return scores, offsets

    def _score_passages(self, terms: Iterable[str], allowed: Sequence[int] | None) -> dict[int, float]:
        """Score the passages that have these terms, rare terms first.

        Common terms can make many passages the best only if there is no rarer one, so they count only for the best so
        far once enough postings have been read: a query of many common words would read most of the index.
        """
        owners, lengths, total = self._owners, self._lengths, len(self._owners)
        base = SATURATION * (1 - LENGTH_WEIGHT)
        share = SATURATION * LENGTH_WEIGHT * total / max(1, self._term_count)
        scores: dict[int, float] = {}
        some = sorted((self._read_postings(term) for term in terms), key=len)
        left = _MAX_POSTINGS
        for postings in some:
            weight = log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5)) * (SATURATION + 1)
            if len(postings) > left and scores:
                if left:
                    scores, left = dict(_choose_best(scores)), 0
                for passage in scores:
                    place = bisect_left(postings, passage << 8)
                    if place < len(postings) and postings[place] >> 8 == passage:
                        count = postings[place] & 255
                        scores[passage] += weight * count / (count + base + share * lengths[passage])
                continue
            left = max(1, left - len(postings))
            get = scores.get
            for posting in postings:
                passage, count = posting >> 8, posting & 255
                if allowed is None or allowed[owners[passage]]:
                    scores[passage] = get(passage, 0.0) + weight * count / (count + base + share * lengths[passage])
        return scores


def _choose_best(scores: dict[int, float]) -> list[tuple[int, float]]:
    """Return the passages with the best scores, best first, the newest first among equals."""
    least = sorted(scores.values(), reverse=True)[_MAX_CANDIDATES] if len(scores) > _MAX_CANDIDATES else 0.0
    best = sorted(((score, passage) for passage, score in scores.items() if score >= least), reverse=True)
    return [(passage, score) for score, passage in best[:_MAX_CANDIDATES]]
