"""The re-expressions do what they say, on generated sessions and on small ones where the right answer is known."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.lab.peers.peer_replay import (
    SHORT,
    WINDOW,
    Line,
    check_requests,
    count_characters,
    long_session,
    make_step,
    replay,
)
from tests.scale import parametrize_pairs
from tidegate.lab.peer_registry import Peer, find_peer, load_peers

OURS = [peer for peer in load_peers() if not peer.runs_published_code]


def played(name: str, messages: list[Any], window: int = WINDOW, **settings: object) -> list[Line]:
    peer = find_peer(name)
    assert peer is not None
    (lines,) = replay(msgspec.structs.replace(peer, settings={**peer.settings, **settings}), messages, window=window)
    return lines


@pytest.mark.exhaustive
@pytest.mark.parametrize("peer", OURS, ids=lambda peer: str(peer.name))
@parametrize_pairs(("seed", "window"), [3, 4], [1_000, 16_000])
def test_every_request_can_be_sent(peer: Peer, seed: int, window: int) -> None:
    messages = long_session(seed)
    lines = played(peer.name, messages, window)
    check_requests(lines, messages, window)
    for line in lines:
        newest, last = messages[line["at"] - 1], line["messages"][-1]
        assert (last["role"], last.get("tool_call_id")) == (newest["role"], newest.get("tool_call_id"))


@pytest.mark.parametrize("peer", OURS, ids=lambda peer: str(peer.name))
def test_a_short_session_is_left_alone(peer: Peer) -> None:
    for line in played(peer.name, SHORT):
        assert line == {"at": line["at"], "messages": SHORT[: line["at"]]}


def test_sliding_holds_as_much_as_fits() -> None:
    messages = long_session()
    groups_that_fit = 0
    for line in played("tail-sliding", messages):
        held, at = line["messages"], line["at"]
        if len(held) < at:
            said = [message for message in held[1:] if message["content"] != "[earlier messages left out]"]
            assert said == messages[at - len(said) : at]
            first = at - len(said)
            start = max(index for index in range(first) if messages[index]["role"] != "tool")
            assert count_characters(messages[start:at]) + count_characters(held[:1]) + 27 > 4 * WINDOW
            groups_that_fit += 1
    assert groups_that_fit > 50


def test_with_hysteresis_most_requests_extend_the_one_before() -> None:
    messages = long_session()

    def kept(name: str) -> int:
        lines = played(name, messages, 16_000)
        pairs = pairwise(line["messages"] for line in lines)
        return sum(after[: len(before)] == before for before, after in pairs)

    sliding, moved = kept("tail-sliding"), kept("tail-hysteresis")
    assert moved > sliding
    assert moved > 0.85 * (len([m for m in messages if m["role"] == "assistant"]) - 1)


def test_masking_masks_all_but_the_first_and_the_newest() -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(20):
        messages += make_step(f"c{number}", f"one\ntwo\nthree {number}")
    [*_, line] = played("masking", [*messages, {"role": "assistant", "content": "done"}])
    results = [message["content"] for message in line["messages"] if message["role"] == "tool"]
    masked = "Old environment output: (3 lines omitted)"
    assert results == ["one\ntwo\nthree 0", *[masked] * 9, *(f"one\ntwo\nthree {number}" for number in range(10, 20))]


def test_with_polling_the_mask_moves_in_steps() -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(30):
        messages += make_step(f"c{number}", "text")
    counts = [
        sum("omitted" in (message["content"] or "") for message in line["messages"])
        for line in played("masking", messages, polling=5)
    ]
    assert sorted(set(counts)) == [0, 4, 9, 14]
    assert counts == sorted(counts)


def turns(*sizes: int) -> list[Any]:
    """A turn for each size: the user, a call, a result of so many tokens, an answer."""
    made: list[Any] = []
    for number, size in enumerate(sizes):
        name = "skill" if number == 1 else "run"
        made += [{"role": "user", "content": "go on"}, *make_step(f"c{number}", "x" * (4 * size), name=name)]
        made.append({"role": "assistant", "content": "done"})
    return made


def cleared(line: Line) -> list[str]:
    return [message["tool_call_id"] for message in line["messages"] if message["content"] == CLEARED]


CLEARED = "[Old tool result content cleared]"


def test_prune_protects_the_newest_and_acts_in_batches() -> None:
    # A window of 10,000: the newest 2,000 tokens of output are protected, more than 1,000 must be freed.
    lines = played("opencode-prune", turns(700, 700, 700, 700, 1500, 500, 500, 500, 500), 10_000)
    # c1 is a skill's. When turn 6 begins c0 alone could go: too little. When turn 7 begins turns 5 and 6 are left
    # alone, c4 is protected, c3, c2 and c0 go. When turn 8 begins nothing is left to do.
    gone = ["c0", "c2", "c3"]
    assert [cleared(line) for line in lines[::2]] == [[], [], [], [], [], [], [], gone, gone]
    assert [cleared(line) for line in lines[1::2]] == [[], [], [], [], [], [], [], gone, gone]


def test_prune_leaves_a_single_turn_alone() -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(12):
        messages += make_step(f"c{number}", "x" * 4_000)
    lines = played("opencode-prune", messages, 10_000)
    assert not any(map(cleared, lines))
    assert [line.get("faults") for line in lines][-2:] == [["over"], ["over"]]
