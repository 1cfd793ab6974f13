"""The arithmetic of a sweep: what is read again, what is held, when it pays."""

import math
import re
from itertools import pairwise

import pytest

from tidegate import Session
from tidegate.core.messages import Call, Message, Result, Text, user_message
from tidegate.core.sweep.cost_model import (
    CachePrices,
    SessionPace,
    SweepMarket,
    compute_sweep_cost,
    find_best_level,
    find_sweep_fill,
    sweep_urgency,
)

PACE = SessionPace(700.0, 100)
ROOM = 27_000


def market(fidelity: float = 1.2, **prices: float | bool) -> SweepMarket:
    return SweepMarket(PACE, CachePrices(**prices), fidelity)  # type: ignore[arg-type]


def test_the_sum_is_what_it_says() -> None:
    total = compute_sweep_cost(13_000, ROOM, market(), kept=1_000)
    worth = 1.2 * 0.7 * 16_000 * math.log(1 + 20_000 / 16_000)
    assert (total.calls, total.held) == (20, 20_000)
    assert total.rate == pytest.approx(12_000 * 1.15 / 20 + 0.1 * 20_000 - worth)
    assert str(total).startswith(
        "from 27,000 down to 13,000 tokens costs -8,209 input tokens per call = (12,000 tokens cached again x 1.15)"
        " / 20 calls + 20,000 tokens kept x 0.1 - 10,899 for their value; "
    )


def test_no_more_calls_are_expected_than_there_were() -> None:
    assert SessionPace.of(7_000, 10) == SessionPace(700.0, 10)
    assert compute_sweep_cost(1_000, ROOM, market()._replace(pace=SessionPace(700.0, 10))).calls == 10


def test_no_level_is_better_than_the_best() -> None:
    for fidelity in (0.0, 0.6, 1.2, 2.4):
        found = find_best_level(4_000, ROOM, market(fidelity))
        assert all(
            found.rate <= compute_sweep_cost(level, ROOM, market(fidelity)).rate + 60
            for level in range(4_000, 22_000, 500)
        )


def test_the_knob_only_ever_keeps_more() -> None:
    levels = [find_best_level(4_000, ROOM, market(fidelity)).level for fidelity in (0.0, 0.3, 0.6, 1.2, 2.4, 4.8)]
    assert levels == sorted(levels)
    assert levels[0] == 4_000
    assert levels[-1] > ROOM // 2


def test_thinking_that_would_be_lost_is_in_the_sum() -> None:
    without, signed = compute_sweep_cost(13_000, ROOM, market()), compute_sweep_cost(13_000, ROOM, market(), lost=2_000)
    assert signed.rate - without.rate == pytest.approx(2_000 * 1.25 / 20)
    assert "+ 2,000 tokens of signed thinking x 1.25" in str(signed)


def test_a_token_worth_its_price_is_held_until_the_window_forces() -> None:
    assert find_sweep_fill(ROOM, market()) == ROOM
    early = find_sweep_fill(1_000_000, market())
    assert 50_000 < early < 500_000, "most that is referred to is near: a million tokens are not worth holding"
    assert find_sweep_fill(1_000_000, market(read=0.05)) > early, "the cheaper it is to read, the later it pays"
    assert find_sweep_fill(ROOM, market(0.05)) < ROOM


def test_a_sweep_that_nothing_forces_must_pay_for_itself_in_the_calls_that_are_expected() -> None:
    def at(calls: int) -> float:
        return sweep_urgency(150_000, 300_000, SweepMarket(SessionPace(400.0, calls), CachePrices(), 1.5))

    assert at(400) > 1
    assert at(8) < 1
    assert sweep_urgency(300_001, 300_000, SweepMarket(SessionPace(400.0, 8), CachePrices(), 1.5)) > 1, (
        "the window forces it"
    )


def test_a_cold_cache_makes_a_sweep_that_is_near_free() -> None:
    warm, cold = market(), market(cold=True)
    assert sweep_urgency(25_500, ROOM, warm) < 1 < sweep_urgency(25_500, ROOM, cold)
    assert sweep_urgency(14_000, ROOM, cold) < 1, "it is far away: what is held until then is worth more"
    assert find_best_level(4_000, ROOM, cold).level >= find_best_level(4_000, ROOM, warm).level


def test_unknown_prices_are_said() -> None:
    assert "(assumed: the prices of the model are not known)" in str(market())
    assert "assumed" not in str(market(known=True))


# --- in a session -----------------------------------------------------------------------------------------------------


def worked(now: list[float], turns: int, window: int = 8_000) -> Session:
    session = Session(policy="default", window=window, count="chars/4", clock=lambda: now[0])
    for turn in range(turns):
        call = Call(f"c{turn}", "read", f'{{"path": "src/part_{turn}.py"}}')
        body = "\n".join(f"def part_{turn}_of_the_work_{n}(value):\n    return {n}\n" for n in range(20))
        session.add(user_message(f"Part {turn}."), Message("assistant", (call,)))
        session.add(Message("tool", (Result(call.id, (Text(body),)),)))
        now[0] += 30
        session.prepare()
        session.add(Message("assistant", (Text("Done."),)))
    return session


def test_explain_prints_the_arithmetic_of_what_was_done_and_of_what_was_not() -> None:
    session = worked([0.0], 4)
    assert session.edit_counts == {}
    waited = str(session.explain())
    assert re.search(r"sweep did not act: The history \([\d,]+ tokens\) has not reached the [\d,]+ tokens at", waited)
    assert re.search(r"a call adds [\d,]+ tokens on average", waited)
    session = worked([0.0], 30)
    made = next(event for event in session.log.read() if getattr(event.payload, "stage", "") == "sweep")
    assert "cached again x 1.15)" in made.payload.why  # type: ignore[union-attr]
    assert "input tokens per call = " in made.payload.why  # type: ignore[union-attr]


def test_a_large_view_that_a_long_session_fills_slowly_is_swept_before_it_is_full() -> None:
    def swept_at(window: int, lines: int) -> tuple[int, int]:
        session = Session(policy="default", window=window, count="chars/4", clock=lambda: 0.0)
        body = "\n".join(f"def part_{n}_of_the_work(value): return {n}" for n in range(lines))
        session.add(user_message("Watch it."))
        for turn in range(12_000 // lines):
            call = Call(f"c{turn}", "read", '{"path": "src/part.py"}')
            session.add(Message("assistant", (call,)), Message("tool", (Result(call.id, (Text(body),)),)))
            tokens = session.view.tokens
            session.fit()
            if session.edit_counts:
                return tokens, session.budget.room
        return 0, session.budget.room

    tokens, room = swept_at(256_000, 30)
    assert 0 < tokens < 0.7 * room, "few tokens a call: what is old costs more than it is worth"
    tokens, room = swept_at(128_000, 600)
    assert tokens > 0.9 * room, "much comes with each of few calls: it is held until the window forces"


def test_a_sweep_is_not_due_again_while_there_is_little_that_it_could_take() -> None:
    """Short messages for long, dear to read: most of the view are the user's words, which no sweep takes."""
    session = Session("gpt-4o", policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    made: list[int] = []
    calls = 0
    for turn in range(220):
        call = Call(f"c{turn}", "read", '{"path": "a.py"}')
        session.add(user_message(f"Question {turn}: why is step {turn} slow?"), Message("assistant", (call,)))
        session.add(Message("tool", (Result(call.id, (Text(f"line of a file {turn}\n" * 12),)),)))
        before = session.edit_counts.get("sweep", 0)
        session.fit()
        calls += 2
        if session.edit_counts.get("sweep", 0) > before:
            made.append(calls)
        session.add(Message("assistant", (Text(f"Step {turn} waits for the disk."),)))
    assert len(made) > 2
    assert all(later - earlier >= 8 for earlier, later in pairwise(made)), made


def test_a_pause_longer_than_the_cache_lives_is_used_for_a_sweep() -> None:
    def after(pause: float, turns: int) -> int:
        now = [0.0]
        session = worked(now, turns)
        assert session.edit_counts == {}
        now[0] += pause
        session.add(user_message("And now?"))
        session.prepare()
        return session.edit_counts.get("sweep", 0)

    full = next(turns for turns in range(1, 99) if worked([0.0], turns).edit_counts)
    assert after(200.0, full - 1) == 0
    assert after(400.0, full - 1) == 1
    assert after(400.0, full // 3) == 0, "the next sweep is far away"
