"""The process of a peer: it plays recordings over pipes, each apart, and reports failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.recordings import record
from tidegate.core.errors import BadInput, TidegateError
from tidegate.lab.comparison.contenders import find_peer_contenders
from tidegate.lab.importers import read_recordings
from tidegate.lab.peer_process import close_peer_process, get_peer_process
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.worker_pool import never_stop

Json = dict[str, Any]
WINDOW = 2_000


def play(name: str, messages: list[Json]) -> list[ContenderRequest]:
    asked: list[ContenderRequest] = []
    try:
        get_peer_process(name).play(messages, WINDOW, asked.append, never_stop)
    finally:
        close_peer_process()
    return asked


@pytest.fixture
def messages(tmp_path: Path) -> list[Json]:
    (path,) = record(tmp_path, 1, 1)
    return list(read_recordings(path)[0].messages)


def test_a_peer_gives_a_request_for_each_answer(messages: list[Json]) -> None:
    asked = play("tail-sliding", messages)
    places = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    assert [each.message_index for each in asked] == places
    for each in asked:
        assert sum(len(json.dumps(message)) for message in each.messages) < 12 * WINDOW
        assert each.messages[-1]["content"] == messages[each.message_index - 1]["content"] or each.was_guarded
        assert each.cpu_seconds >= 0
        assert each.recall is None
    assert [*asked[3].messages[:1]] == messages[:1], "the system prompt"


def test_one_process_serves_many_recordings_alike(messages: list[Json]) -> None:
    first: list[ContenderRequest] = []
    again: list[ContenderRequest] = []
    try:
        peer = get_peer_process("tail-hysteresis")
        peer.play(messages, WINDOW, first.append, never_stop)
        peer.play(messages[:9], WINDOW, lambda _: None, never_stop)
        assert get_peer_process("tail-hysteresis") is peer
        peer.play(messages, WINDOW, again.append, never_stop)
        assert get_peer_process("masking") is not peer
    finally:
        close_peer_process()
    assert [(each.message_index, each.messages) for each in first] == [
        (each.message_index, each.messages) for each in again
    ]


def test_messages_that_stay_are_the_same_objects(messages: list[Json]) -> None:
    """That is what makes measuring cheap."""
    asked = play("tail-hysteresis", messages)
    shared = sum(id(message) in {id(each) for each in asked[4].messages} for message in asked[5].messages)
    assert shared >= 2


def test_a_recording_that_a_peer_cannot_play_is_an_error_and_the_next_one_is_played(messages: list[Json]) -> None:
    try:
        peer = get_peer_process("masking")
        with pytest.raises(TidegateError, match="masking: "):
            peer.play([{"content": "a message without a role"}], WINDOW, lambda _: None, never_stop)
        asked: list[ContenderRequest] = []
        peer.play(messages, WINDOW, asked.append, never_stop)
        assert asked
    finally:
        close_peer_process()


def test_a_peer_that_dies_says_why(messages: list[Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends at once, as one in a half-built environment does."""
    broken = tmp_path / "langchain" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'no module named langchain' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("TIDEGATE_PEERS", str(tmp_path))
    with pytest.raises(TidegateError, match="langchain-trim ended: no module named langchain"):
        play("langchain-trim", messages)


def test_stopping_ends_it(messages: list[Json]) -> None:
    peer = get_peer_process("masking")
    with pytest.raises(KeyboardInterrupt):
        peer.play(messages, WINDOW, lambda _: None, lambda: True)
    close_peer_process()


def test_those_that_are_not_built_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PEERS", str(tmp_path))
    found = find_peer_contenders()
    assert {each.kind for each in found.contenders} == {"re-expressed"}
    assert any("langchain" in sentence and "make peers" in sentence for sentence in found.missing_reasons)
    assert [each.key for each in find_peer_contenders(["masking"]).contenders] == ["masking"]
    with pytest.raises(BadInput, match="no peer 'nobody'"):
        find_peer_contenders(["nobody"])
