"""What the tail, the ledger and the notes take in a large window: no more than a reader could use."""

import json

import pytest

from tidegate import Session, presets
from tidegate.core.events import ViewEdited
from tidegate.core.messages import LEDGER, Call, Message, Result, Text, user_message
from tidegate.core.sweep.group_notes import is_group_note
from tidegate.core.view import Item

LARGE, LARGER = 250_000, 500_000
MOST_LEDGER, MOST_NOTES = 8_000, 8_000


def sweep_full_session(window: int, fidelity: float, tail: float) -> Session:
    """A long tool loop of many small steps, swept once."""
    policy = presets.load("default", {"fidelity": fidelity, "tail": tail, "sweep_at": 0.9})
    session = Session(policy=policy, window=window, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Check all parts, one after the other."))
    for step in range(1_000):
        command = f"python check_part.py --part {step} --all > build/reports/{step % 7}/report_of_part_{step}.txt"
        printed = "\n".join(f"{step}.{line}: {line * step} as before" for line in range(100))
        session.add(
            Message("assistant", (Call(f"c{step}", "run", json.dumps({"command": command})),)),
            Message("tool", (Result(f"c{step}", (Text(printed),)),)),
        )
        if session.view.tokens > 0.9 * session.budget.room:
            break
    session.prepare()
    assert [event for event in session.log.read() if isinstance(event.payload, ViewEdited)]
    return session


def count_tokens(items: list[Item]) -> int:
    return sum(item.tokens for item in items)


@pytest.mark.parametrize("window", [LARGE, pytest.param(LARGER, marks=pytest.mark.exhaustive)])
def test_ledger_and_notes_do_not_grow_with_the_window(window: int) -> None:
    items = sweep_full_session(window, 0.15, 0.1).view.items  # so that most groups leave
    notes = [item for item in items if is_group_note(item.message)]
    assert 0.5 * MOST_NOTES < count_tokens(notes) < 1.5 * MOST_NOTES
    assert 0 < count_tokens([item for item in items if item.message.kind == LEDGER]) <= MOST_LEDGER


@pytest.mark.exhaustive
def test_the_tail_does_not_grow_with_the_window() -> None:
    tails = (0.16, 0.24)  # both more than the limit
    small, large = (sweep_full_session(LARGE, 0.3, tail).view.items for tail in tails)
    assert [item.message for item in small] == [item.message for item in large]
