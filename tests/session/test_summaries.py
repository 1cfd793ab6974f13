"""Whoever writes a summary: what comes of it is shorter than what it stands for, or it does not happen."""

import asyncio

import pytest

from tidegate import BadInput, Session, SummaryRequest
from tidegate.core.events import Event, ViewEdited
from tidegate.core.messages import text_of
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.core.view import LogView
from tidegate.presets import preset_names

POLICY = """
moments:
  manual:
    - {stage: summarize, max_tokens: 1000, keep_messages: 1, before: ""}
"""


def talked() -> Session:
    """About a thousand tokens of old messages, and a request that stays."""
    policy = parse_policy(POLICY, source="long.yaml", stages=STAGES)
    session = Session(policy=policy, window=16_000, count="chars/4")
    for _ in range(2):
        session.add({"role": "user", "content": "the same words over and over " * 60})
        session.add({"role": "assistant", "content": "indeed " * 30})
    session.add({"role": "user", "content": "go on"})
    return session


def too_long(request: SummaryRequest) -> str:
    return "words that say nothing " * 1_000


def failing(request: SummaryRequest) -> str:
    raise TimeoutError("no answer")


def nothing(request: SummaryRequest) -> str:
    return " \n"


@pytest.mark.parametrize("summarize", [None, too_long, failing, nothing])
def test_the_digest_takes_over_where_a_summarizer_does_not_help(summarize: object) -> None:
    session = talked()
    before = session.view.tokens
    decisions = session.compact(summarize)  # type: ignore[arg-type]
    assert [decision.acted for decision in decisions] == [True]
    assert session.view.tokens < before / 2
    assert "words that say nothing" not in session.prepare().to_bytes().decode()


def test_a_summary_that_helps_is_taken() -> None:
    session = talked()
    session.compact(lambda request: "They repeated themselves.")
    assert "They repeated themselves." in session.prepare().to_bytes().decode()


@pytest.mark.parametrize("policy", ["default", "cowagent", "digitorn"])
def test_a_pin_stays_whatever_leaves(policy: str) -> None:
    session = Session("gpt-4o", policy=policy, window=3_000)
    rule = "Deploy only on Tuesdays, and never with the flag --force."
    session.add({"role": "user", "content": "Hello."})
    session.rules.add(rule)
    for number in range(40):
        session.add({"role": "assistant", "content": f"Step {number}: " + "word " * 100})
        session.add({"role": "user", "content": f"Go on with {number}. " + "more " * 60})
        session.fit()
    request = session.prepare()
    assert rule in request.to_bytes().decode()
    assert request.tokens <= 3_000
    with pytest.raises(BadInput, match="at most 1,000"):
        session.rules.add("x" * 1_001)


@pytest.mark.parametrize("turns", [12, pytest.param(30, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("policy", preset_names())
def test_a_pin_stays_in_a_small_window(policy: str, turns: int) -> None:
    """The share of the ledger would not hold it there. Five turns fill the window."""
    for window in (400, 600, 1_000, 2_000, 4_000):
        session = Session(policy=policy, window=window)
        rule = "Never restart db7 before 18:00."
        session.rules.add(rule)
        for number in range(turns):
            session.add({"role": "user", "content": f"{number}. " + "word " * (window // 12)})
            session.add({"role": "assistant", "content": f"{number}. " + "word " * (window // 12)})
            assert rule in session.prepare().to_bytes().decode(), f"window {window}, turn {number}"
        assert [line.text for line in session.rules] == [rule]


@pytest.mark.parametrize("policy", preset_names())
def test_a_typed_rule_is_listed_and_in_every_request(policy: str) -> None:
    """Under every preset, also after its message was edited or dropped, until the user takes the rule back."""
    session = Session(policy=policy, window=2_000, count="chars/4")
    rule = "Never restart db7 before 18:00."
    session.add({"role": "user", "content": f"{rule} Read the pages that follow. " + "Thanks. " * 40})
    assert [line.text for line in session.rules] == [rule]
    for number in range(24):
        session.add({"role": "assistant", "content": f"{number}. " + "word " * 160})
        session.add({"role": "user", "content": f"Page {number}. " + "word " * 160})
        assert rule in session.prepare().to_bytes().decode(), f"page {number}"
        assert [line.text for line in session.rules] == [rule]
    assert any(isinstance(event.payload, ViewEdited) for event in session.log.read())
    shown = "\n".join(text_of(item.message) for item in session.view.items)
    assert "Thanks. " * 40 not in shown, "the message with the rule is no longer as it was typed"
    assert session.rules.remove(rule)
    assert list(session.rules) == []


def test_the_argument_has_its_earlier_name_too() -> None:
    session = talked()
    session.compact(summarise=lambda request: "They repeated themselves.")  # type: ignore[call-arg]
    request = session.prepare(summarise=None)  # type: ignore[call-arg]
    assert "They repeated themselves." in request.to_bytes().decode()

    async def summarize(request: object) -> str:
        return "They agreed."

    other = talked()
    asyncio.run(other.compact_async(summarise=summarize))  # type: ignore[call-arg]
    assert "They agreed." in other.prepare().to_bytes().decode()


def test_a_summary_in_an_earlier_log_counts_for_the_cooldown() -> None:
    view = LogView()
    view.fold(Event(1, 5.0, ViewEdited("summarise", "before_call", "before_call/summarise", "", 9, 9, ())))
    firing = view.find_last_firing("before_call/summarize")
    assert firing is not None
    assert firing.time == 5.0
    assert view.find_last_firing("before_call/sweep") is None
