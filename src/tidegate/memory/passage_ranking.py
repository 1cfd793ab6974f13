"""The ranking of `message_index.py` for passages that a database found, whose frequencies of words it counted.

A database that ranks by itself has other weights than `Session.recall`. So it gives candidates, more than are shown,
and they are ranked here by the same formula: BM25 over stemmed terms, with shares of a message's further passages and
of the candidates beside it. Whether two messages belong to one exchange is not known here, so every neighbor has the
small share.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final

from tidegate.memory.index import RankedPassage
from tidegate.memory.message_index import (
    LENGTH_WEIGHT,
    MAX_PASSAGES,
    NEIGHBOR_SHARE,
    PASSAGE_SHARE,
    SATURATION,
    terms_of,
)
from tidegate.memory.passages import Passage

_NEIGHBOR_EVENTS: Final = 3
"""Messages whose seqs differ by at most this much are taken for neighbors: notes and reports of usage lie between."""

_MessageKey = tuple[str, str, int]


def compute_rarity(count: int, total: int) -> float:
    """The weight of a word that `count` of `total` passages have."""
    return log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def rank_passages(
    passages: Sequence[RankedPassage], rarities: Mapping[str, float], *, prefix: bool
) -> list[RankedPassage]:
    """Return the best passage of each message, the best message first.

    `rarities` has a weight for each word of the query. With `prefix` a word also counts where a longer one begins with
    it. Among equals the order of `found` decides.
    """
    weights = {term: weight for word, weight in rarities.items() for term in terms_of(word)}
    counts = [Counter(terms_of(each.passage.text)) for each in passages]
    mean = sum(map(Counter.total, counts)) / max(1, len(counts))
    scored: dict[_MessageKey, list[tuple[float, int]]] = {}
    for nth, (each, words) in enumerate(zip(passages, counts, strict=True)):
        score = _score_passage(words, weights, mean, prefix=prefix)
        scored.setdefault(_key_of(each.passage), []).append((score, -nth))
    own: dict[_MessageKey, float] = {}
    for key, some in scored.items():
        some.sort(reverse=True)
        own[key] = some[0][0] + PASSAGE_SHARE * sum(score for score, _ in some[1 : MAX_PASSAGES + 1])
    totals = {key: score + NEIGHBOR_SHARE * _sum_neighbors(key, own) for key, score in own.items()}
    order = sorted(totals, key=lambda key: (totals[key], scored[key][0][1]), reverse=True)
    return [RankedPassage(passages[-scored[key][0][1]].passage, totals[key]) for key in order]


def _score_passage(words: Counter[str], weights: Mapping[str, float], mean: float, *, prefix: bool) -> float:
    base = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * words.total() / max(1.0, mean))
    score = 0.0
    for term, weight in weights.items():
        count = words[term] or (_count_longer(words.items(), term) if prefix else 0)
        score += weight * (SATURATION + 1) * count / (count + base)
    return score


def _count_longer(words: Iterable[tuple[str, int]], start: str) -> int:
    return sum(count for word, count in words if word.startswith(start))


def _sum_neighbors(key: _MessageKey, own: Mapping[_MessageKey, float]) -> float:
    kind, name, place = key
    if kind != "session":
        return 0.0
    sides = (range(place - 1, place - _NEIGHBOR_EVENTS - 1, -1), range(place + 1, place + _NEIGHBOR_EVENTS + 1))
    return sum(next((own[kind, name, at] for at in side if (kind, name, at) in own), 0.0) for side in sides)


def _key_of(passage: Passage) -> _MessageKey:
    return passage.kind, passage.name, passage.place
