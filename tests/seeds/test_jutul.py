"""The promises of the preset `jutul` that concern the engine."""

import hashlib
from pathlib import Path

import pytest

from tests.seeds.talk import (
    Edge,
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
    passage,
    replies,
    result,
    results,
    said,
    stages,
    turn,
    turns,
)
from tidegate import Flush, Session, SessionStorage, Spill, SummaryRequest

WINDOW = 100_000
CLEAR, SUMMARIZE = "before_call/clear_results", "before_call/summarize"


@pytest.mark.seed("JUT-08", change={"clear_at": 0.99})
@pytest.mark.seed("JUT-08", change={"evict_tokens": 10**6})
def test_a_dearer_layer_waits_until_the_cheaper_ones_are_not_enough(preset: Preset) -> None:
    """Each layer alone first: eviction keeps it from clearing, clearing from summarizing; then both, in order."""
    policy = preset("jutul")
    evicted = opened(policy, window=WINDOW, log=SessionStorage(effects=Edge()))
    evicted.add(*turns(1, 4, (30_000,)), asks("ask-5"), *batch("huge", 150_000))
    evicted.prepare(Scribe())
    assert stages(evicted) == ["spill_result"]

    cleared = opened(policy, window=WINDOW, log=SessionStorage(effects=Edge()))
    cleared.add(*turns(1, 12, (28_000,)), asks("ask-13"))
    assert cleared.tokens > 0.85 * WINDOW
    scribe = Scribe()
    cleared.prepare(scribe)
    assert stages(cleared) == ["clear_results"]
    assert scribe.asked == []
    assert "%) has not reached the limit of 85%." in fate(cleared, SUMMARIZE)

    summarized = opened(policy, window=WINDOW, log=SessionStorage(effects=Edge()))
    summarized.add(*turns(1, 12, (2_000,), reply=29_000), asks("ask-13"))
    summarized.prepare(scribe)
    assert stages(summarized) == ["clear_results", "summarize"]
    assert len(scribe.asked) == 1


@pytest.mark.seed("JUT-08", change={"clear_at": 0.01})
def test_all_layers_and_the_caller_see_the_same_size(preset: Preset) -> None:
    """What explain, the request and every trigger say is one number, and a provider's report moves them all."""
    session = opened(preset("jutul"), window=WINDOW)
    session.add(*turns(1, 4, (28_000,)), asks("ask-5"))
    request = session.prepare()
    for _ in range(2):
        assert session.explain().tokens == session.tokens == request.tokens
        for rule in (CLEAR, SUMMARIZE):
            assert f"The request ({request.tokens:,} of the {WINDOW:,} tokens of the window" in fate(session, rule)
        session.record({"prompt_tokens": 40_000, "completion_tokens": 30})
        session.add(replies("reply-5", 400))
        request = session.prepare()
        assert request.tokens > 40_000


@pytest.mark.seed("JUT-08", change={"clear_at": 0.8})
@pytest.mark.seed("JUT-10", change={"clear_at": 0.8})
def test_the_whole_request_is_measured_and_a_report_counts(preset: Preset) -> None:
    """The history alone is below the limit; with the system prompt, or as the provider counts, it is over."""
    large = opened(preset("jutul"), window=WINDOW, system=passage("system", 4 * 30_000))
    reported = opened(preset("jutul"), window=WINDOW)
    for session in (large, reported):
        session.add(*turns(1, 8, (16_000,)), asks("ask-9"))
        assert session.view.tokens < 0.4 * WINDOW
    assert stages(reported) == []
    reported.prepare()
    reported.record({"prompt_tokens": 65_000, "completion_tokens": 30})
    reported.add(replies("reply-9"), asks("ask-10"))
    for session in (large, reported):
        assert list(results(session.prepare()).values()).count("[cleared]") == 3
        assert stages(session) == ["clear_results"]


@pytest.mark.seed("JUT-09", change={"evict_tokens": 10**6})
def test_a_huge_result_goes_to_a_file_and_leaves_a_preview(preset: Preset, tmp_path: Path) -> None:
    def carry(effect: Spill | Flush) -> None:
        assert isinstance(effect, Spill)
        path = tmp_path / effect.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(effect.text)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == effect.sha256

    session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=carry))
    whole = passage("huge", 80_004, lines=2_000)
    session.add(asks("ask-1"), calls("limit", "huge"))
    session.add(result("limit", passage("limit", 80_000)), result("huge", whole))
    found = results(session.prepare())
    assert found["limit"] == passage("limit", 80_000), "20,000 tokens are not over 20,000"
    file = only(list(tmp_path.glob("large_tool_results/*")))
    assert file.read_text() == whole
    shown = found["huge"]
    assert len(shown) < 4_000
    assert "\n".join(whole.splitlines()[:4]) in shown, "the head"
    assert "\n".join(whole.splitlines()[-4:]) in shown, "the tail"
    assert f"large_tool_results/{file.name}" in shown

    part = "\n".join(file.read_text().splitlines()[1_000:1_050])
    session.add(calls("read", tool="read_file", arguments=f'{{"path": "large_tool_results/{file.name}"}}'))
    session.add(result("read", part))
    assert results(session.prepare())["read"] == part, "the agent reads the rest with its read tool"


@pytest.mark.seed("JUT-09", change={"evict_tokens": 10**6})
def test_a_result_that_cannot_be_saved_stays(preset: Preset) -> None:
    edge = Edge(broken=True)
    session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=edge))
    session.add(asks("ask-1"), *batch("huge", 100_000))
    assert results(session.prepare())["huge.1"] == passage("huge.1", 100_000)
    assert "disk full" in fate(session, "tool_result/spill_result")


@pytest.mark.seed("JUT-10", change={"clear_at": 0.99})
@pytest.mark.seed("JUT-10", change={"keep_results": 8})
def test_past_the_threshold_older_results_are_cleared(preset: Preset) -> None:
    session = opened(preset("jutul"), window=WINDOW)
    session.add(*turns(1, 3, (24_000, 24_000)))
    session.add(asks("ask-4"), *batch("log", 24_000, tool="attempt_log"), replies("reply-4"), asks("ask-5"))
    assert session.tokens < 0.6 * WINDOW
    before = results(session.prepare())
    assert "[cleared]" not in before.values()
    session.add(*turn(5, (24_000, 24_000, 24_000))[1:], asks("ask-6"))
    assert session.tokens > 0.6 * WINDOW
    found = results(session.prepare())
    assert [name for name, text in found.items() if text == "[cleared]"] == [
        *("call-1.1.1", "call-1.1.2", "call-2.1.1", "call-2.1.2", "call-3.1.1")
    ]
    assert found["log.1"] == passage("log.1", 24_000), "a named tool is never cleared"
    for name in ("call-3.1.2", "call-5.1.1", "call-5.1.2", "call-5.1.3"):
        assert found[name] == passage(name, 24_000), "the newest stay word for word"
    assert set(found) == set(before) | {"call-5.1.1", "call-5.1.2", "call-5.1.3"}
    assert passage("call-1.1.1", 24_000) in said(session), "the log is untouched"


@pytest.mark.seed("JUT-10", change={"clear_at": 0.99})
def test_a_named_tool_is_not_cleared_however_old(preset: Preset) -> None:
    session = opened(preset("jutul"), window=WINDOW)
    session.add(asks("ask-1"), *batch("log", 8_000, 8_000, tool="attempt_log"), replies("reply-1"))
    session.add(*turns(2, 10, (26_000,)), asks("ask-11"))
    found = results(session.prepare())
    assert found["log.1"] == passage("log.1", 8_000)
    assert found["log.2"] == passage("log.2", 8_000)
    assert found["call-2.1.1"] == "[cleared]"


@pytest.mark.seed("JUT-11", change={"summarize_at": 0.94})
@pytest.mark.seed("JUT-11", change={"history_file": ""})
def test_older_turns_become_a_summary_once_they_are_saved(preset: Preset) -> None:
    """At 85% of the window: the raw turns are written first, then summarized under four headings."""
    edge, order = Edge(), list[str]()

    def carry(effect: Spill | Flush) -> None:
        edge(effect)
        order.append("saved")

    def summarize(request: SummaryRequest) -> str:
        order.append("summarized")
        for heading in ("Session intent", "Key decisions", "Artifacts", "Next steps"):
            assert heading in request.instructions
        assert "<ask-1>" in "".join(str(message.parts) for message in request.messages)
        return "## Session intent\n- four bar"

    session = opened(
        preset("jutul", history_file="conversation_history/thread-7.md"),
        window=WINDOW,
        log=SessionStorage(effects=carry),
    )
    session.add(*turns(1, 11, reply=29_000), asks("ask-12"))
    assert 0.75 * WINDOW < session.tokens < 0.85 * WINDOW
    assert numbers(session.prepare(summarize), "ask-") == list(range(1, 13))
    session.add(replies("reply-12", 29_000), asks("ask-13"))
    assert 0.85 * WINDOW < session.tokens < 0.9 * WINDOW
    request = session.prepare(summarize)
    assert order == ["saved", "summarized"]
    saved = only(edge.spilled)
    assert saved.path == "conversation_history/thread-7.md"
    kept = numbers(request, "ask-")
    assert kept == list(range(kept[0], 14))
    assert 3 < kept[0] < 13
    assert request.messages[-2:] == [replies("reply-12", 29_000), asks("ask-13")], "the newest turns, word for word"
    for number in range(1, kept[0]):
        assert passage(f"ask-{number}") in saved.text
        assert passage(f"reply-{number}", 29_000) in saved.text
    summary = request.messages[1]["content"]
    assert "## Session intent\n- four bar" in summary
    assert "conversation_history/thread-7.md" in summary
    assert "guard" not in stages(session)


@pytest.mark.seed("JUT-11", change={"summarize_at": 0.94})
def test_without_a_model_the_summary_has_the_same_structure(preset: Preset) -> None:
    session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=Edge()))
    session.add({"role": "user", "content": "Find out why pump_7 fails at 4.5 bar. Never touch main."})
    session.add(
        calls("w", tool="write_file", arguments='{"path": "src/pump.py", "text": "..."}'), result("w", "written")
    )
    session.add({"role": "assistant", "content": "We decided to halve the step of the ramp. Next: run the bench."})
    session.add(*turns(2, 13, reply=29_000), asks("ask-14"))
    session.prepare()
    assert stages(session) == ["summarize"]
    summary = session.render_request().messages[1]["content"]
    for heading, fact in (
        ("Session intent", "pump_7"),
        ("Key decisions", "halve the step"),
        ("Artifacts", "src/pump.py"),
    ):
        assert fact in summary.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert "## Next steps\n" in summary
    assert "conversation_history/" in summary


@pytest.mark.seed("JUT-11", change={"summarize_at": 0.94})
def test_the_file_gets_what_was_said_even_where_it_was_cleared(preset: Preset) -> None:
    edge = Edge()
    session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=edge))
    session.add(*turns(1, 10, (28_000,)), asks("ask-11"))
    assert "[cleared]" in results(session.prepare()).values()
    session.add(replies("reply-11"), *turns(12, 18, reply=29_000), asks("ask-19"))
    session.prepare()
    assert "summarize" in stages(session)
    assert passage("call-1.1.1", 28_000) in only(edge.spilled).text


@pytest.mark.seed("JUT-11", change={"history_file": ""})
def test_the_turns_are_saved_on_an_overflow_and_on_demand(preset: Preset) -> None:
    for act in (Session.overflowed, Session.compact):
        edge = Edge()
        session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=edge))
        session.add(*turns(1, 6, reply=29_000), asks("ask-7"))
        session.prepare(Scribe())
        act(session, Scribe())
        assert "<ask-1>" in only(edge.spilled).text
        assert "conversation_history/main.md" in flat(session.render_request())


@pytest.mark.seed("JUT-11", change={"summarize_at": 0.94})
def test_without_the_file_there_is_no_summary(preset: Preset) -> None:
    edge = Edge(broken=True)
    session = opened(preset("jutul"), window=WINDOW, log=SessionStorage(effects=edge))
    session.add(*turns(1, 12, reply=29_000), asks("ask-13"))
    scribe = Scribe()
    request = session.prepare(scribe)
    assert scribe.asked == []
    assert numbers(request, "ask-") == list(range(1, 14))
    assert "disk full" in fate(session, SUMMARIZE)


@pytest.mark.seed("JUT-11", without=("before_call/summarize",))
def test_in_a_small_window_it_is_still_the_summary_that_acts(preset: Preset) -> None:
    """85% of 16,000 is more than the reserve leaves: a budget larger than the room is the room."""
    session = opened(preset("jutul"), window=16_000, log=SessionStorage(effects=Edge()))
    for number in range(1, 9):
        session.add(asks(f"ask-{number}"))
        assert names(session.prepare(Scribe()))[-1] == f"ask-{number}"
        session.add(replies(f"reply-{number}", 8_000))
    assert "summarize" in stages(session)
    assert "guard" not in stages(session)
    assert "the scribe's words" in flat(session.render_request())
