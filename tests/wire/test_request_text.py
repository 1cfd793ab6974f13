"""A request that continues the last one is read, checked and written as if nothing were known."""

import json
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.sampled_law import sampled_law
from tests.scale import scaled
from tests.wire.test_splicing import BODIES, LIST_KEYS
from tidegate.wire.registry import get_dialect
from tidegate.wire.request_check import RequestCheck, find_request_faults
from tidegate.wire.splicing.request_text import ListText, count_common_bytes, decode_request, find_items
from tidegate.wire.splicing.spans import replace_value
from tidegate.wire.splicing.units import show_unit

STEPS = [{"role": "user", "content": f'Step {number}, with [brackets], {{braces}}, \\ and "'} for number in range(6)]

values = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
bodies = st.tuples(
    st.lists(values, max_size=6), st.sampled_from(["gpt", "gpt-4o"]), st.sampled_from([None, 1, 2]), st.booleans()
)


def encode(listed: list[Any], model: str = "m", indent: int | None = None, is_first: bool = True) -> bytes:
    body = {"messages": listed, "model": model} if is_first else {"model": model, "messages": listed}
    return json.dumps(body, indent=indent).encode()


@sampled_law(50, 75, st.lists(bodies, min_size=2, max_size=5), st.integers(0, 6))
def test_any_sequence_of_requests_is_decoded_as_alone(sequence: list[Any], kept: int) -> None:
    last = None
    before: list[Any] = []
    for listed, model, indent, is_first in sequence:
        before = [*before[:kept], *listed]
        text = encode(before, model, indent, is_first)
        last = decode_request(text, "messages", last)
        assert last is not None
        assert last.body == json.loads(text)
        alone = find_items(text, "messages")
        assert (last.listed.list_items().starts, last.listed.list_items().ends) == (alone.starts, alone.ends)


def test_only_what_is_new_is_decoded() -> None:
    last = decode_request(encode(STEPS[:5]), "messages")
    found = decode_request(encode(STEPS), "messages", last)
    assert last is not None
    assert found is not None
    before, after = last.body["messages"], found.body["messages"]
    assert isinstance(before, list)
    assert isinstance(after, list)
    assert [old is new for old, new in zip(before, after, strict=False)] == [True] * 4 + [False]


@pytest.mark.parametrize(
    "text",
    [
        encode(STEPS)[:-20],
        encode(STEPS).replace(b"}],", b"},],"),
        encode(STEPS).replace(b"}],", b"}]],"),
        encode(STEPS) + b"}",
        encode(STEPS).replace(b"}, {", b"} {"),
    ],
)
def test_a_continuation_that_is_no_json_is_refused(text: bytes) -> None:
    last = decode_request(encode(STEPS[:4]), "messages")
    assert decode_request(text, "messages") is None
    assert decode_request(text, "messages", last) is None


def test_a_continuation_that_repeats_the_key_of_the_list_has_the_later_one() -> None:
    last = decode_request(encode(STEPS[:4]), "messages")
    text = encode(STEPS)[:-1] + b', "messages": ["other"]}'
    found = decode_request(text, "messages", last)
    assert found is not None
    assert found.body["messages"] == ["other"]


@sampled_law(
    50, 100, st.lists(values, max_size=4), st.lists(values, max_size=4), st.sampled_from([None, 1]), st.booleans()
)
def test_a_change_outside_the_list_is_as_of_the_whole_text(
    own: list[Any], edited: list[Any], indent: int | None, is_first: bool
) -> None:
    text, other = encode(own, indent=indent, is_first=is_first), encode(edited, indent=indent, is_first=is_first)
    for value in (b'"m"', b'"a longer name"'):
        change = partial(replace_value, path=("model",), value=value)
        listed = ListText(text, "messages")
        assert listed.change_head_of(text, change) == change(text)
        assert listed.change_head_of(other, change) == change(other)
        changed = listed.replace_head(change(listed.read_head()))
        assert changed.text == change(text)
        alone = find_items(changed.text, "messages")
        assert (changed.list_items().starts, changed.list_items().ends) == (alone.starts, alone.ends)


@settings(max_examples=scaled(40))
@given(st.binary(max_size=20), st.binary(max_size=20), st.integers(0, 200_000))
def test_common_bytes_are_counted_exactly(first: bytes, second: bytes, size: int) -> None:
    shared = b"x" * size
    expected = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    expected = min(len(first), len(second)) if expected is None else expected
    assert count_common_bytes(shared + first, shared + second) == size + expected


def make_histories(dialect: str) -> list[bytes]:
    """A history that grows, one that breaks a rule, another model, a changed item, and the first again."""
    body: dict[str, Any] = json.loads(BODIES[dialect])
    key = LIST_KEYS[dialect]
    items = body[key]
    found = [{**body, key: items[:count]} for count in range(1, len(items) + 1)]
    found += [{**body, key: [*items, 5]}, {**body, key: items, "model": "other"}, {**body, "unknown": 1}]
    found += [{**body, key: [items[-1], *items[1:]]}, found[0], body]
    return [json.dumps(each).encode() for each in found]


@pytest.mark.parametrize("dialect", BODIES)
def test_a_continued_request_is_checked_as_alone(dialect: str) -> None:
    check = RequestCheck(dialect)
    found = [check.find_faults(text, "m") for text in make_histories(dialect)]
    assert found == [find_request_faults(dialect, text, "m") for text in make_histories(dialect)]
    assert any(found)


@pytest.mark.parametrize("indent", [None, 1])
def test_kept_items_are_copied_with_what_is_between_them(indent: int | None) -> None:
    text = encode(STEPS, indent=indent)
    units = [show_unit(unit, None) for unit in get_dialect("openai_chat").read_request(msgspec.json.decode(text)).units]
    assert get_dialect("openai_chat").form.write_messages(text, units) == text
    for left_out in range(len(STEPS)):
        written = get_dialect("openai_chat").form.write_messages(text, [*units[:left_out], *units[left_out + 1 :]])
        rest = [each["content"] for number, each in enumerate(STEPS) if number != left_out]
        if 0 < left_out < len(STEPS) - 1:  # two user messages that were not adjacent become one
            rest[left_out - 1 : left_out + 1] = ["\n\n".join(rest[left_out - 1 : left_out + 1])]
        assert [each["content"] for each in json.loads(written)["messages"]] == rest
