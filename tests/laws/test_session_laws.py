"""The laws of a session: whatever is said and done, in whatever order, under every preset and for every wire."""

import asyncio
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.laws.conversations import HUGE, Move, a_turn, play, whole_conversations
from tests.laws.life import Life
from tests.laws.sampled_law import SAMPLES, sample_settings, sampled_law, seeded
from tests.laws.sessions import WIRES, a_session, check_new_edits, check_request, edits, hostile
from tests.scale import mark_all_but
from tidegate import Call, Message, Result, Session, Text, presets
from tidegate.core.events import ViewEdited
from tidegate.core.messages import texts_of
from tidegate.core.outcome import SummaryRequest

PRESETS = presets.preset_names()


@SAMPLES
@pytest.mark.parametrize("preset", PRESETS)
def test_a_session_keeps_the_laws_all_its_life(preset: str, sample: str) -> None:
    def make() -> Life:
        return Life(preset)

    machine: Any = seeded(sample, make)  # anything that makes a machine will do
    run_state_machine_as_test(machine, settings=settings(sample_settings(sample, 4, 16), stateful_step_count=16))


@pytest.mark.parametrize("preset", PRESETS)
@sampled_law(10, 15, whole_conversations(huge=0, size=8), st.sampled_from(WIRES))
def test_a_view_under_the_goal_is_left_alone(preset: str, messages: list[Message], wire: str) -> None:
    """A few small turns in a large window: nothing is edited, at no moment."""
    assume(sum(message.role == "tool" for message in messages) <= 5)
    session = a_session(preset, window=1_000_000, wire=wire)
    for message in messages:
        session.add(message)
        if message.role in ("user", "tool") and not session.view.unanswered:
            session.prepare()
    session.run_rules("turn_end")
    session.prepare()
    assert edits(session) == []


@pytest.mark.parametrize("preset", PRESETS)
@sampled_law(5, 15, st.lists(a_turn(3_000), min_size=1, max_size=8), st.sampled_from((600, 3_000, 20_000)))
def test_compacting_again_and_again_comes_to_an_end(preset: str, turns: list[list[Move]], window: int) -> None:
    """Each time the view is smaller or as it was; once it stays, it stays. One time is enough for a summary."""
    session = a_session(preset, window=window, wire="openai_chat")
    session.add(*(message for turn in turns for message in play(turn, whole=True)))
    sizes = [session.view.tokens + 1_000]
    for _ in range(12):
        start = session.log.head
        session.compact()
        check_new_edits(session, start)
        if not edits_since(session, start):
            break
        sizes.append(session.view.tokens)
    else:
        raise AssertionError(f"still compacting: {sizes}")
    stages = {rule.stage for rule in session.policy.moments["manual"]}
    if "drop_turns" not in stages:
        assert len([edit for edit in edits(session) if edit.stage == "summarize"]) <= 1


def edits_since(session: Session, start: int) -> list[ViewEdited]:
    return [event.payload for event in session.log.read(start + 1) if isinstance(event.payload, ViewEdited)]


PLACES = ("user", "assistant", "result", "arguments", "broken arguments", "old user", "system")


@pytest.mark.exhaustive
@pytest.mark.parametrize("preset", mark_all_but(PRESETS, "default"))
def test_one_huge_message_anywhere(preset: str) -> None:
    """200,000 characters in a small window, for every kind of count: it fits, is valid, and is whole in the log."""
    for place, (seed, counting) in product(PLACES, (("word ", "chars/4"), ("漢字", "exact"), ('"\\', "estimate"))):
        huge = (seed * HUGE)[:HUGE]
        session = a_session(preset, window=2_000, wire="anthropic", counting=counting)
        ids = session.add(*with_huge(place, huge))
        request = session.prepare()
        check_request(session, request)
        found = [session.recall(ident) for ident in ids]
        assert max(len(text) for message in found for text in all_texts(message)) >= HUGE, (place, counting)


def with_huge(place: str, huge: str) -> list[Message]:
    arguments = {"arguments": f'{{"content": "{"y" * HUGE}"}}', "broken arguments": "{" + huge}.get(place, "{}")
    return [
        Message("user", (Text(huge if place == "old user" else "First."),)),
        Message("assistant", (Text(huge if place == "assistant" else "Yes."),)),
        Message("system", (Text(huge if place == "system" else "Be brief."),)),
        Message("user", (Text(huge if place == "user" else "Now this."),)),
        Message("assistant", (Call("c1", "write", arguments),)),
        Message("tool", (Result("c1", (Text(huge if place == "result" else "ok"),)),), kind="tool_result"),
    ]


def all_texts(message: Message) -> list[str]:
    return [*texts_of(message), *(part.arguments for part in message.parts if isinstance(part, Call)), ""]


@pytest.mark.parametrize("preset", PRESETS)
@sampled_law(4, 10, st.lists(a_turn(3_000), min_size=1, max_size=5), st.sampled_from((400, 2_000)))
def test_async_code_gets_the_same_requests(preset: str, turns: list[list[Move]], window: int) -> None:
    one, other = (a_session(preset, window=window, wire="openai_chat") for _ in range(2))

    async def slow(request: SummaryRequest) -> str | None:
        return hostile(request)

    for turn in turns:
        messages = play(turn, whole=True)
        one.add(*messages)
        other.add(*messages)
        assert one.prepare(hostile).to_bytes() == asyncio.run(other.prepare_async(slow)).to_bytes()
    assert [event.payload for event in one.log.read()] == [event.payload for event in other.log.read()]


def test_a_report_far_above_our_count_does_not_cost_the_newest_request_its_words() -> None:
    """The guard then aims below what the newest request weighs; but by the calibrated count it fits, so it stays."""
    session = Session("m", policy="default", window=400, wire="openai_chat", count="chars/4")
    asked = "Please tell me now what to do next. " * 9
    session.add({"role": "user", "content": asked})
    for share in (0.9, 3.5):
        session.record({"prompt_tokens": int(session.prepare().tokens * share)})
    assert session.tokens > session.budget.capacity
    assert session.view.tokens <= session.budget.room
    assert session.prepare().messages[-1]["content"] == asked
