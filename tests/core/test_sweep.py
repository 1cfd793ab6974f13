"""What one sweep leaves: the user's words, the lines that edits quote, the way back to everything else."""

import json
import re
from itertools import pairwise

import pytest

from tidegate import Session, presets
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.ledger.lines import LEDGER_END
from tidegate.core.ledger.statements import statements_of
from tidegate.core.ledger.writer import LEDGER
from tidegate.core.messages import NOTE, Call, Message, Result, Text, calls_of, is_user_request, text_of, user_message
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.core.sweep.choice import split_regions
from tidegate.core.sweep.cost_model import CachePrices, SweepCost
from tidegate.core.sweep.gap_notes import Gap, make_gap_notes
from tidegate.core.sweep.group_notes import (
    describe_group,
    describe_outcome,
    describe_remarks,
    groups_of_note,
    is_group_note,
    make_group_note,
    make_range_line,
    quote_answer,
    requote,
    statements_of_note,
)
from tidegate.core.sweep.key_lines import GAP_MARK, find_diff_lines, find_key_lines, find_outcome_lines, is_marker
from tidegate.core.sweep.shortening import clip_message, shorten_result, stays_whole
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.facts import is_refusal
from tidegate.core.text.tool_calls import find_command
from tidegate.core.turns import Group
from tidegate.core.view import Item
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


def test_comments_are_worth_less_than_code_and_closing_brackets_nothing() -> None:
    worth = {line.bare: line.worth / len(line.bare) for line in find_key_lines(GO, set())}
    comment = next(value for bare, value in worth.items() if bare.startswith("// Run pushes"))
    assert worth['"github.com/example/sync/plumbing"'] > 3 * comment
    assert worth['return fmt.Errorf("push %s: %w", each.Name, err)'] > comment
    assert "}" not in worth


def test_numbers_in_front_of_lines_change_nothing() -> None:
    numbered = "\n".join(f"{place:6}→{line}" for place, line in enumerate(GO.split("\n"), 1))
    assert [(k.bare, k.worth) for k in find_key_lines(numbered, set())] == [
        (k.bare, k.worth) for k in find_key_lines(GO, set())
    ]


def test_in_what_a_command_printed_the_failure_is_worth_most_and_in_source_text_it_is_not() -> None:
    told = "checked the first part of it and went on as before\nchecked the next part of it and went on as before\n"
    text = f"{told}E   AssertionError: three invoices were expected\nchecked the last part of it and went on as before"
    worth = {line.bare[:12]: line.worth for line in find_key_lines(text, set(), report=True)}
    assert max(worth, key=worth.__getitem__) == "E   Assertio"
    plain = {line.bare[:12]: line.worth for line in find_key_lines(text, set())}
    assert plain["E   Assertio"] < 1.3 * plain["checked the "] < worth["E   Assertio"]


def test_a_region_goes_from_one_declaration_to_the_next() -> None:
    text = "\n\n".join(f"func part{n}() {{\n" + "\tstep()\n" * 9 + "}" for n in range(3)).split("\n")
    assert [text[begin] for begin, _ in split_regions(text)] == [f"func part{n}() {{" for n in range(3)]
    assert [end for _, end in split_regions(["\tx"] * 130)] == [60, 120, 130]


def test_a_shortened_result_has_one_marker_however_often_it_is_shortened() -> None:
    result = Message("tool", (Result("c", (Text(GO),)),), id="m4")
    once = Message("tool", shorten_result(result, {0, 4, 8}), id="m4")
    assert text_of(once).startswith("[3 of 17 lines; recall m4 has all of it]\npackage sync\n…\n")
    twice = text_of(Message("tool", shorten_result(once, {0, 1, 3}), id="m4"))
    assert twice.count("recall m4") == 1
    assert twice.startswith("[2 of 17 lines; recall m4 has all of it]\npackage sync\n")


def test_a_closing_bracket_between_kept_lines_stays_instead_of_a_mark() -> None:
    text = "if a {\n\tstop()\n}\n\nif b {\n\tlong_call(" + "of, many, " * 20 + ")\n\tgo()"
    result = Message("tool", (Result("c", (Text(text),)),), id="m4")
    shown = text_of(Message("tool", shorten_result(result, {1, 4, 6}), id="m4"))
    assert shown == "[5 of 7 lines; recall m4 has all of it]\n…\n\tstop()\n}\n\nif b {\n…\n\tgo()"


def test_a_mark_stands_where_the_beginning_or_the_end_is_missing_however_often_it_is_shortened() -> None:
    text = "\n".join(f"line {number} of the file that was read" for number in range(60))
    shown = text_of(Message("tool", shorten_result(result_with(text), {20, 21, 22, 30}), id="m4")).split("\n")
    assert (shown[1], shown[-1]) == ("…", "…")
    again = text_of(Message("tool", shorten_result(result_with("\n".join(shown)), {2, 3}), id="m4")).split("\n")
    assert again[1:] == ["…", "line 20 of the file that was read", "line 21 of the file that was read", "…"]
    assert text_of(Message("tool", shorten_result(result_with(text), set()), id="m4")).startswith("[60 lines; recall")


def result_with(text: str) -> Message:
    return Message("tool", (Result("c", (Text(text),)),), id="m4")


@pytest.mark.parametrize("tool", ["Read", "Bash"])
def test_of_a_file_that_was_read_either_a_region_stays_or_nothing(tool: str) -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Find out how the jobs are made."))
    for step in range(40):
        lines = [f"job_{step}_{number} = make_job({number * 7919}, '{number}')" for number in range(120)]
        path = f"src/jobs/job_{step}.py"
        read = {"file_path": path} if tool == "Read" else {"command": f"cat {path}"}
        call = Call(f"c{step}", tool, json.dumps(read))
        session.add(Message("assistant", (call,)), Message("tool", (Result(call.id, (Text("\n".join(lines)),)),)))
        session.prepare()
    assert sweeps(session)
    short = [text_of(item.message) for item in session.view.items if "lines; recall" in text_of(item.message)[:40]]
    for text in short:
        kept = [line for line in text.split("\n")[1:] if line != "…"]
        runs = re.findall(r"(?:^job_.*\n?){3,}", text, re.M)
        assert not kept or runs or len(kept) >= 12, text


def test_a_result_of_which_nearly_all_would_be_shown_stays_whole() -> None:
    result = Message("tool", (Result("c", (Text("\n".join(f"line {n} of the file" for n in range(286))),)),), id="m4")
    assert shorten_result(result, set(range(260))) == result.parts
    assert text_of(Message("tool", shorten_result(result, set(range(250))))).startswith("[250 of 286 lines")


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_beginning_of_a_single_long_line_is_counted_in_characters(end: str) -> None:
    result = Message("tool", (Result("c", (Text("word " * 1_000 + end),)),), id="m4")
    once = Message("tool", shorten_result(result, {0}), id="m4")
    assert text_of(once).startswith("[first 400 of 5,000 characters; recall m4 has all of it]\nword word ")
    assert shorten_result(once, {1}) == once.parts
    assert text_of(Message("tool", shorten_result(once, set()), id="m4")) == "[1 lines; recall m4 has all of it]"


def test_blank_lines_around_a_short_line_are_counted_in_lines() -> None:
    result = Message("tool", (Result("c", (Text("done" + "\n" * 200),)),), id="m4")
    assert text_of(Message("tool", shorten_result(result, {0}))).startswith("[1 of 201 lines; recall m4")


def test_lines_that_an_earlier_stage_cut_are_counted() -> None:
    text = "\n".join(f"line {n} of the file" for n in range(1_000))
    cut = clip_chars(text, 4_000).text + "\nRESULT TRUNCATED: showing 3950 of 18889 characters from read. Recall it."
    result = Message("tool", (Result("c", (Text(cut),)),), id="m4")
    assert text_of(Message("tool", shorten_result(result, {0, 1, 2}), id="m4")).startswith("[3 of 1,000 lines;")


def test_a_long_message_is_cut_at_the_end_of_a_line_and_only_if_much_is_saved() -> None:
    text = "\n".join(f"{n}. the name of part {n} says too little" for n in range(200))
    message = user_message(text)
    assert text_of(Message("user", clip_message(message, len(text) * 17 // 20))) == text
    *head, notice = text_of(Message("user", clip_message(message, len(text) // 2))).split("\n")
    assert head == text.split("\n")[: len(head)]
    assert len("\n".join(head)) > len(text) // 2 - 50
    assert (
        notice == f"[first {len(chr(10).join(head)):,} of {len(text):,} characters; recall {message.id} has all of it]"
    )
    words = user_message(" ".join(f"word{n}" for n in range(1_000)))
    assert text_of(Message("user", clip_message(words, 1_003))).split("\n")[0].split()[-1] in text_of(words).split()
    assert is_marker(notice)
    assert is_marker("[8,125 characters; recall m14 has all of it]"), "the form in views of older versions"


def test_tags_that_are_open_where_a_message_is_cut_are_closed() -> None:
    report = "\n".join(f"- part {n} <b>was</b> checked, see List<Part>" for n in range(400))
    text = f"<note>\n<result>\n{report}\n</result>\n<usage>7</usage>\n</note>"
    clipped = text_of(Message("user", clip_message(user_message(text), 1_000))).split("\n")
    assert clipped[-3:-1] == ["</result>", "</note>"]
    assert is_marker(clipped[-1])
    more = f"{text}\nFull transcript: /tmp/a7.output"
    assert text_of(Message("user", clip_message(user_message(more), 1_000))).split("\n")[-3:-1] == clipped[-3:-1]
    deep = user_message("<a>" * 5_000 + "x" * 9_000 + "</a>" * 5_000)
    assert len(text_of(Message("user", clip_message(deep, 20_000)))) < 20_300


def test_words_of_the_user_and_the_pointer_are_outside_of_the_tags_of_a_client() -> None:
    reminder = "<system-reminder>\n" + "Consider the list of tasks. " * 40 + "Never skip a task.\n</system-reminder>"
    text = f"{reminder}\n{'Now go on with the build. ' * 40}\nNever touch main."
    clipped = text_of(Message("user", clip_message(user_message(text), 600))).split("\n")
    place = clipped.index("</system-reminder>")
    assert clipped[place - 1] == "Never skip a task."
    assert clipped[place + 1 : -1] == [GAP_MARK, "Never touch main."]
    assert is_marker(clipped[-1])


def test_a_result_stays_whole_if_a_mark_would_cost_as_much_as_what_is_left_out() -> None:
    result = Message("tool", (Result("c", (Text("\n".join(f"line {n} of the file" for n in range(40))),)),), id="m4")
    assert shorten_result(result, set(range(39))) == result.parts
    assert shorten_result(result, set(range(40))) == result.parts
    assert text_of(Message("tool", shorten_result(result, set(range(20))))).startswith("[20 of 40 lines")


REFUSED_EDIT = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the"
    " new_string was NOT written to the file). To tell you how to proceed, the user said:\nnot in this branch"
)


def test_a_short_list_stays_whole() -> None:
    listed = "\n".join(["Chunk ID: 15b3ce", "Output:", *(f" M internal/gitproto/part_{n}.go" for n in range(20))])
    assert stays_whole(Message("tool", (Result("c", (Text(listed),)),), id="m3"))
    assert not stays_whole(Message("tool", (Result("c", (Text(listed * 2),)),), id="m3"))


def test_a_call_that_the_user_refused_is_never_shown_as_one_that_was_made() -> None:
    refused = Message("tool", (Result("c", (Text(REFUSED_EDIT),)),), id="m3")
    assert stays_whole(refused)
    call = Call("c", "Bash", json.dumps({"command": "chmod -x hook && echo disabled"}))
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(refused, 9)))
    assert describe_group(group) == (
        "- m2..m3 $ chmod -x hook && echo disabled -> refused by the user, not in this branch"
    )
    edit = Call("e", "Edit", json.dumps({"file_path": "src/hook.py", "old_string": "a", "new_string": "b"}))
    missing = Message("tool", (Result("e", (Text("File does not exist."),)),), id="m5")
    gone = [group.items[0].message, refused, Message("assistant", (edit,), id="m4"), missing]
    assert statements_of(gone, frozenset()) == []
    note = make_group_note([describe_group(group)])
    assert list(statements_of_note(note)) == []


@pytest.mark.parametrize(
    "text",
    [
        "The user rejected permission to use this specific tool call.",
        "Permission to use Bash with command rm has been denied.",
        "exec command rejected by user",
        "User declined to run it.",
    ],
)
def test_what_clients_write_when_a_person_says_no_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "The test rejected the empty name.",
        "ok: the user table has 3 rows",
        "denied = 0",
        "curl: the request was refused",
        "sshd: login of user denied, the command was rejected",
        "Permission denied (publickey).",
    ],
)
def test_an_ordinary_result_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


CONFLICT = "package a\n\n<<<<<<< HEAD\nold := 1\n}\n=======\nnew := 2\n}\n>>>>>>> main\n\nfunc rest() {\n}"


def test_all_lines_of_a_merge_conflict_are_worth_more_than_others_until_it_is_resolved() -> None:
    lines = CONFLICT.split("\n")
    inside = {line.place for line in find_key_lines(CONFLICT, set()) if line.worth > 3}
    assert inside == set(range(lines.index("<<<<<<< HEAD"), lines.index(">>>>>>> main") + 1))
    resolved = find_key_lines(CONFLICT, set(), {line.strip() for line in lines})
    assert all(line.worth < 3 for line in resolved)
    seen_later = {line.bare for line in find_key_lines(CONFLICT, set())}
    assert all(line.worth < 3 for line in find_key_lines(CONFLICT, seen_later))


def test_a_note_has_all_words_of_a_user_who_refused_a_call() -> None:
    words = "First check how the other commands do it.\nThen show a hint, but only if it is installed." * 6
    refused = Message("tool", (Result("c", (Text(REFUSED_EDIT.replace("not in this branch", words)),)),), id="m3")
    call = Call("c", "ExitPlanMode", json.dumps({"plan": "1. Do it.\n" * 400}))
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(refused, 9)))
    assert describe_group(group).endswith(f"refused by the user, {' '.join(words.split())}")


def test_a_note_has_a_line_for_each_call_and_says_which_edit_failed() -> None:
    calls = [
        Call("a", "Edit", json.dumps({"file_path": "src/a.py", "old_string": "x", "new_string": "y"})),
        Call("b", "Bash", json.dumps({"command": "git push"})),
    ]
    failed = "<tool_use_error>String to replace not found in file.\nString: x\n</tool_use_error>"
    pushed = "To example.org:a.git\n   1..2  main -> main\nShell cwd was reset to /src"
    results = [
        Message("tool", (Result(i, (Text(t),)),), id=f"m{n}") for i, t, n in (("a", failed, 3), ("b", pushed, 4))
    ]
    group = Group((Item(Message("assistant", tuple(calls), id="m2"), 9), *(Item(result, 9) for result in results)))
    assert describe_group(group).split("\n") == [
        "- m2..m4 Edit src/a.py -> 2 lines, String to replace not found in file.",
        "- m2..m4 $ git push -> 2 lines, 1..2 main → main",
    ]


def test_a_note_has_the_lines_around_the_failure_of_a_command_and_leaves_the_folder_out() -> None:
    command = "cd /home/ada/work/a-folder-with-a-long-name && mise run lint:gofmt && mise run lint:gomod " + "x" * 60
    printed = "[lint] $ x\nmodule files modified, commit them!\n M go.mod\n[lint:gomod] ERROR task failed\nexit code: 1"
    call = Call("c", "bash", json.dumps({"command": command}))
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(a_result("c", printed, "m3"), 9)))
    line = describe_group(group)
    assert line.startswith("- m2..m3 $ mise run lint:gofmt && mise run lint:gomod xx")
    assert line.endswith("module files modified, commit them! / M go.mod / [lint:gomod] ERROR task failed")


def a_result(call: str, text: str, ident: str) -> Message:
    return Message("tool", (Result(call, (Text(text),)),), id=ident)


def test_what_the_agent_said_beside_calls_stays_when_their_lines_are_joined() -> None:
    call = Call("c", "Edit", json.dumps({"file_path": "src/a.py", "old_string": "x", "new_string": ""}))
    said = Message("assistant", (Text("The old text\nhas changed -> once more, so read it."), call), id="m8")
    (remark,) = describe_remarks(Group((Item(said, 9), Item(a_result("c", "done", "m9"), 9))))
    assert remark == "- m8 said: The old text has changed -> once more, so read it."
    assert describe_remarks(Group((Item(Message("assistant", (Text("It is done. " * 9),), id="m8"), 9),))) == []
    ticket = Call("t", "bash", json.dumps({"command": 'bd create "lock: take it once" -d "Take it in open only."'}))
    wrote = describe_remarks(Group((Item(Message("assistant", (Text("Now."), ticket), id="m8"), 9),)))
    assert wrote == ["- m8 wrote: lock: take it once / Take it in open only."]
    note = make_group_note(["- m6..m7 $ make -> ok", remark, "- m8..m9 Edit src/a.py -> done"])
    assert groups_of_note(note)[1] == remark
    assert [ident for _, ident, _ in statements_of_note(note)] == ["m6", "m8"]
    gap = Gap("m5", "m9", groups_of_note(note))
    budget = Session(policy="default", window=16_000, count="chars/4").budget
    (joined,) = make_gap_notes([gap], 0, budget, ranges=200, quotes=True)
    assert groups_of_note(joined.message) == ["- m6..m9 earlier work: edited a.py; ran make (ok)", remark]
    (brief,) = make_gap_notes([gap], 400, budget)
    assert "said:" not in text_of(brief.message)


def test_a_note_has_the_new_lines_of_an_edit_unless_it_failed_or_wrote_a_whole_file() -> None:
    old, new = "def run():\n    lock()\n    work()\n", "def run():\n    with lock():\n        work()\n        log()\n"

    def remarks_of(tool: str, arguments: dict[str, object], result: str) -> list[str]:
        caller = Message("assistant", (Call("c", tool, json.dumps(arguments)),), id="m8")
        return describe_remarks(Group((Item(caller, 9), Item(a_result("c", result, "m9"), 9))))

    edit: dict[str, object] = {"file_path": "src/job.py", "old_string": old, "new_string": new}
    assert remarks_of("Edit", edit, "done") == ["- m8 wrote: in job.py: with lock(): / log()"]
    assert remarks_of("Edit", edit, "Error: old_string not found in file") == []
    several: dict[str, object] = {
        "path": "a.py",
        "edits": [{"oldText": "x = 1", "newText": "x = 2"}, {"newText": "y = 3"}],
    }
    assert remarks_of("edit", several, "ok") == ["- m8 wrote: in a.py: x = 2 / y = 3"]
    assert remarks_of("Write", {"file_path": "a.py", "content": "x = 1\ny = 2\n"}, "done") == []


def test_what_the_agent_said_beside_calls_that_left_stays_the_newest_first() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Build everything."))
    for step in range(160):
        session.prepare()
        build = Call(f"b{step}", "bash", json.dumps({"command": f"make part-{step}"}))
        said = Text(f"Part {step} needs the result of the part before, " + "so I build it now. " * 6)
        printed = "\n".join(f"part {step}: line {number * 7919} of the build" for number in range(40))
        session.add(Message("assistant", (said, build)), a_result(build.id, printed, ""))
    session.prepare()
    notes = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == NOTE)
    numbers = [int(number) for number in re.findall(r"said: Part (\d+) needs", notes)]
    assert len(numbers) > 5
    assert numbers == sorted(numbers)
    assert numbers[0] > 20
    assert len(re.findall(r"said: .*", notes)) * 45 < 16_000 * 0.2


def test_equal_calls_of_a_group_are_one_line_of_a_note() -> None:
    edit = {"file_path": "src/a.py", "old_string": "x", "new_string": "y"}
    calls = [Call(f"c{n}", "Edit", json.dumps({**edit, "old_string": str(n)})) for n in range(4)]
    done = "The file src/a.py has been updated successfully."
    results = [Message("tool", (Result(call.id, (Text(done),)),), id=f"m{n + 3}") for n, call in enumerate(calls)]
    group = Group((Item(Message("assistant", tuple(calls), id="m2"), 9), *(Item(result, 9) for result in results)))
    line = "- m2..m6 Edit src/a.py -> done (4 times)"
    assert describe_group(group) == line
    assert (
        make_range_line([line, "- m7..m8 Edit src/b.py -> done"], "") == "- m2..m8 earlier work: edited a.py ×4, b.py"
    )


@pytest.mark.parametrize("count", [1, 12])
def test_every_gap_has_a_note(count: int) -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Build everything."))
    step = 0
    while session.edit_counts["sweep"] < count:
        step += 1
        is_short = step % 7 in (0, 3)
        command = f"make part-{step} " + "x" * (20 if is_short else 900)
        printed = f"part-{step * 7919} is on port {step * 31}\n" * 3 if is_short else "built\n" * 60
        build = Call(f"b{step}", "bash", json.dumps({"command": command}))
        session.add(Message("assistant", (build,)), Message("tool", (Result(build.id, (Text(printed),)),)))
        session.prepare()
    assert any("sweep of everything old" in swept.why for swept in sweeps(session)[1:]) is (count == 12)
    shown = [item.message for item in session.view.items]
    gaps = [
        (int(after.id[1:]) - int(before.id[1:]), before)
        for before, after in pairwise(m for m in shown if m.id[:1] == "m" and m.kind not in (NOTE, LEDGER))
    ]
    noted = "\n".join(text_of(message) for message in shown if message.kind == NOTE)
    left = [f"m{int(before.id[1:]) + 1}" for size, before in gaps if size > 2]  # a call and its result left
    assert left
    assert all(f"{ident}.." in noted for ident in left)


def test_a_conflict_stays_if_another_with_the_same_marks_was_resolved_or_is_shown_later() -> None:
    first = "<<<<<<< HEAD\nsteps: 3,\n=======\ncount: 3,\n>>>>>>> main"
    second = first.replace("3", "1")
    numbered = "\n".join(
        f"{n:6}→{line}" for n, line in enumerate(f"{first}\nfunc rest() {{\n{second}".split("\n"), 185)
    )
    removed = {line.strip() for line in first.split("\n")}
    later = {line.bare for line in find_key_lines(first, set())}
    for lines in (find_key_lines(numbered, set(), removed), find_key_lines(numbered, later)):
        assert [line.place for line in lines if line.worth > 3] == [6, 7, 8, 9, 10]


def test_the_marks_of_a_conflict_are_worth_most_where_it_is_long_or_was_read_in_part() -> None:
    half = [f"value_{n} = compute({n})" for n in range(80)]
    long = ["<<<<<<< HEAD", *half, "=======", *half[:3], ">>>>>>> main"]
    assert [line.place for line in find_key_lines("\n".join(long), set()) if line.worth > 3] == [0, 81, 85]
    for part in (long[:82], long[81:]):
        marks = {line.bare[:7] for line in find_key_lines("\n".join(part), set()) if line.worth > 3}
        assert marks
        assert marks <= {"<<<<<<<", "=======", ">>>>>>>"}
    title = "Sync\n=======\nPushes every reference to the target."
    assert all(line.worth < 3 for line in find_key_lines(title, set())), "the underline of a heading"


DIFF = """diff --git a/src/sync.go b/src/sync.go
index eaa7709..d9209f2 100644
--- a/src/sync.go
+++ b/src/sync.go
@@ -1,3 +1,4 @@
 package sync
+// Package sync pushes references and reports on each of them.
@@ -103,8 +103,9 @@ func Run(ctx context.Context, plan Plan) error {
     for _, each := range plan.References {
-        return fmt.Errorf("push %s failed: %w", each.Name, err)
+        return fmt.Errorf("failed to push %s: %w", each.Name, err)
diff --git a/src/plan.go b/src/plan.go
index 12c0fdd..2fb93ff 100644
--- a/src/plan.go
+++ b/src/plan.go
@@ -10,2 +10,3 @@ type Plan struct {
     Target string
+    Origin string // the repository that references come from
"""


def test_in_a_diff_the_changed_lines_have_the_worth_of_code_and_what_only_git_needs_has_none() -> None:
    lines = {line.text: line for line in find_key_lines(DIFF, set(), report=True)}
    assert not [text for text in lines if text.startswith(("index ", "--- ", "+++ ", "@@ -1,3"))]
    worth = {text: line.worth / min(len(line.bare), 160) for text, line in lines.items()}
    code = worth["     for _, each := range plan.References {"]
    changed = [text for text in worth if text[0] in "+-"]
    assert len(changed) == 4
    assert all(code * 0.9 < worth[text] < code * 1.2 for text in changed), "also comments; no report of a failure"
    assert worth["@@ -10,2 +10,3 @@ type Plan struct {"] < code
    assert lines["@@ -10,2 +10,3 @@ type Plan struct {"].bare == "type Plan struct {"


def test_a_changed_line_of_a_diff_stays_with_the_name_of_its_file() -> None:
    lines = DIFF.split("\n")
    result = Message("tool", (Result("c", (Text(DIFF),)),), id="m4")
    (place,) = (place for place, line in enumerate(lines) if line.startswith("+    Origin"))
    shown = text_of(Message("tool", shorten_result(result, {place})))
    assert shown.split("\n")[1:] == ["…", "diff --git a/src/plan.go b/src/plan.go", "…", lines[place]]
    again = text_of(Message("tool", shorten_result(Message("tool", shorten_result(result, {5, 9, place})), {9})))
    assert again.split("\n")[1:] == ["…", "diff --git a/src/plan.go b/src/plan.go", "…", lines[place]]
    plain = "\n".join(line for line in lines if not line.startswith(("diff ", "index ")))
    assert [plain.split("\n")[at] for at in find_diff_lines(plain.split("\n")).files] == [
        "+++ b/src/sync.go",
        "+++ b/src/plan.go",
    ]


STEPS = [f"step {n} of the build took {n * 37} ms" for n in range(40)]


@pytest.mark.parametrize(
    ("printed", "ended"),
    [
        (["Chunk ID: 8118ac", "Process exited with code 1", *STEPS], ["Process exited with code 1", STEPS[-1]]),
        (["Process running with session ID 77", *STEPS[:9]], ["Process running with session ID 77", STEPS[8]]),
        ([*STEPS, "[exit code 2]"], [STEPS[-1], "[exit code 2]"]),
        ([*STEPS, "--- FAIL: TestPush (0.1s)", "FAIL", "--- PASS: TestPush (0.1s)", "PASS"],
         [*STEPS[-2:], "--- FAIL: TestPush (0.1s)", "FAIL", "PASS"]),
        ([*STEPS, "=== 3 failed, 40 passed in 2.1s ===", "", "  "],
         [*STEPS[-2:], "=== 3 failed, 40 passed in 2.1s ==="]),
        (["ok  \texample.org/a\t0.2s", "FAIL\texample.org/b\t0.3s", "ok  \texample.org/c\t(cached)", *STEPS],
         ["ok  \texample.org/a\t0.2s", "FAIL\texample.org/b\t0.3s", "ok  \texample.org/c\t(cached)"]),
        ([*STEPS, "12 passed, 0 failed", "Shell cwd was reset to /src"], ["12 passed, 0 failed"]),
        ([*STEPS, "pushed to origin", "Shell cwd was reset to /src"], ["pushed to origin"]),
        (DIFF.split("\n"), ["diff --git a/src/sync.go b/src/sync.go"]),
        (["", "…"], []),
    ],
)  # fmt: skip
def test_how_a_command_ended_is_found_in_what_it_printed(printed: list[str], ended: list[str]) -> None:
    assert [printed[place] for place in sorted(find_outcome_lines(printed))] == ended


def test_of_a_search_only_an_exit_code_other_than_0_says_something() -> None:
    printed = ["Process exited with code 2", *STEPS]
    assert find_outcome_lines(printed, only_reads=True) == {0}
    assert find_outcome_lines(["Process exited with code 0", *STEPS], only_reads=True) == set()
    assert find_outcome_lines([*STEPS, "[exit code 0]"], only_reads=True) == set()
    assert find_outcome_lines(printed[1:], only_reads=True) == set()


@pytest.mark.parametrize(
    ("name", "items", "answer", "line"),
    [
        ("TodoWrite", {"todos": [{"content": "Test it", "status": "pending"}, {"content": "Fix it", "status": "done"}]},
         "Todos have been modified successfully.", "- m2..m3 TodoWrite -> 1 of 2 items open"),
        ("update_plan", {"explanation": "Tests first", "plan": [{"step": "Test it", "status": "completed"}]},
         "Plan updated", "- m2..m3 update_plan -> 0 of 1 items open"),
        ("TodoWrite", {"todos": []}, "Todos have been modified successfully.", "- m2..m3 TodoWrite -> done"),
    ],
)  # fmt: skip
def test_a_note_on_a_todo_list_does_not_read_as_if_its_items_were_done(
    name: str, items: dict[str, object], answer: str, line: str
) -> None:
    call = Message("assistant", (Call("c", name, json.dumps(items)),), id="m2")
    result = Message("tool", (Result("c", (Text(answer),)),), id="m3")
    assert describe_group(Group((Item(call, 9), Item(result, 9)))) == line


def test_a_notice_of_the_engine_is_no_outcome_and_a_line_of_a_search_is_none_either() -> None:
    notice = "Do NOT guess or invent results that are not shown above."
    for command, printed, said in (
        ("make lint", f"a\n12 problems\n{notice}", "3 lines, 12 problems"),
        ("rg -n byok src", "src/a.py:1:byok\nsrc/b.py:2:byok", "2 lines"),
    ):
        call = Call("c", "Bash", json.dumps({"command": command}))
        result = Message("tool", (Result("c", (Text(printed),)),), id="m3")
        assert describe_outcome(call, result) == said


def test_a_note_counts_the_lines_of_a_result_before_it_was_shortened() -> None:
    call = Call("c", "Bash", json.dumps({"command": "git diff main"}))
    result = Message(
        "tool", (Result("c", (Text("[2 of 1,201 lines; recall m3 has all of it]\nline 7\nline 9"),)),), id="m3"
    )
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(result, 9)))
    assert describe_group(group) == "- m2..m3 $ git diff main -> 1,201 lines"


def test_the_calls_of_one_group_stay_together_in_a_note() -> None:
    note = make_group_note(["- m2..m4 Edit a.py -> done", "- m2..m4 $ make -> ok", "- m5..m6 $ make -> ok"])
    assert groups_of_note(note) == ["- m2..m4 Edit a.py -> done\n- m2..m4 $ make -> ok", "- m5..m6 $ make -> ok"]
    assert make_range_line(groups_of_note(note), "") == "- m2..m6 earlier work: edited a.py; ran make (ok)"


def test_a_request_whose_answer_left_never_reads_as_open() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    for turn in range(40):
        session.add(user_message(f"Do part {turn}, and tell me all about it."))
        for step in range(3):
            build = Call(f"b{turn}-{step}", "bash", json.dumps({"command": f"make part-{turn}-{step}"}))
            printed = "\n".join(f"part {turn}: step {step * k} of the build took its time" for k in range(12))
            session.prepare()
            session.add(Message("assistant", (build,)), Message("tool", (Result(build.id, (Text(printed),)),)))
        session.prepare()
        session.add(
            Message("assistant", (Text(f"Part {turn} is built. " + f"It has {turn} sides, as you know. " * 30),))
        )
    assert len(sweeps(session)) > 2
    shown = [item.message for item in session.view.items]
    for first, second in pairwise(message for message in shown if is_user_request(message)):
        between = shown[shown.index(first) + 1 : shown.index(second)]
        texts = [text_of(message) for message in between]
        assert any("answered" in text or "answer ×" in text or "is built." in text for text in texts), texts


def test_a_range_in_a_note_begins_where_the_gap_begins() -> None:
    assert make_range_line(["- m99..m100 read a.py"], "m37") == "- m38..m100 earlier work: read a.py"
    assert make_range_line(["- m99..m100 read a.py"], "") == "- m99..m100 earlier work: read a.py"
    assert make_range_line(["- m99..m100 read a.py"], "e98.1") == "- m99..m100 earlier work: read a.py"
    assert make_range_line(["- e90.1 answered: Yes.", "- m99 read a.py"], "m37").startswith("- m38..m99 earlier work")


def test_a_range_in_a_note_names_files_commands_with_their_outcome_and_the_first_words_of_answers() -> None:
    lines = [
        "- m4..m5 Edit src/a.py -> done",
        "- m6..m7 Edit src/a.py, src/b.py -> done",
        "- m8..m9 Edit src/c.py -> String to replace not found in file.",
        "- m10..m11 $ cd src && make test 2>&1 | tail -3 -> 3 lines, exit code 1, 2 failed",
        "- m12..m13 $ grep -n byok src/keys.py -> 12 lines",
        "- m14..m15 Read src/d.py -> 90 lines (2 times)",
        "- m16 answered: The cause is the lock; it is taken twice.",
        "- m17..m18 $ git push -> refused by the user, not now",
    ]
    (said,) = [make_range_line(lines, "")]
    assert said == (
        "- m4..m18 earlier work: edited a.py ×2, b.py; read d.py ×2, keys.py; ran make test (exit code 1, 2 failed);"
        " Edit (not done) ×1, command (not done) ×1; m16 answered: The cause is the lock, it is taken twice."
    )
    more = [*(f"- m{n}..m{n + 1} Write src/part_{n}.py -> done" for n in range(20, 40, 2)), "- m41 answered: Yes."]
    both = make_range_line([said, *more], "")
    assert both.startswith(
        "- m4..m41 earlier work: edited a.py ×2, b.py, part_20.py, part_22.py, part_24.py, +7; read d.py"
    )
    assert both.endswith("m16 answered: The cause is the lock, it is taken twice.; m41 answered: Yes.")
    assert "+8" in make_range_line([both, "- m42..m43 Write src/x.py -> done"], "")
    brief = make_range_line([both], "", detail=1)
    assert brief.startswith("- m4..m41 earlier work: edited a.py ×2, b.py, +10; ")
    assert brief.endswith("m41 answered: Yes.")
    assert make_range_line([both], "", detail=0) == "- m4..m41 earlier work, answered"


def test_a_range_names_commands_that_only_read() -> None:
    lines = [
        "- m4..m5 $ git -C ../cli fsck --full 2>&1 | head -20 -> 20 lines",
        "- m6..m7 $ cd src && git fsck -> 3 lines",
        "- m8..m9 $ read -r x -> no output",
    ]
    joined = make_range_line(lines, "")
    assert joined == "- m4..m9 earlier work: git fsck ×2, command ×1"
    assert make_range_line([joined], "") == joined


def test_ranges_of_older_sessions_are_read() -> None:
    for line in ("- m4..m9 earlier work, such as command ×2, Edit ×1", "- m4..m9 earlier work: command ×2, Edit ×1"):
        assert make_range_line([line], "") == "- m4..m9 earlier work: command ×2, Edit ×1"
    assert make_range_line(["- m4..m9 earlier work"], "") == "- m4..m9 earlier work"
    answered = make_range_line(["- m4..m13 earlier work, answered", "- m14..m15 $ make -> done"], "")
    assert answered == "- m4..m15 earlier work: ran make (done); answer ×1"


PLAN = """## Verdict

The lock is taken twice. That is the root cause.

Some words about how it was found, which nobody needs again. They go on and on for a while, and then they end.

## Plan

1. Take it in `open` only.
2. Never retry; non-goals are the cache and the journal.

```go
func open() { lock() }
func close() { unlock(); the journal is written by another function, see there }
```

Shall I go on?"""


def test_an_answer_is_shortened_at_paragraphs_with_their_headings_and_the_end_stays() -> None:
    assert quote_answer("m8", PLAN, 2_000).split("\n")[1:] == [f"  | {line}" for line in PLAN.split("\n")]
    short = quote_answer("m8", PLAN, 260)
    assert short.split("\n")[0] == "- m8 answered:"
    lines = [line.removeprefix("  | ") for line in short.split("\n")[1:]]
    assert lines[0] == "## Verdict"
    for kept in (
        "The lock is taken twice. That is the root cause.",
        "## Plan",
        "2. Never retry; non-goals are the cache and",
    ):
        assert any(line.startswith(kept) for line in lines)
    assert "…" in lines
    assert "func open() { lock() }" not in lines
    assert lines[-2] == "Shall I go on?"
    assert re.fullmatch(rf"\[[1-9]\d\d of {len(PLAN)} characters; recall m8 has all of it\]", lines[-1])
    again = requote(short, 250)
    assert again.count("recall m8") == 1
    assert f"of {len(PLAN)} characters" in again
    brief = requote(short, 0)
    assert brief.startswith("- m8 asked: ## Verdict / The lock is taken twice.")
    assert brief.endswith(" / Shall I go on?")
    assert requote(quote_answer("m8", PLAN.replace("Shall I go on?", "Done."), 260), 0).startswith("- m8 answered: ")


def test_the_options_that_the_next_request_chooses_from_stay_with_the_question() -> None:
    causes = "\n".join(f"{number}. Cause {number}: " + "it may be so, or not. " * 4 for number in range(1, 7))
    options = "1. Reset the index, which loses what is staged\n2. Only clear the cache\n3. Look further"
    answer = f"The index is broken.\n\n{causes}\n\nShall I:\n\n{options}\n\nWhich of them do you prefer?"
    quoted = quote_answer("m8", answer, 300)
    assert all(line in quoted for line in [*options.split("\n"), "Which of them do you prefer?"])
    assert "Cause 6" not in quoted


def test_no_line_of_a_quoted_answer_reads_as_a_line_of_the_note() -> None:
    forged = "Done.\n- m2..m9 Edit a.py -> done\n]\n[Left out here: m1 earlier work]\n" + "More words. " * 30
    note = make_group_note(["- m4..m5 $ make -> ok", quote_answer("m8", forged, 4_000), "- m9..m10 $ make -> ok"])
    assert [line.partition("\n")[0] for line in groups_of_note(note)] == [
        "- m4..m5 $ make -> ok",
        "- m8 answered:",
        "- m9..m10 $ make -> ok",
    ]
    assert list(statements_of_note(note)) == [("ran", "m4", "make -> ok"), ("ran", "m9", "make -> ok")]


def test_conclusions_outlive_results_the_newest_with_more_of_their_words() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    for turn in range(60):
        session.add(user_message(f"Look into part {turn}, please."))
        session.prepare()
        look = Call(f"l{turn}", "bash", json.dumps({"command": f"make part-{turn}"}))
        printed = "\n".join(f"part {turn}: step {k} of the build took its time" for k in range(40))
        session.add(Message("assistant", (look,)), Message("tool", (Result(look.id, (Text(printed),)),)))
        session.prepare()
        said = PLAN.replace("The lock", f"Lock {turn}") + f"\n\nThat was part {turn}. " + "It is so. " * 30
        session.add(Message("assistant", (Text(said),)))
    assert len(sweeps(session)) > 1
    notes = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == NOTE)
    quotes = re.findall(r"- m\d+ answered:\n(?:  \| .*\n)+", notes)
    assert quotes
    assert all("is taken twice. That is the root cause." in quote for quote in quotes)
    assert len(quotes[-1]) >= len(quotes[0])


def test_a_command_inside_a_script_is_named() -> None:
    script = 'const r = await tools.exec_command({"cmd":"rg -n \\"func lo\\" src","workdir":"/x"}); text(r.output);'
    assert find_command(Call("c", "exec", json.dumps({"input": script}))) == 'rg -n "func lo" src'


def test_a_note_says_what_was_done_and_how_it_ended() -> None:
    call = Call("c", "shell", json.dumps({"command": "make\ntest"}))
    result = Message("tool", (Result("c", (Text("1 failed\n[exit code 1]"),)),), id="m3")
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(result, 9)))
    assert describe_group(group) == "- m2..m3 $ make test -> 2 lines, exit code 1, 1 failed"


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ("", "no output"),
        (
            "Chunk ID: 2ad309\nWall time: 1.0 seconds\nProcess exited with code 0\nOriginal token count: 0\nOutput:\n",
            "no output, exit code 0",
        ),
        (
            "Command running in background with ID: b0wk1. Output is being written to: /tmp/b0wk1.output",
            "still running when the call returned, id b0wk1",
        ),
        (
            "Chunk ID: 2ad309\nWall time: 1.0 seconds\nProcess running with session ID 91798\nOutput:\nok  \ta\t0.1s\n",
            "still running when the call returned, id 91798",
        ),
        (
            'Output:\n\n{"chunk_id":"35383d","wall_time_seconds":1.0,"session_id":18857,"output":"ok"}',
            "still running when the call returned, id 18857",
        ),
    ],
)
def test_a_note_on_a_command_without_an_outcome_says_so(printed: str, outcome: str) -> None:
    call = Call("c", "shell", json.dumps({"command": "make test"}))
    result = Message("tool", (Result("c", (Text(printed),)),), id="m3")
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(result, 9)))
    assert describe_group(group) == f"- m2..m3 $ make test -> {outcome}"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("The file src/a.py has been updated successfully.", "done"),
        ("String to replace not found in src/a.py.", "String to replace not found in src/a.py."),
        ("2 edits applied successfully, 1 failed", "2 edits applied successfully, 1 failed"),
    ],
)
def test_a_note_on_an_edit_does_not_repeat_its_path_unless_it_may_have_failed(answer: str, outcome: str) -> None:
    call = Call("c", "Edit", json.dumps({"file_path": "src/a.py", "old_string": "x", "new_string": "y"}))
    result = Message("tool", (Result("c", (Text(answer),)),), id="m3")
    group = Group((Item(Message("assistant", (call,), id="m2"), 9), Item(result, 9)))
    assert describe_group(group) == f"- m2..m3 Edit src/a.py -> {outcome}"


def test_the_cheaper_sweep_writes_less_again() -> None:
    every = SweepCost(16_000, 16_000, 26_000, 500.0, CachePrices())
    some = SweepCost(16_000, 9_000, 26_000, 500.0, CachePrices())
    assert every.calls == 20
    assert every.rate == pytest.approx(16_000 * 1.15 / 20)
    assert some.rate < every.rate
    cold = CachePrices(cold=True)
    assert some._replace(prices=cold).rate == every._replace(prices=cold).rate


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


def test_the_answer_that_the_newest_request_refers_to_stays() -> None:
    session = a_session(30)
    findings = "Findings:\n" + "\n".join(f"{n}. the lock of part {n} is taken twice" for n in range(40))
    session.add(user_message("Review it."), Message("assistant", (Text(findings),)), user_message("Fix them."))
    before = len(sweeps(session))
    for turn in range(100, 130):
        read = Call(f"r{turn}", "read", json.dumps({"path": f"src/part_{turn}.go"}))
        code = GO.replace("Run", f"Run{turn}") * 3
        session.add(Message("assistant", (read,)), Message("tool", (Result(read.id, (Text(code),)),)))
        session.prepare()
    kept = [item.message for item in session.view.items if text_of(item.message) == findings]
    assert [message.role for message in kept] == ["assistant"]
    assert len(sweeps(session)) > before


def test_a_block_of_the_client_that_a_later_one_replaces_leaves_its_pointer_only() -> None:
    session = a_session(3)
    for mode in ("workspace-write", "danger-full-access"):
        text = f"<permissions instructions>\nsandbox_mode is {mode}\n" + "Ask before you write. " * 60
        session.add(Message("system", (Text(f"{text}\n</permissions instructions>"),)))
        for turn in range(len(mode), len(mode) + 30):
            one_turn(session, turn)
    text = seen(session)
    assert "sandbox_mode is danger-full-access" in text
    assert "sandbox_mode is workspace-write" not in text
    assert text.count("</permissions instructions>") == 2  # no words of the user are inside an open tag


@pytest.mark.parametrize(
    ("tag", "typed", "whole"),
    [("task-notification", None, False), ("task-notification", True, True), ("task", None, True)],
)
def test_a_long_report_of_the_client_is_shortened_but_not_what_a_person_may_have_typed(
    tag: str, typed: bool | None, whole: bool
) -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    text = f"<{tag}>\n" + "\n".join(f"finding {n} of the audit" for n in range(300)) + f"\n</{tag}>"
    session.add(user_message("Audit it."), Message("assistant", (Text("Yes."),)))
    session.add(user_message(text), typed=typed)
    for turn in range(60):
        one_turn(session, turn)
    assert sweeps(session)
    shown = next(text_of(item.message) for item in session.view.items if f"<{tag}>" in text_of(item.message))
    assert (shown == text) == whole
    assert (
        shown.removesuffix("[first 3,984 of 7,430 characters; recall m3 has all of it]").rstrip().endswith(f"</{tag}>")
    )
    assert whole or "characters; recall m3 has all of it]" in shown


def test_the_ledger_says_where_it_ends() -> None:
    for item in a_session(30).view.items:
        if item.message.kind == LEDGER:
            assert text_of(item.message).endswith(f"\n{LEDGER_END}")
            assert text_of(item.message).startswith("[Ledger")


def said_in(session: Session) -> dict[str, Message]:
    events = [event.payload for event in session.log.read()]
    return {event.message.id: event.message for event in events if isinstance(event, MessageAdded)}


def test_the_model_never_reads_words_of_its_own_that_it_did_not_say() -> None:
    """Text and arguments of the assistant stay verbatim, or leave with their group; the guard does the same."""
    for session in (a_session(60), a_session(40, window=3_000)):
        said = said_in(session)
        mine = [item.message for item in session.view.items if item.message.role == "assistant"]
        assert sweeps(session)
        assert mine
        for message in mine:
            assert message.parts == said[message.id].parts


def test_newest_work_stays_whole_and_what_left_is_described_where_it_was() -> None:
    session = a_session(40)
    said = said_in(session)
    assert sweeps(session)
    newest = list(said)[-6:]
    assert [i.message.parts for i in session.view.items if i.message.id in newest] == [said[n].parts for n in newest]
    notes = [text_of(item.message) for item in session.view.items if is_group_note(item.message)]
    assert any("edit src/part_" in note for note in notes)


def test_a_request_whose_work_left_says_how_it_was_answered() -> None:
    """Without that, finished tasks would read as open. Where the answer stays, no note is needed."""
    items = a_session(40).view.items
    requests = [place for place, item in enumerate(items[:-1]) if is_user_request(item.message)]
    following = [items[place + 1].message for place in requests]
    assert any(message.role == "assistant" for message in following)
    notes = [text_of(message) for message in following if is_group_note(message)]
    assert any(re.search(r" answered: Part \d+ is done\.", note) for note in notes)
    assert not any(is_user_request(message) for message in following)


def test_a_short_result_is_not_cut_and_outlives_a_long_one_of_the_same_age() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Find out why the build is slow."))
    for step in range(24):
        long = "\n".join(f"target {step}.{n} took {n * 37 + step} ms in its own worker" for n in range(60))
        for ident, text in ((f"s{step}", f"commit {step}77ab\nbranch main\nclean, nothing to do"), (f"l{step}", long)):
            call = Call(ident, "shell", json.dumps({"command": f"show {ident}"}))
            session.prepare()
            session.add(Message("assistant", (call,)), Message("tool", (Result(ident, (Text(text),)),)))
    assert sweeps(session)
    results = [text_of(item.message) for item in session.view.items if item.message.role == "tool"]
    short = [text for text in results if "branch main" in text or "of 3 lines" in text]
    assert len(short) > 6
    assert all("commit " in text and "clean, nothing to do" in text for text in short)
    assert not any("in its own worker" in text for text in results[: len(results) // 3])


@pytest.mark.parametrize("named_again", [False, True])
def test_of_a_long_output_the_line_with_a_name_stays_unless_it_is_named_again_later(named_again: bool) -> None:
    """A later line may name the file by another path, as a search does for a line around a match."""
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Find out which jobs are slow."))
    for step in range(40):
        lines = [f"step {n * 31} of run {step} took its time in a worker of its own" for n in range(60)]
        lines[30] = f"cmd/jobs/job_{step}.go has the reason"
        if named_again and step:
            lines[40] = f"/home/me/repo/cmd/jobs/job_{step - 1}.go-{step}- worker of its own"
        call = Call(f"c{step}", "bash", json.dumps({"command": f"trace {step}"}))
        session.add(Message("assistant", (call,)), Message("tool", (Result(call.id, (Text("\n".join(lines)),)),)))
        session.prepare()
    assert sweeps(session)
    shown = [text_of(item.message) for item in session.view.items if "lines; recall" in text_of(item.message)[:30]]
    assert len(shown) > 4
    named = sum(" has the reason" in text for text in shown)
    assert named < len(shown) // 3 if named_again else named == len(shown)


def test_how_a_command_ended_stays_with_its_call() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Test every part."))
    for part in range(30):
        for name, arguments in (("bash", {"command": f"make test-{part}"}), ("write_stdin", {"session_id": part})):
            call = Call(f"{name}{part}", name, json.dumps(arguments))
            steps = [f"part {part}: step {n * 31} took {n * part} ms in its own worker" for n in range(60)]
            printed = "\n".join(
                ["Wall time: 5.1 seconds", "Process exited with code 1", *steps, f"not ok {part}", "bye"]
            )
            session.add(Message("assistant", (call,)), Message("tool", (Result(call.id, (Text(printed),)),)))
            session.prepare()
    assert sweeps(session)
    shown = [text_of(item.message) for item in session.view.items if "lines; recall" in text_of(item.message)[:30]]
    assert len(shown) > 4
    assert all("Process exited with code 1" in text and "\nnot ok " in text for text in shown)


def test_a_very_long_line_keeps_its_beginning_and_does_not_push_everything_else_out() -> None:
    session = Session(policy="default", window=32_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Answer every comment of the review."))
    for step in range(6):
        comments = json.dumps(
            [{"id": step * 100 + n, "body": f"The name of part {n} says too little."} for n in range(300)]
        )
        calls = [Call(f"{kind}{step}", "shell", json.dumps({"command": f"{kind} {step}"})) for kind in ("api", "show")]
        results = [
            Result(calls[0].id, (Text(comments),)),
            Result(calls[1].id, (Text(GO.replace("Run", f"Run{step}")),)),
        ]
        session.add(Message("assistant", tuple(calls)), *(Message("tool", (result,)) for result in results))
        session.prepare()
        session.add(Message("assistant", (Text(f"Comment {step} is answered."),)), user_message("Go on."))
    assert sweeps(session)
    assert all(f"func Run{step}(" in seen(session) for step in range(6))
    shortened = [text_of(item.message) for item in session.view.items if "; recall" in text_of(item.message)[:80]]
    assert any('"body": "The name of part 0 says too little."' in text for text in shortened)
    assert max(map(len, shortened)) < 1_000


@pytest.mark.parametrize("window", [8_000, pytest.param(32_000, marks=pytest.mark.exhaustive)])
def test_a_sweep_leaves_at_most_two_thirds_of_the_room_and_none_comes_long_before_it_is_full(window: int) -> None:
    session = a_session(window // 100, window=window)
    room = session.budget.room
    assert len(sweeps(session)) > 1
    for made in sweeps(session):
        assert made.tokens_before > (0.96 if "the turn has just begun" in made.why else 1.0) * room, made.why
        assert made.tokens_after <= 0.66 * room


def test_with_thrift_a_sweep_comes_earlier() -> None:
    session = Session(
        policy=presets.load("default", {"sweep_at": 0.4, "fidelity": 0.3}),
        window=16_000,
        count="chars/4",
        clock=lambda: 0.0,
    )
    for turn in range(40):
        one_turn(session, turn)
    assert sweeps(session)
    assert all(made.tokens_before < 0.5 * session.budget.room for made in sweeps(session))


def test_turns_stay_apart_and_say_how_they_were_answered() -> None:
    session = a_session(60)
    asked = [text_of(item.message) for item in session.view.items if item.message.role != "tool"]
    for before, after in pairwise(asked):
        assert not (before.startswith("Now part") and after.startswith("Now part")), "an answer or a note is between"


def test_a_sweep_of_what_is_new_leaves_the_older_part_as_it_is() -> None:
    """The cached prefix stays valid up to there."""
    session = Session(
        policy=presets.load("default", {"fidelity": 0.5, "tail": 0.1}),
        window=16_000,
        count="chars/4",
        clock=lambda: 0.0,
    )
    stayed = 0
    for turn in range(90):
        before, made = [item.message for item in session.view.items], session.edit_counts["sweep"]
        one_turn(session, turn)
        if session.edit_counts["sweep"] > made and "what came since" in sweeps(session)[-1].why:
            after = [item.message for item in session.view.items]
            ledger = max(place for place, message in enumerate(before) if message.kind == LEDGER)
            assert after[: ledger + 1] == before[: ledger + 1]
            stayed += 1
    assert stayed


@pytest.mark.parametrize("lines", [60, pytest.param(180, marks=pytest.mark.exhaustive), 300])
def test_a_file_that_the_agent_has_just_written_stays_even_if_older_work_must_be_swept_again_for_it(lines: int) -> None:
    policy = presets.load("default", {"tail": 0.14})  # with more, the file is among the newest groups
    session = Session(policy=policy, window=16_000, count="chars/4", clock=lambda: 0.0)
    turn = 0
    while not sweeps(session):
        one_turn(session, turn)
        turn += 1
    routes = "\n".join(f"route_{n} = Route('/invoices/{n}', handler=show_{n * 7919})" for n in range(lines))
    write = Call("w", "write", json.dumps({"path": "src/routes.py", "content": routes}))
    session.add(user_message("Write the routes."))
    session.prepare()
    session.add(Message("assistant", (write,)), Message("tool", (Result("w", (Text("done"),)),)))
    made, step = len(sweeps(session)), 0
    while len(sweeps(session)) == made:
        build = Call(f"s{step}", "bash", json.dumps({"command": f"make part-{step}"}))
        printed = "\n".join(f"part {step}: step {k * 31} of the build took its time" for k in range(9))
        session.add(Message("assistant", (build,)), Message("tool", (Result(build.id, (Text(printed),)),)))
        session.prepare()
        step += 1
    assert write.arguments in seen(session)
    assert "sweep of everything old" in sweeps(session)[-1].why


@pytest.mark.parametrize(("lines", "stays"), [(1_500, True), (2_000, False)])
def test_a_large_group_at_the_border_of_the_newest_ones_stays_whole_up_to_four_times_their_share(
    lines: int, stays: bool
) -> None:
    tail = 0.07
    policy = presets.load("default", {"tail": tail})
    session = Session(policy=policy, window=16_000, count="chars/4", clock=lambda: 0.0)
    room = session.budget.room
    read = Call("r", "bash", json.dumps({"command": "./measure"}))
    text = "\n".join(f"{n:06}" for n in range(lines))  # short lines, which stay for no other reason
    size = session.counter.count_text(text)
    assert tail * room < size
    assert (size < 4 * tail * room) is stays
    turn = 0
    while session.tokens + size + 700 < room:
        one_turn(session, turn)
        turn += 1
    session.add(Message("assistant", (read,)), Message("tool", (Result("r", (Text(text),)),)))
    step = 0
    while not sweeps(session):
        build = Call(f"s{step}", "bash", json.dumps({"command": f"make part-{step}"}))
        printed = "\n".join(f"part {step}: step {k * 31} of the build took its time" for k in range(12))
        session.add(Message("assistant", (build,)), Message("tool", (Result(build.id, (Text(printed),)),)))
        session.prepare()
        step += 1
    assert (text in seen(session)) is stays


def test_a_large_result_that_the_model_has_not_seen_yet_does_not_push_out_what_it_has_just_read() -> None:
    session = Session(policy=presets.load("default"), window=32_000, count="chars/4", clock=lambda: 0.0)
    room = session.budget.room
    read, measure = (Call(name, "bash", json.dumps({"command": f"./{name}"})) for name in ("read", "measure"))
    text, printed = ("\n".join(f"{start + n:06}" for n in range(3_000)) for start in (0, 500_000))
    size = session.counter.count_text(text)
    turn = 0
    while session.tokens + 1.5 * size < room:
        one_turn(session, turn)
        turn += 1
    session.add(Message("assistant", (read,)), Message("tool", (Result("read", (Text(text),)),)))
    session.prepare()
    assert not sweeps(session)
    session.add(Message("assistant", (measure,)), Message("tool", (Result("measure", (Text(printed),)),)))
    session.prepare()
    assert len(sweeps(session)) == 1
    assert text in seen(session)
    assert printed in seen(session)


def test_large_results_that_the_model_has_not_seen_yet_do_not_push_all_old_work_out() -> None:
    session = Session(policy=presets.load("default"), window=16_000, count="chars/4", clock=lambda: 0.0)
    for turn in range(24):
        one_turn(session, turn)
    assert not sweeps(session)
    reads = [Call(f"all{n}", "read", json.dumps({"path": f"src/large_{n}.py"})) for n in range(3)]
    texts = ["\n".join(f"value_{n}_{k} = compute({k * 7919})" for k in range(290)) for n in range(3)]
    session.add(user_message("Read all of it."))
    session.prepare()
    results = (Message("tool", (Result(call.id, (Text(text),)),)) for call, text in zip(reads, texts, strict=True))
    session.add(Message("assistant", tuple(reads)), *results)
    session.prepare()
    (made,) = sweeps(session)
    assert all(text in seen(session) for text in texts)
    assert sum(call.name == "edit" for item in session.view.items for call in calls_of(item.message)) > 5
    assert 0.65 * session.budget.room < made.tokens_after < 0.86 * session.budget.room
    assert f"down to {made.tokens_after // 1_000}," in made.why


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
    shown = [turn for turn in range(24) if f"planned_{turn} " in seen(session)]
    assert shown[0] >= 12


@pytest.mark.parametrize("later", ["read", "edited"])
def test_what_was_written_leaves_once_it_is_replaced_or_stands_in_the_view_again(later: str) -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Write the guide, then build all parts."))

    def call(name: str, arguments: dict[str, str], result: str) -> None:
        ident = f"c{len(session.view.items)}"
        session.add(Message("assistant", (Call(ident, name, json.dumps(arguments)),)), a_result(ident, result, ""))
        session.prepare()

    guide = "\n".join(f"Step {number}: turn the valve {number * 7919} once" for number in range(60))
    call("edit", {"path": "guide.md", "oldText": "To be written.", "newText": guide}, "ok")
    written = session.view.items[1].message
    if later == "edited":
        call("edit", {"path": "guide.md", "oldText": guide, "newText": guide.replace("turn", "open")}, "ok")
    for step in range(60):
        call("bash", {"command": f"make part-{step}"}, "\n".join(f"part {step}: line {n * 7919}" for n in range(40)))
        if later == "read" and step % 10 == 9:
            call("read", {"path": "guide.md"}, guide)
    assert sweeps(session)
    assert written.id not in {item.message.id for item in session.view.items}


def test_instructions_that_were_changed_since_they_were_read_do_not_stay() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Improve both skills."))
    rules = "\n".join(f"- You must never turn valve {number * 7919} twice." for number in range(30))

    def call(name: str, arguments: dict[str, str], result: str) -> None:
        ident = f"c{session.log.head}"
        session.add(Message("assistant", (Call(ident, name, json.dumps(arguments)),)), a_result(ident, result, ""))
        session.prepare()

    for name in ("kept", "changed", "moved"):
        call("read", {"path": f"skills/{name}/SKILL.md"}, f"# Rules of {name}\n{rules}")
    call("write", {"path": "skills/changed/SKILL.md", "content": "# Rules\nNone."}, "ok")
    call("bash", {"command": "mv skills/moved skills/other"}, "")
    for step in range(60):
        call("bash", {"command": f"make part-{step}"}, "\n".join(f"part {step}: line {n * 7919}" for n in range(40)))
    assert sweeps(session)
    shown = "\n".join(text_of(item.message) for item in session.view.items)
    assert "# Rules of kept" in shown
    assert "# Rules of changed" not in shown
    assert "# Rules of moved" not in shown


def test_a_file_that_could_not_be_written_keeps_what_was_read_of_it() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    session.add(user_message("Go."))
    one_turn(session, 0)
    write = Call("w", "write", json.dumps({"path": "src/part_0.go", "content": "package empty\n" * 3}))
    refused = "Error: You must read src/part_0.go before overwriting it."
    session.add(Message("assistant", (write,)), a_result("w", refused, ""))
    session.add(Message("assistant", (Text("word " * 6_000),)), user_message("On."))
    session.prepare()
    assert sweeps(session)
    assert "// Run0 pushes every planned_0 reference to the target" in seen(session)


def test_of_old_results_stays_what_the_newest_request_is_about() -> None:
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    sections = [f"## tool {name}\n\n" + f"Says how {name} is used.\n" * 12 for name in ("rewind", "status", "resume")]
    sections[1] += "--detailed shows the status of each settings file\n"
    session.add(user_message("Read the reference."))
    read = Call("r", "webfetch", json.dumps({"url": "https://example.org/reference.md"}))
    session.add(Message("assistant", (read,)), a_result("r", "\n".join(sections * 4), ""))
    for step in range(8):
        session.prepare()
        look = Call(f"l{step}", "read", json.dumps({"path": f"src/part_{step}.go"}))
        session.add(Message("assistant", (look,)), a_result(look.id, GO.replace("Run", f"Run{step}") * 8, ""))
    session.add(Message("assistant", (Text("All is read."),)), user_message("Let status print each settings file."))
    session.prepare()
    assert sweeps(session)
    assert "--detailed shows the status of each settings file" in seen(session)


def test_a_file_that_a_client_attached_is_shortened_but_not_the_words_before_it() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    words = "Move them to a module and use them in @src/only.go, please."
    file = 'Called the Read tool with the following input: {"filePath":"src/only.go"}\n' + GO * 60
    (ident,) = session.add(user_message(f"{words}\n{file}"))
    for turn in range(60):
        one_turn(session, turn)
    shown = next(text_of(item.message) for item in session.view.items if item.message.id == ident)
    assert shown.startswith(words)
    assert len(shown) < 7_000
    assert f"recall {ident}" in shown


def test_words_in_a_part_behind_an_attached_file_stay() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    parts = tuple(
        map(Text, ("Called the Read tool with the following input: {}", GO * 60, "The port is 8443; ask Bob."))
    )
    (ident,) = session.add(Message("user", parts))
    for turn in range(60):
        one_turn(session, turn)
    shown = next(text_of(item.message) for item in session.view.items if item.message.id == ident)
    assert shown.endswith("The port is 8443; ask Bob.")
    assert len(shown) < 7_000


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
    long = "Look at this: " + " ".join(f"word{n}" for n in range(2_000))
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
    for name, told in (("src/part_12.go", True), ("src/part_39.go", False), ("src/other.go", False)):
        session.add(user_message(f"Look at {name} once more."))
        before = session.prepare().messages
        hints = [text_of(i.message) for i in session.view.items if text_of(i.message).startswith(HINT_PREFIX)]
        assert bool(hints) is told, name
        if told:
            ident = re.search(r"recall (m\d+(?:\.\.m\d+)?)\]", hints[0])
            assert ident is not None
            assert "part_12.go" in recall_text(session.log, ident[1]).text
            session.history.undo()
        session.add(Message("assistant", (Text("Yes."),)))
        assert before


def heads(session: Session) -> str:
    return "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == LEDGER)


@pytest.mark.exhaustive
def test_between_sweeps_the_ledger_only_grows_at_its_end() -> None:
    """What stands at the head of the request is what the cache has: only a sweep, which moves all, writes it anew."""
    session = Session(policy="default", window=8_000, count="chars/4", clock=lambda: 0.0)
    stayed = rewritten = 0
    for turn in range(90):
        before, made = heads(session), session.edit_counts["sweep"]
        one_turn(session, turn)
        session.add(user_message(f"And src/part_{turn // 2}.go?"))
        session.prepare()
        session.add(Message("assistant", (Text("Yes."),)))
        after = heads(session)
        if session.edit_counts["sweep"] == made:
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


@pytest.mark.exhaustive
def test_in_a_session_of_thousands_of_messages_notes_and_ledger_stay_bounded_and_current() -> None:
    session = Session(policy="default", window=16_000, count="chars/4", clock=lambda: 0.0)
    for step in range(1_100):
        if step % 50 == 0:
            session.add(user_message(f"Go on with part {step // 50}."))
        path = f"src/part_{step // 10}.go"
        edit = Call(
            f"e{step}", "Edit", json.dumps({"file_path": path, "old_string": f"a{step}", "new_string": "b" * 400})
        )
        session.add(Message("assistant", (edit,)), Message("tool", (Result(edit.id, (Text("done"),)),)))
        session.prepare()
        if step % 50 == 49:
            session.add(Message("assistant", (Text(f"Part {step // 50} is done. It has {step} edits. " * 12),)))
    assert session.log.head > 2_200
    room = session.budget.room
    tokens = {kind: sum(i.tokens for i in session.view.items if i.message.kind == kind) for kind in (NOTE, LEDGER)}
    assert tokens[LEDGER] <= room * 0.08
    assert tokens[NOTE] <= room * 0.35  # with the answers that are quoted in them
    noted = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind in (NOTE, LEDGER))
    calls = [call for item in session.view.items for call in calls_of(item.message)]
    newest = {"part_109.go", "part_108.go"}
    assert all(name in noted or any(name in call.arguments for call in calls) for name in newest)
    ranges = [(int(a), int(b)) for a, b in re.findall(r"m(\d+)\.\.m(\d+)", noted)]
    shown = {item.message.id for item in session.view.items}
    first_tenth = [f"m{number}" for number in range(1, 220) if f"m{number}" not in shown]
    assert all(any(a <= int(ident[1:]) <= b for a, b in ranges) for ident in first_tenth)
    added = [event.payload.message for event in session.log.read() if isinstance(event.payload, MessageAdded)]
    calls_by_id = {message.id: calls_of(message)[0] for message in added if calls_of(message)}
    edits = [(ident, calls_by_id[ident]) for ident in first_tenth if ident in calls_by_id]
    assert len(edits) > 50
    for ident, edit in edits[::10]:  # what was replaced first in a file, by the id that the map leads to, and by words
        old = json.loads(edit.arguments)["old_string"]
        assert f'"{old}"' in recall_text(session.log, ident).text
        assert f'"{old}"' in recall_text(session.log, f"{old} {json.loads(edit.arguments)['file_path']}").text
