"""The server of the peers: settings are checked, defects are reported, and the guard can be switched off."""

import msgspec
import pytest

from tests.lab.peers.peer_replay import SHORT, WINDOW, check_requests, long_session, replay
from tidegate.lab.peer_registry import Peer, find_peer, load_peers


def get_peer(name: str) -> Peer:
    peer = find_peer(name)
    assert peer is not None
    return peer


def test_an_unknown_setting_ends_the_server_with_the_known_ones() -> None:
    with pytest.raises(AssertionError, match="tail_only has no setting high; it has: low"):
        replay(msgspec.structs.replace(get_peer("tail-sliding"), settings={"high": 1}), SHORT)


def test_recordings_of_one_process_do_not_affect_each_other() -> None:
    peer = get_peer("tail-hysteresis")
    first, _, again = replay(peer, long_session(), SHORT, long_session())
    assert first == again == replay(peer, long_session())[0]


def test_without_the_guard_defects_are_reported_and_nothing_is_touched() -> None:
    peer, messages = get_peer("masking"), long_session()
    (free,) = replay(peer, messages, guard=False)
    (guarded,) = replay(peer, messages)
    assert any("over" in line.get("faults", ()) for line in free)
    assert not any("guarded" in line for line in free)
    check_requests(guarded, messages)
    for before, after in zip(free, guarded, strict=True):
        assert before.get("faults") == after.get("faults")
        if "faults" not in before:
            assert before == after
        else:
            assert after["guarded"]["tokens"] > WINDOW


@pytest.mark.parametrize(
    "peer", [peer for peer in load_peers() if not peer.runs_published_code], ids=lambda peer: str(peer.name)
)
def test_a_recording_that_begins_with_an_answer_is_played(peer: Peer) -> None:
    messages = SHORT[2:]
    (lines,) = replay(peer, messages)
    assert [line["at"] for line in lines] == [0, 3, 5, 7]
    assert lines[0]["messages"] == [{"role": "user", "content": "[earlier messages left out]"}]
    assert [line["messages"] for line in lines[1:]] == [messages[:at] for at in (3, 5, 7)]
    assert not any("faults" in line for line in lines[1:])
