"""Extended thinking on Anthropic: what the provider demands of signed thinking holds under every preset.

Three kinds of models: with `type: "enabled"`, a running tool loop must begin with its signed thinking, and a block is
bound to itself; with `adaptive` it need not; from 5.1 on a block is bound to everything before it, and no loop must
begin with one.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.fake.issued_thinking import IssuedThinking
from tests.scale import parametrize_pairs
from tidegate import GiveUp, Request, Session
from tidegate.core.events import ViewEdited
from tidegate.presets import preset_names

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


class Model(NamedTuple):
    name: str
    thinking: Json
    binds_prefix: bool


ENABLED = Model("claude-sonnet-4", {"type": "enabled", "budget_tokens": 1024}, False)
ADAPTIVE = Model("claude-opus-4-6", {"type": "adaptive"}, False)
PREFIX_BOUND = Model("claude-opus-5-5", {"type": "adaptive"}, True)
PREFIX_BOUND_ENABLED = Model("claude-opus-5-5", {"type": "enabled", "budget_tokens": 1024}, True)
MODELS = [ENABLED, ADAPTIVE, PREFIX_BOUND, PREFIX_BOUND_ENABLED]
TASK = "Read all the files and tell me the limit. Never touch main."


class Provider:
    """What a provider knows of one conversation, and the session that talks to it."""

    def __init__(self, model: Model, policy: str, window: int) -> None:
        self.model = model
        self.issued = IssuedThinking(binds_prefix=model.binds_prefix)
        self.session = Session(
            model.name,
            policy=policy,
            window=window,
            tools=TOOLS,
            request_options={"thinking": model.thinking},
            max_tokens=2048,
            count="chars/4",
        )

    def check(self, request: Request) -> Json:
        """The body of a request. Fails where the provider would refuse it."""
        body: Json = json.loads(request.to_bytes())
        loop = running_loop(body["messages"])
        calls = [block for message in loop for block in message["content"] if block["type"] == "tool_use"]
        if "thinking" in body and self.model is ENABLED:
            assert not calls or begins_with_thinking(loop)
            assert request.allows_thinking
        assert self.issued.find_faults(body) == []
        return body

    def say(self, text: str) -> None:
        self.session.add({"role": "user", "content": text})

    def play_step(self, step: int, words: int) -> Json:
        """One request, an answer with a call, and its result. The body of the request."""
        body = self.check(self.session.prepare())
        content: list[Json] = [{"type": "text", "text": f"Step {step}."}]
        if "thinking" in body:
            content.insert(0, {"type": "thinking", "thinking": f"I think of {step}.", "signature": f"sig{step}=="})
        content.append({"type": "tool_use", "id": f"toolu_{step}", "name": "read", "input": {"path": f"src/{step}.py"}})
        self.issued.issue(body, content)
        self.session.add({"role": "assistant", "content": content})
        text = f"file {step}: " + " ".join(f"word{step}_{number}" for number in range(words))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{step}", "content": text}
        self.session.add({"role": "user", "content": [result]})
        return body

    def play_loop(self, steps: int, words: int) -> Iterator[Json]:
        """Older exchanges, a request, and one tool loop of so many steps."""
        for turn in range(4):
            self.say(f"Question {turn}. " + "Some words of it. " * 20)
            answer = f"Answer {turn}. " + "So it is. " * 20
            self.session.add({"role": "assistant", "content": [{"type": "text", "text": answer}]})
        self.say(TASK)
        for step in range(steps):
            yield self.play_step(step, words)


def count_thinking(body: Json) -> int:
    content = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return sum(block["type"] == "thinking" for blocks in content for block in blocks)


@parametrize_pairs(("policy", "model"), preset_names(), MODELS)
def test_a_loop_that_outgrows_the_window_keeps_thinking_and_the_task(model: Model, policy: str) -> None:
    provider = Provider(model, policy, 12_000)
    for body in provider.play_loop(60, 60):
        assert "thinking" in body
        assert "Never touch main." in json.dumps(body)
    edits = [event for event in provider.session.log.read() if isinstance(event.payload, ViewEdited)]
    assert edits, "the loop was swept while it ran"
    provider.session.add({"role": "assistant", "content": [{"type": "text", "text": "The limit is 17."}]})
    provider.say("And now?")
    assert "thinking" in provider.check(provider.session.prepare())


def test_thinking_before_an_edit_stays_and_later_thinking_is_sent_again() -> None:
    provider = Provider(PREFIX_BOUND, "default", 12_000)
    counts = [count_thinking(body) for body in provider.play_loop(60, 60)]
    drops = [place for place in range(1, len(counts)) if counts[place] < counts[place - 1]]
    assert drops
    for place in drops:
        assert counts[place : place + 3] == sorted(counts[place : place + 3]), "after a sweep, it grows again"
    assert max(counts[drops[0] :]) > counts[drops[0]]


@parametrize_pairs(("policy", "model"), preset_names(), MODELS)
def test_after_an_overflow_the_rules_hold_too(model: Model, policy: str) -> None:
    provider = Provider(model, policy, 60_000)
    list(provider.play_loop(20, 100))
    provider.session.prepare()
    while True:
        try:
            request = provider.session.overflowed()
        except GiveUp:
            break
        provider.check(request)


@pytest.mark.parametrize("model", MODELS)
def test_compaction_on_demand_undo_and_fork_inside_a_loop(model: Model) -> None:
    """Thinking that was taken out does not come back, and what is made afterwards is sent."""
    provider = Provider(model, "default", 60_000)
    list(provider.play_loop(20, 100))
    provider.session.compact()
    for step in range(20, 24):
        provider.play_step(step, 20)
    provider.session.history.undo()
    body = provider.play_step(24, 20)
    assert "thinking" in body
    provider.session.history.redo()
    provider.play_step(25, 20)
