"""Eight processes in one session, adding and compacting at once, two of which are killed: nothing is lost or doubled,
and the others see the same."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.crash.crowd import COMPACTING, SUMMARIES, VICTIMS, WINDOW, Crowd, run_crowd
from tests.crash.worlds import NAME
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import text_of
from tidegate.store.open import open_store
from tidegate.store.session_log import KeptLog

WRITERS, SECONDS = 8, 0.05
TURNS = int(os.environ.get("TIDEGATE_CROWD", "3"))
"""Of each writer. `make crash` has them write more."""


def judge_crowd(url: str, crowd: Crowd) -> None:
    store = open_store(url)
    events = list(KeptLog(store, NAME).read())
    store.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    said = {
        event.payload.message.id: text_of(event.payload.message).split()[0]
        for event in events
        if isinstance(event.payload, MessageAdded)
    }
    acks = {ack.ident: ack.word for writer in crowd.writers for ack in writer.acks}
    unheard = said.items() - acks.items()
    assert acks.items() <= said.items(), "what was acknowledged is there, under its id"
    assert len(unheard) <= len(VICTIMS), f"one that was killed may not have heard of its last; else nothing: {unheard}"
    assert len(set(said.values())) == len(said), "nothing is there twice"
    living = [writer for number, writer in enumerate(crowd.writers) if number not in VICTIMS]
    assert all(len(writer.acks) == crowd.turns * 4 for writer in living)
    for writer in crowd.writers:
        numbers = [int(ack.ident[1:]) for ack in writer.acks]
        assert numbers == sorted(numbers), "a writer's own order is kept"
    for place in (0, 2):
        looks = {writer.looks[place] for writer in living}
        assert len(looks) == 1, f"caught up, they see different things: {looks}"
    assert {writer.looks[2].head for writer in living} == {len(events)}
    assert all(writer.looks[1].tokens <= WINDOW for writer in living), "each one's request was valid and fits"


def judge_bustle(crowd: Crowd, url: str) -> None:
    """Otherwise the test would show nothing: they wrote between each other, and several compacted."""
    assert sum(writer.edits > 0 for writer in crowd.writers) >= COMPACTING
    store = open_store(url)
    events = list(KeptLog(store, NAME).read())
    store.close()
    assert (
        sum(isinstance(event.payload, ViewEdited) and event.payload.stage == "summarize" for event in events)
        >= SUMMARIES
    )
    owners = [text_of(e.payload.message).split()[0][1:-4] for e in events if isinstance(e.payload, MessageAdded)]
    assert sum(one != other for one, other in pairwise(owners)) >= len(crowd.writers)


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
def test_eight_processes_write_and_compact_one_session(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "data") if backend == "sqlite" else str(request.getfixturevalue("store_url"))
    crowd = run_crowd(url, WRITERS, TURNS, SECONDS)
    judge_crowd(url, crowd)
    judge_bustle(crowd, url)
