"""The arithmetic of sweeps is told: of those that were made, and of the next one, however far it is."""

import asyncio
import math
import re

from tests.session.figures import own_policy, said, step
from tidegate import Session
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandContext
from tidegate.core.budget import priced_now
from tidegate.core.events import ViewEdited
from tidegate.core.messages import user_message
from tidegate.models.catalog import ModelInfo
from tidegate.session.explanation import describe_edits, forecast_sweep
from tidegate.session.reports.forecast import forecast_rules, list_thresholds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def working(clock: Clock, model: str = "") -> Session:
    return Session(model, policy="default", window=12_000, count="chars/4", clock=clock)


def turn(session: Session, clock: Clock, number: int) -> None:
    session.add(user_message(f"ask {number}"), *step(number, "read", "shell", size=400), said("Done with main.py."))
    clock.now += 10
    session.fit()


def explained(session: Session) -> str:
    return asyncio.run(create_command_registry().answer("/explain", CommandContext(session))).text


def test_before_a_sweep_it_is_told_what_it_goes_by_and_how_far_it_is() -> None:
    clock = Clock()
    session = working(clock)
    for number in range(3):
        turn(session, clock, number)
    coming = forecast_sweep(session.policy, session.view, session.budget, clock())
    assert coming is not None
    assert not coming.is_due
    assert session.view.tokens <= coming.current_tokens <= session.tokens
    assert coming.threshold_tokens == session.budget.room, "the room is filled first"
    assert coming.growth == session.view.total_tokens_said / session.view.reply_count
    away = coming.threshold_tokens - coming.current_tokens
    assert coming.calls_away == math.ceil(away / coming.growth)
    told = (
        f"The next sweep comes at {coming.threshold_tokens:,} tokens; the history has {coming.current_tokens:,}"
        f" ({away:,} tokens to go, about {coming.calls_away} calls)"
    )
    for text in (explained(session), str(session.explain())):
        assert told in text
        assert "1.25 times if it is written to it (assumed: the prices of the model are not known)" in text
    assert "the provider's cache is warm (10 of its 300 seconds have passed)." in explained(session)
    [full] = [each for each in list_thresholds(session) if each.metric == "fill" and each.limit == 1]
    assert full.tokens_away == away


def test_it_comes_when_it_was_told() -> None:
    """As many calls later as were foretold, give or take what a turn brings at once."""
    clock = Clock()
    session = working(clock)
    for number in range(3):
        turn(session, clock, number)
    coming = forecast_sweep(session.policy, session.view, session.budget, clock())
    assert coming is not None
    calls = session.view.reply_count
    number = 3
    while not session.edit_counts["sweep"]:
        turn(session, clock, number)
        number += 1
    assert abs(session.view.reply_count - calls - coming.calls_away) <= 3


def test_a_sweep_that_would_be_made_now_is_told_with_its_sum() -> None:
    clock = Clock()
    session = working(clock, "gpt-4o")
    for number in range(6):
        turn(session, clock, number)
    clock.now += 1_000
    foretold = next(each for each in forecast_rules(session) if each.rule == "before_call/sweep")
    text = explained(session)
    assert foretold.sweep_arithmetic in text
    assert f"{foretold.freed_tokens:,} tokens.\n    {foretold.sweep_arithmetic}" in text
    assert "1 times if it is written to it; the provider's cache has expired" in foretold.sweep_arithmetic
    level, full = re.findall(r"down to ([\d,]+) tokens, .* again; ([\d,]+) are reached", foretold.sweep_arithmetic)[0]
    assert int(level.replace(",", "")) < int(full.replace(",", ""))


def test_every_transaction_of_a_session_is_told() -> None:
    clock = Clock()
    session = working(clock)
    for number in range(20):
        turn(session, clock, number)
    edits = [event for event in session.log.read() if isinstance(event.payload, ViewEdited)]
    lines = describe_edits(session)
    assert len(lines) == len(edits) + 1
    assert lines[-1].startswith("now: The next sweep comes at ")
    swept = [line for line in lines if " sweep: " in line]
    assert len(swept) == session.edit_counts["sweep"] > 1
    for line in swept:
        reached = r"The history \([\d,]+ of [\d,]+ tokens, [\d.]+%\) is above the limit of 100%"
        assert re.search(rf"tokens, [\d,]+ freed; {reached}; sweep of .*, down to [\d,]+ tokens, ", line)


def test_a_policy_without_prices_has_no_outlook() -> None:
    session = Session(policy=own_policy(), window=20_000)
    session.add(user_message("ask"))
    assert forecast_sweep(session.policy, session.view, session.budget, 0.0) is None
    assert "a sweep comes" not in explained(session) + str(session.explain())
    assert describe_edits(session) == []


def test_the_cache_is_cold_once_its_lifetime_is_over() -> None:
    clock = Clock()
    session = working(clock)
    assert not priced_now(session.view, session.budget, 1e9).prices.cold, "nothing was ever cached"
    turn(session, clock, 0)
    for later, cold in ((300, False), (301, True)):
        assert priced_now(session.view, session.budget, session.view.last_reply_time + later).prices.cold is cold


def _is_cold_after(session: Session, seconds: float) -> bool:
    return priced_now(session.view, session.budget, session.view.last_reply_time + seconds).prices.cold


def test_the_lifetime_of_the_cache_is_what_the_request_asks_for() -> None:
    session = Session("gpt-5.1", request_options={"prompt_cache_retention": "24h"}, count="chars/4")
    session.add(user_message("ask"), said("Done."))
    assert not _is_cold_after(session, 86_400)
    assert _is_cold_after(session, 86_401)


def test_the_lifetime_of_the_cache_is_an_hour_if_the_provider_reports_such_writes() -> None:
    session = Session("claude-sonnet-5", count="chars/4")
    session.add(user_message("ask " * 2_000))
    size = session.prepare().tokens
    session.add(said("Done."))
    assert _is_cold_after(session, 301)
    written = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": size - 110}
    session.record(
        {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": size - 10, "cache_creation": written}
    )
    assert not _is_cold_after(session, 3_600)
    assert _is_cold_after(session, 3_601)


def test_what_the_user_sets_decides_the_lifetime_of_the_cache() -> None:
    prices = {"gpt-5.1": ModelInfo(cache_lifetime=60)}
    options = {"prompt_cache_retention": "24h"}
    session = Session("gpt-5.1", request_options=options, count="chars/4", prices=prices)
    session.add(user_message("ask"), said("Done."))
    assert not _is_cold_after(session, 60)
    assert _is_cold_after(session, 61)


def test_with_a_cold_cache_a_sweep_comes_when_three_quarters_are_full() -> None:
    clock = Clock()
    session = working(clock)
    number = 0
    while session.view.tokens < 0.8 * session.budget.room:
        turn(session, clock, number)
        number += 1
    assert "sweep" not in session.edit_counts
    clock.now += 1_000
    coming = forecast_sweep(session.policy, session.view, session.budget, clock())
    assert coming is not None
    assert coming.is_due
    assert "the provider's cache has expired" in str(coming)
    session.fit()
    assert session.edit_counts["sweep"] == 1


def test_a_window_that_the_system_prompt_fills_is_called_too_small() -> None:
    small = Session(policy="default", window=8_000, system="be careful " * 2_000, count="chars/4")
    assert "69% of the window: it is too small for this client" in str(small.explain())
    large = Session(policy="default", window=32_000, system="be careful " * 2_000, count="chars/4")
    assert "too small" not in str(large.explain())
