"""State notes in the background: `Session(summarizer=...)`, and every way in which a model can fail to write one."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.session.noted import REQUEST, WINDOW, add_work, make_session, note_message, write_answer
from tidegate import GiveUp, Session
from tidegate.core.events import STATE_NOTE_FAILED, NoteAdded
from tidegate.core.messages import text_of
from tidegate.models.errors.classification import transport_error
from tidegate.session.summaries.model_question import ModelQuestion
from tidegate.session.summaries.note_writer import NoteRefused, NoteWriter, explain_failure

ANSWER = write_answer([{"find": "def step_0_3()", "after": 2}], state="- reading `src/part_1.py`")


def failures_of(session: Session) -> list[str]:
    noted = (event.payload for event in session.log.read())
    return [what.text for what in noted if isinstance(what, NoteAdded) and what.topic == STATE_NOTE_FAILED]


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "tidegate-state-note":
            thread.join()


def run_sync(session: Session, steps: int = 60) -> None:
    session.add({"role": "user", "content": REQUEST})
    for number in range(steps):
        session.prepare()
        add_work(session, number)
        wait_for_threads()
        if session.edit_counts["note_sweep"] + session.edit_counts["sweep"]:
            return


def test_a_program_without_an_event_loop_gets_notes() -> None:
    asked: list[ModelQuestion] = []

    def ask(question: ModelQuestion) -> str:
        asked.append(question)
        return ANSWER

    session = make_session(summarizer=ask)
    run_sync(session)
    assert session.edit_counts["note_sweep"] == 1
    shown = note_message(session)
    assert shown is not None
    assert "- reading `src/part_1.py`" in text_of(shown)
    assert len(asked) == 1
    assert asked[0].model == "gpt-4o"
    assert asked[0].body["messages"][0]["content"] == REQUEST
    assert asked[0].max_tokens < WINDOW // 4


def test_a_program_with_an_event_loop_gets_notes() -> None:
    async def ask(question: ModelQuestion) -> str:
        await asyncio.sleep(0)
        return ANSWER

    async def run() -> Session:
        session = make_session(summarizer=ask)
        await session.add_async({"role": "user", "content": REQUEST})
        for number in range(60):
            await session.prepare_async()
            add_work(session, number)
            await _settle()
            if session.edit_counts["note_sweep"]:
                break
        return session

    assert note_message(asyncio.run(run())) is not None


async def _settle() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


def test_a_call_is_not_delayed_by_a_model_that_stalls() -> None:
    release = threading.Event()

    def ask(question: ModelQuestion) -> str:
        release.wait()
        return ANSWER

    session = make_session(summarizer=ask)
    session.add({"role": "user", "content": REQUEST})
    for number in range(60):
        session.prepare()
        add_work(session, number)
        if session.edit_counts["sweep"]:
            break
    assert session.edit_counts["sweep"] == 1
    assert session.view.state_note == ""
    release.set()
    wait_for_threads()
    session.prepare()
    assert session.state_notes.newest is not None


@pytest.mark.parametrize(
    ("failure", "why", "again"),
    [
        (GiveUp("This session has used 5 tokens.", "Raise it."), "the limit of spending is reached", False),
        (transport_error("closed"), "the provider failed: transport", True),
        (NoteRefused("the model refused"), "the model refused", True),
        (ValueError("secret words"), "asking the model failed: ValueError", True),
    ],
)
def test_a_failure_is_noted_and_the_sweep_goes_on(failure: Exception, why: str, again: bool) -> None:
    asked = []

    def ask(question: ModelQuestion) -> str:
        asked.append(question)
        raise failure

    session = make_session(summarizer=ask)
    run_sync(session)
    assert session.edit_counts["sweep"] == 1
    assert failures_of(session)[0] == why
    assert len(asked) == (2 if again else 1)


def test_a_rate_limit_is_not_tried_again_before_the_next_sweep() -> None:
    class RateLimitError(Exception):
        status_code = 429

    refused = explain_failure(RateLimitError())
    assert refused.is_final
    assert str(refused) == "asking the model failed: RateLimitError (status 429)"


def test_a_note_that_has_arrived_is_stored_when_the_session_is_closed() -> None:
    session = make_session(summarizer=lambda question: ANSWER)
    session.add({"role": "user", "content": REQUEST})
    for number in range(60):
        session.prepare()
        add_work(session, number)
        wait_for_threads()
        if any(thread.name == "tidegate-state-note" for thread in threading.enumerate()):
            break
        if session.state_notes.newest:
            break
    session.close()
    assert session.state_notes.newest is not None


def test_a_model_that_stalls_does_not_keep_a_program_from_ending() -> None:
    program = """
import time
from tests.session.noted import REQUEST, add_work, make_session
session = make_session(summarizer=lambda question: time.sleep(3600))
session.add({"role": "user", "content": REQUEST})
for number in range(30):
    session.prepare()
    add_work(session, number)
assert session.state_notes.writer.is_busy
session.close()
print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "ended\n"


@pytest.mark.parametrize("answer", [ANSWER, "no sections"])
def test_compacting_on_demand_waits_for_a_note(answer: str) -> None:
    session = make_session(summarizer=lambda question: answer)
    session.add({"role": "user", "content": REQUEST})
    for number in range(12):
        session.prepare()
        add_work(session, number)
    session.add({"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."})
    before = session.tokens
    decisions = session.compact()
    assert session.tokens < before
    assert [each.stage for each in decisions if each.acted] == ["note_sweep" if answer == ANSWER else "summarize"]
    assert (note_message(session) is not None) == (answer == ANSWER)


def test_the_answer_that_comes_after_a_rewind_is_not_stored() -> None:
    release = threading.Event()

    def ask(question: ModelQuestion) -> str:
        release.wait()
        return ANSWER

    session = make_session()
    writer = NoteWriter(session, session.state_notes, ask)
    session.add({"role": "user", "content": REQUEST})
    number = 0
    while not writer.start_if_due():
        add_work(session, number)
        number += 1
    session.history.clear()
    release.set()
    wait_for_threads()
    report = writer.collect()
    assert report is not None
    assert report.note is None
    assert session.view.state_note == ""
