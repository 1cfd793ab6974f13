"""What fills the window: the figures add up, to the report and to the size, whatever happened before."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.session.figures import own_policy, reported, said, step
from tidegate import Message, Session
from tidegate.core.events import Event
from tidegate.core.messages import Image, Text, user_message
from tidegate.models.catalog import ModelInfo
from tidegate.models.pricing import TokenRates
from tidegate.session.reports.window_usage import (
    WINDOW_CATEGORIES,
    WindowUsage,
    categorize_message,
    measure_window_usage,
    read_events_at,
    split_by_weight,
)
from tidegate.store.log import Log, MemoryLog

TOOL = {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}}
PARTS = {"rules": 40, "skills": 25, "memory": 10, "project": 30, "facts": 5}


def by_name(found: WindowUsage) -> dict[str, int]:
    return {share.name: share.tokens for share in found.categories}


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 400)),
        st.tuples(st.just("step"), st.lists(st.sampled_from(["read", "shell"]), max_size=2)),
        st.tuples(st.just("report"), st.floats(0.55, 2.5)),
        st.tuples(st.sampled_from(["compact", "undo", "clear", "pin", "system", "image"]), st.none()),
    ),
    max_size=14,
)


def act(session: Session, number: int, what: str, how: Any) -> None:
    if what == "ask":
        session.add(user_message("please " * how + "?"))
    elif what == "step":
        session.add(*step(number, *how, size=120))
    elif what == "report":
        reported(session, how)
    elif what == "pin":
        session.rules.add(f"Rule {number}.")
    elif what == "system":
        session.set_system(f"You are number {number}. " * 5)
    elif what == "image":
        session.add(Message("user", (Image(width=300, height=200),)))
    else:
        getattr(session if what == "compact" else session.history, what)()


@given(ACTS, st.sampled_from(["default", "jutul", "cowagent", "digitorn"]), st.booleans())
@settings(max_examples=scaled(30))
def test_the_categories_add_up(acts: list[tuple[str, Any]], policy: str, split: bool) -> None:
    session = Session("gpt-4o", policy=policy, window=9_000, system="You help. " * 20, tools=[TOOL], count="estimate")
    for number, (what, how) in enumerate(acts):
        act(session, number, what, how)
        found = measure_window_usage(session, prompt_parts=PARTS if split else None)
        assert sum(share.tokens for share in found.categories) == found.tokens == session.tokens
        usage = session.view.usage
        assert (
            sum(share.sent_tokens for share in found.categories)
            == (usage.input_tokens if usage else 0)
            == found.reported_tokens
        )
        for share in found.categories:
            assert share.category in WINDOW_CATEGORIES
            own = [each for each in found.messages if (each.category, each.tool) == (share.category, share.tool)]
            if share.category not in ("system", "tools", "skills", "memory", "framing", "rules"):
                assert sum(each.tokens for each in own) == share.tokens
                assert len(own) == share.message_count
        assert found.roles.total == session.view.message_count == len(found.messages)


@settings(max_examples=scaled(60))
@given(st.integers(0, 10**7), st.lists(st.integers(0, 10**5), min_size=1, max_size=30))
def test_shares_add_up_and_are_fair(total: int, weights: list[int]) -> None:
    parts = split_by_weight(total, weights)
    assert sum(parts) == total
    if sum(weights):
        assert all(abs(part - total * weight / sum(weights)) < 1 for part, weight in zip(parts, weights, strict=True))


@pytest.mark.seed("JUT-12", fixed="the figures are the session's; the thresholds are read from the preset itself")
def test_usage_by_category_is_scaled_to_the_report() -> None:
    """The provider says half as much again as we count: every category grows alike, and the sum is what it said."""
    session = Session("gpt-4o", policy="jutul", window=50_000, system="You help. " * 50, tools=[TOOL])
    session.add(user_message("Look."), *step(1, "read", "shell", size=900))
    request = session.prepare()
    ours = by_name(measure_window_usage(session, prompt_parts=PARTS))
    session.record({"input_tokens": request.tokens * 3 // 2, "output_tokens": 5})
    found = measure_window_usage(session, prompt_parts=PARTS)
    assert found.reported_tokens == found.tokens == request.tokens * 3 // 2 == sum(by_name(found).values())
    for name, tokens in by_name(found).items():
        assert tokens == pytest.approx(ours[name] * 1.5, abs=2)
    assert list(by_name(found)) == [
        *("system", "tools", "skills", "memory", "rules", "user", "assistant"),
        *("results: read", "results: shell", "framing"),
    ]
    both = {each.stage: each for each in found.thresholds if each.metric == "window_share"}
    assert (both["clear_results"].limit, both["summarize"].limit) == (0.60, 0.85)
    assert both["clear_results"].current == both["summarize"].current == pytest.approx(found.tokens / 50_000)


def test_what_came_since_the_report_is_told_apart() -> None:
    session = Session("gpt-4o", window=20_000)
    session.add(user_message("Look."))
    reported(session, 1.2)
    session.add(said("It is long. " * 40))
    found = measure_window_usage(session)
    (answer,) = [share for share in found.categories if share.category == "assistant"]
    assert (answer.sent_tokens, answer.new_tokens) == (0, found.tokens - found.reported_tokens)
    session.compact()
    session.set_system("Another.")
    assert measure_window_usage(session).reported_tokens == 0, "no report tells of this view"


def test_roles_and_characters() -> None:
    """Results count as tools, whichever way they came."""
    session = Session("claude-sonnet-4-5", window=20_000)
    session.add({"role": "user", "content": "héllo"})
    session.add({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"a": 1}}]})
    session.add({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12345678"}]})
    roles = measure_window_usage(session).roles
    assert (roles.total, roles.user, roles.assistant, roles.tool) == (3, 1, 1, 1)
    assert roles.characters == len("héllo") + len("read") + len('{"a":1}') + len("12345678")


def test_a_price_knows_what_was_cached() -> None:
    """What the provider read from its cache costs a tenth; what stands behind that costs all of it."""
    prices = {"mine": ModelInfo(prices=(TokenRates(10.0, 50.0, 1.0),))}
    session = Session("mine", window=20_000, count="chars/4")
    session.add(user_message("a" * 4_000), said("b" * 4_000), user_message("c" * 4_000))
    tokens = session.prepare().tokens
    session.record({"input_tokens": tokens, "cache_read_input_tokens": 0, "output_tokens": 1})
    plain = measure_window_usage(session, model_overrides=prices)
    assert [piece.dollars for piece in plain.messages] == [
        pytest.approx(piece.tokens / 1e5) for piece in plain.messages
    ]
    first = plain.messages[0].tokens + 16
    session.record({"input_tokens": tokens - first, "cache_read_input_tokens": first, "output_tokens": 1})
    cached, dear, newest = measure_window_usage(session, model_overrides=prices).messages
    assert cached.dollars == pytest.approx(cached.tokens / 1e6)
    assert dear.dollars == pytest.approx(dear.tokens / 1e5)
    assert newest.dollars == pytest.approx(newest.tokens / 1e5)
    assert measure_window_usage(session).messages[0].dollars is None, "no price is known of it"


def test_age_and_why() -> None:
    now = [1_000.0]
    session = Session("gpt-4o", policy=own_policy(), window=6_000, clock=lambda: now[0], count="chars/4")
    session.rules.add("Never push.")
    session.add(user_message("one"), *step(1, "read", size=4_000))
    session.prepare()
    for number in (2, 3):
        session.add(*step(number, "shell", size=700))
    now[0] = 1_060.0
    session.add(user_message("two"), said("Yes."))
    pieces = {piece.id: piece for piece in measure_window_usage(session).messages}
    pinned, asked, called, result, *_, newest, _ = pieces.values()
    assert (asked.turns_ago, asked.age_seconds, newest.turns_ago, newest.age_seconds) == (1, 60.0, 0, 0.0)
    assert (result.category, result.tool) == ("results", "read")
    assert pinned.reason.startswith("pinned")
    assert newest.reason.startswith("the newest request")
    assert result.original_tokens == 5_004 > result.tokens
    assert f"recall {result.id}" in result.reason
    assert "stays until before_call/summarize acts (the request (" in called.reason
    session.compact()
    (told,) = [piece for piece in measure_window_usage(session).messages if piece.category == "summaries"]
    assert "stands for 8 messages that were removed at record" in told.reason


def test_the_next_trigger_in_tokens_and_turns() -> None:
    session = Session("gpt-4o", policy=own_policy(), window=20_000, reserve=4_000, count="chars/4")
    for number in range(4):
        session.add(user_message("x" * 3_984), said(f"{number}"))
    found = measure_window_usage(session)
    assert found.next_threshold is not None
    assert found.next_threshold.rule == "before_call/clear_results"
    size = session.tokens
    assert found.next_threshold.tokens_away == 16_000 * 0.85 - size
    assert found.next_threshold.turns_away == pytest.approx(found.next_threshold.tokens_away / 1_005, rel=0.01)
    guard = found.thresholds[-1]
    assert (guard.rule, guard.limit, guard.tokens_away) == ("guard", 16_000, 16_000 - size)
    by_turns = measure_window_usage(Session("gpt-4o", policy="cowagent", window=200_000)).thresholds
    assert {each.rule: each.turns_away for each in by_turns}["turn_limit"] == 21


def test_without_a_window_one_is_assumed() -> None:
    found = measure_window_usage(Session("nobody-knows", policy=own_policy()))
    assert (found.window, found.window_is_assumed) == (32_768, True)
    assert 0 < found.used_share < 0.001
    assert measure_window_usage(Session("nobody-knows", policy=own_policy(), window=5_000)).used_share == pytest.approx(
        16 / (5_000 - 1_250)
    )


class Counted(MemoryLog):
    read_events = 0

    def read(self, start: int = 1) -> Iterator[Event]:
        for event in super().read(start):
            self.read_events += 1
            yield event


def test_it_costs_what_the_view_costs() -> None:
    """Ten times the log, the same view: the same reads."""
    reads = []
    for turns in (40, 400):
        log = Counted()
        session = Session("gpt-4o", window=200_000, log=log)
        for number in range(turns):
            session.add(user_message(f"ask {number}"), said("ok"))
        session.history.clear()
        session.add(user_message("now"), *step(1, "read", "shell"))
        log.read_events = 0
        measure_window_usage(session)
        reads.append(log.read_events)
    assert reads[0] == reads[1] <= 4 + 17, "of the newest, those that may have a usage report"


def test_far_apart_is_not_read_through() -> None:
    log = Counted()
    session = Session("gpt-4o", window=200_000, log=log)
    for number in range(900):
        session.add(user_message(str(number)))
    log.read_events = 0
    assert [event.seq for event in read_events_at(log, [1, 2, 40, 890])] == [1, 2, 40, 890]
    assert log.read_events == 41


@cache
def three_hundred() -> Log:
    """Reading changes nothing, so one log serves all examples."""
    session = Session("m", window=90_000, count="chars/4")
    for number in range(300):
        session.add(user_message(str(number)))
    return session.log


@settings(max_examples=scaled(50))
@given(st.sets(st.integers(-3, 400), max_size=12))
def test_events_are_found_by_their_places(wanted: set[int]) -> None:
    log = three_hundred()
    there = sorted(seq for seq in wanted if 1 <= seq <= log.head)
    assert [event.seq for event in read_events_at(log, wanted)] == there


def test_every_message_has_a_category() -> None:
    kinds = {"summary": "summaries", "tool_summary": "summaries", "ledger": "ledger", "pin": "rules", "note": "notes"}
    for kind, category in kinds.items():
        assert categorize_message(user_message("x", kind)) == category
    assert categorize_message(Message("system", (Text("x"),))) == "notes"
    assert [categorize_message(Message(role, (Text("x"),))) for role in ("user", "assistant")] == ["user", "assistant"]
