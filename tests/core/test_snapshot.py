"""A view that was frozen and thawed goes on as if nothing had happened."""

from typing import Any

import msgspec
import pytest
from hypothesis import example
from hypothesis import strategies as st

from tests.laws.conversations import Answer, Say, Stray
from tests.laws.happenings import STEPS, Happening, Step, played
from tests.laws.sampled_law import sampled_law
from tests.laws.tape import meter
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Call, Text, user_message
from tidegate.core.snapshot import SNAPSHOT_VERSION, freeze_view, thaw_view
from tidegate.core.view import LogView, RefoldNeeded, View

NOT_STORED = {"meter", "ledger_items", "settled_count"}
"""A function, and what only the copy of `hide_ledger` has."""

# A late result behind the cut, an edit undone before it, an orphan, and a report: each rests on another field.
CALLS = Say("assistant", (Call("c1", "read"), Call("c2", "read")))
LATE = Answer(0, (Text("late"),))
MUCH: list[Step] = [
    Say("user", (Text("words"),)),
    CALLS,
    Stray("c9", (Text("stray"),)),
    Happening("system", 3),
    Happening("use", 2),
    Happening("sum up", 0),
    Happening("undo", 0),
    LATE,
    Say("user", (Text("more"),)),
    Happening("drop", 0),
    LATE,
    Happening("use", 1),
]


def everything(view: View) -> dict[str, Any]:
    """All that a view knows, with the order of what stands in it."""
    return {
        name: list(value.items()) if isinstance(value, dict) else value
        for name, value in view.fields().items()
        if name not in NOT_STORED
    }


def folded(view: LogView, events: list[Event], start: int) -> LogView:
    """Fold the events behind `start`, as a live session does."""
    for place in range(start, len(events)):
        try:
            view.fold(events[place])
        except RefoldNeeded:
            view = fold_log(lambda: events[: place + 1], meter)  # noqa: B023 - read at once
    return view


@sampled_law(60, 150, STEPS, st.integers(0, 1_000))
@example(MUCH, 5)
@example(MUCH, 8)
@example(MUCH, 10)
def test_thawed_at_any_place_it_folds_on_to_the_same_view(steps: list[Step], place: int) -> None:
    events = played(steps).events
    cut = place % (len(events) + 1)
    view = folded(LogView(meter), events, 0)
    again = thaw_view(freeze_view(folded(LogView(meter), events[:cut], 0)), meter)
    whole = fold_log(lambda: events[:cut], meter)
    assert everything(again) == everything(whole)
    assert freeze_view(again) == freeze_view(whole)
    assert everything(folded(again, events, cut)) == everything(view)


def notes(*topics: str) -> list[Event]:
    """A conversation that leaves something in fields which plain talk leaves empty."""
    said = MessageAdded(msgspec.structs.replace(user_message("words"), id="m1"), 5)
    events = [Event(1, 1.0, said), *(Event(seq, 2.0, NoteAdded(topic, "text")) for seq, topic in enumerate(topics, 2))]
    return [*events, Event(len(events) + 1, 3.0, UsageReported("a", 1, 100, 110))]


def test_notes_are_in_it() -> None:
    view = folded(LogView(), notes("turn", "overflow", "tried", "model"), 0)
    assert (view.started_turns, view.recoveries, view.fruitless_rules, view.model_note) == (1, 1, {"text": 1}, "text")
    assert view.scale_by_model != {}
    assert everything(thaw_view(freeze_view(view), None)) == everything(view)


def test_no_field_of_a_view_is_left_out() -> None:
    """A field added to View must be frozen, too: here a view of other values in every field comes back as it is."""
    view = folded(LogView(meter), played(MUCH).events, 0)
    for name, value in view.fields().items():
        if isinstance(value, int):
            setattr(view, name, value + 7)
        elif isinstance(value, str):
            setattr(view, name, value + "!")
    view.skipped_edits = frozenset({3, 1_000_003, 9})
    view.tools = (msgspec.convert({"name": "read", "description": "d"}, type(view.tools[0])),)
    view.last_fired = {"b": next(iter(view.last_fired.values())), "a": next(iter(view.last_fired.values()))}
    view.scale_by_model, view.fruitless_rules, view.usage = {"m": 1.5}, {"r": 4}, UsageReported("m", 1, 2, 3)
    view.removed_rules = {"Never push.": 5}
    view.covered_items = view.items[-1:]
    view.orphans, view.unanswered = view.items[:1], {"m2": ["c2"], "m1": ["c1"]}
    again = thaw_view(freeze_view(view), meter)
    fresh = everything(LogView())
    assert everything(again) == everything(view)
    again.skipped_edits = frozenset({1_000_003, 9, 3})
    assert freeze_view(again) == freeze_view(view)
    assert [name for name, value in everything(view).items() if value == fresh[name]] == [], "tells nothing of these"


def test_the_thawed_view_is_apart_from_the_frozen_one() -> None:
    view = folded(LogView(), notes("turn"), 0)
    data = freeze_view(view)
    again = thaw_view(data, None)
    again.items[0].signed = False
    again.scale_by_model.clear()
    assert freeze_view(view) == data


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\x93\x01\x02\x03", b"x" * 100, b"\xff" * 40])
def test_what_is_no_view_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput):
        thaw_view(data, None)


def test_another_version_is_refused() -> None:
    fields = msgspec.msgpack.decode(freeze_view(LogView()))
    fields[0] += 1
    with pytest.raises(BadInput, match=f"version {SNAPSHOT_VERSION + 1}"):
        thaw_view(msgspec.msgpack.encode(fields), None)


def test_a_view_with_a_field_of_another_type_is_refused() -> None:
    fields = msgspec.msgpack.decode(freeze_view(LogView()))
    for place in range(len(fields)):
        with pytest.raises(BadInput):
            thaw_view(msgspec.msgpack.encode([*fields[:place], True, *fields[place + 1 :]]), None)


def test_what_was_forgotten_folds_the_view_again() -> None:
    """The records were rewritten; nothing said before is signed after that."""
    events = notes("turn")
    note = Event(len(events) + 1, 4.0, NoteAdded("forgotten", "m1"))
    live = folded(LogView(), events, 0)
    with pytest.raises(RefoldNeeded):
        live.fold(note)
    other = MessageAdded(msgspec.structs.replace(user_message("[forgotten]"), id="m1"), 5)
    events = [Event(1, 1.0, other), *events[1:], note]
    view = fold_log(lambda: events)
    assert [item.message.parts for item in view.items] == [(Text("[forgotten]"),)]
    assert (view.head, view.usage, view.items[0].signed) == (len(events), None, False)


def test_a_rule_tried_in_vain_is_known_until_something_changes() -> None:
    events = notes("tried")
    view = folded(LogView(), events, 0)
    assert view.fruitless_rules == {"text": view.changed_seq}
    said = MessageAdded(msgspec.structs.replace(user_message("more"), id="m4"), 5)
    view.fold(Event(4, 4.0, said))
    assert view.fruitless_rules["text"] != view.changed_seq
    view.fold(Event(5, 5.0, NoteAdded("tried", "other")))
    assert view.fruitless_rules == {"other": 4}
