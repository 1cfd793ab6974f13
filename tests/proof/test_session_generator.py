"""The session generator: the same for the same seed, long, valid, and with everything in it that sessions hold."""

import json
from itertools import islice

from tidegate.proof.session_generator import generate_session

Json = dict[str, object]


def test_same_seed_same_session() -> None:
    assert list(generate_session(6, seed=3)) == list(generate_session(6, seed=3))
    assert list(generate_session(6, seed=3)) != list(generate_session(6, seed=4))


def test_a_longer_session_begins_like_a_shorter_one() -> None:
    short = list(generate_session(4, seed=3))
    assert list(islice(generate_session(9, seed=3), len(short))) == short


def test_every_call_is_answered_once_and_in_order() -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in generate_session(30, seed=5):
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert message["content"]
            continue
        assert not waiting
        calls = message.get("tool_calls", [])
        assert isinstance(calls, list)
        waiting = [call["id"] for call in calls]
        assert seen.isdisjoint(waiting)
        seen.update(waiting)
        for call in calls:
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert not waiting


def test_turns_are_what_was_asked_for() -> None:
    roles = [message["role"] for message in generate_session(12, seed=0)]
    assert roles.count("user") == 12
    assert roles[0] == "system"
    assert roles.count("system") == 1
    assert roles[-1] == "assistant"


def test_it_holds_what_real_sessions_hold() -> None:
    said = list(generate_session(40, seed=2))
    text = json.dumps(said, ensure_ascii=False)
    called = [message["tool_calls"] for message in said if "tool_calls" in message]
    assert len(text) > 1_000_000
    assert any(isinstance(calls, list) and len(calls) > 1 for calls in called), "parallel calls"
    assert "data:image/png;base64," in text
    assert any("注" in str(message["content"]) for message in said if message["role"] == "tool"), "CJK"
    assert "A rule from now on" in text
    assert "FAILED tests/" in text
    assert any(_is_array(message["content"]) for message in said if message["role"] == "tool"), "a JSON listing"
    assert any("reasoning_content" in message for message in said)


def _is_array(content: object) -> bool:
    return str(content).startswith("[{") or str(content).startswith("[\n")


def test_an_edit_shows_in_later_reads() -> None:
    """What the agent did to a file is there when it reads the file again: later calls depend on earlier ones."""
    edited: dict[str, str] = {}
    shown = 0
    path_of: dict[str, str] = {}
    for message in generate_session(40, seed=1):
        for call in message.get("tool_calls", []):  # type: ignore[attr-defined]
            arguments = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "edit_file":
                edited[arguments["path"]] = arguments["new"]
            elif call["function"]["name"] == "read_file":
                path_of[call["id"]] = arguments["path"]
        if message["role"] == "tool":
            new = edited.get(path_of.get(str(message["tool_call_id"]), ""))
            if new is not None:
                assert new in str(message["content"])
                shown += 1
    assert shown > 10
