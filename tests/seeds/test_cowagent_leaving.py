"""The promises of the preset `cowagent`: what leaves goes into memory; overflow and restore."""

from pathlib import Path

import pytest

from tests.seeds.talk import (
    Edge,
    Json,
    Preset,
    Scribe,
    asks,
    calls,
    edits,
    encoded,
    fate,
    names,
    numbers,
    only,
    opened,
    paired,
    passage,
    reopened,
    replies,
    result,
    results,
    rules,
    said,
    stages,
    turn,
    turns,
)
from tidegate import GiveUp, Session, SessionStorage

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}}


@pytest.mark.seed("COW-06", change={"memory_tokens": 0})
@pytest.mark.seed("COW-06", without=("turn_limit",))
def test_what_a_trim_takes_goes_into_memory_first(preset: Preset, tmp_path: Path) -> None:
    """The model's summary of what leaves is in the day's file before anything left; the rest keeps its bytes."""
    memory, scribe = tmp_path / "2025-01-31.md", Scribe("- the user wants four bar")
    edits_when_saved: list[int] = []

    def carry(effect: object) -> None:
        edge(effect)  # type: ignore[arg-type]
        edits_when_saved.append(len(edits(session)))
        with memory.open("a") as file:
            file.write(edge.flushed[-1].text + "\n")

    edge = Edge()
    session = opened(preset("cowagent"), log=SessionStorage(effects=carry))
    session.add(*turns(1, 20, (200,)))
    before = session.prepare(scribe)
    session.add(asks("ask-21"))
    after = session.prepare(scribe)
    assert numbers(after, "ask-") == list(range(11, 22))
    assert only(edge.flushed).text == scribe.text
    assert memory.read_text() == "- the user wants four bar\n"
    assert edits_when_saved == [0]
    asked = only(scribe.asked)
    assert len(asked.messages) == 40
    assert "<ask-1>" in scribe.read()
    assert "</reply-10>" in scribe.read()
    assert "ask-11" not in scribe.read()
    kept = [message for message in encoded(before) if message in encoded(after)]
    assert kept == encoded(after)[:-1] == [encoded(before)[0], *encoded(before)[41:81]]


@pytest.mark.seed("COW-06", change={"memory_tokens": 0})
def test_nothing_leaves_if_it_cannot_be_saved(preset: Preset) -> None:
    edge = Edge(broken=True)
    session = opened(preset("cowagent"), log=SessionStorage(effects=edge))
    session.add(*turns(1, 20, (200,)), asks("ask-21"))
    request = session.prepare(Scribe())
    assert numbers(request, "ask-") == list(range(1, 22))
    assert stages(session) == []
    assert "did not act" in fate(session, "turn_limit")
    assert "disk full" in fate(session, "turn_limit")
    edge.broken = False
    session.add(*turn(21)[1:], asks("ask-22"))
    assert numbers(session.prepare(Scribe()), "ask-") == list(range(11, 23)), "it is tried again with the next turn"


@pytest.mark.seed("COW-07", change={"max_context_tokens": 10**6})
@pytest.mark.seed("COW-07", without=("turn_start/text_only_turns", "token_limit_texts"))
def test_few_turns_over_the_budget_keep_request_and_reply(preset: Preset) -> None:
    session = opened(preset("cowagent"), system="")
    for number in (1, 2, 3):
        ask = asks(f"ask-{number}")
        if number == 2:
            ask["content"] = [{"type": "text", "text": ask["content"]}, PICTURE]
        session.add(ask, calls(f"{number}a", f"{number}b", says=passage(f"plan-{number}")))
        session.add(
            result(f"{number}a", passage(f"r-{number}a", 19_000)), result(f"{number}b", passage(f"r-{number}b"))
        )
        session.add(*turn(number, (19_900,), (19_900, 19_900))[1:])
    session.add(asks("ask-4"))
    request = session.prepare()
    wanted = [text for number in (1, 2, 3) for text in (asks(f"ask-{number}"), replies(f"reply-{number}"))]
    assert request.messages == [*wanted, asks("ask-4")]
    assert stages(session) == ["text_only_turns"]


@pytest.mark.seed("COW-07", change={"max_context_tokens": 40_000})
def test_within_the_budget_no_turn_is_reduced(preset: Preset) -> None:
    """The budget of 50,000 tokens itself is allowed, a few more are not."""
    session = opened(preset("cowagent"), system="")
    session.add(*turn(1, *[(19_000,)] * 10), asks("ask-2"))
    session.add(*_last_words(session, 50_000))
    assert session.tokens == 50_000
    request = session.prepare()
    assert len(paired(request)) == 10
    assert stages(session) == []
    session.add(replies("r", 20), asks("a", 20))
    assert paired(session.prepare()) == []
    assert stages(session) == ["text_only_turns"]


def _last_words(session: Session, size: int) -> list[Json]:
    """A reply and a next request that bring the session to exactly this size."""
    left = size - session.tokens - 8
    return [replies("r", 4 * (left - 5)), asks("a", 20)]


@pytest.mark.seed("COW-08", change={"max_context_tokens": 10**6})
@pytest.mark.seed("COW-08", without=("token_limit", "token_limit_rest"))
@pytest.mark.seed("COW-08", change={"memory_tokens": 0})
def test_many_turns_over_the_budget_lose_the_older_half_again(preset: Preset) -> None:
    """Twenty-one turns: ten go for being too many, five more for their size, both into memory."""
    edge, scribe = Edge(), Scribe()
    session = opened(preset("cowagent"), log=SessionStorage(effects=edge))
    session.add(*turns(1, 20, (19_000, 9_000)), asks("ask-21"))
    request = session.prepare(scribe)
    assert rules(session) == ["turn_limit", "token_limit"]
    assert numbers(request, "ask-") == list(range(16, 22))
    assert paired(request) == [(f"call-{number}.1.1", f"call-{number}.1.2") for number in range(16, 21)]
    assert [flush.text for flush in edge.flushed] == [scribe.text, scribe.text]
    first, second = edge.flushed
    assert len(first.request.messages) == 50
    assert len(second.request.messages) == 25
    assert "<ask-11>" in scribe.read()


@pytest.mark.seed("COW-07", change={"few_turns": 8})
@pytest.mark.seed("COW-08", change={"few_turns": 8})
def test_five_turns_are_many(preset: Preset) -> None:
    four, five = (opened(preset("cowagent", max_context_tokens=4_000)) for _ in range(2))
    four.add(*turns(1, 3, (6_000,)), asks("ask-4"))
    assert numbers(four.prepare(), "ask-") == [1, 2, 3, 4]
    five.add(*turns(1, 4, (6_000,)), asks("ask-5"))
    request = five.prepare()
    assert numbers(request, "ask-") == [3, 4, 5]
    assert len(paired(request)) == 2, "what stays is not reduced"
    assert rules(five) == ["token_limit"]


@pytest.mark.seed("COW-09", change={"emergency_chars": 10**6})
@pytest.mark.seed("COW-09", change={"emergency_turns": 20})
@pytest.mark.seed("COW-09", without=("overflow/flush_memory",))
@pytest.mark.seed("COW-09", without=("overflow/clear_context",))
def test_overflow_saves_all_then_trims_hard_then_clears(preset: Preset) -> None:
    edge, scribe = Edge(), Scribe("all that was worth keeping")
    session = opened(preset("cowagent"), log=SessionStorage(effects=edge))
    session.add(*turns(1, 7, (11_000, 300), ask=11_000), asks("ask-8", 12_000))
    session.add(calls("now"), result("now", passage("now", 15_000)))
    before = session.prepare(scribe)
    assert numbers(before, "ask-") == list(range(1, 9))

    second = session.overflowed(scribe)
    flush = only(edge.flushed)
    assert flush.text == "all that was worth keeping"
    assert [message.id for message in flush.request.messages] == [f"m{seq}" for seq in range(3, 41)]
    assert passage("ask-1", 11_000) in scribe.read(), "saved before anything was cut"
    assert numbers(second, "ask-") == [4, 5, 6, 7, 8]
    assert all(len(text) <= 10_000 for text in results(second).values())
    assert len(results(second)["now"]) <= 10_000, "the current turn too"
    asked = [message["content"] for message in second.messages if message["role"] == "user"]
    assert [len(text) <= 10_000 for text in asked] == [True, True, True, True, False]
    assert asked[-1] == passage("ask-8", 12_000), "the newest words of the user outrank every rule"
    assert replies("reply-7") in second.messages

    third = session.overflowed(scribe)
    assert third.messages[1:] == [asks("ask-8", 12_000)]
    assert passage("call-1.1.1", 11_000) in said(session), "the record is not cleared"
    assert session.recall("m3").parts
    assert "guard" not in stages(session)
    with pytest.raises(GiveUp):
        session.overflowed(scribe)


@pytest.mark.seed("COW-11", change={"max_context_turns": 60})
@pytest.mark.seed("COW-11", without=("restore/text_only_turns",))
def test_a_restore_brings_back_the_newest_turns_as_text(preset: Preset) -> None:
    for limit, kept in ((20, 3), (30, 5), (6, 3)):
        first = opened(preset("cowagent", max_context_turns=limit))
        first.add(*turns(1, 5, (300, 300), (300,)))
        first.prepare()
        first.add(*turns(6, 8, (300, 300), (300,)))
        session = reopened(first)
        session.run_rules("restore")
        session.add(asks("ask-9"))
        request = session.prepare()
        numbered = range(9 - kept, 9)
        texts = [text for number in numbered for text in (asks(f"ask-{number}"), replies(f"reply-{number}"))]
        assert request.messages[1:] == [*texts, asks("ask-9")]


@pytest.mark.seed("COW-11", without=("restore/text_only_turns",))
def test_the_reply_that_comes_back_is_the_final_one(preset: Preset) -> None:
    first = opened(preset("cowagent"))
    first.add(asks("ask-1"), calls("a", says=passage("plan")), result("a", passage("r")), replies("reply-1"))
    session = reopened(first)
    session.run_rules("restore")
    session.add(asks("ask-2"))
    assert names(session.prepare()) == ["ask-1", "reply-1", "ask-2"]


@pytest.mark.seed("COW-11", without=("restore/text_only_turns",))
def test_a_turn_that_was_broken_off_comes_back_as_text_too(preset: Preset) -> None:
    first = opened(preset("cowagent"))
    first.add(*turns(1, 3, (300,)), asks("ask-4"), calls("a", "b"), result("a", passage("a")))
    session = reopened(first)
    session.run_rules("restore")
    session.add(asks("ask-5"))
    request = session.prepare()
    assert paired(request) == []
    assert names(request) == ["ask-2", "reply-2", "ask-3", "reply-3", "ask-4", "ask-5"]
