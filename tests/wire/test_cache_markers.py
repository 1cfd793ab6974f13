"""Marks for the provider's cache: where the view is stable, never more than allowed, and nothing else moves."""

import hashlib
import random
from itertools import accumulate
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.wire.histories import HISTORIES, TOOLS, FakeView, Seen, call, gave, said, told, view_of
from tidegate.wire.anthropic import render as anthropic
from tidegate.wire.anthropic.validate import AnthropicValidator
from tidegate.wire.registry import DIALECTS
from tidegate.wire.request import RequestRenderer

LOOK_BACK = 20


def marked(view: FakeView) -> RequestRenderer:
    rendering = RequestRenderer("anthropic", "m", max_tokens=8000, cache=True)
    rendering.update(view)
    return rendering


def stripped(value: Any) -> Any:
    """Without marks, and a system text that had to become a list for one as the text it was."""
    if isinstance(value, dict):
        return {key: stripped(inner) for key, inner in value.items() if key != "cache_control"}
    return [stripped(inner) for inner in value] if isinstance(value, list) else value


def plain(body: Any) -> Any:
    body = stripped(body)
    if isinstance(body.get("system"), list):
        body["system"] = body["system"][0]["text"]
    return body


def marks_of(body: Any) -> list[tuple[int, int]]:
    """Which blocks of which messages bear a mark."""
    return [
        (at, n)
        for at, message in enumerate(body["messages"])
        for n, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def assert_lawful(cached: RequestRenderer, bare: RequestRenderer) -> None:
    body = cached.body()
    assert plain(body) == bare.body()
    assert cached.to_bytes() == msgspec.json.encode(body)
    assert cached.shared == bare.shared
    assert cached.faults() == bare.faults() == AnthropicValidator.validate(body)
    assert len(marks_of(body)) <= 2


def test_marks_change_nothing_else() -> None:
    for history in HISTORIES.values():
        growing = FakeView(tools=TOOLS)
        cached = RequestRenderer("anthropic", "m", max_tokens=8000, cache=True)
        bare = RequestRenderer("anthropic", "m", max_tokens=8000)
        for item in [None, *view_of(history).items]:
            growing.items += [item] if item else []
            cached.update(growing)
            bare.update(growing)
            assert_lawful(cached, bare)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=scaled(25))
def test_marks_change_nothing_else_whatever_is_edited(seed: int) -> None:
    chance = random.Random(seed)
    pool = [item for name in chance.sample(sorted(HISTORIES), 4) for item in view_of(HISTORIES[name]).items]
    view = FakeView(tools=TOOLS)
    cached = RequestRenderer("anthropic", "m", max_tokens=8000, cache=True)
    bare = RequestRenderer("anthropic", "m", max_tokens=8000)
    for _ in range(10):
        if chance.random() < 0.6 or not view.items:
            view.items += pool[: chance.randrange(1, 4)]
            del pool[:3]
        else:
            view.prefix_seq += 1
            view.items[chance.randrange(len(view.items))] = Seen(said(f"edited {chance.random()}"))
        cached.update(view)
        bare.update(view)
        assert_lawful(cached, bare)


def test_head_bears_one_mark() -> None:
    view = view_of([said("hello")])
    view.system = "Be brief."
    assert marked(view).body()["system"] == [{"type": "text", "text": "Be brief.", **anthropic.CACHE_MARKER}]
    assert "cache_control" not in msgspec.json.encode(marked(view).body()["tools"]).decode()
    view.system = ""
    tools = marked(view).body()["tools"]
    assert isinstance(tools, list)
    assert ["cache_control" in tool for tool in tools] == [False] * (len(tools) - 1) + [True]
    assert "system" not in marked(view).body()


def test_off_unless_asked_for() -> None:
    for wire in DIALECTS:
        view = view_of([said("hello")])
        view.system = "Be brief."
        rendering = RequestRenderer(wire, "m")
        rendering.update(view)
        assert b"cache_control" not in rendering.to_bytes()
        asked = RequestRenderer(wire, "m", cache=True)
        asked.update(view)
        assert (b"cache_control" in asked.to_bytes()) == (wire == "anthropic")
        assert wire == "anthropic" or asked.to_bytes() == rendering.to_bytes()


def test_filler_bears_no_mark() -> None:
    assert marks_of(marked(view_of([said("hello"), told("hi")])).body()) == [(1, 0)]
    assert marks_of(marked(view_of([])).body()) == []


def test_second_mark_is_where_the_request_before_ended() -> None:
    view = view_of([said("one"), told("a"), said("two")])
    rendering = marked(view)
    assert marks_of(rendering.body()) == [(2, 0)]
    calls = [call(f"c{n}") for n in range(25)]
    more = [told(*calls), *(gave(f"c{n}", "found") for n in range(25))]
    view.items += view_of(more).items
    rendering.update(view)
    assert marks_of(rendering.body()) == [(2, 0), (4, 24)]


def extend_key(key: bytes, block: Any) -> bytes:
    """The key of a prefix with one block more."""
    return hashlib.sha256(key + msgspec.json.encode(stripped(block))).digest()


class Kept:
    """The provider's cache: whole prefixes, written at marks, found up to so many blocks before one."""

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()

    def ask(self, body: Any) -> tuple[int, int]:
        """How many blocks were read from the cache, of how many."""
        blocks: list[Any] = [{"head": {key: body.get(key) for key in ("tools", "system")}}]
        blocks += [{"role": message["role"], **block} for message in body["messages"] for block in message["content"]]
        keys = list(accumulate(blocks, extend_key, initial=b""))[1:]
        marks = [0, *(place for place, block in enumerate(blocks) if "cache_control" in block)]
        found = {
            place + 1
            for mark in marks
            for place in range(max(0, mark - LOOK_BACK), mark + 1)
            if keys[place] in self.prefixes
        }
        self.prefixes |= {keys[mark] for mark in marks}
        return max(found, default=0), len(blocks)


def test_provider_finds_all_of_the_request_before() -> None:
    """Calls by the dozen in one answer, and now and then an edit of the newest third."""
    chance = random.Random(7)
    view, kept = FakeView(tools=TOOLS), Kept()
    rendering = RequestRenderer("anthropic", "m", max_tokens=8000, cache=True)
    view.items += view_of([said("go")]).items
    before = 0
    for turn in range(30):
        edited = turn % 7 == 6
        if edited:
            view.prefix_seq += 1
            place = len(view.items) - 12
            while view.items[place].message.role != "tool":
                place += 1
            view.items[place] = Seen(said(f"shortened {turn}"))
        rendering.update(view)
        body: Any = rendering.body()
        ends = [
            at for at, message in enumerate(body["messages"]) if message["role"] == "user" and at < rendering.shared
        ]
        same = 1 + sum(len(message["content"]) for message in body["messages"][: ends[-1] + 1]) if ends else 0
        read, size = kept.ask(body)
        assert read == same, turn
        assert edited or read == before, turn
        before = size
        count = chance.choice([1, 2, 30])
        ids = [f"t{turn}n{n}" for n in range(count)]
        view.items += view_of([told(*(call(ident) for ident in ids)), *(gave(ident, "found") for ident in ids)]).items
