"""What can happen to a log beside messages: lawful edits of every kind, undo, redo, usage, a new system prompt."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from tests.laws.conversations import Move, Player, a_move, a_plain_move, many
from tests.laws.tape import Tape
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.events import ViewEdited
from tidegate.core.messages import Call, Message, Part, Result, Text, Tool, calls_of, result_of, user_message
from tidegate.core.stages.repair import repair_view
from tidegate.core.turns import Group, collect_ids, split_groups
from tidegate.core.view import View


def spared(view: View) -> list[Group]:
    return [group for group in split_groups(view) if view.newest_request not in group.ids]


def lawful(view: View, what: str, which: int) -> tuple[Edit, ...]:
    """A transaction a stage might make."""
    units = spared(view)
    if what == "repair" or not units:
        return repair_view(view).edits
    start = which % len(units)
    unit = units[start]
    if what == "drop":
        return (Drop(collect_ids(units[start : start + 1 + which // 16])),)
    if what == "sum up":
        return (Drop(unit.ids), Insert(user_message("summary of it", kind="summary"), after_id=unit.last_id))
    if what == "note":
        return (Insert(user_message("a note", kind="note"), after_id=unit.last_id if which % 3 else ""),)
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
    edits = [each.seq for each in tape.events if isinstance(each.payload, ViewEdited)]
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
            check_edits(tape.view, transaction)
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
