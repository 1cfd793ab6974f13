"""What a request lost is only a call away: the request prints the call, and the call gives it back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scale import parametrize_pairs
from tidegate.core.ledger.lines import LEDGER_HEADING
from tidegate.lab.comparison.session_sources import create_unit_counter, load_recording
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RecallRecovery, RequestScorer, ScoringTask, find_recall_calls
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import ANCHOR_KIND, extract_signals
from tidegate.lab.scoring.text_needs import Need
from tidegate.presets import load

Json = dict[str, Any]
SHARED = Path(__file__).parents[4] / "shared" / "transcripts"


def test_the_examples_in_a_ledgers_heading_lead_nowhere() -> None:
    assert find_recall_calls(LEDGER_HEADING) == ()
    assert find_recall_calls(f"{LEDGER_HEADING}\n- left m2..m9\n- read: a.py m4") == ("m2..m9", "m4")


def test_only_what_the_engine_prints_is_a_call() -> None:
    assert find_recall_calls("see m4") == ()
    assert find_recall_calls("[recall m1..m490 has what is not shown]") == ("m1..m490",)
    assert find_recall_calls("[recall m2..m59, m61..m97 has what was said]") == ("m2..m59", "m61..m97")


def test_a_call_is_made_once_and_must_return_the_text() -> None:
    made: list[str] = []

    def recall(call: str) -> str:
        made.append(call)
        return {"m1": "the port is 8443"}.get(call, "")

    recovery, need = RecallRecovery(), Need(3, "8443", "8443", "number", 9.0, 1)
    assert not recovery.can_recover(need, ["m2"], recall)
    assert recovery.can_recover(need, ["m2", "m1"], recall)
    assert not recovery.can_recover(Need(3, "443", "443", "number", 9.0, 1), ["m1"], recall), "a part of another number"
    assert recovery.can_recover(Need(3, "443", "443", ANCHOR_KIND, 9.0, 1), ["m1"], recall)
    assert made == ["m2", "m1"]


def replayed(messages: list[Json], window: int) -> SessionFigures:
    ruler = create_unit_counter("chars/4")
    gauge = RequestScorer(
        ScoringTask(extract_signals(messages, ruler), messages, ruler, window), InputBill((), [None] * len(messages))
    )
    lines = [RecordedLine(number, message) for number, message in enumerate(messages, 1)]
    replay_session("made", lines, ReplaySetup(load("default"), window, "chars/4"), on_request=gauge.add_request)
    return gauge.finish()


def test_what_stood_in_old_arguments_is_recoverable_word_for_word() -> None:
    """Quotes and line ends in it, which JSON escapes; and a result that was cut when it came."""
    messages: list[Json] = [{"role": "user", "content": "Change what must be changed."}]

    def step(number: int, name: str, result: str, **arguments: str) -> None:
        call = {"name": name, "arguments": json.dumps(arguments)}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})

    quoted = [f"print(\"this is line {number} of the text\", '{number}')" for number in range(800)]
    step(0, "write", "done", path="a.py", content="\n".join(f"\tif x:\n{line}" for line in quoted))
    step(1, "read", "".join(f"value_{number:05} = {number * 7919}\n" for number in range(4_000)), path="b.py")
    for number in range(2, 90):
        printed = "".join(f"ran part {part} of {number}\n" for part in range(120))
        step(number, "shell", printed, command=f"make step-{number}")
    for number, line in enumerate(quoted[::20], 100):
        step(number, "edit", "done", path="a.py", old_string=f"\n{line}\n", new_string="pass")
    step(200, "grep", "none", pattern="value_02000", path="src/value_02000/15838000.txt")
    figures = replayed(messages, 16_000)
    assert figures.recoverable.total > 10
    assert figures.recoverable.kept == figures.recoverable.total


@parametrize_pairs(
    ("name", "window"), ["copilot-agentv-1", "cc-context-evaluator-17", "opencode-bestcodes-1"], [16_000, 32_000]
)
def test_all_that_recorded_sessions_lost_is_recoverable(name: str, window: int) -> None:
    """A room of 128 tokens, a result that was cut as it came, quoted text in arguments."""
    path = SHARED / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip("there are no recordings here")
    figures = replayed(list(load_recording(str(path), 0).messages), window)
    assert figures.recoverable.kept == figures.recoverable.total
