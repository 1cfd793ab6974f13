"""Means over sessions, and how far they can be trusted.

Sessions of one project are alike, so the interval of a mean is found by drawing projects, not sessions, with
replacement, many times over. It says how much the mean would move with other projects of the same kind; it says
nothing about projects of another kind. Draws are seeded: the same figures give the same interval.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

RESAMPLES: Final = 1_000
SEED: Final = 7
LEAST_GROUPS: Final = 5
"""From fewer projects no interval is drawn: it would be narrow for lack of variety, not for being sure."""
_LOW, _HIGH = 0.025, 0.975


class Estimate(msgspec.Struct, frozen=True):
    """`low` and `high` bound 95 of 100 draws; None where there are too few groups. `n` sessions gave an answer."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Sample(msgspec.Struct, frozen=True):
    """The value of one session, and the group (project) that is drawn with it."""

    group: str
    value: float | None


@lru_cache(maxsize=16)
def draws(groups: int, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[tuple[int, ...], ...]:
    chance = random.Random(seed)
    places = range(groups)
    return tuple(tuple(chance.choice(places) for _ in places) for _ in range(resamples))


def estimate(
    samples: Sequence[Sample], *, resamples: int = RESAMPLES, seed: int = SEED, least: int = LEAST_GROUPS
) -> Estimate:
    """The mean over all sessions that have a value."""
    sums: dict[str, list[float]] = {sample.group: [] for sample in sorted(samples, key=lambda each: each.group)}
    for sample in samples:
        if sample.value is not None:
            sums[sample.group].append(sample.value)
    values = [sample.value for sample in samples if sample.value is not None]
    if not values:
        return Estimate(None, None, None, 0)
    mean = sum(values) / len(values)
    if len(sums) < least:
        return Estimate(mean, None, None, len(values))
    totals = [(sum(each), len(each)) for each in sums.values()]
    means = []
    for drawn in draws(len(totals), resamples, seed):
        count = sum(totals[place][1] for place in drawn)
        if count:
            means.append(sum(totals[place][0] for place in drawn) / count)
    means.sort()
    low, high = means[int(_LOW * len(means))], means[min(len(means) - 1, int(_HIGH * len(means)))]
    return Estimate(mean, low, high, len(values))


def paired(
    mine: Mapping[str, float | None],
    theirs: Mapping[str, float | None],
    groups: Mapping[str, str],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    least: int = LEAST_GROUPS,
) -> Estimate:
    """The mean difference over the sessions in which both have a value."""
    samples = []
    for session, value in mine.items():
        other = theirs.get(session)
        if value is not None and other is not None:
            samples.append(Sample(groups[session], value - other))
    return estimate(samples, resamples=resamples, seed=seed, least=least)


def verdict(difference: Estimate, better: str) -> str:
    """Better or worse only if the whole interval is on one side of nothing."""
    if not better or difference.low is None or difference.high is None:
        return ""
    if difference.low > 0:
        return "better" if better == "more" else "worse"
    if difference.high < 0:
        return "worse" if better == "more" else "better"
    return ""
