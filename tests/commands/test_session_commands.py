"""Each command on a real session in a real data folder, its effect looked up in the log."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.session.figures import own_policy, reported, said, step
from tidegate import DataFolder, Session
from tidegate.commands.actions import PickSession, Quit, ResumeSession
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandAnswer, CommandContext
from tidegate.core.events import NoteAdded, ViewEdited
from tidegate.core.messages import user_message
from tidegate.core.outcome import SummaryRequest
from tidegate.datafolder.archive.transfer import import_session
from tidegate.session.reports.timeline import read_timeline
from tidegate.session.summaries.drivers import AsyncSummarizer

REGISTRY = create_command_registry()
RULE = "Never push to main."


class Desk(NamedTuple):
    data: DataFolder
    session: Session

    def says(self, line: str, summarize: AsyncSummarizer | None = None, *, busy: bool = False) -> CommandAnswer:
        place = CommandContext(self.session, "work", self.data, summarize, is_busy=busy)
        return asyncio.run(REGISTRY.answer(line, place))

    def noted(self, topic: str) -> list[str]:
        events = (event.payload for event in self.session.log.read())
        return [what.text for what in events if isinstance(what, NoteAdded) and what.topic == topic]

    def edits(self) -> list[ViewEdited]:
        return [event.payload for event in self.session.log.read() if isinstance(event.payload, ViewEdited)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    data = DataFolder(tmp_path / "data", secrets=[])
    with data.open("work", "gpt-4o", policy=own_policy(), window=30_000, count="chars/4") as session:
        for number in range(4):
            session.add(
                user_message(f"Look at port 844{number}. {RULE * (not number)}"), *step(number, "read"), said("Done.")
            )
        yield Desk(data, session)
    data.close()


@pytest.mark.seed("COW-13", fixed="the command is the registry's, whatever the preset")
def test_context_counts_and_clears(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    with data.open("work", "gpt-4o", policy="cowagent", window=30_000) as session:
        session.add(user_message("Look."), *step(1, "read", "shell"), said("Done."))
        chars = len("Look.") + len("I look.") + 2 * len("word " * 200) + len("Done.")
        chars += len("readshell") + 2 * len('{"path": "a.py"}')
        shown = asyncio.run(REGISTRY.answer("/context", CommandContext(session, "work", data))).text
        assert "messages: 5\nby role: user 1, assistant 2, tool 2, system 0\n" in shown
        assert f"characters: {chars:,}\n" in shown
        cleared = asyncio.run(REGISTRY.answer("/context clear", CommandContext(session, "work", data)))
        assert cleared.text.startswith("Removed 5 messages, ")
        assert session.view.message_count == 0
    with data.open("work", "gpt-4o", policy="cowagent", window=30_000) as session:
        assert session.view.message_count == 0, "it stays cleared"
        place = CommandContext(session, "work", data)
        assert "Look." in asyncio.run(REGISTRY.answer("/recall Look", place)).text
    data.close()


def test_context_by_category_with_all_thresholds(desk: Desk) -> None:
    reported(desk.session, 1.5)
    text = desk.says("/context").text
    size = desk.session.tokens
    assert f"context: {size:,} of {30_000 - 4_096:,} tokens" in text
    assert f"last call: {size:,} tokens reported" in text
    rows = re.findall(r"^(\S.*?) +([\d,]+) +[\d.]+%", text, re.MULTILINE)
    assert {name for name, _ in rows} >= {"user", "assistant", "results: read", "framing"}
    assert sum(int(tokens.replace(",", "")) for _, tokens in rows) == size
    for threshold in (
        "usable tokens, 6.605%) is not above the limit of 85%",
        "usable tokens, 6.605%) is not above the limit of 92%",
        f"the request ({size:,} tokens) is not above the limit of {30_000 - 4_096:,} tokens",
    ):
        assert threshold in text
    assert "next: before_call/clear_results, " in text
    assert desk.says("/context nonsense").error


@pytest.mark.parametrize("policy", ["cowagent", "picoclaw", "digitorn", "jutul", "ai", "default"])
def test_rules_for_an_overflow_are_not_due(policy: str) -> None:
    session = Session("gpt-4o", policy=policy)
    session.add({"role": "user", "content": "Which valve?"}, {"role": "assistant", "content": "Valve four."})
    session.add({"role": "user", "content": "Sure?"})
    text = asyncio.run(REGISTRY.answer("/context", CommandContext(session, "work"))).text
    assert "thresholds:" in text
    lines = text.splitlines()
    assert not [line for line in lines if line.endswith(", due") or " 0 tokens away" in line]
    assert all(
        line.endswith(": only when the provider refuses a request because of its length")
        for line in lines
        if line.startswith("  overflow/")
    )


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        (0, "no usage report for this context yet: this is an estimate"),
        (5, "the last usage report (5 tokens) cannot be true: this is an estimate"),
        (1_000_000, "the last usage report (1,000,000 tokens) cannot be true: this is an estimate"),
    ],
)
def test_an_impossible_usage_report_is_said(reported: int, said: str) -> None:
    session = Session("gpt-4o")
    session.add({"role": "user", "content": "Which valve? " * 50})
    session.prepare()
    session.record({"prompt_tokens": reported, "completion_tokens": 3})
    session.add({"role": "assistant", "content": "Valve four."})
    assert said in asyncio.run(REGISTRY.answer("/context", CommandContext(session, "work"))).text


def test_compact_with_a_focus_undo_and_redo(desk: Desk) -> None:
    asked: list[str] = []

    async def summarize(request: SummaryRequest) -> str:
        asked.append(request.instructions)
        return "## Session intent\nPorts 8440 to 8443 were looked at."

    tokens, request = desk.session.view.tokens, desk.session.tokens
    told = desk.says("/compact the ports", summarize)
    after = desk.session.tokens
    assert told.text.startswith(f"Request: {request:,} -> {after:,} tokens.")
    assert "the ports" in asked[0]
    assert desk.noted("focus") == ["the ports"]
    (edited,) = desk.edits()
    assert f"summarize: the history {edited.tokens_before:,} -> {edited.tokens_after:,}" in told.text
    assert edited.tokens_before == tokens > desk.session.view.tokens
    assert desk.says("/undo").text.endswith(f"is undone. Request: {after:,} -> {request:,} tokens.")
    assert len(desk.noted("undo")) == 1
    assert desk.session.view.tokens == tokens
    assert desk.says("/redo").text.endswith(f"is applied again. Request: {request:,} -> {after:,} tokens.")
    assert desk.session.view.tokens == edited.tokens_after
    assert len(desk.noted("redo")) == 1
    assert desk.says("/redo") == CommandAnswer("Nothing was undone.", True)


def test_nothing_to_compact_or_to_undo(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    with data.open("work", "gpt-4o", policy=own_policy(), window=30_000) as session:
        place = CommandContext(session, "work", data)
        told = asyncio.run(REGISTRY.answer("/compact", place))
        assert told.error
        assert told.text.startswith("Nothing was compacted: there is no turn yet.")
        session.add({"role": "user", "content": "Why is it slow?"})
        told = asyncio.run(REGISTRY.answer("/compact", place))
        assert told.text.startswith("Nothing was compacted: there is only the current turn, and it stays whole.")
        assert f"The history has {session.view.tokens:,} tokens, and {session.budget.room:,} fit." in told.text
        assert "/context clear" in told.text
        assert asyncio.run(REGISTRY.answer("/undo", place)) == CommandAnswer("There is no compaction to undo.", True)
    data.close()


def test_without_a_model_the_focus_is_not_heard(desk: Desk) -> None:
    assert "the focus had no effect" in desk.says("/compact ports").text


@pytest.mark.parametrize(
    "line", ["/compact", "/undo", "/redo", "/context clear", "/pin x", "/pins remove 1", "/fork", "/resume b"]
)
def test_nothing_changes_while_the_agent_works(desk: Desk, line: str) -> None:
    head = desk.session.log.head
    told = desk.says(line, busy=True)
    assert told.error
    assert "at work" in told.text
    assert desk.session.log.head == head


def test_pins_stay(desk: Desk) -> None:
    assert desk.says("/pins").text == f"1. {RULE}  (typed in m2)"
    told = desk.says("/pin Answer in French.")
    ident = told.text.split()[2].rstrip(":")
    assert desk.session.recall(ident).kind == "pin"
    assert f"Answer in French.  (pinned by you in {ident})" in desk.says("/pins").text
    desk.says("/compact")
    shown = desk.says("/pins").text
    assert f"Answer in French.  (pinned by you in {ident})" in shown
    assert RULE in shown, "the rules that the ledger keeps are shown, too"
    assert desk.says("/pin").error
    assert desk.says("/context clear").text.endswith("Pinned again: 1.")
    (shown,) = desk.says("/pins").text.splitlines()
    assert shown.startswith("1. Answer in French."), "a rule that was only said goes with the context"
    assert desk.says("/pins remove 1").text.startswith("Removed: Answer in French.")
    assert desk.says("/pins").text == "There are no rules. /pin TEXT adds one."


def test_recall_and_memory(desk: Desk) -> None:
    desk.says("/compact")
    found = desk.says("/recall port 8441")
    assert "Look at port 8441" in found.text
    ident = found.text.split()[0]
    assert "Look at port 8441" in desk.says(f"/recall {ident}").text
    assert desk.says("/recall nobody said this").error
    assert desk.says("/memory").text == "There are no notes yet."
    day = desk.data.notes.add_entry("The relief valve opens at 4.5 bar.", source="work")
    assert desk.says("/memory").text == day
    for line in ("/memory search relief valve", "/memory relief valve"):
        assert "opens at 4.5 bar" in desk.says(line).text
    assert "port 8442" in desk.says("/memory search 8442").text
    assert "4.5 bar" in desk.says(f"/memory show {day}").text
    assert desk.says("/memory search zebra") == CommandAnswer("Nothing found.", True)


def test_sessions_resume_and_fork(desk: Desk) -> None:
    head = desk.session.log.head
    told = desk.says("/fork other-way at m5")
    assert told.action == ResumeSession("other-way")
    assert desk.data.store.head("other-way") == 5
    assert desk.says("/fork second").action == ResumeSession("second")
    assert desk.data.store.head("second") == head
    assert desk.says("/fork second").error
    listed = desk.says("/sessions").text
    assert any(line.startswith("work ") and line.endswith("  (this one)") for line in listed.splitlines())
    assert "other-way" in listed
    assert "work" not in desk.says("/sessions other").text
    assert desk.says("/resume").action == PickSession()
    assert desk.says("/resume other").action == ResumeSession("other-way")
    assert desk.says("/resume nobody").error
    assert desk.says("/resume work").action is None
    assert "/resume other-way" in REGISTRY.complete("/resume o", CommandContext(desk.session, "work", desk.data))


def test_export_is_a_session_again(desk: Desk, tmp_path: Path) -> None:
    told = desk.says(f"/export {tmp_path / 'copy.tidegate'}")
    assert "exists already" in desk.says(f"/export {tmp_path / 'copy.tidegate'}").text
    assert f"{desk.session.log.head:,} records" in told.text
    name = import_session(desk.data, tmp_path / "copy.tidegate", "again")
    assert desk.data.store.head(name) == desk.session.log.head + 1  # the last says that it was imported


def test_cost_and_trace(desk: Desk) -> None:
    assert desk.says("/cost").text == "No requests yet."
    desk.session.prepare()
    desk.session.record(
        {"prompt_tokens": 3_000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 1_500}}
    )
    told = desk.says("/cost").text
    assert "gpt-4o: 1 call, 3,000 tokens read (50% from the cache), 50 written, $" in told
    desk.says("/compact")
    shown = desk.says("/trace 4").text.splitlines()
    assert len(shown) == 5
    assert any("context_compaction" in line and "stage=summarize" in line for line in shown)
    assert desk.says("/trace all").error


def test_explain_tells_each_rule(desk: Desk) -> None:
    head = desk.session.log.head
    text = desk.says("/explain").text
    assert re.search(
        r"would not run. The request \([\d,]+ of 25,904 usable tokens, 4.4\d*%\) is not above the limit of 85%", text
    )
    assert (
        "manual (on /compact):\n  summarize: would run. It has no condition.\n    It would take 12 messages (m" in text
    )
    assert "have a summary written of 12 messages and free " in text
    for name in ("tool_result", "before_call", "overflow", "manual"):
        assert f"{name} (" in text
    assert desk.session.log.head == head


def test_explain_is_in_sentences(desk: Desk) -> None:
    """Also after a compaction. A line is a sentence, with the name of its rule in front, or the name of a moment."""
    desk.says("/compact")
    lines = desk.says("/explain").text.splitlines()
    moments = [line for line in lines if line.endswith(":")]
    assert len(moments) >= 4
    for line in lines:
        sentence = line.strip().partition(": would")[2] if ": would" in line else line.strip()
        assert line in moments or (sentence.endswith(".") and (sentence[0].isupper() or ": would" in line)), line
    assert lines[0] == f"The policy own is in use; the next request has {desk.session.tokens:,} tokens."
    assert lines[1].startswith("The history has room for ")
    for entry in read_timeline(desk.session.log).entries:
        assert re.fullmatch(
            r"12 old messages were replaced by one summary; of \d+ facts?(, [1-9]\d* (is|are) [a-z ]+)+\.?",
            entry.change.reason,
        ), entry.change.reason


def test_quit(desk: Desk) -> None:
    assert desk.says("/q") == CommandAnswer("", action=Quit())


def test_without_a_data_folder() -> None:
    place = CommandContext(Session("gpt-4o", window=9_000))
    for line in ("/sessions", "/fork x", "/export", "/memory", "/trace", "/resume x"):
        told = asyncio.run(REGISTRY.answer(line, place))
        assert (told.error, told.text.startswith("This session is not stored.")) == (True, True)
    for line in ("/context", "/explain", "/cost", "/recall x", "/pins", "/compact"):
        assert "kept." not in asyncio.run(REGISTRY.answer(line, place)).text
