"""When hooks fire, and when they rest."""

import asyncio
from typing import Any

import pytest

from tests.seeds.talk import Clock, asks, batch, replies
from tidegate import BadInput, MemoryLog, Session, load
from tidegate.agent.hook_types import (
    Always,
    CompactContext,
    ContextPressure,
    Hook,
    InjectMessage,
    LogMessage,
    MessageCount,
    RunFunction,
    ToolCallCount,
    TurnCount,
)
from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.core.events import NoteAdded

LOG = LogMessage("here")


def opened(*, window: int = 20_000, log: MemoryLog | None = None, **more: Any) -> Session:
    policy = load(
        "digitorn", {"auto_compact": False, "output_reserved": 1_000, "reminder_tokens": 0, **more.pop("settings", {})}
    )
    return Session(policy=policy, window=window, count="chars/4", log=log, **more)


def fired(hooks: HookRunner, session: Session, moment: Any = "turn_start", **more: Any) -> list[HookReport]:
    return asyncio.run(hooks.run_due(moment, session, **more))


def notes(session: Session, topic: str) -> list[str]:
    found = (event.payload for event in session.log.read())
    return [what.text for what in found if isinstance(what, NoteAdded) and what.topic == topic]


# When.


def test_a_hook_fires_at_its_moment_in_the_order_given() -> None:
    session = opened()
    hooks = HookRunner(
        [Hook("b", Always(), LOG, "turn_start"), Hook("a", Always(), LOG, "turn_start"), Hook("c", Always(), LOG)]
    )
    assert [done.hook_id for done in fired(hooks, session)] == ["b", "a"]
    assert [done.hook_id for done in fired(hooks, session, "turn_end")] == ["c"]
    with pytest.raises(BadInput, match="two hooks with the id"):
        hooks.add(Hook("a", Always(), LOG))


@pytest.mark.seed("DIG-12", fixed="conditions are those of the hooks, whatever the preset")
def test_thresholds_are_strict() -> None:
    session = opened()
    session.add(asks("ask-1"), *batch("call-1", 100, 100), replies("reply-1"), asks("ask-2"))
    assert (session.view.message_count, session.view.tool_call_count) == (6, 2)
    for condition, fires in (
        (MessageCount(6), False),
        (MessageCount(5), True),
        (ToolCallCount(2), False),
        (ToolCallCount(1), True),
        (TurnCount(2), True),
        (TurnCount(1), False),
        (TurnCount(3), False),
    ):
        assert bool(fired(HookRunner([Hook("h", condition, LOG, "turn_start")]), session)) is fires, condition


@pytest.mark.seed("DIG-12", fixed="conditions are those of the hooks, whatever the preset")
def test_pressure_is_that_of_the_policy() -> None:
    session = opened(window=5_000, system="")
    session.add({"role": "user", "content": "x" * 8_000})
    half = HookRunner([Hook("h", ContextPressure(0.5), LOG, "turn_start")])
    assert fired(half, session) == [], "2,000 of 4,000 tokens are not more than half"
    session.add({"role": "assistant", "content": "y" * 4})
    assert len(fired(half, session)) == 1


def test_a_turn_count_fires_once_in_its_turn_however_often_the_model_is_called() -> None:
    session = opened()
    hooks = HookRunner([Hook("h", TurnCount(2), InjectMessage("turn {turn}"), "turn_start")])
    for number in range(1, 4):
        session.add(asks(f"ask-{number}"))
        for step in range(3):
            assert len(fired(hooks, session)) == (number == 2 and step == 0)
            session.add(*batch(f"call-{number}.{step}", 50))
            session = Session(policy=session.policy, window=20_000, count="chars/4", log=session.log)
        session.add(replies(f"reply-{number}"))
    assert notes(session, "hook") == ["h"]


# Cooldown.


@pytest.mark.seed("DIG-11", fixed="the runner counts, whatever the preset")
def test_a_cooldown_ends_with_its_last_second() -> None:
    clock = Clock()
    session = opened(clock=clock)
    session.add(asks("ask-1"))
    hooks = HookRunner([Hook("rests", Always(), LOG, "turn_start", 30)], clock=clock)
    done = []
    for _ in range(3):
        done.append(bool(fired(hooks, session)))
        clock.now += 29.5 if len(done) == 1 else 0.5
    assert done == [True, False, True], "after 30 seconds it may run again"


@pytest.mark.seed("DIG-08", fixed="the rest is that of a hook; the preset sets its length")
def test_a_hook_rests_after_a_compaction_by_the_policy() -> None:
    """Two turns, as the policy itself does."""
    session = opened(window=20_000, settings={"auto_compact": True, "keep_recent": 2})
    hooks = HookRunner([Hook("h", Always(), CompactContext(strategy="truncate", keep_recent=1))])
    for number in range(1, 5):
        session.add(asks(f"ask-{number}", 16_000), replies(f"reply-{number}"))
    session.add(asks("ask-5"))
    session.prepare()
    assert session.edit_counts["summarize"] == 1
    done = []
    for number in range(5, 9):
        session.add(replies(f"reply-{number}"))
        done.append(bool(fired(hooks, session, "turn_end")))
        session.add(asks(f"ask-{number + 1}"))
    assert done == [False, False, False, True], "this turn and two more"


def test_a_cooldown_counts_seconds_also_over_a_restart() -> None:
    clock = Clock()
    hook = Hook("h", Always(), LOG, "turn_start", 60.0)
    session, hooks = opened(clock=clock), HookRunner([hook], clock=clock)
    session.add(asks("ask-1"))
    assert len(fired(hooks, session)) == 1
    for passed, fires in ((59.0, 0), (0.9, 0), (0.1, 1), (30.0, 0), (30.0, 1)):
        clock.now += passed
        assert len(fired(hooks, session)) == fires
        assert isinstance(session.log, MemoryLog)
        session = opened(clock=clock, log=MemoryLog(session.log.records()))
        hooks = HookRunner([hook], clock=clock)
    assert notes(session, "hook") == ["h"] * 3


def test_each_hook_rests_by_itself_and_each_session_has_its_own_rest() -> None:
    clock = Clock()
    hooks = HookRunner(
        [Hook("a", Always(), LOG, "turn_start", 10.0), Hook("b", Always(), LOG, "turn_start", 30.0)], clock=clock
    )
    first, second = opened(clock=clock), opened(clock=clock)
    assert len(fired(hooks, first)) == 2
    clock.now += 15
    assert [done.hook_id for done in fired(hooks, first)] == ["a"]
    assert len(fired(hooks, second)) == 2
    assert fired(hooks, first) == [], "what was noted is read again, not forgotten with the other session"


def test_a_firing_of_another_process_counts() -> None:
    clock = Clock()
    hook = Hook("h", Always(), LOG, "turn_start", 60.0)
    session = opened(clock=clock)
    hooks, others = HookRunner([hook], clock=clock), HookRunner([hook], clock=clock)
    assert len(fired(hooks, session)) == 1
    clock.now += 61
    assert len(fired(others, session)) == 1
    assert fired(hooks, session) == []


class CountingLog(MemoryLog):
    """Counts the events that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded = 0

    def read(self, start: int = 1) -> Any:
        for event in super().read(start):
            self.decoded += 1
            yield event


def test_a_long_log_is_not_read_at_each_firing_nor_whole_at_the_first() -> None:
    clock, log = Clock(), CountingLog()
    session = opened(clock=clock, log=log)
    for number in range(3_000):
        clock.now += 1
        session.add(asks(f"ask-{number}"))
    hooks = HookRunner([Hook("h", Always(), LOG, "turn_start", 60.0)], clock=clock)
    log.decoded = 0
    assert len(fired(hooks, session)) == 1
    assert log.decoded < 600
    log.decoded = 0
    for _ in range(10):
        assert fired(hooks, session) == []
    assert log.decoded < 10
    assert fired(HookRunner([Hook("h", Always(), LOG, "turn_start", 60.0)], clock=clock), session) == []


def test_a_clock_that_was_set_back_does_not_silence_a_hook() -> None:
    clock = Clock()
    session, hook = opened(clock=clock), Hook("h", Always(), LOG, "turn_start", 60.0)
    assert len(fired(HookRunner([hook], clock=clock), session)) == 1
    clock.now -= 1_000_000
    assert len(fired(HookRunner([hook], clock=clock), session)) == 1


def test_what_may_fire_at_every_call_does_not_fill_the_log() -> None:
    session = opened()
    hooks = HookRunner([Hook("h", Always(), RunFunction(lambda at: "seen"), "turn_start")])
    before = session.log.head
    assert [done.text for done in fired(hooks, session)] == ["seen"]
    assert session.log.head == before
