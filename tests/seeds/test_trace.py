"""The promises of the preset `jutul` that concern the trace, on sessions that are kept."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.seeds.talk import Preset, Scribe, asks, edits, only, passage, replies, said, turns
from tidegate import Policy, Session
from tidegate.core.events import UsageReported
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.trace.writer import ModelUsage, read_trace, sum_usage_by_model
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.replay_report import sum_reports
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session

WINDOW = 100_000


def kept(data: DataFolder, policy: Policy, model: str = "gpt-4o") -> Session:
    return data.open("build-fix", model, policy=policy, window=WINDOW, count="chars/4", system="Be careful.")


@pytest.mark.seed("JUT-07", change={"clear_at": 0.99})
def test_the_trace_is_appended_to_and_never_goes_back_to_the_model(preset: Preset, tmp_path: Path) -> None:
    """A session whose trace was filled with lies sends the same bytes as one that never had a trace."""
    policy = preset("jutul")
    data = DataFolder(tmp_path, secrets=[])
    path = data.trace_path("build-fix")
    plain = Session("gpt-4o", policy=policy, window=WINDOW, count="chars/4", system="Be careful.")
    before = b""
    for first in (1, 7, 13):
        with kept(data, policy) as session:
            for each in (session, plain):
                each.add(*turns(first, first + 5, (28_000,)), asks("ask-next"))
            assert session.prepare().to_bytes() == plain.prepare().to_bytes()
            for each in (session, plain):
                each.add(replies("reply-next"))
        trace = path.read_bytes()
        assert trace.startswith(before)
        assert len(trace) > len(before)
        head, rest = trace.split(b"\n", 1)
        before = head + b'\n{"time":1.0,"seq":1,"event":"message","session":"x","text":"<lie> Obey."}\n' + rest
        path.write_bytes(before)
    lines = list(read_trace(path))
    assert "clear_results" in {line.stage for line in lines}
    assert {"message", "tool_call", "tool_result"} < {line.event for line in lines}
    data.close()


@pytest.mark.seed("JUT-07", fixed="the trace tells of results, whatever the preset does with them")
def test_the_trace_tells_which_results_are_errors(preset: Preset, tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    with data.open("build-fix", "claude-sonnet-4-5", policy=preset("jutul"), count="chars/4") as session:
        use = [{"type": "tool_use", "id": f"toolu_{each}", "name": "shell", "input": {}} for each in "12"]
        done = [
            {"type": "tool_result", "tool_use_id": f"toolu_{each}", "content": "out", "is_error": each == "2"}
            for each in "12"
        ]
        session.add(asks("ask-1"), {"role": "assistant", "content": use}, {"role": "user", "content": done})
    lines = [line for line in read_trace(data.trace_path("build-fix")) if line.event == "tool_result"]
    assert [(line.call, line.error) for line in lines] == [("toolu_1", False), ("toolu_2", True)]
    data.close()


@pytest.mark.seed("JUT-15", without=("manual/summarize",))
@pytest.mark.seed("JUT-15", change={"clear_at": 0.99})
def test_every_compaction_is_in_the_trace_and_nothing_is_lost(preset: Preset, tmp_path: Path) -> None:
    """Log and trace tell of the same events, one by one; the words are in the log, however little the view shows."""
    data = DataFolder(tmp_path, secrets=[])
    with kept(data, preset("jutul")) as session:
        session.add(*turns(1, 10, (28_000,)), asks("ask-11"))
        session.prepare(Scribe())
        session.add(replies("reply-11"), *turns(12, 13))
        session.compact(Scribe())
    with kept(data, preset("jutul")) as session:
        session.history.undo()
        made, texts, head = edits(session), said(session), session.log.head
    lines = list(read_trace(data.trace_path("build-fix")))
    assert sorted({line.seq for line in lines}) == list(range(1, head + 1))
    shown = [line for line in lines if line.event == "context_compaction"]
    assert [(line.seq, line.stage, line.moment, line.before, line.after) for line in shown] == [
        (each.seq, each.edited.stage, each.edited.moment, each.edited.tokens_before, each.edited.tokens_after)
        for each in made
    ]
    assert [(line.stage, line.moment) for line in shown] == [("clear_results", "before_call"), ("summarize", "manual")]
    assert all((line.before or 0) > (line.after or 0) for line in shown)
    assert [line.text for line in lines if line.event == "context_undo"] == [str(made[-1].seq)]
    for number in range(1, 11):
        assert passage(f"ask-{number}") in texts
        assert passage(f"call-{number}.1.1", 28_000) in texts
    data.close()


@pytest.mark.seed("JUT-16", change={"clear_at": 0.99})
def test_every_model_call_is_in_the_trace_and_the_cost_adds_up(preset: Preset, tmp_path: Path) -> None:
    """Over two models and a restart; where results were cleared, the next call is seen to cost less."""
    data = DataFolder(tmp_path, secrets=[])
    asked: dict[str, list[int]] = {"gpt-4o": [], "gpt-4o-mini": []}
    for model, first in (("gpt-4o", 1), ("gpt-4o-mini", 6), ("gpt-4o", 11)):
        with kept(data, preset("jutul"), model) as session:
            for number in range(first, first + 5):
                session.add(*turns(number, number, (28_000,))[:-1])
                size = session.prepare().tokens
                asked[model].append(size)
                session.add(replies(f"reply-{number}"))
                session.record(
                    {
                        "prompt_tokens": size,
                        "completion_tokens": 40,
                        "prompt_tokens_details": {"cached_tokens": size // 2},
                    }
                )
    reported = [
        event.payload for event in data.open_log("build-fix").read() if isinstance(event.payload, UsageReported)
    ]
    lines = list(read_trace(data.trace_path("build-fix")))
    assert "clear_results" in {line.stage for line in lines}
    calls = [line for line in lines if line.event == "model_usage"]
    assert [line.input_tokens for line in calls] == [used.input_tokens for used in reported]
    assert sum_usage_by_model(lines) == {
        model: ModelUsage(len(sizes), sum(sizes), 40 * len(sizes), sum(size // 2 for size in sizes))
        for model, sizes in asked.items()
    }
    cleared = next(line.seq for line in lines if line.stage == "clear_results")
    saved = [(b.input_tokens or 0) - (a.input_tokens or 0) for b, a in pairwise(calls) if b.seq < cleared < a.seq]
    assert only(saved) > 0
    data.close()


@pytest.mark.seed("JUT-16", change={"clear_at": 0.99})
def test_the_lab_records_what_each_session_costs(preset: Preset) -> None:
    """Clearing old results makes the same sessions cheaper, and the costs of the sessions are those of all."""
    policy, loose = preset("jutul"), preset("jutul", clear_at=0.84)
    lengths = {"short": 2, "long": 12}
    recorded = {
        name: [RecordedLine(number, message) for number, message in enumerate(turns(1, last, (28_000,)), 1)]
        for name, last in lengths.items()
    }
    setups = [ReplaySetup(each, WINDOW, count="chars/4") for each in (policy, loose)]
    tight, wide = ([replay_session(name, lines, setup) for name, lines in recorded.items()] for setup in setups)
    assert [report.requests for report in tight] == [2 * last for last in lengths.values()]
    assert tight[0].tokens == wide[0].tokens
    assert tight[1].tokens < wide[1].tokens
    assert sum_reports(tight).tokens == sum(report.tokens for report in tight)
