"""The promises of the preset `picoclaw`: the budget, the check before a call, safe cuts."""

from itertools import product
from typing import Any

import pytest

from tests.seeds.mutate import cut_by_index
from tests.seeds.talk import (
    SYSTEM,
    Json,
    Preset,
    Scribe,
    asks,
    batch,
    calls,
    edits,
    flat,
    names,
    numbers,
    opened,
    paired,
    passage,
    reopened,
    replies,
    result,
    said,
    stages,
    tool,
    turn,
    turns,
)
from tidegate import GiveUp, Session
from tidegate.core.edits import Drop
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, Message, Result


@pytest.mark.seed("PIC-01", change={"max_tokens": 16_000})
@pytest.mark.seed("PIC-01", change={"context_window": 65_536})
def test_window_and_output_are_two_settings(preset: Preset) -> None:
    plain = preset("picoclaw")
    assert plain.settings["max_tokens"] == 32_768
    for policy in (plain, preset("picoclaw", context_window=0)):
        budget = opened(policy, window=None).budget
        assert (budget.window, budget.reserve) == (131_072, 32_768), "0 is the safe default"
    more_output = opened(preset("picoclaw", max_tokens=20_000), window=None).budget
    assert (more_output.window, more_output.reserve) == (131_072, 20_000)


@pytest.mark.seed("PIC-01", change={"context_window": 65_536})
def test_a_window_that_was_set_holds(preset: Preset) -> None:
    policy = preset("picoclaw", context_window=100_000, max_tokens=8_192)
    for model in ("", "gpt-4o"):
        budget = Session(model, policy=policy, count="chars/4").budget
        assert (budget.window, budget.reserve) == (100_000, 8_192)


OUTPUT_KEYS = {
    "openai_chat": ("max_completion_tokens",),
    "openai_responses": ("max_output_tokens",),
    "anthropic": ("max_tokens",),
    "gemini": ("generationConfig", "maxOutputTokens"),
}


def sent_output(session: Session) -> int | None:
    """The output limit of the next request."""
    value: Any = session.prepare().body
    for key in OUTPUT_KEYS[session.dialect.name]:
        value = value.get(key, {})
    return value or None


@pytest.mark.seed("PIC-01", change={"max_tokens": 16_000})
def test_the_output_limit_is_sent(preset: Preset) -> None:
    cases: tuple[tuple[Json, Json, int], ...] = (
        ({}, {}, 32_768),
        ({"max_tokens": 12_000}, {}, 12_000),
        ({"max_tokens": 12_000}, {"max_tokens": 7_000}, 7_000),
    )
    for wire, (settings, more, limit) in product(OUTPUT_KEYS, cases):
        session = opened(preset("picoclaw", **settings), window=None, wire=wire, **more)
        session.add(asks("ask-1"))
        assert (sent_output(session), session.budget.reserve) == (limit, limit)


@pytest.mark.seed("PIC-01", change={"max_tokens": 1_000})
def test_the_output_limit_is_possible(preset: Preset) -> None:
    """It is lowered with the reserve, and to what the model can write."""
    small = opened(preset("picoclaw"), window=16_000)
    small.add(asks("ask-1"))
    assert (sent_output(small), small.budget.reserve) == (4_000, 4_000), "a quarter of the window"
    small.recovery.set_window(8_000)
    assert sent_output(small) == 2_000, "a window that is learned later counts, too"
    known = Session("gpt-4o", policy=preset("picoclaw"), count="chars/4")
    known.add(asks("ask-1"))
    assert sent_output(known) == 16_384, "the most that the model writes"


def test_another_policy_sends_the_limit_of_the_session_only() -> None:
    for given, sent, reserve in ((0, None, 4_096), (1_000, 1_000, 4_096), (7_000, 7_000, 7_000)):
        session = Session("gpt-4o", count="chars/4", max_tokens=given)
        session.add(asks("ask-1"))
        assert (sent_output(session), session.budget.reserve) == (sent, reserve)


@pytest.mark.seed("PIC-02", change={"max_tokens": 3_000})
def test_the_history_budget_is_one_visible_subtraction(preset: Preset) -> None:
    tools = [tool("read_file"), tool("write_file")]
    session = opened(preset("picoclaw", max_tokens=4_000), window=20_000, tools=tools)
    budget = session.budget
    assert budget.room == 20_000 - budget.fixed - 4_000
    line = f"The history has room for {budget.room:,} tokens: 20,000 - 4,000 - {budget.fixed:,}."
    assert [each.startswith(line) for each in session.explain().budget_lines] == [True]
    assert line in str(session.explain())
    session.set_system(SYSTEM + "x" * 400)
    assert session.budget.room == budget.room - 100
    session.set_tools([*tools, tool("y" * 400, "z" * 400)])
    assert session.budget.room <= budget.room - 300


@pytest.mark.seed("PIC-02", change={"max_tokens": 3_000})
def test_the_history_budget_is_the_threshold_and_no_percentage(preset: Preset) -> None:
    """A history that fills its budget to the last token is left alone; one token more and it is summarized."""
    for over in (0, 1):
        session = opened(preset("picoclaw", max_tokens=4_000), window=20_000)
        session.add(*turns(1, 5, reply=8_000), asks("ask-6"), calls("a"))
        left = session.budget.room - session.view.tokens
        session.add(result("a", passage("a", 4 * (left - 4 + over))))
        request = session.prepare(Scribe())
        assert stages(session) == ["summarize"] * over
        assert over or request.tokens == 16_000


@pytest.mark.seed("PIC-03", without=("before_call/summarize",))
@pytest.mark.seed("PIC-03", change={"max_tokens": 100})
def test_a_request_over_the_limit_is_summarized_before_the_call(preset: Preset) -> None:
    """One turn, sixteen rounds of tools: every request is measured, and those that would be over are summarized."""
    session, scribe = opened(preset("picoclaw", max_tokens=5_000), window=20_000), Scribe()
    session.add(asks("ask-1"))
    summarized = 0
    for step in range(1, 17):
        session.add(*batch(f"step-{step}", 8_000))
        over = session.tokens > 15_000
        request = session.prepare(scribe)
        summarized += over
        assert len(scribe.asked) == summarized, "summarized when it is over, and only then"
        assert request.tokens <= 15_000
        assert names(request)[0] == "ask-1"
        assert names(request)[-1] == f"step-{step}.1"
    assert summarized >= 2
    assert set(stages(session)) == {"summarize"}


@pytest.mark.seed("PIC-03", without=("before_call/summarize",))
def test_the_whole_request_is_measured(preset: Preset) -> None:
    """A longer system prompt takes the room of two results."""
    for prompt, steps in ((4_000, 6), (24_000, 4)):
        policy, system = preset("picoclaw", max_tokens=5_000), passage("system", prompt)
        session, scribe = opened(policy, window=20_000, system=system), Scribe()
        session.add(asks("ask-1"))
        for step in range(1, steps + 3):
            session.add(*batch(f"step-{step}", 8_000))
            session.prepare(scribe)
            assert bool(scribe.asked) == (step > steps)


@pytest.mark.seed("PIC-04", without=("overflow/drop_oldest",))
@pytest.mark.seed("PIC-04", fields={"recoveries": 2})
def test_the_emergency_drops_the_older_half_once(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=20_000), window=100_000), Scribe()
    session.add(*turns(1, 6, (400, 400)), asks("ask-7"))
    before = session.prepare(scribe)
    assert stages(session) == [], "an estimate that says it fits is believed"
    after = session.overflowed(scribe)
    assert scribe.asked == [], "no model is asked when the model refuses"
    system, first, *rest = after.messages
    assert system == before.messages[0], "the system prompt is not edited"
    assert first["role"] == "user"
    assert first["content"].startswith("[Note: the oldest half")
    assert first["content"].endswith(passage("ask-4"))
    assert rest == before.messages[17:], "31 messages: of the oldest 15 all go, at the border of a turn's group"
    with pytest.raises(GiveUp):
        session.overflowed(scribe)
    assert passage("ask-1") in said(session)


@pytest.mark.seed("PIC-04", without=("overflow/drop_oldest",))
def test_the_emergency_leaves_the_summary(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=5_000), window=20_000), Scribe("what was said before")
    session.add(*turns(1, 8, reply=8_000), asks("ask-9"))
    session.prepare(scribe)
    assert stages(session) == ["summarize"]
    session.add(*turn(9)[1:], *turn(10), asks("ask-11"))
    request = session.overflowed(scribe)
    assert stages(session) == ["summarize", "drop_oldest"]
    assert "what was said before" in flat(request)
    assert "[Note: the oldest half" in flat(request)
    assert request.messages[0] == {"role": "system", "content": SYSTEM}


@pytest.mark.seed("PIC-05", swap={"drop_oldest": cut_by_index})
def test_a_cut_moves_before_a_group(preset: Preset) -> None:
    """A batch of four stands at every place a cut can fall on: it leaves whole or stays whole, and never sooner."""
    for before in range(9):
        session = opened(preset("picoclaw", max_tokens=20_000), window=100_000, system="")
        small = [each for number in range(before) for each in (asks(f"ask-{number}"), replies(f"reply-{number}"))]
        session.add(*small, asks("ask-x"), *batch("x", 200, 200, 200, 200), replies("reply-x"), *turns(90, 91))
        count = session.view.message_count
        request = session.overflowed()
        batches = paired(request)
        start = 2 * before + 1
        half = count // 2
        whole = [("x.1", "x.2", "x.3", "x.4")]
        if stages(session) == ["drop_oldest", "guard"]:  # the cut freed less than a tenth of the request
            assert half < start + 5
            assert batches in ([], whole)
        else:
            assert stages(session) == ["drop_oldest"]
            assert batches == ([] if half >= start + 5 else whole)
            gone = half if half <= start or half >= start + 5 else start
            assert session.view.message_count == count - gone + 1
        _stored_whole(session)


def _stored_whole(session: Session) -> None:
    """Of what is stored, too: no transaction of the log takes a part of a group."""
    group = {
        event.seq
        for event in session.log.read()
        if isinstance(event.payload, MessageAdded) and _in_batch(event.payload.message)
    }
    dropped = {
        ident for made in edits(session) for edit in made.edited.edits if isinstance(edit, Drop) for ident in edit.ids
    }
    assert len(group) == 5
    assert len(dropped & {f"m{seq}" for seq in group}) in (0, 5)
    again = reopened(session)
    assert again.prepare().messages == session.prepare().messages


def _in_batch(message: Message) -> bool:
    return any(isinstance(part, Call | Result) for part in message.parts)


@pytest.mark.seed("PIC-05", without=("before_call/summarize",))
def test_a_summary_never_splits_a_group(preset: Preset) -> None:
    """Groups of several sizes and many lengths of history, so that the half to keep ends anywhere."""
    for extra in range(0, 4_000, 400):
        session = opened(preset("picoclaw", max_tokens=2_000), window=8_000)
        session.add(*turns(1, 6, (900, 900, 900), (700,), reply=800 + extra), asks("ask-7"))
        request = session.prepare(Scribe())
        assert stages(session) == ["summarize"]
        assert all(len(set(batch)) in (1, 3) for batch in paired(request))
        assert numbers(request, "ask-")[-1] == 7
