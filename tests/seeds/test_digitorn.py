"""The promises of the preset `digitorn` that concern the engine."""

import json
from typing import Any

import pytest

from tests.seeds.talk import (
    Clock,
    Json,
    Preset,
    Scribe,
    asks,
    batch,
    calls,
    fate,
    flat,
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
    stages,
    tool,
    turns,
)
from tidegate import GiveUp, Outcome, Session, View
from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Insert
from tidegate.core.messages import user
from tidegate.core.outcome import SummaryRequest
from tidegate.models.catalog import window_of

TRUNCATED = "[Earlier messages truncated]"
REMINDER = "[Context reminder"


@pytest.mark.seed("DIG-02", change={"max_tokens": 9_000})
@pytest.mark.seed("DIG-02", change={"output_reserved": 900})
@pytest.mark.seed("DIG-02", fields={"meter": "chars/3"})
def test_pressure_is_the_estimate_over_what_the_output_leaves(preset: Preset) -> None:
    """4 characters to a token and nothing else: 5,250 / (8,000 - 1,000) is 0.75, which is not over 0.75."""
    session = opened(preset("digitorn", max_tokens=8_000, output_reserved=1_000), window=None, system="")
    session.add(*turns(1, 26, ask=400, reply=400), asks("ask-27", 200))
    session.prepare(Scribe())
    assert "pressure > 0.75 (is 0.75)" in fate(session, "_auto_compact")
    assert stages(session) == []
    session.add({"role": "assistant", "content": "done"}, {"role": "user", "content": "go on ..."})
    session.prepare(Scribe())
    assert f"pressure > 0.75 (is {5_254 / 7_000:g})" in fate(session, "_auto_compact")
    assert stages(session) == ["summarise"]


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
    for strategy, stage in (("summarize", "summarise"), ("truncate", "keep_recent")):
        session = opened(preset("digitorn", strategy=strategy, keep_recent=2), window=10_000, reserve=2_000, system="")
        session.add(asks("ask-1"))
        for step in range(1, 6):
            session.add(*batch(f"step-{step}", 4_000))
            session.prepare(Scribe())
            assert stages(session) == []
        session.add(*batch("step-6", 4_000))
        assert 0.75 * 8_000 < session.size() < 0.9 * 8_000
        session.prepare(Scribe())
        assert stages(session) == [stage], "the strategy's own stage and no other"
        assert rules(session) == ["_auto_compact"]


@pytest.mark.seed("DIG-05", change={"auto_compact": True})
def test_without_auto_compact_nothing_is_compacted(preset: Preset) -> None:
    for strategy in ("summarize", "truncate"):
        session = opened(preset("digitorn", strategy=strategy, auto_compact=False), window=10_000, reserve=2_000)
        session.add(*turns(1, 9, reply=3_000), asks("ask-10"))
        assert session.size() > 0.85 * 8_000
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
    assert session.size() > 12_000
    return session


@pytest.mark.seed("DIG-05", change={"cooldown_seconds": 0})
@pytest.mark.seed("DIG-05", change={"cooldown_seconds": 300})
def test_auto_compact_rests_thirty_seconds(preset: Preset) -> None:
    clock = Clock()
    session = crowded(preset, clock, cooldown_turns=0)
    for seconds, acts in ((10.0, 1), (19.9, 1), (0.2, 2)):
        clock.now += seconds
        session.add(*batch(f"at-{int(clock.now)}", 400))
        session.prepare(Scribe())
        assert len(rules(session)) == acts
        assert acts > 1 or "cooling down" in fate(session, "_auto_compact")


@pytest.mark.seed("DIG-06", change={"reminder_tokens": 0})
def test_a_reminder_follows_every_compaction(preset: Preset) -> None:
    """With both strategies: what was done and all tools; the second takes the place of the first."""
    tools = [
        tool(name, "Work on files of the project: reads, writes or lists what the path names.")
        for name in ("read_file", "write_file", "list_dir", "grep", "run_tests", "git_diff", "git_log", "ask_user")
    ]
    for strategy in ("summarize", "truncate"):
        policy = preset("digitorn", strategy=strategy, keep_recent=4, cooldown_turns=0, cooldown_seconds=0)
        session = opened(policy, window=20_000, reserve=4_000, tools=tools)
        session.add(*turns(1, 4, (9_000,), tool="grep"), asks("ask-5"))
        for _ in range(4):
            session.add(*batch(f"step-{session.log.head}", 9_000, tool="write_file"))
            request = session.prepare(Scribe())
        assert len(rules(session)) >= 2
        reminder = only(reminders(session))
        assert reminder in flat(request)
        for name in ("read_file", "write_file", "list_dir", "grep", "run_tests", "git_diff", "git_log", "ask_user"):
            assert f"* {name}" in reminder, "direct mode lists every tool"
        assert "- grep" in reminder, "what was done before the first compaction"
        assert "- write_file" in reminder, "and since"


@pytest.mark.seed("DIG-06", change={"reminder_tokens": 0})
def test_with_many_tools_the_reminder_tells_how_to_find_one(preset: Preset) -> None:
    kinds = ("filesystem", "git", "database", "browser")
    deeds = ("find", "list", "read", "write", "copy", "move", "remove", "watch")
    tools = [tool(f"{kind}_{deed}") for kind in kinds for deed in deeds] + [tool("search_tools", "Find a tool by words.")]
    session = opened(preset("digitorn", keep_recent=4), window=20_000, reserve=4_000, tools=tools)
    session.add(*turns(1, 6, (9_000,), tool="git_read"), asks("ask-7"))
    session.prepare(Scribe())
    reminder = only(reminders(session))
    for kind in kinds:
        assert kind in reminder, "categories"
    assert "browser_copy" not in reminder, "and no list"
    assert "search_tools" in reminder, "how to find one"


@pytest.mark.seed("DIG-06", change={"reminder_tokens": 2_000})
def test_the_reminder_has_a_fixed_allowance(preset: Preset) -> None:
    tools = [tool(f"tool_{number}", "A long story about what it does. " * 20) for number in range(12)]
    session = opened(preset("digitorn", keep_recent=4), window=40_000, reserve=4_000, tools=tools)
    session.add(asks("ask-1"))
    for number in range(12):
        ident = f"call-{number}"
        session.add(calls(ident, tool=f"tool_{number}", arguments=json.dumps({"text": "x" * 4_000})))
        session.add(result(ident, passage(ident, 4_000)))
    session.prepare(Scribe())
    assert len(only(reminders(session))) <= 300 * 4


def reminders(session: Session) -> list[str]:
    """The reminders a request holds, taken apart from what stands beside them."""
    text = flat(session.request())
    return [REMINDER + part.partition("\n\n")[0] for part in text.split(REMINDER)[1:]]


@pytest.mark.seed("DIG-07", change={"result_share": 0.9})
@pytest.mark.seed("DIG-07", without=("tool_result/cap_result",))
def test_a_long_array_keeps_its_first_items_and_stays_json(preset: Preset) -> None:
    paths = [f"src/module_{number:04}/file_{number:04}.py" for number in range(5_000)]
    session = opened(preset("digitorn"), window=20_000, wire="anthropic")
    session.add(asks("ask-1"), calls("find", tool="filesystem_find"), result("find", json.dumps(paths)))
    request = session.prepare()
    block = only(request.messages[-1]["content"])
    assert len(block["content"]) == 2, "the notice is a part of its own"
    array, notice = (part["text"] for part in block["content"])
    half = session.budget().room / 2
    assert 0.9 * half < len(array) / 4 <= half
    kept = json.loads(array)
    assert kept == paths[: len(kept)]
    assert len(json.dumps(paths[: len(kept) + 20])) / 4 > half, "as many as fit"
    assert f"showing {len(kept)} of 5000 results from filesystem_find" in notice
    assert "pattern or filter" in notice
    assert "Do NOT guess or invent" in notice


@pytest.mark.seed("DIG-07", change={"result_share": 0.9})
def test_a_long_text_is_capped_too(preset: Preset) -> None:
    session = opened(preset("digitorn"), window=20_000, wire="anthropic")
    session.add(asks("ask-1"), calls("log"), result("log", passage("log", 90_000, lines=900)))
    block = only(session.prepare().messages[-1]["content"])
    text, notice = (part["text"] for part in block["content"])
    half = session.budget().room / 2
    assert 0.9 * half < len(text) / 4 <= half
    assert "of 900 lines" in notice
    assert "Do NOT guess or invent" in notice
    assert "guard" not in stages(session)


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


@pytest.mark.seed("DIG-10", change={"keep_recent": 30})
@pytest.mark.seed("DIG-10", change={"reminder_tokens": 0})
@pytest.mark.seed("DIG-10", without=("overflow/cap_texts",))
@pytest.mark.seed("DIG-10", fields={"recoveries": 2})
def test_the_emergency_truncates_hard_and_is_tried_once(preset: Preset) -> None:
    session, scribe = opened(preset("digitorn", auto_compact=False), window=40_000, tools=[tool("read_file")]), Scribe()
    session.add(*turns(1, 8, (3_000,)), asks("ask-9"), *batch("big", 30_000))
    session.prepare(scribe)
    assert stages(session) == []
    request = session.overflowed(scribe)
    assert scribe.asked == [], "no model, for the model refuses"
    assert names(request) == ["call-8.1.1", "reply-8", "ask-9", "big.1"], "keep_recent // 2: a group is not cut for it"
    assert TRUNCATED in flat(request)
    assert "* read_file" in only(reminders(session))
    clipped = results(request)["big.1"]
    assert len(clipped) < 16_000, "a single message that is too large is clipped"
    assert "left out" in clipped
    assert request.tokens <= 20_000
    assert "guard" not in stages(session)
    with pytest.raises(GiveUp):
        session.overflowed(scribe)


@pytest.mark.seed("DIG-10", without=("overflow/keep_recent",))
def test_the_emergency_comes_down_to_half_of_the_window(preset: Preset) -> None:
    """Whatever the recent messages are: long ones, or one batch whose many results are each not too large."""
    for steps in ([(14_000,)] * 10, [(5_500,) * 22]):
        session = opened(preset("digitorn", auto_compact=False), window=40_000)
        session.add(*turns(1, 2), asks("ask-3"))
        for place, sizes in enumerate(steps):
            session.add(*batch(f"step-{place}", *sizes))
        assert session.size() > 25_000
        request = session.overflowed()
        assert request.tokens <= 0.52 * 40_000
        assert paired(request)
        assert passage("ask-3") in flat(request)
        assert TRUNCATED in flat(request)


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
        assert window_of(model) == window
        assert Session(model, policy=preset("digitorn"), count="chars/4").budget().window == window


@pytest.mark.seed("DIG-14", change={"max_tokens": 4_000})
def test_an_unknown_model_asks_for_a_setting(preset: Preset) -> None:
    assert window_of("qwen2.5:14b") is None
    session = Session("qwen2.5:14b", policy=preset("digitorn"), count="chars/4")
    assert session.budget().window is None
    assert "window unknown" in str(session.explain())
    assert "set a window" in str(session.explain())
    told = Session("qwen2.5:14b", policy=preset("digitorn", max_tokens=4_000), count="chars/4")
    assert told.budget().window == 4_000
    assert "unknown" not in str(told.explain())


def by_index(view: View, budget: Budget, *, keep: int) -> Drop:
    return Drop(tuple(item.message.id for item in view.items[: len(view.items) - keep]))


def cut_anywhere(view: View, budget: Budget, *, messages: int, note: str = "", **rest: Any) -> Outcome:
    return Outcome((by_index(view, budget, keep=messages), Insert(user("cut", "note"))))


def summarise_anywhere(view: View, budget: Budget, *, keep_messages: int, max_tokens: int, **rest: Any) -> Outcome:
    return Outcome((by_index(view, budget, keep=keep_messages),), (SummaryRequest((), "", max_tokens),))


@pytest.mark.seed("DIG-15", swap={"keep_recent": cut_anywhere, "summarise": summarise_anywhere})
def test_a_split_never_parts_a_call_from_its_results(preset: Preset) -> None:
    """Every number of recent messages, so that the split falls on each message of a batch of three in turn."""
    talk = [*turns(1, 3, (2_000, 2_000, 2_000), (2_000,)), asks("ask-4")]
    for strategy in ("summarize", "truncate"):
        for keep in range(1, 16):
            session = opened(preset("digitorn", strategy=strategy, keep_recent=keep), window=9_000, reserve=900)
            session.add(*talk)
            request = session.prepare(Scribe())
            assert rules(session) == ["_auto_compact"] or keep > 24
            kept = [each for each in request.messages if each["role"] in ("assistant", "tool")]
            assert {len(each) for each in paired(request)} <= {1, 3}
            shown = len(kept) + len(numbers(request, "ask-"))
            assert keep <= shown <= keep + 3, "the group at the split is kept whole, and no more than that"
