"""Extended thinking on Anthropic: what the provider demands of a running tool loop holds under every preset.

The provider refuses a request with thinking turned on whose running tool loop does not begin with its signed thinking
block, and a signed block whose prefix has changed. Both rules are checked here by code of its own.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.scale import mark_all_but
from tidegate import GiveUp, Request, Session
from tidegate.presets import preset_names
from tidegate.wire.anthropic.validate_thinking import check_thinking_bindings

Json = dict[str, Any]
TOOLS = [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}]


def running_loop(messages: list[Json]) -> list[Json]:
    """The model's messages since the last message of the user that is not only results."""
    found: list[Json] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            found.insert(0, message)
        elif isinstance(message["content"], str) or any(block["type"] != "tool_result" for block in message["content"]):
            break
    return found


def begins_with_thinking(loop: list[Json]) -> bool:
    first = loop[0]["content"][0]
    return first["type"] in ("thinking", "redacted_thinking") and bool(first.get("signature") or first.get("data"))


def check_provider_rules(request: Request, before: Request | None) -> bool:
    """Whether thinking is on. Fails where the provider would refuse the request."""
    body = json.loads(request.to_bytes())
    loop = running_loop(body["messages"])
    calls = [block for message in loop for block in message["content"] if block["type"] == "tool_use"]
    if "thinking" in body:
        assert not calls or begins_with_thinking(loop)
        assert request.allows_thinking
    if before is not None:
        assert check_thinking_bindings(json.loads(before.to_bytes()), body) == []
    return "thinking" in body


class Step(NamedTuple):
    request: Request
    thinks: bool
    edits: int


def play_loop(session: Session, steps: int, words: int, older: int = 4) -> Iterator[Step]:
    """Older exchanges, a request, and one tool loop of so many steps. The model thinks where it is asked to."""
    for turn in range(older):
        session.add({"role": "user", "content": f"Question {turn}. " + "Some words of it. " * 20})
        session.add(
            {"role": "assistant", "content": [{"type": "text", "text": f"Answer {turn}. " + "So it is. " * 20}]}
        )
    session.add({"role": "user", "content": "Read all the files and tell me the limit."})
    before: Request | None = None
    for step in range(steps):
        request = session.prepare()
        thinks = check_provider_rules(request, before)
        yield Step(request, thinks, sum(session.edit_counts.values()))
        before = request
        content: list[Json] = [{"type": "text", "text": f"Step {step}."}]
        if thinks:
            content.insert(0, {"type": "thinking", "thinking": f"I think of {step}.", "signature": f"sig{step}=="})
        content.append({"type": "tool_use", "id": f"toolu_{step}", "name": "read", "input": {"path": f"src/{step}.py"}})
        session.add({"role": "assistant", "content": content})
        text = f"file {step}: " + " ".join(f"word{step}_{number}" for number in range(words))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{step}", "content": text}
        session.add({"role": "user", "content": [result]})


def open_session(policy: str, window: int) -> Session:
    return Session(
        "claude-sonnet-4",
        policy=policy,
        window=window,
        tools=TOOLS,
        request_options={"thinking": {"type": "enabled", "budget_tokens": 1024}},
        max_tokens=2048,
        count="chars/4",
    )


@pytest.mark.parametrize(("window", "count"), [(30_000, 45), pytest.param(60_000, 90, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("policy", mark_all_but(preset_names(), "default", "jutul"))
def test_a_loop_that_fits_keeps_its_thinking(policy: str, window: int, count: int) -> None:
    session = open_session(policy, window)
    steps = list(play_loop(session, count, 20))
    assert [step.thinks for step in steps] == [True] * count
    assert len({step.edits for step in steps}) == 1, "nothing is edited while the loop runs"


@pytest.mark.parametrize("policy", mark_all_but(preset_names(), "default", "jutul"))
@pytest.mark.parametrize("words", [30, 300])
def test_a_loop_that_outgrows_the_window_goes_on_without_thinking(policy: str, words: int) -> None:
    session = open_session(policy, 8_000)
    reported = 0
    thought = True
    for step in play_loop(session, 70, words):
        decisions = [each for each in session.last_decisions if each.acted]
        if not step.thinks:
            assert any(each.stage == "thinking" and "signed thinking" in each.reason for each in decisions)
            assert "thinking" in str(session.explain())
            reported += 1
            if thought:
                assert any(each.stage in ("guard", "cap_result", "spill_result") for each in decisions)
        thought = step.thinks
    assert reported
    session.add({"role": "assistant", "content": [{"type": "text", "text": "The limit is 17."}]})
    session.add({"role": "user", "content": "And now?"})
    assert check_provider_rules(session.prepare(), None), "the next turn thinks again"


@pytest.mark.parametrize("window", [7_000, pytest.param(12_000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("policy", mark_all_but(preset_names(), "default", "jutul"))
def test_only_whole_oldest_groups_leave_a_running_loop(policy: str, window: int) -> None:
    """The first request without thinking holds the newest groups of the loop, each as it was."""
    session = open_session(policy, window)
    steps = enumerate(play_loop(session, 200, 30, older=0))
    place, first = next((place, step) for place, step in steps if not step.thinks)
    blocks = [block for message in first.request.messages[1:] for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert 0 < len(calls) < place
    assert calls == [f"toolu_{number}" for number in range(place - len(calls), place)]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    assert [text for text in map(str, results) if "_29" not in text] == [], "no result is shortened"


@pytest.mark.parametrize("policy", preset_names())
def test_after_an_overflow_the_rules_hold_too(policy: str) -> None:
    session = open_session(policy, 60_000)
    last = list(play_loop(session, 20, 100))[-1]
    session.prepare()
    while True:
        try:
            request = session.overflowed()
        except GiveUp:
            break
        check_provider_rules(request, last.request)


def test_compaction_on_demand_inside_a_loop_is_reported() -> None:
    session = open_session("default", 60_000)
    list(play_loop(session, 20, 100))
    assert check_provider_rules(session.prepare(), None)
    session.compact()
    request = session.render_request()
    assert not check_provider_rules(request, None)
    assert not request.allows_thinking
    assert "signed thinking" in str(session.explain())
