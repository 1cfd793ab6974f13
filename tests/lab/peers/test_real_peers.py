"""The peers' own code, where their environments are built: every request whole, and nothing touched without need.

Starting an interpreter with such a library takes a second or two, so each script is run once, with the settings that
ask most of it. `TIDEGATE_EVERY_PEER=1` runs every row of the table.
"""

import os
from typing import NamedTuple

import pytest

from tests.lab.peers.peer_replay import SHORT, Line, check_requests, long_session, replay
from tidegate.lab.peer_registry import Peer, explain_missing_peer, find_peer, load_peers

EVERY = [peer for peer in load_peers() if peer.runs_published_code]
LIGHT = {peer.script: peer for peer in EVERY}
REAL = EVERY if os.environ.get("TIDEGATE_EVERY_PEER") else list(LIGHT.values())
FORGETS_THE_NEWEST = {"inspect-summary"}
"""Everything but the task becomes its summary."""

WRITES_SUMMARIES = {peer.name for peer in EVERY if "summary" in peer.name} | {"deepagents"}


class Played(NamedTuple):
    peer: Peer
    short: list[Line]
    long: list[Line]


@pytest.fixture(scope="module", params=REAL, ids=lambda peer: str(peer.name))
def played(request: pytest.FixtureRequest) -> Played:
    """Once for each peer: starting its interpreter is most of the time."""
    peer: Peer = request.param
    if missing := explain_missing_peer(peer):
        pytest.skip(missing)
    short, long = replay(peer, SHORT, long_session())
    return Played(peer, short, long)


def test_every_request_can_be_sent(played: Played) -> None:
    check_requests(played.long, long_session())


def test_a_short_session_is_left_alone_to_the_letter(played: Played) -> None:
    assert played.short == [{"at": at, "messages": SHORT[:at]} for at in (2, 5, 7, 9)]


def test_what_is_to_be_answered_is_there(played: Played) -> None:
    messages = long_session()
    for line in played.long:
        newest, last = messages[line["at"] - 1], line["messages"][-1]
        if played.peer.name in FORGETS_THE_NEWEST:
            continue
        assert (last["role"], last.get("tool_call_id")) == (newest["role"], newest.get("tool_call_id"))
        if newest["role"] == "user" and "guarded" not in line:
            assert last == newest


def test_something_is_done_about_the_window(played: Played) -> None:
    messages = long_session()
    changed = [line for line in played.long if line["messages"] != messages[: line["at"]]]
    assert len(changed) > 50


def test_the_system_prompt_stays(played: Played) -> None:
    assert all(line["messages"][0] == long_session()[0] for line in played.long)


def test_summaries_are_counted(played: Played) -> None:
    written = sum(len(line.get("summaries", ())) for line in played.long)
    assert (written > 0) == (played.peer.name in WRITES_SUMMARIES)


@pytest.mark.parametrize("played", [peer for peer in REAL if peer.script == "langchain_trim"], indirect=True)
def test_trim_messages_and_our_tail_agree(played: Played) -> None:
    """A re-expression held against real code: the same requests, but where one group alone is over the window."""
    ours = find_peer("tail-sliding")
    assert ours is not None
    (expected,) = replay(ours, long_session())
    alike = 0
    for theirs, own in zip(played.long, expected, strict=True):
        if "empty" not in theirs.get("faults", ()):
            assert theirs["messages"] == own["messages"]
            alike += 1
    assert alike > 50
