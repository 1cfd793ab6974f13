"""Sessions that fill a small window with work, and answers of a model that writes state notes."""

import json
from typing import Any

from tidegate import Session
from tidegate.core.messages import STATE_NOTE, Message
from tidegate.session.state_notes import NoteReport, StateNotes

WINDOW = 16_000
REQUEST = "Make the parser faster. Never touch the file legacy.py, it is frozen."


def make_session(**options: Any) -> Session:
    made: dict[str, Any] = {"model": "gpt-4o", "window": WINDOW, "reserve": 2_000, "count": "chars/4"}
    return Session(**(made | options))


def add_work(session: Session, number: int, *, lines: int = 60) -> None:
    """A read of a file with its result, as `src/part_N.py`."""
    path = f"src/part_{number}.py"
    arguments = json.dumps({"file_path": path})
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "Read", "arguments": arguments}}
    text = "\n".join(f"{place}\tdef step_{number}_{place}(): return {number * 1000 + place}" for place in range(lines))
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.add({"role": "tool", "tool_call_id": f"call_{number}", "content": text})


def fill(session: Session, notes: StateNotes, first: int = 0) -> int:
    """Add work until a note is due. Return the number of the next file."""
    number = first
    while not notes.is_due():
        session.prepare()
        add_work(session, number)
        number += 1
    return number


def fill_until_sweep(session: Session, first: int) -> str:
    """Add work until a sweep is made. Return the stage that made it."""
    for number in range(first, first + 60):
        add_work(session, number)
        session.prepare()
        stages = [decision.stage for decision in session.last_decisions if decision.acted]
        if "sweep" in stages or "note_sweep" in stages:
            return stages[-1]
    raise AssertionError("no sweep was made")


def begin(session: Session) -> StateNotes:
    session.add({"role": "user", "content": REQUEST})
    return session.state_notes


def write_answer(passages: object = (), **sections: str) -> str:
    titles = {
        "goal": "Goal and open orders",
        "state": "State",
        "decisions": "Decisions",
        "failed": "Failed attempts",
        "facts": "Facts",
        "rules": "Rules",
    }
    texts = [f"## {titles[name]}\n{text}" for name, text in sections.items()]
    return "\n\n".join([*texts, f"## Passages\n```json\n{json.dumps(passages)}\n```"])


def take(notes: StateNotes, answer: str) -> NoteReport:
    """Ask the question that is due, and give this answer."""
    question = notes.make_question()
    assert question is not None
    return notes.take(question.task, answer)


def note_message(session: Session) -> Message | None:
    """The message that shows the note."""
    shown = [item.message for item in session.view.items if item.message.kind == STATE_NOTE]
    assert len(shown) <= 1
    return shown[0] if shown else None
