"""What one sweep leaves: the user's words, the lines that edits quote, the way back to everything else."""

import json
import re

from tidegate import Session
from tidegate.core.events import ViewEdited
from tidegate.core.ledger.names import rank_names
from tidegate.core.ledger.writer import LEDGER
from tidegate.core.messages import Call, Message, Result, Text, calls_of, is_user_request, text_of, user_message
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.core.sweep.key_lines import find_key_lines
from tidegate.core.sweep.shortening import LineSlot, shorten_caller
from tidegate.session.recall import recall_text

GO = """package sync

import (
	"context"
	"github.com/example/sync/plumbing"
)

// Run pushes every planned reference to the target and reports what became of it.
func Run(ctx context.Context, plan Plan) error {
	for _, each := range plan.References {
		if err := each.Push(ctx, plan.Target); err != nil {
			return fmt.Errorf("push %s: %w", each.Name, err)
		}
	}
	return nil
}
"""


def test_what_begins_something_is_worth_more_than_what_goes_on() -> None:
    worth = {line.bare: line.worth for line in find_key_lines(GO, set())}
    starts = '"github.com/example/sync/plumbing"', "// Run pushes every planned reference to the target and reports"
    best = min(value for bare, value in worth.items() if bare.startswith(starts))
    assert best > 4 * worth['return fmt.Errorf("push %s: %w", each.Name, err)']
    assert "}" not in worth


def test_numbers_in_front_of_lines_change_nothing() -> None:
    numbered = "\n".join(f"{place:6}→{line}" for place, line in enumerate(GO.split("\n"), 1))
    assert [(k.bare, k.worth) for k in find_key_lines(numbered, set())] == [
        (k.bare, k.worth) for k in find_key_lines(GO, set())
    ]


def test_in_what_a_command_printed_the_failure_is_worth_most_and_in_source_text_it_is_not() -> None:
    told = "checked the first part of it and went on\nchecked the next part of it and went on\n"
    text = f"{told}E   AssertionError: 3 invoices were expected\nchecked the last part of it and went on"
    worth = {line.bare[:12]: line.worth for line in find_key_lines(text, set(), report=True)}
    assert max(worth, key=worth.__getitem__) == "E   Assertio"
    plain = {line.bare[:12]: line.worth for line in find_key_lines(text, set())}
    assert plain["E   Assertio"] == plain["checked the "] < worth["E   Assertio"]


def test_arguments_stay_valid_and_say_where_the_rest_is() -> None:
    call = Call("c1", "write", json.dumps({"path": "a.go", "content": GO * 8, "mode": 7}))
    lines = [line for line in find_key_lines(GO, set()) if line.bare.startswith("// Run")]
    parts = shorten_caller(Message("assistant", (call,), id="m4"), {LineSlot("m4", "c1", 0): lines})
    (lean,) = calls_of(Message("assistant", parts))
    done = json.loads(lean.arguments)
    assert done["path"] == "a.go"
    assert done["mode"] == 7
    assert "// Run pushes every planned reference" in done["content"]
    assert len(lean.arguments) < 400


def test_arguments_that_python_reads_and_json_does_not_are_mended() -> None:
    call = Call("c1", "write", '{"n": NaN, "text": "' + "x \\ud83d" * 200 + '"}')
    (lean,) = calls_of(Message("assistant", shorten_caller(Message("assistant", (call,), id="m4"), {})))
    assert json.loads(lean.arguments, parse_constant=lambda _: 1 / 0)["n"] == "NaN"
    assert lean.arguments.encode()


def test_names_of_the_agents_calls_come_before_what_tools_printed() -> None:
    call = Call("c", "read", '{"path": "src/billing/invoice.py"}')
    result = Message("tool", (Result("c", (Text("see docs/old/notes.md at line 12345"),)),), id="m3")
    names = rank_names([Message("assistant", (call,), id="m2"), result])
    assert [name.text for name in names[:2]] == ["src/billing/invoice.py", "docs/old/notes.md"]
    assert (names[0].what, names[0].ident) == ("read", "m2")


# --- in a session -----------------------------------------------------------------------------------------------------


def a_session(turns: int, window: int = 8_000) -> Session:
    """Reads a file a turn, changes every third, and is told something each time."""
    session = Session(policy="default", window=window, count="chars/4", clock=lambda: 0.0)
    for turn in range(turns):
        one_turn(session, turn)
    return session


def one_turn(session: Session, turn: int) -> None:
    read = Call(f"r{turn}", "read", json.dumps({"path": f"src/part_{turn}.go"}))
    code = GO.replace("Run", f"Run{turn}").replace("planned", f"planned_{turn}")
    session.add(user_message(f"Now part {turn}: keep the order of {turn * 7919} as it is."))
    session.prepare()
    session.add(Message("assistant", (Text("I look."), read)), Message("tool", (Result(read.id, (Text(code),)),)))
    session.prepare()
    edit = Call(f"e{turn}", "edit", json.dumps({"path": f"src/part_{turn}.go", "old": "package sync", "new": code}))
    session.add(Message("assistant", (edit,)), Message("tool", (Result(edit.id, (Text("done"),)),)))
    session.prepare()
    session.add(Message("assistant", (Text(f"Part {turn} is done."),)))


def seen(session: Session) -> str:
    items = session.view.items
    return "\n".join("\n".join([text_of(i.message), *(c.arguments for c in calls_of(i.message))]) for i in items)


def sweeps(session: Session) -> list[ViewEdited]:
    return [e.payload for e in session.log.read() if isinstance(e.payload, ViewEdited) and e.payload.stage == "sweep"]


def test_the_words_of_the_user_outlive_many_sweeps() -> None:
    session = a_session(60)
    assert len(sweeps(session)) >= 3
    text = seen(session)
    assert [t for t in range(60) if f"Now part {t}: keep the order of {t * 7919} as it is." not in text] == []


def test_lines_that_edits_quote_outlive_a_sweep() -> None:
    session = a_session(30)
    assert sweeps(session)
    text = seen(session)
    there = [t for t in range(30) if f"// Run{t} pushes every planned_{t} reference to the target" in text]
    assert len(there) > 15


def test_everything_that_left_is_recalled_by_what_the_view_prints() -> None:
    session = a_session(40)
    found = []
    for what in sorted(set(re.findall(r"\bm\d+\.\.m\d+\b|\bm\d+\b", seen(session)))):
        answer = recall_text(session.log, what)
        found.append(answer.text)
        while answer.next_query:
            answer = recall_text(session.log, answer.next_query, offset=answer.next_offset)
            found.append(answer.text)
    back = "\n".join([*found, seen(session)])
    assert [t for t in range(40) if f"// Run{t} pushes every planned_{t} reference to the target" not in back] == []


def test_sweeps_are_seldom_and_nothing_moves_between() -> None:
    session = a_session(60)
    calls = sum(
        1 for event in session.log.read() if getattr(getattr(event.payload, "message", None), "role", "") == "assistant"
    )
    assert len(sweeps(session)) * 12 < calls
    assert set(session.edit_counts) == {"sweep"}


def test_a_file_that_was_written_anew_leaves_no_old_lines() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Go."))
    for turn in range(24):
        code = GO.replace("planned", f"planned_{turn}")
        write = Call(f"w{turn}", "write", json.dumps({"path": "src/only.go", "content": code * 3}))
        session.prepare()
        session.add(Message("assistant", (write,)), Message("tool", (Result(write.id, (Text("done"),)),)))
    session.prepare()
    assert sweeps(session)
    first = next(turn for turn in range(24) if f"planned_{turn} " in seen(session))
    assert first >= 12


def test_a_patch_takes_nothing_from_what_was_read_before_but_the_lines_it_removed() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Go."))
    one_turn(session, 0)
    patch = "*** Begin Patch\n*** Update File: src/part_0.go\n@@\n-\tgone := 1\n+\tcame := 2\n*** End Patch"
    call = Call("p", "apply_patch", json.dumps({"input": patch}))
    session.add(Message("assistant", (call,)), Message("tool", (Result("p", (Text("done"),)),)))
    session.add(Message("assistant", (Text("word " * 6_000),)), user_message("On."))
    session.prepare()
    assert sweeps(session)
    assert "// Run0 pushes every planned_0 reference to the target" in seen(session)


def test_an_old_message_of_the_user_that_is_very_long_keeps_its_beginning() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    long = "Look at this: " + " ".join(f"word{n}" for n in range(1_000))
    (ident,) = session.add(user_message(long))
    for _ in range(24):
        session.prepare()
        session.add(Message("assistant", (Text("thinking about it " * 60),)), user_message("go on"))
    session.prepare()
    shown = next(text_of(i.message) for i in session.view.items if i.message.id == ident)
    assert shown.startswith(long[:480])
    assert f"recall {ident}" in shown
    assert sum(is_user_request(i.message) for i in session.view.items) == 25


def test_a_request_that_names_what_left_is_told_how_to_have_it_back() -> None:
    session = a_session(40)
    for name, told in (("src/part_2.go", True), ("src/part_39.go", False), ("src/other.go", False)):
        session.add(user_message(f"Look at {name} once more."))
        before = session.prepare().messages
        hints = [text_of(i.message) for i in session.view.items if text_of(i.message).startswith(HINT_PREFIX)]
        assert bool(hints) is told, name
        if told:
            ident = re.search(r"recall (m\d+)\]", hints[0])
            assert ident is not None
            assert "part_2.go" in recall_text(session.log, ident[1]).text
            session.history.undo()
        session.add(Message("assistant", (Text("Yes."),)))
        assert before


def heads(session: Session) -> str:
    return "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == LEDGER)


def test_between_sweeps_the_ledger_only_grows_at_its_end() -> None:
    """What stands at the head of the request is what the cache has: only a sweep, which moves all, writes it anew."""
    session = Session(policy="default", window=5_000, count="chars/4", clock=lambda: 0.0)
    stayed = rewritten = 0
    for turn in range(50):
        before, made = heads(session), len(sweeps(session))
        one_turn(session, turn)
        session.add(user_message(f"And src/part_{turn // 2}.go?"))
        session.prepare()
        session.add(Message("assistant", (Text("Yes."),)))
        after = heads(session)
        if len(sweeps(session)) == made:
            assert after.startswith(before)
            stayed += before != ""
        else:
            rewritten += not after.startswith(before)
    assert stayed > 20
    assert rewritten
    assert session.edit_counts["hint"] > 5, "there were other edits between"


def test_a_log_that_did_not_change_is_swept_and_compacted_once() -> None:
    """No drift: whatever is asked again about the same log, nothing changes, and no request differs by a byte."""
    session = a_session(40)
    swept = [event.seq for event in session.log.read() if isinstance(event.payload, ViewEdited)]
    first = session.prepare().to_bytes()
    for _ in range(3):
        assert session.prepare().to_bytes() == first
    assert [event.seq for event in session.log.read() if isinstance(event.payload, ViewEdited)] == swept
    session.compact()
    once, head = session.prepare().to_bytes(), session.log.head
    for _ in range(3):
        session.compact()
        assert session.prepare().to_bytes() == once
    assert not any(isinstance(event.payload, ViewEdited) for event in session.log.read(head + 1))
