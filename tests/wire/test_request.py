"""A rendering that is kept up gives what one made from scratch gives, at every step."""

import random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fake.issued_thinking import IssuedThinking
from tests.scale import scaled
from tests.wire.histories import HISTORIES, TOOLS, FakeView, Seen, call, gave, said, told, view_of
from tidegate.core.errors import BadInput
from tidegate.core.messages import Tool
from tidegate.wire.registry import DIALECTS
from tidegate.wire.request import RequestRenderer
from tidegate.wire.validation.faults import RequestFault


def scratch(dialect: str, view: FakeView, thinking: int = 0, model: str = "m") -> RequestRenderer:
    rendering = RequestRenderer(dialect, model, thinking=thinking, max_tokens=8000)
    rendering.update(view)
    return rendering


def assert_same(kept: RequestRenderer, new: RequestRenderer) -> None:
    assert kept.messages == new.messages
    assert kept.body() == new.body()
    assert kept.to_bytes() == new.to_bytes() == msgspec.json.encode(kept.body())
    assert kept.faults() == new.faults()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_step_by_step_is_the_same_as_at_once(dialect: str) -> None:
    for history in HISTORIES.values():
        growing = FakeView(tools=TOOLS)
        kept = RequestRenderer(dialect, "m", thinking=2000, max_tokens=8000)
        kept.update(growing)
        for item in view_of(history).items:
            growing.items.append(item)
            kept.update(growing)
            assert_same(kept, scratch(dialect, growing, thinking=2000))


@given(seed=st.integers(0, 2**32), dialect=st.sampled_from(sorted(DIALECTS)))
@settings(max_examples=scaled(40))
def test_any_edits_are_the_same_as_at_once(seed: int, dialect: str) -> None:
    """Histories stuck together, grown, cut, replaced and unsigned in any order."""
    chance = random.Random(seed)
    pool = [item for name in chance.sample(sorted(HISTORIES), 4) for item in view_of(HISTORIES[name]).items]
    view = FakeView(tools=TOOLS)
    kept = RequestRenderer(dialect, "m", max_tokens=8000)
    for _ in range(12):
        move = chance.randrange(6)
        if move < 3 or not view.items:
            view.items += pool[: chance.randrange(1, 4)]
            del pool[:3]
        else:
            view.prefix_seq += 1
            place = chance.randrange(len(view.items))
            if move == 3:
                del view.items[place : place + chance.randrange(1, 4)]
            elif move == 4:
                view.items[place] = Seen(said("replaced"))
            else:
                view.items = [*view.items[:place], *(Seen(i.message, 0, signed=False) for i in view.items[place:])]
        kept.update(view)
        new = scratch(dialect, view)
        assert_same(kept, new)
        assert new.faults() == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_only_extends_the_request_before(dialect: str) -> None:
    """P6: what was sent once is sent again, byte for byte, as long as nothing was edited."""
    view = view_of([said("go")])
    kept = scratch(dialect, view)
    for step in range(6):
        before = kept.messages
        sent = kept.to_bytes()
        calls = [call(f"id|{step}", "fs.read"), call("again")]
        view.items.append(Seen(told(f"step {step}", *calls)))
        view.items += [Seen(gave("again", f"b{step}")), Seen(gave(f"id|{step}", f"a{step}"))]
        if step % 2:
            view.items += [Seen(told("done")), Seen(said("next"))]
        kept.update(view)
        assert kept.messages[: len(before)] == before
        assert kept.shared == (len(before) if step else kept.shared)
        common = sent[: sent.rindex(b"]")] if step else b""
        assert kept.to_bytes().startswith(common)


def test_an_old_turn_keeps_its_stand_in_signature() -> None:
    view = view_of([said("go"), told(call("c1")), gave("c1", "done"), told("ok"), said("next")])
    kept = scratch("gemini", view)
    view.items += [Seen(told(call("c2"))), Seen(gave("c2", "done"))]
    before = kept.messages
    kept.update(view)
    assert kept.messages[: len(before)] == before
    assert kept.faults() == []


def test_thinking_stays_bound_to_what_it_stood_on() -> None:
    view = view_of(HISTORIES["interleaved thinking"].messages[:1])
    issued = IssuedThinking()
    before = scratch("anthropic", view, thinking=2000).body()
    for message in HISTORIES["interleaved thinking"].messages[1:]:
        view.items.append(Seen(message))
        body = scratch("anthropic", view, thinking=2000).body()
        if message.role == "assistant":
            said = [each for each in cast(Any, body["messages"]) if each["role"] == "assistant"][-1]
            issued.issue(before, said["content"])
        assert issued.find_faults(body) == []
        before = body
    assert "thinking" in before


def test_shared_counts_what_a_cache_can_keep() -> None:
    view = view_of([said("a"), told("b"), said("c"), told("d"), said("e")])
    kept = RequestRenderer("openai_chat")
    kept.update(view)
    assert kept.shared == 0
    kept.update(view)
    assert kept.shared == 6
    view.items[2] = Seen(said("C"))
    view.prefix_seq += 1
    kept.update(view)
    assert kept.shared == 3
    view.system = "Another."
    kept.update(view)
    assert kept.shared == 0
    view.tools = (Tool("new"),)
    kept.update(view)
    assert kept.shared == 0
    kept.update(view)
    assert kept.shared == 6


def test_an_edit_renders_only_what_it_touched() -> None:
    view = view_of([said("a"), told("b"), said("c"), told("d"), said("e")])
    kept = RequestRenderer("gemini")
    kept.update(view)
    before = kept.messages
    view.items[2] = Seen(said("C"))
    view.prefix_seq += 1
    kept.update(view)
    assert [was is now for was, now in zip(before, kept.messages, strict=True)] == [True, True, False, True, True]


def test_messages_of_a_user_block_that_grows_are_shared_one_by_one() -> None:
    view = view_of([said("a"), told(call("c1"), call("c2")), gave("c1", "one"), gave("c2", "two")])
    kept = RequestRenderer("openai_chat")
    kept.update(view)
    view.items.append(Seen(said("wait")))
    kept.update(view)
    assert kept.shared == 5
    assert len(kept.messages) == 6


def test_the_validator_reads_a_settled_message_once() -> None:
    """The one place where a counting double stands in for the validator: how often it is fed is what is promised."""
    fed: list[object] = []

    class Counting:
        def __init__(self, head: object, profile: object) -> None:
            pass

        def feed(self, message: object, /) -> None:
            fed.append(message)

        def fork(self) -> "Counting":
            return Counting(None, None)

        def finish(self) -> list[RequestFault]:
            return []

    dialect = msgspec.structs.replace(DIALECTS["anthropic"], create_validator=Counting)
    view = view_of([said("a")])
    kept = RequestRenderer(dialect)
    for n in range(50):
        view.items += [Seen(told(call(f"c{n}"))), Seen(gave(f"c{n}", "r"))]
        kept.update(view)
        kept.faults()
    assert len(fed) == 50 * 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_half_a_surrogate_pair_never_reaches_the_wire(dialect: str) -> None:
    view = view_of(HISTORIES["half pairs"])
    view.system = "s\ud83d"
    kept = scratch(dialect, view)
    assert "\ufffd" in kept.to_bytes().decode()
    assert kept.faults() == []


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", ""])
def test_thinking_is_not_asked_for_when_the_loop_lost_its_own(model: str) -> None:
    """A request without a model's name may go to an older model."""
    signed = scratch("anthropic", view_of(HISTORIES["signed thinking"]), thinking=2000, model=model)
    assert signed.body()["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert signed.faults() == []
    loop = (said("go"), told("looking", call("call_1"), origin="anthropic"), gave("call_1", "found it"))
    lost = scratch("anthropic", view_of(loop), thinking=2000, model=model)
    assert "thinking" not in lost.body()
    assert lost.faults() == []


def test_newer_models_are_asked_for_thinking_in_every_loop() -> None:
    lost = scratch("anthropic", view_of(HISTORIES["signed thinking, edited before"]), thinking=2000)
    assert lost.body()["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert lost.faults() == []


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(BadInput, match="Use one of openai_chat"):
        RequestRenderer("openai")


def test_nothing_rendered_yet_is_still_a_body() -> None:
    assert RequestRenderer("openai_chat").body() == {"messages": []}
