"""The guard makes every history fit, and says how to read again what it dropped."""

import json
from typing import TypeGuard

import pytest

from tidegate import Session
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, is_user_request, text_of, user_message
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES


@pytest.mark.parametrize("policy", ["default", "picoclaw"])
@pytest.mark.parametrize("earlier", [1, 6])
def test_what_was_dropped_can_be_recalled_however_little_room_the_newest_call_leaves(policy: str, earlier: int) -> None:
    """The call fits in some of these windows with the recall note, in some without it, in some not at all."""
    shown, named = 0, 0
    for extra in range(0, 160, 3):
        session = Session(policy=policy, window=1_000, count="chars/4", clock=lambda: 0.0)
        for number in range(earlier):
            session.add(user_message(f"Question {number}: " + "what is in the file? " * 20))
            session.add(Message("assistant", (Text(f"Answer {number}: " + "this is in it. " * 20),)))
        session.add(user_message("Then change it."))
        edit = Call("c1", "edit", json.dumps({"path": "a.py", "old": "x" * (session.budget.room * 4 - extra * 4 - 60)}))
        session.add(Message("assistant", (edit,)), Message("tool", (Result("c1", (Text("The file was changed."),)),)))
        session.prepare()
        texts = [text_of(item.message) for item in session.view.items]
        assert session.view.tokens <= session.budget.room
        if not any("Question 0" in text for text in texts):
            assert any("recall m1" in text or "recall shows" in text for text in texts), texts
            named += 1
        shown += any(item.message.role == "tool" for item in session.view.items)
    assert named
    assert shown


GUARD_ONLY = parse_policy("moments: {before_call: []}", source="none.yaml", stages=STAGES)
RULE = "Never touch main."


def say_and_work(session: Session, turn: int, words: str, steps: int = 8) -> None:
    """A request, and calls with long results after it. Everything that was said stays in each request."""
    said = [text_of(e.payload.message) for e in session.log.read() if is_request(e.payload)]
    said.append(f"Request {turn}: {words}")
    session.add(user_message(said[-1]))
    for step in range(steps):
        ident = f"c{turn}_{step}"
        result = Text(f"result {ident} " + "of the tool, which is long " * 30)
        session.add(Message("assistant", (Call(ident, "read", json.dumps({"path": ident})),)))
        session.add(Message("tool", (Result(ident, (result,)),)))
        session.prepare()
        shown = [text_of(item.message) for item in session.view.items]
        for text in said:
            assert any(each[:12] == text[:12] for each in shown), f"{text[:12]} is gone"
        assert result.text in shown, "the result of the running group stays whole"


def is_request(payload: object) -> TypeGuard[MessageAdded]:
    return isinstance(payload, MessageAdded) and is_user_request(payload.message)


@pytest.mark.parametrize("paste", [0, 500], ids=["short requests", "a long paste"])
def test_requests_of_the_user_stay_while_there_is_old_work(paste: int) -> None:
    """The long paste is shortened instead, with its beginning. What was dropped is described where it was."""
    session = Session(policy=GUARD_ONLY, window=4_000, count="chars/4", clock=lambda: 0.0)
    say_and_work(session, 0, f"Find the leak. {RULE}" + " as this report of the plant says" * paste)
    for turn in range(1, 14):
        say_and_work(session, turn, "Go on with the next part of the plant.")
    shown = [text_of(item.message) for item in session.view.items]
    stages = {event.payload.stage for event in session.log.read() if isinstance(event.payload, ViewEdited)}
    assert stages == {"guard"}
    assert any(RULE in text for text in shown)
    assert not any("result c0_0" in text for text in shown), "old work left"
    (note,) = [text for text in shown if "read c0_0" in text]
    assert "m2..m3" in note
