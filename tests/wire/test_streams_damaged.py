"""Recorded streams with any one value damaged: what still counts as an answer can be kept and sent back."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fake.recorded import RECORDED, Recorded
from tests.wire.cases import GONE, places, replaced
from tidegate import Session
from tidegate.core.messages import calls_of
from tidegate.wire.answers import create_assembler, parse_reply
from tidegate.wire.streaming.reply import IncompleteReply, Reply

DAMAGE: tuple[Any, ...] = (None, 0, "x", [], {}, [None], {"type": None}, GONE)
TOOLS = [{"name": "read"}, {"name": "grep"}]


def damaged(recorded: Recorded) -> Iterator[list[dict[str, Any]]]:
    """The frames with each value of each of them replaced, one at a time."""
    frames = recorded.frames
    for at, frame in enumerate(frames):
        for place in places(frame)[1:]:
            for damage in DAMAGE:
                yield [*frames[:at], replaced(frame, place, damage), *frames[at + 1 :]]


def answer_of(wire: str, frames: list[dict[str, Any]]) -> Reply | None:
    answer = create_assembler(wire)
    for frame in frames:
        answer.feed(frame)
    try:
        return answer.finish()
    except IncompleteReply:
        return None


def sent_back(wire: str, reply: Reply) -> None:
    session = Session("m", wire=wire, window=50_000, tools=TOOLS)
    session.add({"role": "user", "content": "Read both files."})
    for ident in session.add(*parse_reply(wire, reply)):
        for call in calls_of(session.recall(ident)):
            session.add({"role": "tool", "tool_call_id": call.id, "content": "found"})
    session.record(reply.usage)
    session.add({"role": "user", "content": "Go on."})
    session.prepare()  # raises if the provider would refuse it


@pytest.mark.parametrize("name", RECORDED)
def test_damaged_answer_is_none_or_can_be_sent_back(name: str) -> None:
    recorded = RECORDED[name]
    replies = [reply for frames in damaged(recorded) if (reply := answer_of(recorded.wire, frames))]
    assert len(replies) > 100
    different = {repr(reply.messages): reply for reply in replies}
    for reply in different.values():
        sent_back(recorded.wire, reply)
