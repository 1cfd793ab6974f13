"""The guard makes every history fit, and says how to read again what it dropped."""

import json

import pytest

from tidegate import Session
from tidegate.core.messages import Call, Message, Result, Text, text_of, user_message


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
