"""The laws of the log and the view, over any conversation and any lawful edits."""

import msgspec
from hypothesis import example
from hypothesis import strategies as st

from tests.laws.conversations import Answer, Say, Stray, conversations, whole_conversations
from tests.laws.happenings import STEPS, Happening, Step, played
from tests.laws.sampled_law import sampled_law
from tests.laws.tape import Tape, check_view, shown, snapshot
from tidegate.core.edit_check import check_edits
from tidegate.core.events import Event, ViewEdited, decode_event, encode_event
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Call, Message, Result, Text, Thinking, result_of, user_message
from tidegate.core.stages.repair import repair_view
from tidegate.core.view import Item, View

ANY = conversations(broken=False, huge=2_000)
WHOLE = whole_conversations(broken=False, huge=2_000)

# What once broke a law, kept.
CALLS = Say("assistant", (Call("c1", "read"),))
THINKS = Say("assistant", (Thinking(block="{}"), Text("so")), "anthropic")
LATE = Answer(0, (Text("late"),))
DROPPED_THEN_LATE: list[Step] = [
    CALLS,
    Happening("drop", 0),
    Stray("c1", (Text("late"),)),
    Happening("repair", 0),
    Happening("undo", 1),
]
USED_THEN_LATE: list[Step] = [CALLS, Say("assistant", (Text("on"),)), Happening("use", 0), LATE]
SIGNED_THEN_UNDONE: list[Step] = [THINKS, Happening("drop", 0), THINKS, Happening("undo", 0)]
USED_THEN_UNDONE: list[Step] = [CALLS, LATE, Happening("drop", 0), CALLS, Happening("use", 0), Happening("undo", 0)]


# --- the fold ---------------------------------------------------------------------------------------------------------


@sampled_law(40, 100, STEPS)
def test_the_live_view_is_the_projection_of_the_log_at_every_step(steps: list[Step]) -> None:
    def watch(tape: Tape) -> None:
        assert snapshot(tape.view) == snapshot(fold_log(tape.read, tape.view.meter))
        assert tape.view.head == len(tape.events)

    played(steps, watch)


@sampled_law(60, 150, STEPS)
@example(DROPPED_THEN_LATE)
@example(USED_THEN_UNDONE)
def test_every_view_keeps_its_invariants(steps: list[Step]) -> None:
    played(steps, lambda tape: check_view(tape.view))


@sampled_law(20, 30, STEPS)
def test_a_log_written_down_and_read_again_gives_the_same_view(steps: list[Step]) -> None:
    tape = played(steps)
    again: list[Event] = [decode_event(encode_event(event)) for event in tape.events]
    assert again == tape.events
    assert snapshot(fold_log(lambda: again, tape.view.meter)) == snapshot(tape.view)


@sampled_law(40, 75, ANY)
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


@sampled_law(20, 30, WHOLE)
def test_a_whole_conversation_is_shown_as_it_was_said(messages: list[Message]) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    said = [m.id for m in tape.said() if m.agent_visible or m.role == "tool"]
    assert shown(tape.view) == said
    assert not tape.view.orphans
    assert not tape.view.unanswered
    assert tape.view.prefix_seq == 0, "nothing moved, so nothing must be rendered again"


@sampled_law(30, 50, ANY)
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


@sampled_law(30, 50, STEPS)
def test_an_epoch_only_grows_at_the_end(steps: list[Step]) -> None:
    """What the renderer may keep: as long as the epoch is the same, the old items are a prefix of the new."""
    last: list[tuple[int, list[Message], list[bool]]] = []

    def watch(tape: Tape) -> None:
        view = tape.view
        now = [item.message for item in view.items]
        signed = [item.signed for item in view.items]
        if last and last[0][0] == view.prefix_seq:
            assert now[: len(last[0][1])] == last[0][1]
            assert signed[: len(last[0][2])] == last[0][2]
        last[:] = [(view.prefix_seq, now, signed)]

    played(steps, watch)


# --- signed data ------------------------------------------------------------------------------------------------------


@sampled_law(40, 100, STEPS)
@example(SIGNED_THEN_UNDONE)
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


@sampled_law(40, 75, STEPS)
def test_repair_mends_everything_once(steps: list[Step]) -> None:
    tape = played(steps)
    before = {i.message.id: i.message for i in tape.view.items}
    mended = repair_view(tape.view)
    if mended.edits:
        check_edits(tape.view, mended.edits)
        tape.edit(mended.edits, stage="repair")
    check_view(tape.view)
    assert not tape.view.unanswered
    assert not tape.view.orphans
    assert repair_view(tape.view).empty, "repairing twice changes something"
    after = {i.message.id: i.message for i in tape.view.items}
    assert before.items() <= after.items(), "a repair changed or dropped what was sound"


@sampled_law(25, 40, WHOLE)
def test_a_whole_history_is_left_alone_by_repair(messages: list[Message]) -> None:
    tape = Tape()
    for message in messages:
        tape.say(message)
    assert repair_view(tape.view).empty


def test_a_late_result_takes_the_place_of_the_repair() -> None:
    tape = Tape()
    tape.say(user_message("go"))
    caller = tape.say(Message("assistant", (Call("c1", "read"),)))
    behind = tape.say(user_message("stop"))
    tape.edit(repair_view(tape.view).edits, stage="repair")
    assert len(shown(tape.view)) == 4
    late = tape.say(Message("tool", (Result("c1", (Text("the file"),)),), kind="tool_result"))
    assert shown(tape.view)[1:] == [caller, late, behind]
    assert not tape.view.orphans
    check_view(tape.view)


# --- undo -------------------------------------------------------------------------------------------------------------


@sampled_law(40, 75, STEPS, st.integers(0, 50), conversations(broken=False, huge=0, size=4))
def test_undo_is_as_if_the_edit_had_never_been(steps: list[Step], which: int, later: list[Message]) -> None:
    """What was said after the edit stays; redo brings the edit back."""
    tape = played(steps)
    edits = [e.seq for e in tape.events if isinstance(e.payload, ViewEdited) and e.seq not in tape.view.skipped_edits]
    if not edits:
        return
    said = [tape.say(message) for message in later if message.role != "tool" and message.agent_visible]
    before = comparable(tape.view)
    seq = edits[which % len(edits)]
    without = [event for event in tape.events if event.seq != seq]
    tape.note("undo", str(seq))
    check_view(tape.view)
    assert comparable(tape.view) == comparable(fold_log(lambda: without, tape.view.meter))
    assert set(said) <= set(shown(tape.view)), "an undo lost what was said after the edit"
    tape.note("redo", str(seq))
    check_view(tape.view)
    assert comparable(tape.view) == before


def comparable(view: View) -> dict[str, object]:
    """All but what rightly differs after an undo and a redo: where the log stands, whose usage and signatures count."""
    found = snapshot(view)
    same = (
        "head",
        "usage",
        "tokens_since_report",
        "metered_since_report",
        "edited_seq",
        "prefix_seq",
        "first_edit_seq",
    )
    for key in same:
        del found[key]
    for name in ("items", "orphans"):
        items: list[Item] = getattr(view, name)
        found[name] = [msgspec.structs.asdict(item) | {"signed": None} for item in items]
    return found


@sampled_law(40, 100, STEPS)
@example(USED_THEN_LATE)
@example(USED_THEN_UNDONE)
def test_a_report_from_before_a_change_of_the_view_is_not_believed(steps: list[Step]) -> None:
    """The reported size of a request tells about the view only as long as messages were merely added to it."""
    reported: dict[int, list[Message]] = {}

    def watch(tape: Tape) -> None:
        now = [item.message for item in tape.view.items]
        reported.setdefault(len(tape.events), now)
        usage = tape.view.usage
        if usage is not None:
            seen = reported[usage.log_head]
            assert now[: len(seen)] == seen
            newer = tape.view.items[len(seen) :]
            assert newer == list(tape.view.items_after(usage.log_head))[::-1]
            assert tape.view.tokens_since_report == sum(item.tokens for item in newer)
            assert tape.view.metered_since_report == sum(item.metered_tokens for item in newer)

    played(steps, watch)
