"""Alarms for servers that cut prompts in silence, and none for those that only count otherwise."""

import random
from itertools import pairwise

import pytest

from tidegate.models.usage_checks import UsageReport, find_usage_problem


def told(*reports: tuple[int, int]) -> list[str | None]:
    """What is said after each of the reports, in order."""
    history: list[UsageReport] = []
    said = []
    for counted, reported in reports:
        said.append(find_usage_problem(counted, reported, history))
        history.append(UsageReport(counted, reported))
    return said


def alarms(*reports: tuple[int, int]) -> int:
    return sum(each is not None for each in told(*reports))


def growing(start: int, steps: int, seed: int = 1) -> list[int]:
    """Prompts of a session: each longer than the one before, by small and large results."""
    chance = random.Random(seed)
    sizes = [start]
    for _ in range(steps):
        sizes.append(sizes[-1] + chance.choice([90, 250, 700, 1_800, 3_000]))
    return sizes


def test_a_prompt_cut_from_the_first_request_on() -> None:
    """Ollama with 4,096 tokens and an agent's long instructions: 2,051 of 15,750 were read."""
    said = told((15_750, 2_051), (15_990, 2_050), (16_400, 2_054))
    assert said[:2] == [None, None]
    assert said[2] is not None
    assert "2,054 of about 16,400" in said[2]


def test_a_prompt_cut_once_it_is_too_long() -> None:
    sizes = [1_000, 2_000, 3_000, 3_900, 4_400, 4_600, 5_000]
    said = told(*((size, size if size <= 4_096 else 2_050) for size in sizes))
    assert said[:6] == [None] * 6
    assert said[6] is not None


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_that_leaves_whole_messages_varies_and_is_still_seen(seed: int) -> None:
    chance = random.Random(seed)
    sizes = growing(1_500, 30, seed)
    reports = [(size, size if size <= 4_096 else chance.randint(2_050, 4_096)) for size in sizes]
    assert alarms(*reports) > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_model_that_counts_otherwise(seed: int) -> None:
    for factor in (0.3, 0.45, 0.6, 1.0, 1.4, 3.0):
        chance = random.Random(seed)
        reports = [(size, int(size * factor * chance.uniform(0.95, 1.05))) for size in growing(1_000, 40, seed)]
        assert alarms(*reports) == 0, factor


@pytest.mark.parametrize("seed", range(8))
def test_a_server_that_reports_only_what_its_cache_did_not_hold(seed: int) -> None:
    sizes = growing(6_000, 40, seed)
    added = [sizes[0], *(now - before for before, now in pairwise(sizes))]
    assert alarms(*zip(sizes, added, strict=True)) == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_cache_that_now_and_then_lost_a_part(seed: int) -> None:
    chance = random.Random(seed)
    sizes = growing(6_000, 40, seed)
    reports = [(sizes[0], sizes[0])]
    for before, now in pairwise(sizes):
        reports.append((now, now // 3 if chance.random() < 0.1 else now - before))
    assert alarms(*reports) == 0


@pytest.mark.parametrize("seed", range(8))
def test_images_that_cost_less_than_was_counted(seed: int) -> None:
    """Text counts as it should, then ten images come in that were counted at five times their price."""
    sizes = growing(2_000, 30, seed)
    reports = [(size + 16_000 * (at >= 10), size + 3_200 * (at >= 10)) for at, size in enumerate(sizes)]
    assert alarms(*reports) == 0


def test_a_compaction_is_no_cut() -> None:
    sizes = [20_000, 24_000, 28_000, 6_000, 7_000, 8_000, 9_000]
    assert alarms(*((size, size) for size in sizes)) == 0


def test_one_or_two_odd_reports_are_no_way_of_a_server() -> None:
    assert alarms((5_000, 5_000), (6_000, 900), (6_500, 950), (7_000, 7_000), (8_000, 1_000), (8_300, 1_000)) == 0


def test_short_requests_say_nothing() -> None:
    assert alarms(*[(200, 20), (210, 20), (255, 20), (220, 20)]) == 0


def test_the_alarm_ends_when_prompts_fit_again() -> None:
    cut = [(15_750, 2_051), (15_990, 2_050), (16_400, 2_054)]
    assert told(*cut, (1_800, 1_800))[-1] is None


def test_a_server_without_usage() -> None:
    said = told((1_000, 0), (1_200, 0), (1_300, 1_300), (1_400, 0))
    assert said[0] is None
    assert said[1] is not None
    assert "no token usage" in said[1]
    assert said[2:] == [None, None]
