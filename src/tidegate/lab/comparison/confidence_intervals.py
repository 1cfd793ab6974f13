"""Means over sessions, with 95% intervals.

Sessions of one project are alike, so the interval of a mean is found by resampling projects, not sessions, with
replacement. It says how much the mean would move with other projects of the same kind, and nothing about projects of
another kind. Draws are seeded and their order is fixed, so the same figures give the same interval to the last digit,
and a difference has the opposite verdict when its sides are swapped.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import fsum
from operator import itemgetter
from typing import Final

import msgspec

RESAMPLE_COUNT: Final = 1_000
RESAMPLE_SEED: Final = 7
MIN_GROUPS: Final = 5
"""From fewer projects no interval is drawn: it would be narrow for lack of variety, not for being sure."""
_TAIL_SHARE: Final = 0.025
"""The share of the draws that is left out at either end."""


class MeanEstimate(msgspec.Struct, frozen=True):
    """A mean with the bounds of 95% of the draws. The bounds are None where there are too few groups."""

    mean: float | None
    low: float | None
    high: float | None
    session_count: int = msgspec.field(name="n")


class SessionSample(msgspec.Struct, frozen=True):
    """The value of one session, and the group (project) that is drawn with it."""

    group: str
    value: float | None


_Draw = Callable[[Sequence[float]], Sequence[float]]
"""Takes from a value for each group those of the groups that were drawn."""


@lru_cache(maxsize=64)
def _make_draws(groups: int, resamples: int = RESAMPLE_COUNT, seed: int = RESAMPLE_SEED) -> tuple[_Draw, ...]:
    """Return one getter for each draw, for two groups or more. Getters are fast: a report draws millions of times."""
    chance = random.Random(seed)
    places = range(groups)
    return tuple(itemgetter(*(chance.choice(places) for _ in places)) for _ in range(resamples))


def estimate_mean(
    samples: Sequence[SessionSample],
    *,
    resamples: int = RESAMPLE_COUNT,
    seed: int = RESAMPLE_SEED,
    min_groups: int = MIN_GROUPS,
) -> MeanEstimate:
    """Estimate the mean over all sessions that have a value. Groups without any value are not drawn."""
    by_group: dict[str, list[float]] = {}
    for sample in samples:
        if sample.value is not None:
            by_group.setdefault(sample.group, []).append(sample.value)
    values = [by_group[group] for group in sorted(by_group)]
    n = sum(map(len, values))
    if not n:
        return MeanEstimate(None, None, None, 0)
    mean = fsum(value for each in values for value in each) / n
    if len(values) < max(2, min_groups):
        return MeanEstimate(mean, None, None, n)
    totals = [fsum(each) for each in values]
    counts = [len(each) for each in values]
    means = sorted(sum(draw(totals)) / sum(draw(counts)) for draw in _make_draws(len(totals), resamples, seed))
    outside = int(_TAIL_SHARE * len(means))
    return MeanEstimate(mean, means[outside], means[-1 - outside], n)


def estimate_difference(
    mine: Mapping[str, float | None],
    theirs: Mapping[str, float | None],
    groups: Mapping[str, str],
    *,
    resamples: int = RESAMPLE_COUNT,
    seed: int = RESAMPLE_SEED,
    min_groups: int = MIN_GROUPS,
) -> MeanEstimate:
    """Estimate the mean difference over the sessions in which both have a value."""
    samples = []
    for session, value in mine.items():
        other = theirs.get(session)
        if value is not None and other is not None:
            samples.append(SessionSample(groups[session], value - other))
    return estimate_mean(samples, resamples=resamples, seed=seed, min_groups=min_groups)


def judge_difference(difference: MeanEstimate, better: str) -> str:
    """Return better or worse if the whole interval is on one side of zero, else ""."""
    if not better or difference.low is None or difference.high is None:
        return ""
    if difference.low > 0:
        return "better" if better == "more" else "worse"
    if difference.high < 0:
        return "worse" if better == "more" else "better"
    return ""
