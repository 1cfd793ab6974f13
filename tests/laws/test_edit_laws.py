"""What `check` refuses, and what turns and groups are."""

import pytest
from hypothesis import strategies as st

from tests.laws.conversations import conversations
from tests.laws.happenings import STEPS, Step, played, smaller
from tests.laws.sampled_law import sampled_law
from tests.laws.tape import Tape, shown
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.errors import BadEdit
from tidegate.core.messages import Call, Message, Result, Text, calls_of, is_user_request, user_message
from tidegate.core.turns import collect_ids, count_newest_groups, split_groups, split_turns
from tidegate.core.view import View

ANY = conversations(broken=False, huge=2_000)


# --- what check() refuses ---------------------------------------------------------------------------------------------


def refused(view: View, *edits: Edit) -> None:
    with pytest.raises(BadEdit) as caught:
        check_edits(view, edits)
    assert caught.value.remedy


@sampled_law(30, 50, STEPS, st.data())
def test_unlawful_edits_are_refused(steps: list[Step], data: st.DataObject) -> None:
    tape = played(steps)
    view = tape.view
    for group in split_groups(view):
        ids = group.ids
        if len(ids) > 1:
            cut = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=len(ids) - 1))
            refused(view, Drop(tuple(cut)))
            refused(view, Insert(user_message("inside", kind="note"), after_id=data.draw(st.sampled_from(ids[:-1]))))
        first = group.items[0].message
        if calls_of(first):
            refused(view, Replace(first.id, (Text("no calls any more"),)))
            refused(view, Replace(first.id, (*smaller(first), Call("one more", "read"))))
        for item in group.results:
            refused(view, Replace(item.message.id, (Text("no result any more"),)))
            refused(view, Replace(item.message.id, (Result("another call", (Text(""),)),)))
    refused(view, Drop(("m999999",)))
    refused(view, Replace("m999999", (Text(""),)))
    refused(view, Insert(user_message("x", kind="note"), after_id="m999999"))
    refused(view, Insert(Message("assistant", (Call("c9", "read"),)), after_id=""))
    refused(view, Insert(Message("tool", (Result("nobody asked", (Text("x"),)),)), after_id=""))
    if view.newest_request:
        refused(view, Drop((view.newest_request,)))
        refused(view, Replace(view.newest_request, (Text("changed"),)))
        check_edits(view, (Replace(view.newest_request, (Text("clipped"),)),), may_touch_newest=True)


@sampled_law(15, 60, ANY, st.data())
def test_an_answer_goes_behind_its_call_and_nowhere_else(messages: list[Message], data: st.DataObject) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    view = tape.view
    for caller, wanted in view.unanswered.items():
        answer = Message("tool", (Result(wanted[0], (Text("unknown"),), True),), kind="interrupted")
        group = next(group for group in split_groups(view) if group.ids[0] == caller)
        check_edits(view, (Insert(answer, after_id=group.last_id),))
        twice = [Insert(answer, after_id=group.last_id)] * (
            sum(w.count(wanted[0]) for w in view.unanswered.values()) + 1
        )
        refused(view, *twice)
        places = [ident for ident in ["", *shown(view)] if not can_answer(view, ident, wanted[0])]
        if places:
            refused(view, Insert(answer, after_id=data.draw(st.sampled_from(places))))


def can_answer(view: View, ident: str, call_id: str) -> bool:
    group = next((group for group in split_groups(view) if ident in group.ids), None)
    return group is not None and call_id in view.unanswered.get(group.ids[0], [])


# --- turns ------------------------------------------------------------------------------------------------------------


@sampled_law(25, 40, STEPS)
def test_groups_and_turns_cover_the_view_in_order(steps: list[Step]) -> None:
    view = played(steps).view
    groups, turns = split_groups(view), split_turns(view)
    assert list(collect_ids(groups)) == shown(view)
    assert all(item.message.role == "tool" for group in groups for item in group.items[1:])
    in_turns = [group for turn in turns for group in turn.groups]
    before = groups[: len(groups) - len(in_turns)]
    assert [*before, *in_turns] == groups
    assert not any(is_user_request(group.items[0].message) for group in before)
    assert len(turns) == view.visible_turns


@sampled_law(30, 50, ANY, st.integers(0, 20), st.integers(0, 20), st.sampled_from((-1, 0, 1)))
def test_newest_within_is_the_longest_tail_that_fits(messages: list[Message], most: int, last: int, step: int) -> None:
    """By messages the group that crosses the count is kept, by tokens it is not; one group is always kept."""
    tape = Tape()
    for message in messages:
        tape.say(message)
    units = split_groups(tape.view)
    kept = count_newest_groups(units, messages=most)
    tail = units[len(units) - kept :]
    assert kept == 0 or sum(len(unit.items) for unit in tail[1:]) < most
    assert kept == len(units) or sum(len(unit.items) for unit in tail) >= most
    tokens = sum(unit.tokens for unit in units[-last:]) + step
    kept = count_newest_groups(units, tokens=tokens)
    tail = units[len(units) - kept :]
    assert kept == min(1, len(units)) or sum(unit.tokens for unit in tail) <= tokens
    assert kept == len(units) or sum(unit.tokens for unit in units[len(units) - kept - 1 :]) > tokens
