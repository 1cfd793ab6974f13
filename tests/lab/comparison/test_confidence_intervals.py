"""Means, intervals, verdicts: what they say, and when they say nothing."""

import random

import pytest

from tidegate.lab.comparison.confidence_intervals import (
    MeanEstimate,
    SessionSample,
    estimate_difference,
    estimate_mean,
    judge_difference,
)
from tidegate.lab.comparison.runner import group_sessions
from tidegate.lab.comparison.session_sources import SessionSource, find_common_names


def samples(count: int, groups: int, seed: int = 1) -> list[SessionSample]:
    chance = random.Random(seed)
    return [SessionSample(f"g{number % groups}", chance.gauss(number % groups, 0.1)) for number in range(count)]


def test_a_mean_is_over_sessions() -> None:
    found = estimate_mean(
        [SessionSample("a", 1.0), SessionSample("a", 2.0), SessionSample("b", 6.0), SessionSample("b", None)]
    )
    assert (found.mean, found.session_count) == (3.0, 3)


def test_too_few_groups_give_no_interval() -> None:
    found = estimate_mean(samples(100, 4))
    assert found.mean is not None
    assert (found.low, found.high) == (None, None)
    assert estimate_mean(samples(100, 5)).low is not None
    assert estimate_mean([SessionSample(str(number), None) for number in range(9)]) == MeanEstimate(None, None, None, 0)


def test_the_same_draws_every_time_and_others_for_another_seed() -> None:
    some = samples(60, 8)
    assert estimate_mean(some) == estimate_mean(list(some))
    assert estimate_mean(some) != estimate_mean(some, seed=8)


def test_the_interval_is_of_projects_not_of_sessions() -> None:
    """Ten times the sessions of the same projects tell nothing new about other projects."""
    few, many = samples(80, 8), samples(800, 8)
    widths = [each.high - each.low for each in (estimate_mean(few), estimate_mean(many)) if each.low and each.high]
    assert len(widths) == 2
    assert widths[1] > 0.8 * widths[0]


def test_the_interval_covers_what_it_promises() -> None:
    """Of 200 worlds whose true mean is 0, about 95 of 100 intervals over 20 projects hold it."""
    chance = random.Random(3)
    hits = 0
    for _ in range(200):
        world = [SessionSample(str(group), chance.gauss(0, 1)) for group in range(20)]
        found = estimate_mean(world, resamples=200)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0 <= found.high
    assert 175 <= hits <= 199


def test_differences_are_taken_session_by_session() -> None:
    theirs: dict[str, float | None] = {str(number): float(number * 10) for number in range(12)}
    mine = {key: (value or 0) + 1 for key, value in theirs.items()}
    groups = {key: key for key in theirs}
    found = estimate_difference({**mine, "only mine": 5.0}, theirs, {**groups, "only mine": "x"})
    assert (found.mean, found.low, found.high, found.session_count) == (1.0, 1.0, 1.0, 12)


@pytest.mark.parametrize(
    ("low", "high", "better", "word"),
    [
        (0.1, 0.2, "more", "better"),
        (0.1, 0.2, "less", "worse"),
        (-0.2, -0.1, "more", "worse"),
        (-0.2, -0.1, "less", "better"),
        (-0.1, 0.2, "more", ""),
        (0.0, 0.2, "more", ""),
        (None, None, "more", ""),
        (0.1, 0.2, "", ""),
    ],
)
def test_a_verdict_only_where_the_interval_allows_one(low: float, high: float, better: str, word: str) -> None:
    assert judge_difference(MeanEstimate(0.0, low, high, 9), better) == word


def source(key: str, project: str, *names: str) -> SessionSource:
    return SessionSource(key, 0, key, key, project, "", 1.0, 1, False, (), names)


def test_groups_are_projects_or_where_these_are_few_sessions() -> None:
    assert group_sessions([source(str(n), f"p{n % 5}") for n in range(9)]).kind == "projects"
    few = group_sessions([source(str(n), "one") for n in range(9)])
    assert (few.kind, len(set(few.by_session.values()))) == ("sessions", 9)
    assert group_sessions([source(str(n), "one") for n in range(4)]).kind == ""


def test_common_names_are_those_of_many_projects_not_of_many_sessions() -> None:
    here = [source(str(n), f"p{n % 4}", "README.md", f"own{n % 4}.py") for n in range(20)]
    assert find_common_names(here) == {"README.md"}
    assert find_common_names(here[:3]) == frozenset()
