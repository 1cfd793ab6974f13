"""Reasons are sentences with units: one for every metric and comparison, through the decisions of a session."""

import re
from pathlib import Path

import pytest

from tidegate import MemoryLog, Session, View, load
from tidegate.core.events import Event, ViewEdited
from tidegate.core.policy.policy import COMPARISONS, METRICS
from tidegate.core.policy.trigger_text import make_sentence
from tidegate.session.explanation import describe_edits


def explain(folder: Path, when: str, *, window: int | None = 8_000) -> str:
    """The reason of a rule with this condition, after a request of one short message."""
    path = folder / "policy.yaml"
    path.write_text(f"unknown_window: 0\nmoments: {{before_call: [{{stage: clear_results, keep: 0, when: {when}}}]}}\n")
    session = Session("a model without a catalog entry", policy=load(path), window=window, reserve=1_000)
    session.add({"role": "user", "content": "Hello there."})
    session.prepare()
    (line,) = [line for line in str(session.explain()).splitlines() if "clear_results" in line]
    return line.split(" act: ")[1]


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ('{tokens: "> 500"}', "The request (23 tokens) is not above the limit of 500 tokens."),
        ('{tokens: "> 5"}', "The request (23 tokens) is above the limit of 5 tokens; there is nothing to do."),
        ('{tokens: "> 9000"}', "The request (23 tokens) is not above the limit of 7,000 tokens."),
        ('{history: ">= 40"}', "The history (7 tokens) has not reached the limit of 40 tokens."),
        ('{history: ">= 7"}', "The history (7 tokens) has reached the limit of 7 tokens; there is nothing to do."),
        ('{history: "< 7"}', "The history (7 tokens) is not below 7 tokens."),
        ('{history: "<= 6"}', "The history (7 tokens) is more than 6 tokens."),
        ('{pressure: "> 0.755"}', "The request (23 of 7,000 usable tokens, 0.3286%) is not above the limit of 75.5%."),
        (
            '{window_share: "> 0.6"}',
            "The request (23 of the 8,000 tokens of the window, 0.2875%) is not above the limit",
        ),
        ('{history_share: "> 0.6"}', "The history (7 of 6,984 tokens, 0.1002%) is not above the limit of 60%."),
        ('{turns: "> 10"}', "The number of turns (1) is not above the limit of 10."),
        ('{messages: "> 10"}', "The number of messages (1) is not above the limit of 10."),
        ('{tool_results: "> 10"}', "The number of tool results (0) is not above the limit of 10."),
        ('{tool_calls: "== 3"}', "The number of tool calls (0) is not 3."),
        ('{recovery: "> 0"}', "The number of recoveries of this request (0) is not above the limit of 0."),
        ('{compacted: "> 0"}', "The number of rules that have compacted in this run (0) is not above the limit of 0."),
        ('{fill: "> 1"}', "The history (22 of 6,984 tokens, 0.315%) is not above the limit of 100%."),
        ("{unlimited: true}", "The size of the model's window is known."),
        ('{turns: "> 10", messages: "> 0"}', "The number of turns (1) is not above the limit of 10."),
        (
            '[{turns: "> 10"}, {messages: "> 20"}]',
            "The number of turns (1) is not above the limit of 10, and the number of messages (1) is not above the"
            " limit of 20.",
        ),
        (
            '{turns: "> 0", messages: "> 0"}',
            "The number of turns (1) is above the limit of 0 and the number of messages (1) is above the limit of 0;",
        ),
    ],
)
def test_a_reason_is_a_sentence_with_units(tmp_path: Path, when: str, said: str) -> None:
    assert explain(tmp_path, when).startswith(said)


def test_an_unknown_window_is_said(tmp_path: Path) -> None:
    assert explain(tmp_path, "{unlimited: false}", window=None) == "The size of the model's window is not known."


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_and_comparison_reads_as_a_sentence(tmp_path: Path, metric: str) -> None:
    said = [explain(tmp_path, f'{{{metric}: "{op} 1"}}') for op in COMPARISONS]
    assert [each for each in said if not re.fullmatch(r"(The|There|It) [^<>=_]+\.", each)] == []


def test_clauses_become_one_sentence() -> None:
    assert make_sentence("", "one result", "it would free nothing.") == "One result; it would free nothing."
    assert make_sentence("") == ""


def test_reasons_of_older_logs_are_shown_as_they_are() -> None:
    log = MemoryLog()
    old = "due > 1 (is 1.10018); a sweep to 7,387 of 11,984 tokens"
    session = Session("gpt-4o", window=8_000, log=log)
    session.add({"role": "user", "content": "Hello."})
    log.append(Event(log.head + 1, 0.0, ViewEdited("sweep", "before_call", "before_call/sweep", old, 100, 100, ())))
    reopened = Session("gpt-4o", window=8_000, log=log)
    assert isinstance(reopened.view, View)
    assert any(line.endswith(old) for line in describe_edits(reopened))
