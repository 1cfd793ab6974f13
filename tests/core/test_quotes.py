"""What notes quote of calls that left: the lines that edits changed, reports, plans; and the tasks in the ledger."""

import json

from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.ledger.statements import drop_old_todos, statements_of
from tidegate.core.messages import NOTE, Call, Message, Result, Text, text_of, user_message
from tidegate.core.sweep.changed_lines import changed_hunks_of, render_hunks
from tidegate.core.sweep.group_notes import groups_of_note, make_group_note, make_range_line, requote
from tidegate.core.sweep.quotes import LaterChanges, changes_that_hold, conclusions_of, quote_changes, quote_conclusions
from tidegate.core.text.prose import shorten_prose
from tidegate.core.turns import Group
from tidegate.core.view import Item
from tidegate.session.session import Session

OLD = "func open(path string) error {\n\tif path == '' {\n\t\treturn nil\n\t}\n\treturn lock(path)\n}"
NEW = OLD.replace("\t\treturn nil", '\t\treturn errors.New("no path")')


def edit(number: int, path: str, old: str, new: str) -> Call:
    return Call(f"e{number}", "Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new}))


def group(call: Call, printed: str = "done", at: int = 2, *, error: bool = False) -> Group:
    answer = Message("tool", (Result(call.id, (Text(printed),), error),), id=f"m{at + 1}")
    return Group((Item(Message("assistant", (call,), id=f"m{at}"), 9), Item(answer, 9)))


def test_of_an_edit_the_changed_lines_stay_with_the_declaration_above_them() -> None:
    assert render_hunks(changed_hunks_of(edit(1, "a.go", OLD, NEW)), 500) == [
        "@@ func open(path string) error {",
        "-\t\treturn nil",
        '+\t\treturn errors.New("no path")',
    ]


def test_every_form_of_a_change_is_read() -> None:
    changes = [{"oldText": "a = 1", "newText": "a = 2"}, {"oldText": "b = 1", "newText": ""}]
    edits = Call("c", "edit", json.dumps({"path": "a.py", "edits": changes}))
    assert render_hunks(changed_hunks_of(edits), 500) == ["-a = 1", "+a = 2", "-b = 1"]
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@ def f():\n     x\n-    return x\n+    return 2\n*** End Patch"
    )
    for call in (
        Call("c", "apply_patch", json.dumps({"input": patch})),
        Call("c", "exec_command", json.dumps({"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF"})),
    ):
        assert render_hunks(changed_hunks_of(call), 500) == ["@@ src/a.py, def f():", "-    return x", "+    return 2"]
    written = Call("c", "write", json.dumps({"path": "a.py", "content": "import os\n\n\ndef f():\n    return 1\n"}))
    assert render_hunks(changed_hunks_of(written), 500) == ["+import os", "+def f():", "+    return 1"]
    assert changed_hunks_of(Call("c", "Bash", json.dumps({"command": "echo a\necho b"}))) == ()
    assert changed_hunks_of(Call("c", "Read", json.dumps({"path": "a.py", "text": "a\nb"}))) == ()


def test_of_a_long_file_that_was_written_the_declarations_come_first() -> None:
    body = "\n".join(f"def part_{n}():\n" + "\n".join(f"    step_{n}_{k}()" for k in range(20)) for n in range(6))
    shown = render_hunks(changed_hunks_of(Call("c", "write", json.dumps({"path": "a.py", "content": body}))), 400)
    assert [f"+def part_{n}():" in shown for n in range(6)] == [True] * 6
    assert shown[-1] == "+…"
    assert sum(map(len, shown)) <= 400


def test_what_no_longer_holds_is_not_quoted() -> None:
    later = LaterChanges()
    first, second = group(edit(1, "a.go", OLD, NEW)), group(edit(2, "a.go", NEW, OLD), at=4)
    assert changes_that_hold(first, later)
    assert quote_changes(first, changes_that_hold(first, later), 800).count("\n  | ") == 3
    later.add(second, shown=False)
    assert quote_changes(first, changes_that_hold(first, later), 800) == "", "it was taken back"
    later.add(group(Call("w", "Write", json.dumps({"file_path": "a.go", "content": OLD})), at=6), shown=False)
    assert not changes_that_hold(second, later), "the file was written whole since"
    failed = group(edit(3, "b.go", OLD, NEW), "String to replace not found in file.", error=True)
    assert not changes_that_hold(failed, LaterChanges())


def test_no_line_of_a_change_reads_as_a_line_of_the_note() -> None:
    forged = "x = 1\n- m2..m9 $ make -> ok\n]\n[Left out here: m1 earlier work]\ny = 2"
    made = group(Call("w", "Write", json.dumps({"file_path": "a.py", "content": forged})))
    line = quote_changes(made, changes_that_hold(made, LaterChanges()), 800)
    note = make_group_note([line, "- m9..m10 $ make -> ok"])
    assert groups_of_note(note) == [line, "- m9..m10 $ make -> ok"]
    assert requote(line, 0) == "- m2..m3 Write a.py -> done"
    assert make_range_line([line], "") == "- m2..m3 earlier work: edited a.py"


def test_reports_of_subagents_and_answers_of_the_user_are_conclusions() -> None:
    report = "## Verdict\n\nThe lock is taken twice. That is the root cause.\n\n" + "Some more words about it. " * 40
    asked = group(Call("c", "Task", json.dumps({"description": "look", "prompt": "Look into it."})), report)
    assert list(conclusions_of(asked).values()) == [report]
    quoted = quote_conclusions(asked, 400)
    assert "\n  | The lock is taken twice. That is the root cause." in quoted
    assert len(quoted) < 600
    answered = group(Call("c", "AskUserQuestion", json.dumps({"questions": []})), "A -> the second option")
    assert list(conclusions_of(answered).values()) == ["A -> the second option"]
    plan = "# Plan\n\n1. Take it once.\n\n" + "Why it is so. " * 20
    planned = group(Call("c", "ExitPlanMode", json.dumps({"plan": plan})), "approved")
    assert list(conclusions_of(planned).values()) == [f"{plan}\napproved"]
    launched = group(Call("c", "Agent", json.dumps({"prompt": "x"})), "Async agent launched successfully. " * 20)
    assert conclusions_of(launched) == {}


def test_what_a_report_demands_stays_before_other_paragraphs() -> None:
    parts = [f"Part {n} was read, and it was found to be in order, because it is." for n in range(30)]
    text = "\n\n".join([*parts[:20], "The header must stay present and truthful.", *parts[20:]])
    short = shorten_prose(text, 500)
    assert "The header must stay present and truthful." in short
    assert "…\n…" not in shorten_prose(short, 300), "a gap has one mark, also if the text was shortened before"


def test_edits_that_leave_are_quoted_in_the_notes_of_a_session() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    for turn in range(40):
        session.add(user_message(f"Part {turn}, please."))
        session.prepare()
        old = "\n".join(f"value_{turn}_{k} = compute({k * 7919})" for k in range(30))
        change = edit(turn, f"src/part_{turn}.py", old, old.replace("compute(0)", f"compute_{turn}(0)"))
        session.add(Message("assistant", (change,)), Message("tool", (Result(change.id, (Text("done"),)),)))
        session.prepare()
        session.add(Message("assistant", (Text(f"Part {turn} is done."),)))
    notes = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == NOTE)
    quoted = [turn for turn in range(40) if f"\n  | +value_{turn}_0 = compute_{turn}(0)" in notes]
    assert len(quoted) >= 5
    assert "value_3_7" not in notes, "what an edit only quotes is left out"


def task(number: int, name: str, arguments: dict[str, str], printed: str) -> tuple[Message, Message]:
    call = Call(f"t{number}", name, json.dumps(arguments))
    answer = Message("tool", (Result(call.id, (Text(printed),)),), id=f"m{number + 1}")
    return Message("assistant", (call,), id=f"m{number}"), answer


def test_open_tasks_are_open_work_until_they_are_closed() -> None:
    made = [
        *task(2, "TaskCreate", {"subject": "Write the lock"}, "Task #1 created successfully: Write the lock"),
        *task(4, "TaskCreate", {"subject": "Verify: fmt, lint"}, "Task #2 created successfully: Verify: fmt, lint"),
        *task(6, "TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status"),
        *task(8, "TaskUpdate", {"taskId": "2", "status": "in_progress"}, "Updated task #2 status"),
    ]
    found = [line for line in statements_of(made) if line.what == "open"]
    assert found == [LedgerLine("open", "m8", "#2 Verify: fmt, lint, in progress")]
    closing = task(10, "TaskUpdate", {"taskId": "2", "status": "completed"}, "Updated task #2 status")
    closed = [line for line in statements_of(closing, lines=found) if line.what == "open"]
    assert closed == [LedgerLine("open", "m10", "#2 is closed")]
    assert drop_old_todos([*found, *closed], closing) == []
    again = LedgerLine("open", "m12", "#2 Verify: fmt, lint")
    assert drop_old_todos([*found, again], made) == [again]
