"""Summaries of presets by `Session(summarizer=...)`: written ahead, stored in the log, and never waited for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.session.noted import REQUEST, add_work, make_session
from tests.session.test_note_writer import failures_of, wait_for_threads
from tidegate import Session
from tidegate.core.events import NoteAdded
from tidegate.core.messages import SUMMARY, text_of
from tidegate.core.notes import PreparedSummary
from tidegate.session.summaries.model_question import ModelQuestion
from tidegate.store.log import Log, MemoryLog

TEXT = "## Session intent\n- user said: make the parser faster; `src/part_1.py` was read, then `src/part_2.py`."
PRESETS = ("ai", "digitorn", "jutul", "picoclaw")
OPTIONS: dict[str, dict[str, Any]] = {"picoclaw": {"reserve": 4_000}, "ai": {"reserve": 4_000}}


def write(question: ModelQuestion) -> str:
    return TEXT


def open_session(policy: str, ask: Callable[[ModelQuestion], str] | None, log: Log | None = None) -> Session:
    return make_session(policy=policy, summarizer=ask, log=log, **OPTIONS.get(policy, {}))


def work(session: Session, first: int = 0, until: Callable[[], bool] | None = None) -> int:
    """Work in turns until a summary of the policy is made. Return the number of the next file."""
    is_done = until or (lambda: bool(session.edit_counts["summarize"]))
    for number in range(first, first + 80):
        if number % 2 == 0:
            session.add({"role": "assistant", "content": f"Part {number} is done. " + "It went well. " * 100})
            session.add({"role": "user", "content": f"Go on with part {number}."})
        session.prepare()
        wait_for_threads()
        if is_done():
            return number
        add_work(session, number, lines=30)
        wait_for_threads()
    raise AssertionError("no summary was made")


def summaries_of(session: Session) -> list[str]:
    return [text_of(item.message) for item in session.view.items if item.message.kind == SUMMARY]


def prepared_in(log: Log) -> list[str]:
    noted = (event.payload for event in log.read())
    return [what.text for what in noted if isinstance(what, NoteAdded) and what.topic == PreparedSummary.topic]


@pytest.mark.parametrize("policy", PRESETS)
def test_a_preset_gets_its_summary_from_the_model_of_the_session(policy: str) -> None:
    """At its own place, with its own prompt, and written before the compaction asks for it."""
    asked: list[ModelQuestion] = []

    def ask(question: ModelQuestion) -> str:
        asked.append(question)
        return TEXT

    session = open_session(policy, ask)
    session.add({"role": "user", "content": REQUEST})
    work(session)
    (shown,) = summaries_of(session)
    assert "make the parser faster" in shown
    assert len(prepared_in(session.log)) == len(asked) == 1
    question = asked[0].body["messages"]
    assert "Summarize the conversation above" in str(question[-1])
    assert question[0]["content"] == REQUEST, "the request itself is continued, so that its cache is read"
    heads = {"ai": "[Previous conversation summary]", "digitorn": "[Summary: "}
    assert shown.startswith(heads.get(policy, "[Summary of earlier messages"))


@pytest.mark.parametrize("policy", PRESETS)
def test_a_model_that_fails_is_not_waited_for(policy: str) -> None:
    def fail(question: ModelQuestion) -> str:
        raise TimeoutError("no answer")

    plain, session = open_session(policy, None), open_session(policy, fail)
    for each in (plain, session):
        each.add({"role": "user", "content": REQUEST})
        work(each)
    assert summaries_of(session) == summaries_of(plain), "as without a model"
    assert failures_of(session)
    assert not prepared_in(session.log)


def test_the_text_is_an_event_that_survives_a_restart() -> None:
    log = MemoryLog()
    session = open_session("picoclaw", write, log)
    session.add({"role": "user", "content": REQUEST})
    number = work(session, until=lambda: bool(prepared_in(log)))
    again = open_session("picoclaw", None, log)
    work(again, number)
    (shown,) = summaries_of(again)
    assert "make the parser faster" in shown


def test_a_text_from_before_an_undo_is_not_used() -> None:
    session = open_session("picoclaw", write)
    session.add({"role": "user", "content": REQUEST})
    number = work(session)
    session.history.undo()
    plain = open_session("picoclaw", None, session.log)
    plain.add({"role": "user", "content": "Go on."})
    for step in range(number + 1, number + 20):
        add_work(plain, step)
        plain.prepare()
    assert not any("make the parser faster;" in shown for shown in summaries_of(plain))


def test_a_compaction_on_demand_waits_and_names_its_focus() -> None:
    asked: list[ModelQuestion] = []

    def ask(question: ModelQuestion) -> str:
        asked.append(question)
        return TEXT

    session = open_session("picoclaw", ask)
    session.add({"role": "user", "content": REQUEST})
    for number in range(4):
        add_work(session, number)
        session.add({"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."})
    assert not asked
    session.compact(focus="the parser of numbers")
    assert "the parser of numbers" in str(asked[0].body["messages"][-1])
    assert "make the parser faster" in summaries_of(session)[0]
