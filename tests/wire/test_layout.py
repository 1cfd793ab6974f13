"""Blocks: what is laid out, in which order, and how little an append touches."""

import pytest

from tests.wire.histories import HISTORIES, PICTURE, FakeView, Seen, call, gave, said, system, told, view_of
from tidegate.core.messages import Call, Image, Message, Part, Text, Thinking
from tidegate.wire.anthropic import render as anthropic
from tidegate.wire.openai_chat import mistral
from tidegate.wire.openai_chat import render as openai_chat
from tidegate.wire.openai_responses import render as openai_responses
from tidegate.wire.registry import DIALECTS
from tidegate.wire.rendering.blocks import DialectCapabilities, LayoutBlock
from tidegate.wire.rendering.identifiers import IdentifierRules, assign_call_id, encode_tool_name
from tidegate.wire.rendering.layout import (
    EMPTY_MESSAGE_TEXT,
    FIRST_USER_FILLER,
    LAST_USER_FILLER,
    NO_OUTPUT_TEXT,
    NO_RESULT_TEXT,
    Layout,
    join_within_spare,
)

RULES = anthropic.CAPABILITIES


def laid(view: FakeView, rules: DialectCapabilities = RULES) -> list[LayoutBlock]:
    layout = Layout(rules)
    layout.update(view)
    return layout.blocks


def texts(block: LayoutBlock) -> list[str]:
    return [part.text for part in block.parts if isinstance(part, Text)]


def answers(block: LayoutBlock) -> list[tuple[str, str]]:
    return [(each.id, "|".join(part.text for part in each.parts if isinstance(part, Text))) for each in block.answers]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_blocks_take_turns_and_the_user_is_first_and_last(dialect: str) -> None:
    for name, history in HISTORIES.items():
        blocks = laid(view_of(history), DIALECTS[dialect].capabilities)
        sides = [block.side for block in blocks]
        assert sides == ["user", "assistant"] * (len(sides) // 2) + ["user"], name
        assert all(block.parts or block.answers for block in blocks), name


def test_neighbours_share_a_block_and_keep_their_words() -> None:
    blocks = laid(view_of([said("one"), said("two"), told("a"), told("b"), said("three")]))
    assert [texts(block) for block in blocks] == [["one", "two"], ["a", "b"], ["three"]]


def test_a_system_message_in_the_middle_is_labelled() -> None:
    blocks = laid(view_of([said("one"), told("a"), system("Be brief."), said("two")]))
    assert texts(blocks[2]) == ["[system] Be brief.", "two"]


def test_fillers_stand_where_the_user_is_missing() -> None:
    blocks = laid(view_of([told("hello")]))
    assert [texts(block) for block in blocks] == [[FIRST_USER_FILLER], ["hello"], [LAST_USER_FILLER]]
    assert [texts(block) for block in laid(view_of([]))] == [[LAST_USER_FILLER]]


def test_results_stand_first_and_in_the_order_of_the_calls() -> None:
    view = view_of([said("a"), told(call("c1"), call("c2")), said("wait"), gave("c2", "two"), gave("c1", "one")])
    last = laid(view)[-1]
    assert answers(last) == [("c1", "one"), ("c2", "two")]
    assert texts(last) == ["wait"]


def test_repeated_ids_are_matched_by_occurrence() -> None:
    blocks = laid(view_of(HISTORIES["same id twice in a message"]))
    calls = [part.id for part in blocks[1].parts if isinstance(part, Call)]
    assert len(set(calls)) == 2
    assert answers(blocks[2]) == [(calls[0], "1st"), (calls[1], "2nd")]


def test_a_call_without_a_result_is_answered_and_a_result_without_a_call_is_text() -> None:
    view = view_of([said("a"), told(call("c1"), call("c2")), gave("c2", "two"), gave("c9", "lost"), said("go on")])
    last = laid(view)[-1]
    assert answers(last) == [("c1", NO_RESULT_TEXT), ("c2", "two")]
    assert texts(last) == ["[result] lost", "go on"]


def test_nothing_said_vanishes_or_says_so() -> None:
    view = view_of(
        [said(" \n"), told(""), told(Thinking("hm")), system(""), said("b"), told(call("c1")), gave("c1", "")]
    )
    blocks = laid(view)
    assert texts(blocks[0]) == [EMPTY_MESSAGE_TEXT, "b"]
    assert answers(blocks[2]) == [("c1", NO_OUTPUT_TEXT)]
    assert len(blocks) == 3


def test_images_of_results_move_behind_them_where_a_dialect_wants_text() -> None:
    blocks = laid(view_of(HISTORIES["images in results"]), openai_chat.CAPABILITIES)
    last = blocks[2]
    assert [text for _, text in answers(last)] == ["(img)", "a plan", "no picture"]
    assert [part.text if isinstance(part, Text) else type(part) for part in last.parts] == [
        "img 1",
        Image,
        "img 2",
        Image,
        Image,
    ]
    kept = laid(view_of(HISTORIES["images in results"]), anthropic.CAPABILITIES)[2]
    assert [len(answer.parts) for answer in kept.answers] == [1, 3, 1]
    assert not kept.parts


def test_opaque_data_goes_only_to_its_family_and_only_signed() -> None:
    signed = told(Thinking(block='{"type":"thinking"}'), Text("x", "sig"), call("c1", opaque="s"), origin="anthropic")

    def parts(item: Seen, rules: DialectCapabilities) -> tuple[Part, ...]:
        return laid(FakeView([Seen(said("a")), item]), rules)[1].parts

    kept = parts(Seen(signed), anthropic.CAPABILITIES)
    assert kept == signed.parts
    for item, rules in (
        (Seen(signed, 0, signed=False), anthropic.CAPABILITIES),
        (Seen(signed), openai_responses.CAPABILITIES),
    ):
        assert parts(item, rules) == (Text("x"), call("c1"))


def test_reasoning_that_came_by_itself_joins_the_answer_it_led_to() -> None:
    blocks = laid(view_of(HISTORIES["reasoning before its item"]), openai_responses.CAPABILITIES)
    assert [type(part) for part in blocks[1].parts] == [Thinking, Call]
    lost = view_of([*HISTORIES["reasoning before its item"].messages[:2], said("stop"), told("ok")])
    blocks = laid(lost, openai_responses.CAPABILITIES)
    assert [block.side for block in blocks] == ["user", "assistant", "user"]
    assert blocks[1].parts == (Text("ok"),)


def test_an_append_touches_the_last_block_only() -> None:
    view = view_of([said("a"), told(call("c1"), call("c2")), gave("c1", "one")])
    layout = Layout(RULES)
    layout.update(view)
    first, second, _ = layout.blocks
    view.items.append(Seen(gave("c2", "two")))
    assert layout.update(view) == 2
    assert layout.blocks[:2] == [first, second]
    third = layout.blocks[2]
    view.items.append(Seen(told("done")))
    assert layout.update(view) == 3
    assert layout.blocks[2] is third
    assert layout.update(view) == len(layout.blocks)


def test_an_edit_keeps_the_blocks_made_of_the_same_messages() -> None:
    view = view_of([said("a"), told("b"), said("c"), told("d"), said("e")])
    layout = Layout(RULES)
    layout.update(view)
    before = list(layout.blocks)
    view.items[2] = Seen(said("C"))
    view.prefix_seq += 1
    assert layout.update(view) == 2
    assert [was is now for was, now in zip(before, layout.blocks, strict=True)] == [True, True, False, True, True]


def test_losing_the_signature_lays_a_block_out_again() -> None:
    view = view_of(HISTORIES["signed thinking"])
    layout = Layout(RULES)
    layout.update(view)
    view.items[1].signed = False
    view.prefix_seq += 1
    assert layout.update(view) == 1
    assert not any(isinstance(part, Thinking) for part in layout.blocks[1].parts)


# --- ids and names ------------------------------------------------------------------------------------------------


def shapes() -> list[IdentifierRules]:
    return [dialect.capabilities.identifiers for dialect in DIALECTS.values()]


@pytest.mark.parametrize("shape", shapes())
def test_an_id_fits_and_is_the_same_every_time(shape: IdentifierRules) -> None:
    for call_id in ("", "ok", "call_1", "i" * 200, "имя", "a b", "a|b", "x" * 9):
        used: set[str] = set()
        first, second = (assign_call_id(call_id, "m1", index, shape, used) for index in range(2))
        assert first != second
        assert shape.id_pattern.fullmatch(first), call_id
        assert shape.id_pattern.fullmatch(second), call_id
        assert first == assign_call_id(call_id, "m1", 0, shape, set())
        assert (first == call_id) == bool(shape.id_pattern.fullmatch(call_id)), call_id


def test_ids_stay_apart_even_when_one_is_made_up_to_collide() -> None:
    shape = mistral.DIALECT.capabilities.identifiers
    made = assign_call_id("call_1", "m1", 0, shape, set())
    used = {made}
    other = assign_call_id("call_1", "m1", 0, shape, used)
    assert other != made
    assert used == {made, other}
    assert assign_call_id(made, "m2", 0, shape, used) not in (made, other)


@pytest.mark.parametrize("shape", shapes())
def test_a_tool_name_fits(shape: IdentifierRules) -> None:
    for name in ("", "fs.read", "9 lives", "x" * 90, "読む", "-", "read", "a__b", "." * 70):
        found = encode_tool_name(name, shape)
        assert shape.name_pattern.fullmatch(found), name
        assert (found == name) == bool(shape.name_pattern.fullmatch(name)), name
    assert encode_tool_name("x" * 90, shape) != encode_tool_name("x" * 91, shape)


@pytest.mark.parametrize(("count", "gap"), [(2, "\n\n"), (6, "\n\n"), (7, "\n"), (11, "\n"), (12, "")])
def test_many_texts_stand_closer(count: int, gap: str) -> None:
    assert join_within_spare(["x"] * count) == gap.join(["x"] * count)
    assert len(gap) * (count - 1) <= 10


def test_a_message_that_breaks_the_contract_is_still_laid_out() -> None:
    odd = [
        Message("assistant", (Text("a"), *gave("c1", "b").parts)),
        Message("user", (call("c1"),)),
        Message("tool", (Text("c"), PICTURE)),
        Message("system", (call("c1"),)),
        Message("assistant", gave("c1", "b").parts),
    ]
    blocks = laid(view_of(odd))
    assert [block.side for block in blocks] == ["user", "assistant", "user"]
    assert texts(blocks[2]) == [EMPTY_MESSAGE_TEXT, "c"]
