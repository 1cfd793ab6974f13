"""A record of earlier work in front of a host's own messages: it stays under every policy, and in every request."""

import pytest

from tests.scale import mark_all_but
from tidegate import Session
from tidegate.core.messages import Call, Message, Result, Text, Tool, text_of, user_message
from tidegate.core.notes import ClientNote
from tidegate.presets import preset_names
from tidegate.session.continuation import Continuation, ContinuedRun, find_recorded_span
from tidegate.session.following import FixedPart, FollowingSession, HostItem, make_host_item
from tidegate.session.handoff import write_handoff
from tidegate.session.shared_timeline import SharedTimeline

RULE = "Never push to main."
CODEX = ClientNote("codex", "Codex")
PART = FixedPart("You are Codex.", (Tool("step"),))


def begin_session(policy: str = "default", window: int = 16_000, steps: int = 8) -> Session:
    """Some work in a chat of tidegate."""
    session = Session("gpt-4o", policy=policy, window=window)
    session.add({"role": "user", "content": f"Find out why the pump stops. {RULE}"}, typed=True)
    for number in range(steps):
        call = {"id": f"a{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{number}}}'}}
        session.add({"role": "assistant", "content": f"I read {number}.", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"a{number}", "content": f"valve {number} is open\n" * 20})
    session.add({"role": "system", "content": "You are powered by the model named Opus."})
    session.add({"role": "assistant", "content": "The seal is worn."})
    return session


def follow(session: Session) -> FollowingSession[str]:
    following = FollowingSession[str](session)
    run = ContinuedRun(CODEX, "pump", session.log.head, lambda text: text)
    following.continuation = Continuation(run)
    return following


def list_work(steps: int) -> list[HostItem[str]]:
    messages = [user_message("Go on.")]
    for number in range(steps):
        messages.append(Message("assistant", (Text(f"Step {number}."), Call(f"c{number}", "step"))))
        messages.append(Message("tool", (Result(f"c{number}", (Text(f"word {number} of a result " * 150),)),)))
    return [make_host_item(f"h{place}", message) for place, message in enumerate(messages)]


@pytest.mark.parametrize("policy", preset_names())
def test_it_stays_under_every_policy(policy: str) -> None:
    following = follow(begin_session(policy))
    records = set()
    for steps in range(0, 40, 3):
        request = following.prepare(list_work(steps), lambda asked: "The agent made steps.", fixed_part=PART)
        assert following.session.tokens <= 16_000
        first = next(shown.message for shown in request.shown if shown.message.kind == "handoff")
        records.add(text_of(first))
    assert following.session.edit_counts, "something was done to make it fit"
    assert len(records) == 1
    (record,) = records
    assert "Find out why the pump stops." in record
    assert "You are powered by" not in record
    assert f"Rules that the user typed:\n- {RULE}\n" in record
    assert [rule.text for rule in following.session.rules] == [RULE]


def test_it_is_small_in_a_small_window() -> None:
    following = follow(begin_session(window=3_000))
    following.prepare(list_work(0), fixed_part=PART)
    (record,) = [item for item in following.session.view.items if item.message.kind == "handoff"]
    assert record.tokens < 1_200
    assert RULE in text_of(record.message)
    assert following.session.tokens <= 3_000


@pytest.mark.parametrize("steps", mark_all_but([100, 160, 600], 100))
def test_it_uses_the_room_that_it_may_have(steps: int) -> None:
    """However much longer than a record the work is."""
    following = follow(begin_session(window=200_000, steps=steps))
    following.session.recovery.set_window(32_000)
    following.prepare(list_work(0), fixed_part=PART)
    (record,) = [item for item in following.session.view.items if item.message.kind == "handoff"]
    assert 7_500 < record.tokens < 10_700


def test_a_request_without_tools_leaves_it_to_the_next() -> None:
    following = follow(begin_session())
    title = [make_host_item("t", user_message("Write a title."))]
    assert following.prepare(title, fixed_part=FixedPart()).is_unchanged
    assert not following.prepare(list_work(0), fixed_part=PART).is_unchanged


def test_a_handoff_of_the_session_has_both_parts_once() -> None:
    session = begin_session()
    follow(session).prepare(list_work(1), fixed_part=PART)
    text = write_handoff(session.log, "pump").text
    assert "### User in tidegate (m1)\n\nFind out why the pump stops." in text
    assert "### User in Codex" in text
    assert "Called the tool `step` of Codex" in text
    assert "earlier-work" not in text
    assert text.count("I read 3.") == 1


def test_it_says_which_messages_it_may_repeat() -> None:
    session = begin_session()
    following = follow(session)
    following.prepare(list_work(0), fixed_part=PART)
    (record,) = [item.message for item in session.view.items if item.message.kind == "handoff"]
    span = find_recorded_span(record)
    assert span is not None
    timeline = SharedTimeline(session.log.read(), "pump")
    assert [timeline.client_of(seq) for seq in (span.first, span.last)] == ["tidegate", "tidegate"]
    assert timeline.client_of(session.log.head) == "Codex"
