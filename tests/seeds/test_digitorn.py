"""The promises of the preset `digitorn` that concern the engine: when and how it compacts."""

from typing import Any

import pytest

from tests.seeds.mutate import cut_by_index
from tests.seeds.talk import (
    Clock,
    Json,
    Preset,
    Scribe,
    asks,
    batch,
    fate,
    flat,
    numbers,
    only,
    opened,
    paired,
    reopened,
    replies,
    rules,
    stages,
    turns,
)
from tidegate import Session
from tidegate.models.catalog import find_window

TRUNCATED = "[Earlier messages truncated]"


@pytest.mark.seed("DIG-02", change={"max_tokens": 9_000})
@pytest.mark.seed("DIG-02", change={"output_reserved": 900})
@pytest.mark.seed("DIG-02", fields={"meter": "chars/3"})
def test_pressure_is_the_estimate_over_what_the_output_leaves(preset: Preset) -> None:
    """4 characters to a token and nothing else: 5,250 / (8,000 - 1,000) is 0.75, which is not over 0.75."""
    session = opened(preset("digitorn", max_tokens=8_000, output_reserved=1_000), window=None, system="")
    session.add(*turns(1, 26, ask=400, reply=400), asks("ask-27", 200))
    session.prepare(Scribe())
    assert "(5,250 of 7,000 usable tokens, 75%) is not above the limit of 75%" in fate(session, "_auto_compact")
    assert stages(session) == []
    session.add({"role": "assistant", "content": "done"}, {"role": "user", "content": "go on ..."})
    session.prepare(Scribe())
    assert "(5,254 of 7,000 usable tokens, 75.06%) is above the limit of 75%" in fate(session, "_auto_compact")
    assert stages(session) == ["summarize"]


def nine_messages() -> list[Json]:
    """Five of the user, four of the assistant, 600 tokens each."""
    return [*turns(1, 4, ask=2_400, reply=2_400), asks("ask-5", 2_400)]


@pytest.mark.seed("DIG-03", change={"strategy": "summarize"})
@pytest.mark.seed("DIG-03", change={"keep_recent": 6})
def test_truncate_keeps_system_note_and_recent(preset: Preset) -> None:
    """The document's own picture, without the reminder that follows it (DIG-06)."""
    policy = preset("digitorn", strategy="truncate", keep_recent=4, reminder_tokens=0)
    session, scribe = opened(policy, window=7_500, reserve=1_000), Scribe()
    session.add(*nine_messages())
    request = session.prepare(scribe)
    recent = nine_messages()[-4:]
    assert request.messages[0]["role"] == "system"
    assert request.messages[1:] == [{"role": "user", "content": TRUNCATED}, *recent]
    assert scribe.asked == [], "no model is called"


@pytest.mark.seed("DIG-04", change={"strategy": "truncate"})
@pytest.mark.seed("DIG-04", change={"keep_recent": 6})
@pytest.mark.seed("DIG-04", change={"summary_max_tokens": 2_000})
def test_summarize_keeps_system_summary_and_recent(preset: Preset) -> None:
    policy = preset("digitorn", strategy="summarize", keep_recent=4, reminder_tokens=0)
    session, scribe = opened(policy, window=7_500, reserve=1_000), Scribe("discussed X, decided Y, found Z")
    session.add(*nine_messages())
    request = session.prepare(scribe)
    summary = {"role": "user", "content": "[Summary: discussed X, decided Y, found Z]"}
    assert request.messages[0]["role"] == "system"
    assert request.messages[1:] == [summary, *nine_messages()[-4:]]
    assert only(scribe.asked).max_tokens == 1_024
    assert len(scribe.asked[0].messages) == 5


@pytest.mark.seed("DIG-05", change={"auto_compact": False})
@pytest.mark.seed("DIG-05", change={"compression_trigger": 0.9})
def test_auto_compact_acts_before_each_call_past_the_trigger(preset: Preset) -> None:
    """In the middle of a tool loop, without a new message of the user: whenever a model is about to be called."""
    for strategy, stage in (("summarize", "summarize"), ("truncate", "keep_recent")):
        session = opened(preset("digitorn", strategy=strategy, keep_recent=2), window=10_000, reserve=2_000, system="")
        session.add(asks("ask-1"))
        for step in range(1, 6):
            session.add(*batch(f"step-{step}", 4_000))
            session.prepare(Scribe())
            assert stages(session) == []
        session.add(*batch("step-6", 4_000))
        assert 0.75 * 8_000 < session.tokens < 0.9 * 8_000
        session.prepare(Scribe())
        assert stages(session) == [stage], "the strategy's own stage and no other"
        assert rules(session) == ["_auto_compact"]


@pytest.mark.seed("DIG-05", change={"auto_compact": True})
def test_without_auto_compact_nothing_is_compacted(preset: Preset) -> None:
    for strategy in ("summarize", "truncate"):
        session = opened(preset("digitorn", strategy=strategy, auto_compact=False), window=10_000, reserve=2_000)
        session.add(*turns(1, 9, reply=3_000), asks("ask-10"))
        assert session.tokens > 0.85 * 8_000
        assert numbers(session.prepare(Scribe()), "ask-") == list(range(1, 11))
        assert stages(session) == []


def crowded(preset: Preset, clock: Clock, **settings: Any) -> Session:
    """A session just compacted whose recent messages alone are over the trigger of 12,000 tokens."""
    policy = preset("digitorn", keep_recent=4, output_reserved=4_000, reminder_tokens=0, **settings)
    session = opened(policy, window=20_000, system="", clock=clock)
    session.add(asks("ask-1", 8_000), replies("reply-1", 16_400), asks("ask-2", 16_400), replies("reply-2", 16_400))
    session.add(asks("ask-3"))
    session.prepare(Scribe())
    assert rules(session) == ["_auto_compact"]
    assert session.tokens > 12_000
    return session


@pytest.mark.seed("DIG-05", change={"cooldown_seconds": 0})
@pytest.mark.seed("DIG-05", change={"cooldown_seconds": 300})
def test_auto_compact_rests_thirty_seconds(preset: Preset) -> None:
    clock = Clock()
    session = crowded(preset, clock, cooldown_turns=0)
    for seconds, acts in ((10.0, 1), (19.75, 1), (0.25, 2)):
        clock.now += seconds
        session.add(*batch(f"at-{int(clock.now)}", 400))
        session.prepare(Scribe())
        assert len(rules(session)) == acts
        assert acts > 1 or "cooling down" in fate(session, "_auto_compact")


@pytest.mark.seed("DIG-08", change={"cooldown_turns": 0})
@pytest.mark.seed("DIG-08", change={"cooldown_turns": 3})
def test_after_a_compaction_two_turns_of_rest_also_over_a_restart(preset: Preset) -> None:
    clock = Clock()
    session = crowded(preset, clock)
    clock.now += 60
    session.add(*batch("same-turn", 400))
    session.prepare(Scribe())
    assert rules(session) == ["_auto_compact"]
    for number in (4, 5):
        clock.now += 60
        session.add(replies(f"reply-{number - 1}"), asks(f"ask-{number}"))
        session.prepare(Scribe())
        assert rules(session) == ["_auto_compact"], "turn by turn"
        assert "cooling down" in fate(session, "_auto_compact")
        session = reopened(session, clock=clock)
    clock.now += 60
    session.add(replies("reply-5"), asks("ask-6"))
    session.prepare(Scribe())
    assert rules(session) == ["_auto_compact", "_auto_compact"]


@pytest.mark.seed("DIG-14", change={"max_tokens": 4_000})
def test_the_windows_of_known_models(preset: Preset) -> None:
    known = {
        "deepseek-chat": 131_072,
        "gpt-4o": 128_000,
        "gpt-4o-mini": 128_000,
        "llama-3.3-70b-versatile": 128_000,
        "mistral-large-latest": 128_000,
        "o3": 200_000,
        "o3-mini": 200_000,
    }
    for model, window in known.items():
        assert find_window(model) == window
        assert Session(model, policy=preset("digitorn"), count="chars/4").budget.window == window


@pytest.mark.seed("DIG-14", change={"max_tokens": 4_000})
def test_an_unknown_model_asks_for_a_setting(preset: Preset) -> None:
    assert find_window("qwen2.5:14b") is None
    session = Session("qwen2.5:14b", policy=preset("digitorn"), count="chars/4")
    assert session.budget.window is None
    assert "window unknown" in str(session.explain())
    assert "set a window" in str(session.explain())
    told = Session("qwen2.5:14b", policy=preset("digitorn", max_tokens=4_000), count="chars/4")
    assert told.budget.window == 4_000
    assert "unknown" not in str(told.explain())


@pytest.mark.seed("DIG-15", swap={"summarize": cut_by_index})
def test_a_split_never_parts_a_call_from_its_results(preset: Preset) -> None:
    """Every number of recent messages, so that the split falls on each message of a batch of three in turn."""
    talk = [*turns(1, 3, (2_000, 2_000, 2_000), (2_000,)), asks("ask-4")]
    for strategy in ("summarize", "truncate"):
        for keep in range(1, 16):
            session = opened(preset("digitorn", strategy=strategy, keep_recent=keep), window=9_000, reserve=900)
            session.add(*talk)
            request = session.prepare(Scribe())
            assert len(stages(session)) == 1
            kept = [each for each in request.messages if each["role"] in ("assistant", "tool")]
            assert {len(each) for each in paired(request)} <= {1, 3}
            shown = len(kept) + sum(f"</ask-{number}>" in flat(request) for number in range(1, 5))  # whole ones
            assert keep <= shown <= keep + 3, "the group at the split is kept whole, and no more than that"
