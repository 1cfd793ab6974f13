"""The promises of the preset `digitorn` that concern the engine: reminder, long results, emergency."""

import json

import pytest

from tests.seeds.talk import (
    Preset,
    Scribe,
    asks,
    batch,
    calls,
    flat,
    names,
    only,
    opened,
    paired,
    passage,
    result,
    results,
    rules,
    stages,
    tool,
    turns,
)
from tidegate import GiveUp, Session

TRUNCATED = "[Earlier messages truncated]"
REMINDER = "[Context reminder"


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
        for _ in range(9):
            session.add(*batch(f"step-{session.log.head}", 9_000, tool="write_file"))
            session.prepare(Scribe())
        assert len(rules(session)) >= 2
        reminder = only(reminders(session))
        for name in ("read_file", "write_file", "list_dir", "grep", "run_tests", "git_diff", "git_log", "ask_user"):
            assert f"* {name}" in reminder, "direct mode lists every tool"
        assert "- grep" in reminder, "what was done before the first compaction"
        assert "- write_file" in reminder, "and since"


@pytest.mark.seed("DIG-06", change={"reminder_tokens": 0})
def test_with_many_tools_the_reminder_tells_how_to_find_one(preset: Preset) -> None:
    kinds = ("filesystem", "git", "database", "browser")
    deeds = ("find", "list", "read", "write", "copy", "move", "remove", "watch")
    tools = [tool(f"{kind}_{deed}") for kind in kinds for deed in deeds] + [
        tool("search_tools", "Find a tool by words.")
    ]
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
    session = opened(preset("digitorn", keep_recent=4), window=36_000, reserve=4_000, tools=tools)
    session.add(asks("ask-1"))
    for number in range(12):
        ident = f"call-{number}"
        session.add(calls(ident, tool=f"tool_{number}", arguments=json.dumps({"text": "x" * 4_000})))
        session.add(result(ident, passage(ident, 4_000)))
    session.prepare(Scribe())
    assert len(only(reminders(session))) <= 300 * 4


def reminders(session: Session) -> list[str]:
    """The reminders a request holds, taken apart from what stands beside them."""
    spoken = [message["content"] for message in session.render_request().messages if message["role"] == "user"]
    return [part for text in spoken for part in text.split("\n\n") if part.startswith(REMINDER)]


@pytest.mark.seed("DIG-20", without=("tool_result/cap_result",))
def test_a_long_array_in_an_object_keeps_its_first_items_and_stays_json(preset: Preset) -> None:
    """As most tools answer: the array has a name, and other values are beside it."""
    session = opened(preset("digitorn", max_tokens=8_000, output_reserved=1_000), window=None, wire="anthropic")
    found = {"query": "valves", "results": [{"path": f"plant/valve-{number}.yaml"} for number in range(2_000)]}
    session.add(asks("ask-1"), calls("find", tool="find"), result("find", json.dumps(found)))
    content = session.prepare().messages[-1]["content"][0]["content"]
    assert len(content) == 2
    text, notice = (part["text"] for part in content)
    kept = json.loads(text)
    assert kept["query"] == "valves"
    assert kept["results"] == found["results"][: len(kept["results"])]
    assert f"showing {len(kept['results'])} of 2000 results" in notice


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
    half = session.budget.room / 2
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
    half = session.budget.room / 2
    assert 0.9 * half < len(text) / 4 <= half
    assert "of 900 lines" in notice
    assert "Do NOT guess or invent" in notice
    assert "guard" not in stages(session)


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
    whole = [name for name in names(request) if f"</{name}>" in flat(request)]
    assert whole == ["call-8.1.1", "reply-8", "ask-9", "big.1"], "keep_recent // 2: a group is not cut for it"
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
        assert session.tokens > 25_000
        request = session.overflowed()
        assert request.tokens <= 0.52 * 40_000
        assert paired(request)
        assert passage("ask-3") in flat(request)
        assert TRUNCATED in flat(request)
