"""The laws of the log and the view, over any conversation and any lawful edits."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conversations import Move, Player, a_move, a_plain_move, conversations, law, many, whole_conversations
from tests.laws.tape import Tape, check_view, shown, snapshot
from tidegate.core.check import check
from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.errors import BadEdit
from tidegate.core.events import Edited, Event, decode, encode
from tidegate.core.messages import Call, Message, Part, Result, Text, Tool, calls_of, result_of, user
from tidegate.core.repair import repair
from tidegate.core.turns import Group, groups, ids_of, newest_within, outline
from tidegate.core.view import View, project

ANY = conversations(broken=False, huge=2_000)
WHOLE = whole_conversations(broken=False, huge=2_000)


# --- random lawful edits ----------------------------------------------------------------------------------------------


def spared(view: View) -> list[Group]:
    return [group for group in groups(view) if view.newest_request not in group.ids]


def lawful(view: View, what: str, which: int) -> tuple[Edit, ...]:
    """A transaction a stage might make."""
    units = spared(view)
    if what == "repair" or not units:
        return repair(view).edits
    start = which % len(units)
    unit = units[start]
    if what == "drop":
        return (Drop(ids_of(units[start : start + 1 + which // 16])),)
    if what == "sum up":
        return (Drop(unit.ids), Insert(user("summary of it", kind="summary"), after=unit.last))
    if what == "note":
        return (Insert(user("a note", kind="note"), after=unit.last if which % 3 else ""),)
    return tuple(Replace(item.message.id, smaller(item.message)) for item in unit.items[: which // 16 + 1])


def smaller(message: Message) -> tuple[Part, ...]:
    """Other parts for a message: calls and results keep their ids, everything else is short."""
    result = result_of(message)
    if result is not None:
        return (Result(result.call_id, (Text("[cleared]"),), result.error),)
    kept = tuple(Call(call.id, call.name, "{}") for call in calls_of(message))
    return (Text("[short]"), *kept)


class Happening(NamedTuple):
    """Anything but a message: what happens is chosen by name, what it happens to by a number."""

    what: str
    which: int


HAPPENINGS = ("drop", "drop", "repair", "repair", "sum up", "note", "shrink", "undo", "redo", "use", "system", "clear")
Step = Move | Happening
HAPPENS = st.builds(Happening, st.sampled_from(HAPPENINGS), st.integers(0, 63))
STEPS = st.one_of(
    many(st.one_of(a_plain_move(), HAPPENS), 24),
    many(st.one_of(a_move(broken=False, huge=2_000), HAPPENS), 14),
)


def happen(tape: Tape, event: Happening) -> None:
    edits = [each.seq for each in tape.events if isinstance(each.what, Edited)]
    which = event.which
    if event.what in ("undo", "redo"):
        if edits:
            tape.note(event.what, str(edits[-1 - which % len(edits)]))
    elif event.what == "use":
        tape.use(tape.view.tokens, tape.view.tokens + which, "ab"[which % 2])
    elif event.what == "clear":
        tape.note("clear" if which % 4 == 3 else "anything")
    elif event.what == "system":
        tools = msgspec.json.encode((Tool("read", str(which)),)).decode()
        tape.note("tools", tools, which) if which % 2 else tape.note("system", f"text {which}", which)
    else:
        transaction = lawful(tape.view, event.what, which)
        if transaction:
            check(tape.view, transaction)
            tape.edit(transaction, rule=f"rule {which % 3}", moment="overflow" if which % 4 == 0 else "manual")


def played(steps: list[Step], watch: Callable[[Tape], None] = lambda _: None) -> Tape:
    """Let it all happen; `watch` looks at the tape after each step."""
    tape, player = Tape(), Player(whole=False)
    for step in steps:
        if isinstance(step, Happening):
            happen(tape, step)
            watch(tape)
            continue
        for message in player.play(step):
            tape.say(message)
            watch(tape)
    return tape


# --- the fold ---------------------------------------------------------------------------------------------------------


@law(150)
@given(STEPS)
def test_the_live_view_is_the_projection_of_the_log_at_every_step(steps: list[Step]) -> None:
    def watch(tape: Tape) -> None:
        assert snapshot(tape.view) == snapshot(project(tape.read, tape.view._meter))
        assert tape.view.head == len(tape.events)

    played(steps, watch)


@law(150)
@given(STEPS)
def test_every_view_keeps_its_invariants(steps: list[Step]) -> None:
    played(steps, lambda tape: check_view(tape.view))


@law(60)
@given(STEPS)
def test_the_log_is_only_appended_to(steps: list[Step]) -> None:
    seen: list[bytes] = []

    def watch(tape: Tape) -> None:
        now = [encode(event) for event in tape.events]
        assert now[: len(seen)] == seen
        assert [event.seq for event in tape.events] == list(range(1, len(now) + 1))
        seen[:] = now

    played(steps, watch)


@law(60)
@given(STEPS)
def test_a_log_written_down_and_read_again_gives_the_same_view(steps: list[Step]) -> None:
    tape = played(steps)
    again: list[Event] = [decode(encode(event)) for event in tape.events]
    assert again == tape.events
    assert snapshot(project(lambda: again, tape.view._meter)) == snapshot(tape.view)


@law(150)
@given(ANY)
def test_said_messages_stand_once_and_in_order(messages: list[Message]) -> None:
    """Nothing said is lost or doubled by grouping, and nothing but results moves."""
    tape = Tape()
    for message in messages:
        tape.say(message)
    check_view(tape.view)
    visible = [m for m in tape.said() if m.agent_visible or m.role == "tool"]
    held = shown(tape.view) + [item.message.id for item in tape.view.orphans]
    assert sorted(held) == sorted(m.id for m in visible)
    spoken = [m.id for m in visible if m.role != "tool"]
    assert [i.message.id for i in tape.view.items if i.message.role != "tool"] == spoken
    kept = {m.id: m for m in visible if m.agent_visible}
    assert all(i.message == kept[i.message.id] for i in tape.view.items if i.message.id in kept)


@law(60)
@given(WHOLE)
def test_a_whole_conversation_is_shown_as_it_was_said(messages: list[Message]) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    said = [m.id for m in tape.said() if m.agent_visible or m.role == "tool"]
    assert shown(tape.view) == said
    assert not tape.view.orphans
    assert not tape.view.unanswered
    assert tape.view.epoch == 0, "nothing moved, so nothing must be rendered again"


@law(100)
@given(ANY)
def test_hidden_messages_are_not_shown(messages: list[Message]) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    hidden = {m.id for m in tape.said() if not m.agent_visible}
    for item in tape.view.items:
        if item.message.id in hidden:
            result = result_of(item.message)
            assert result is not None
            assert result.parts == (Text("[archived]"),)


@law(100)
@given(STEPS)
def test_an_epoch_only_grows_at_the_end(steps: list[Step]) -> None:
    """What the renderer may keep: as long as view and epoch are the same, the old items are a prefix of the new."""
    last: list[tuple[View, int, list[Message], list[bool]]] = []

    def watch(tape: Tape) -> None:
        view = tape.view
        now = [item.message for item in view.items]
        signed = [item.signed for item in view.items]
        if last and last[0][0] is view and last[0][1] == view.epoch:
            assert now[: len(last[0][2])] == last[0][2]
            assert signed[: len(last[0][3])] == last[0][3]
        last[:] = [(view, view.epoch, now, signed)]

    played(steps, watch)


# --- signed data ------------------------------------------------------------------------------------------------------


@law(100)
@given(STEPS)
def test_only_what_stands_behind_the_same_prefix_stays_signed(steps: list[Step]) -> None:
    """Opaque data is bound to all that stood before it when it was said, the fixed part included."""
    bound: dict[str, tuple[object, ...]] = {}

    def watch(tape: Tape) -> None:
        view = tape.view
        before: tuple[object, ...] = (view.system, view.tools)
        for item in view.items:
            ident = item.message.id
            if item.signed and ident in bound:
                assert before == bound[ident], f"{ident} is still signed"
            bound.setdefault(ident, before)
            before = (*before, item.message)

    played(steps, watch)


# --- repair -----------------------------------------------------------------------------------------------------------


@law(150)
@given(STEPS)
def test_repair_mends_everything_once(steps: list[Step]) -> None:
    tape = played(steps)
    before = {i.message.id: i.message for i in tape.view.items}
    mended = repair(tape.view)
    if mended.edits:
        check(tape.view, mended.edits)
        tape.edit(mended.edits, stage="repair")
    check_view(tape.view)
    assert not tape.view.unanswered
    assert not tape.view.orphans
    assert repair(tape.view).empty, "repairing twice changes something"
    after = {i.message.id: i.message for i in tape.view.items}
    assert before.items() <= after.items(), "a repair changed or dropped what was sound"


@law(80)
@given(WHOLE)
def test_a_whole_history_is_left_alone_by_repair(messages: list[Message]) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    assert repair(tape.view).empty


def test_a_late_result_takes_the_place_of_the_repair() -> None:
    tape = Tape()
    tape.say(user("go"))
    caller = tape.say(Message("assistant", (Call("c1", "read"),)))
    behind = tape.say(user("stop"))
    tape.edit(repair(tape.view).edits, stage="repair")
    assert len(shown(tape.view)) == 4
    late = tape.say(Message("tool", (Result("c1", (Text("the file"),)),), kind="tool_result"))
    assert shown(tape.view)[1:] == [caller, late, behind]
    check_view(tape.view)


# --- undo -------------------------------------------------------------------------------------------------------------


@law(150)
@given(STEPS, st.integers(0, 50), conversations(broken=False, huge=0, size=4))
def test_undo_is_as_if_the_edit_had_never_been(steps: list[Step], which: int, later: list[Message]) -> None:
    """What was said after the edit stays; redo brings the edit back."""
    tape = played(steps)
    edits = [e.seq for e in tape.events if isinstance(e.what, Edited) and e.seq not in tape.view._skip]
    if not edits:
        return
    said = [tape.say(message) for message in later if message.role != "tool" and message.agent_visible]
    before = comparable(tape.view)
    seq = edits[which % len(edits)]
    without = [event for event in tape.events if event.seq != seq]
    tape.note("undo", str(seq))
    check_view(tape.view)
    assert comparable(tape.view) == comparable(project(lambda: without, tape.view._meter))
    assert set(said) <= set(shown(tape.view)), "an undo lost what was said after the edit"
    tape.note("redo", str(seq))
    check_view(tape.view)
    assert comparable(tape.view) == before


def comparable(view: View) -> dict[str, object]:
    """All but what rightly differs after an undo and a redo: how long the log is, and whose usage still counts."""
    return {k: v for k, v in snapshot(view).items() if k not in ("head", "usage", "edited_at", "epoch")}


@law(100)
@given(STEPS)
def test_a_report_from_before_a_change_of_the_view_is_not_believed(steps: list[Step]) -> None:
    """The reported size of a request tells about the view only as long as messages were merely added to it."""
    reported: dict[int, list[Message]] = {}

    def watch(tape: Tape) -> None:
        now = [item.message for item in tape.view.items]
        reported.setdefault(len(tape.events), now)
        usage = tape.view.usage
        if usage is not None:
            seen = reported[usage.head]
            assert now[: len(seen)] == seen
            assert now[len(seen) :] == [item.message for item in tape.view.since(usage.head)][::-1]

    played(steps, watch)


# --- what check() refuses ---------------------------------------------------------------------------------------------


def refused(view: View, *edits: Edit) -> None:
    with pytest.raises(BadEdit) as caught:
        check(view, edits)
    assert caught.value.remedy


@law(100)
@given(STEPS, st.data())
def test_unlawful_edits_are_refused(steps: list[Step], data: st.DataObject) -> None:
    tape = played(steps)
    view = tape.view
    for group in groups(view):
        ids = group.ids
        if len(ids) > 1:
            cut = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=len(ids) - 1))
            refused(view, Drop(tuple(cut)))
            refused(view, Insert(user("inside", kind="note"), after=data.draw(st.sampled_from(ids[:-1]))))
        first = group.items[0].message
        if calls_of(first):
            refused(view, Replace(first.id, (Text("no calls any more"),)))
            refused(view, Replace(first.id, (*smaller(first), Call("one more", "read"))))
        for item in group.results:
            refused(view, Replace(item.message.id, (Text("no result any more"),)))
            refused(view, Replace(item.message.id, (Result("another call", (Text(""),)),)))
    refused(view, Drop(("m999999",)))
    refused(view, Replace("m999999", (Text(""),)))
    refused(view, Insert(user("x", kind="note"), after="m999999"))
    refused(view, Insert(Message("assistant", (Call("c9", "read"),)), after=""))
    refused(view, Insert(Message("tool", (Result("nobody asked", (Text("x"),)),)), after=""))
    if view.newest_request:
        refused(view, Drop((view.newest_request,)))
        refused(view, Replace(view.newest_request, (Text("changed"),)))
        check(view, (Replace(view.newest_request, (Text("clipped"),)),), may_touch_newest=True)


@law(100)
@given(ANY, st.data())
def test_an_answer_goes_behind_its_call_and_nowhere_else(messages: list[Message], data: st.DataObject) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    view = tape.view
    for caller, wanted in view.unanswered.items():
        answer = Message("tool", (Result(wanted[0], (Text("unknown"),), True),), kind="interrupted")
        group = next(group for group in groups(view) if group.ids[0] == caller)
        check(view, (Insert(answer, after=group.last),))
        twice = [Insert(answer, after=group.last)] * (sum(w.count(wanted[0]) for w in view.unanswered.values()) + 1)
        refused(view, *twice)
        places = [ident for ident in ["", *shown(view)] if not can_answer(view, ident, wanted[0])]
        if places:
            refused(view, Insert(answer, after=data.draw(st.sampled_from(places))))


def can_answer(view: View, ident: str, call_id: str) -> bool:
    group = next((group for group in groups(view) if ident in group.ids), None)
    return group is not None and call_id in view.unanswered.get(group.ids[0], [])


# --- turns ------------------------------------------------------------------------------------------------------------


@law(80)
@given(STEPS)
def test_groups_and_turns_cover_the_view_in_order(steps: list[Step]) -> None:
    view = played(steps).view
    found = outline(view)
    every = [*found.preamble, *(group for turn in found.turns for group in turn.groups)]
    assert list(ids_of(every)) == shown(view)
    assert list(ids_of(groups(view))) == shown(view)
    assert len(found.turns) == view.turns
    assert all(item.message.role == "tool" for group in every for item in group.items[1:])


@law(80)
@given(ANY, st.integers(0, 20), st.integers(0, 2_000))
def test_newest_within_is_the_longest_tail_that_fits(messages: list[Message], most: int, tokens: int) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    units = groups(tape.view)
    kept = newest_within(units, messages=most)
    tail = units[len(units) - kept :]
    assert kept == 0 or sum(len(unit.items) for unit in tail[1:]) < most
    assert kept == len(units) or sum(len(unit.items) for unit in tail) >= most
    kept = newest_within(units, tokens=tokens)
    tail = units[len(units) - kept :]
    assert kept <= 1 or sum(unit.tokens for unit in tail) <= tokens
    assert kept == len(units) or sum(unit.tokens for unit in units[len(units) - kept - 1 :]) > tokens
