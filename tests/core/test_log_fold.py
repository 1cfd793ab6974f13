"""The fold of a whole log: which undos count, and how often the log is read for them."""

from collections.abc import Iterator

from tests.laws.tape import Tape, meter, shown, snapshot
from tidegate.core.edits import Drop
from tidegate.core.events import BranchStarted, Event
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import user_message


def test_an_undo_on_a_branch_that_was_left_does_not_count() -> None:
    tape = Tape()
    first, second = (tape.say(user_message(text)) for text in ("one", "two"))
    edited = tape.edit((Drop((first,)),))
    tape.note("undo", str(edited))
    assert shown(tape.view) == [first, second]
    tape.add(BranchStarted(text=str(edited)))
    assert shown(tape.view) == shown(Tape(tape.events[:edited]).view) == [second]
    tape.note("undo", str(edited))
    assert shown(tape.view) == [first, second], "an undo on this branch counts"


def test_a_log_with_many_undos_is_folded_twice() -> None:
    tape = Tape()
    messages = [tape.say(user_message(f"message {number}")) for number in range(20)]
    edited = [tape.edit((Drop((message,)),)) for message in messages]
    for seq in (*edited[5:], edited[9]):
        tape.note("undo", str(seq))
    tape.note("redo", str(edited[7]))
    reads = 0

    def read() -> Iterator[Event]:
        nonlocal reads
        reads += 1
        return tape.read()

    view = fold_log(read, meter)
    assert shown(view) == [*messages[5:7], *messages[8:]]
    assert snapshot(view) == snapshot(tape.view)
    assert reads <= 3, "once to the first undo, once for all of them, once without what they undo"
