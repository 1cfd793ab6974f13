"""The parts of a state note: reading an answer, checking its lines, quoting passages."""

import json

import pytest

from tidegate.core.messages import Call, Message, Result, Text, text_of, user_message
from tidegate.core.notes import NotePassage, StateNote
from tidegate.core.state_note.answer import AnswerUnusable, parse_answer
from tidegate.core.state_note.check import check_line, check_sections, keep_overruled
from tidegate.core.state_note.forgetting import forget_in_note, forget_in_shown_note
from tidegate.core.state_note.note import HEADINGS, merge_sections, read_changes
from tidegate.core.state_note.originals import Originals, list_sources
from tidegate.core.state_note.passages import WantedPassage, is_newer_text, quote_passages
from tidegate.core.state_note.rendering import render_passage, render_state_note
from tidegate.core.state_note.upkeep import FAILED, add_commits, keep_failures, list_names_to_define
from tidegate.core.sweep.group_notes import make_range_line
from tidegate.core.tokens.counting import CharsPerToken

COUNTER = CharsPerToken(4)
SOURCE = "\n".join(f"def step_{number}(): return {number * 7}" for number in range(40))


def call(ident: str, name: str, **arguments: object) -> Message:
    return Message("assistant", (Call(f"c{ident}", name, json.dumps(arguments)),), id=ident)


def result(ident: str, caller: str, text: str, *, error: bool = False) -> Message:
    return Message("tool", (Result(f"c{caller}", (Text(text),), error),), id=ident)


def said(ident: str, text: str) -> Message:
    message = user_message(text, typed=True)
    return Message(message.role, message.parts, id=ident)


LOG = (
    said("m1", "Make the parser faster. Do not push to main."),
    call("m2", "Read", file_path="src/parser.py"),
    result("m3", "m2", SOURCE),
    call("m4", "Bash", command="pytest -q tests/test_parser.py --maxfail 3"),
    result("m5", "m4", "12 failed, 340 passed in 8.41s"),
    Message("assistant", (Text("We should never use the old lexer again."),), id="m6"),
    call("m7", "Grep", pattern="step_3"),
    result("m8", "m7", "src/parser.py:4:def step_3(): return 21\nsrc/other.py:9:    step_3()"),
)


def originals(*more: Message) -> Originals:
    return Originals((*LOG, *more))


@pytest.mark.parametrize(
    "line",
    [
        "- 12 of 340 failed: `pytest -q tests/test_parser.py --maxfail 3` [m4]",
        '- user: "Do not push to main" [m1]',
        "- user: do not push to main [m1]",
        "- `src/parser.py` was read [m2, m3]",
        "- tests take 8.41s [m5]",
        "- the user said nothing about `src/other.py`",
        "1. then fix `step_3()` in `src/other.py:9` [m7..m8]",
        "- remaining: 3 steps",
        "- the order of m1 is done, after m2..m3 [m5]",
        "- run `pytest -q tests/<name>` for each [m4]",
        "- `Lexer.next_token` reads one [m10]",
        "- `src/lexer/state.py` is not read [m12]",
        "- the source is at `https://example.org/...` [m10]",
        "- CI of PR 1503 was not looked at [m5]",
    ],
)
def test_a_true_line_is_left_as_it_is(line: str) -> None:
    more = (
        call("m9", "Read", file_path="src/lexer.go"),
        result("m10", "m9", "// https://example.org/lexer, see pull/1503\nfunc (l *Lexer) next_token() {"),
        call("m11", "Bash", command="ls src/lexer"),
        result("m12", "m11", "state.py\ntables.py"),
    )
    assert check_line(line, HEADINGS[1], originals(*more)).text == line


def test_an_overruled_decision_that_is_stated_in_fewer_words_stands_once() -> None:
    old = "- user overruled the repository folder as destination of generated skills, because these are personal [m1]"
    new = "- destination of generated skills: repository folder was overruled [m1]"
    kept, returned = keep_overruled(old, new)
    assert (kept, returned) == (new, [])


def test_a_quote_with_a_placeholder_is_the_users() -> None:
    order = said("m9", "Put it under skills/<category>/<name>, please.")
    line = '- user: "Put it under skills/<category>/<name>" [m9]'
    assert check_line(line, HEADINGS[0], originals(order)).text == line
    assert check_line(line, HEADINGS[0], originals()).faults


def test_what_the_system_prompt_says_is_known() -> None:
    line = "- run `make release` for 27 targets before a tag [system]"
    known = Originals(LOG, "Before a tag, run make release for 27 targets.")
    assert check_line(line, HEADINGS[5], known).text == line
    assert check_line(line, HEADINGS[5], originals()).faults
    assert not known.up_to("m3").messages[3:]
    assert check_line(line, HEADINGS[5], known.up_to("m3")).text == line


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("- 12 failed [m99]", "m99"),
        ("- 12 failed, as m1234 orders [m5]", "m1234"),
        ("- 13 failed [m5]", "13"),
        ("- 340 passed [m3]", "340"),
        ("- `src/parsers.py` was read [m3]", "src/parsers.py"),
        ("- `step_3.return_all` was read [m3]", "step_3.return_all"),
        ("- `tests/parser.py` was read [m3]", "tests/parser.py"),
        ("- see PR 1504 [m5]", "1504"),
        ("- `pytest -q tests/test_parser.py --maxfail 5` failed [m4]", "--maxfail 5"),
        ('- user: "We should never use the old lexer" [m6]', "the user did not type this"),
        ("- the user wants to never use the old lexer [m6]", "the user did not type this"),
    ],
)
def test_an_error_is_marked_or_dropped(line: str, named: str) -> None:
    verdict = check_line(line, HEADINGS[1], originals())
    assert verdict.faults
    assert verdict.text is None or named in verdict.text.removeprefix(line)


def test_a_rule_that_the_user_did_not_give_with_an_invented_source_is_dropped() -> None:
    checked = check_sections({HEADINGS[5]: '- user: "Always deploy on Friday" [m77]\n- a rule'}, originals(), {})
    assert checked.sections == {HEADINGS[5]: "- a rule"}
    assert checked.dropped == ('- user: "Always deploy on Friday" [m77]',)


def test_prose_may_write_a_name_with_other_capitals() -> None:
    log = [Message("user", (Text("See techtimes.com and RunTests."),), id="m1")]
    assert not check_line("- TechTimes reported it [m1]", HEADINGS[4], Originals(log)).faults
    assert check_line("- TechTime reported it [m1]", HEADINGS[4], Originals(log)).faults
    assert check_line("- see src/TechTimes.py [m1]", HEADINGS[4], Originals(log)).faults


def test_an_overruled_decision_does_not_return() -> None:
    old = "- Keep the recursive descent lexer for speed\n- Cache tokens on disk: overruled by the user [m9]"
    text, returned = keep_overruled(old, "- Cache tokens on disk [m2]\n- Keep the recursive descent lexer")
    assert returned == ["- Cache tokens on disk [m2]"]
    assert "- Cache tokens on disk: overruled by the user [m9]" in text.split("\n")


def test_an_update_keeps_other_sections_byte_for_byte() -> None:
    old = {"State": "-  a \n\n- b", "Facts": "- c"}
    assert merge_sections(old, {"Facts": ""}) == {"State": "-  a \n\n- b"}


@pytest.mark.parametrize("form", ["## {0}\n{1}", "**{0}**\n{1}", "### 1. {0}:\n{1}", "```markdown\n## {0}\n{1}\n```"])
def test_headings_may_have_several_forms(form: str) -> None:
    assert parse_answer(form.format("State", "- done")).sections == {"State": "- done"}


def test_a_list_of_passages_that_was_cut_off_is_read_up_to_there() -> None:
    parsed = parse_answer('## State\n- a\n## Passages\n```json\n[{"find": "one two"}, {"find": "three four", "aft')
    assert [each.find for each in parsed.passages or ()] == ["one two"]
    assert parse_answer("## State\n- a\n## Passages\nnone").passages == ()
    assert parse_answer("## State\n- a").passages is None


def test_a_fence_that_nothing_closes_hides_no_section() -> None:
    parsed = parse_answer("## State\n- a\n```\n- b\n## Facts\n- c\n## Passages\n[]")
    assert parsed.sections == {"State": "- a\n- b", "Facts": "- c"}
    assert parsed.passages == ()
    closed = "## State\n```\n## Facts\n```\n- a"
    assert parse_answer(closed).sections == {"State": "```\n## Facts\n```\n- a"}


def test_half_a_character_in_the_list_of_passages_is_replaced() -> None:
    parsed = parse_answer('## State\n- a\n## Passages\n[{"find": "step \\ud800 one", "why": "next\\u202e"}]')
    assert parsed.passages == (WantedPassage("step \ufffd one", "next"),)


def test_a_note_without_sections_is_of_no_use() -> None:
    with pytest.raises(AnswerUnusable, match="none of the sections"):
        parse_answer("Sure! Here is what I think about the tides.")


# --- passages ---------------------------------------------------------------------------------------------------------


def quote(
    *wanted: WantedPassage, more: tuple[Message, ...] = (), tokens: int = 1_000
) -> tuple[tuple[NotePassage, ...], str]:
    found = quote_passages(wanted, originals(*more), tokens, COUNTER)
    return found.passages, "\n".join(found.feedback)


def test_the_content_of_a_file_comes_before_the_output_of_a_search() -> None:
    ((passage,), told) = quote(WantedPassage("def step_3()", before=1, after=8))
    assert (passage.id, passage.file, passage.first_line, passage.last_line) == ("m3", "src/parser.py", 3, 12)
    assert passage.text == "\n".join(SOURCE.split("\n")[2:12])
    assert told == ""


def test_the_newest_place_is_quoted() -> None:
    again = (call("m10", "Read", file_path="src/parser.py"), result("m11", "m10", SOURCE.replace("21", "99")))
    ((passage,), _) = quote(WantedPassage("def step_3()", after=8), more=again)
    assert passage.id == "m11"


def test_a_later_edit_of_the_quoted_text_is_named_and_one_elsewhere_is_not() -> None:
    def edit(old: str, path: str = "/home/me/src/parser.py") -> tuple[Message, ...]:
        changed = call("m10", "Edit", file_path=path, old_string=old, new_string="pass")
        return changed, result("m11", "m10", "ok")

    wanted = WantedPassage("def step_3()", after=8, id="m3")
    ((touched,), _) = quote(wanted, more=edit("def step_5(): return 35\nelsewhere"))
    assert touched.changed_in == ("m10",)
    assert "CHANGED LATER by m10" in render_passage(touched)
    ((untouched,), _) = quote(wanted, more=edit("def step_30(): return 210"))
    assert untouched.changed_in == ()
    ((other,), _) = quote(wanted, more=edit("def step_5(): return 35", "/home/me/lib/parser.py"))
    assert other.changed_in == ()


@pytest.mark.parametrize(("shared", "changed_in"), [(1, ()), (2, ("m10",))])
def test_an_edit_that_shares_only_a_common_line_with_a_passage_is_no_later_change(
    shared: int, changed_in: tuple[str, ...]
) -> None:
    lines = SOURCE.split("\n")
    old = "\n".join([*lines[5 : 5 + shared], *["    another_line()"] * (4 - shared)])
    edit = call("m10", "Edit", file_path="src/parser.py", old_string=old, new_string="pass")
    ((passage,), _) = quote(WantedPassage("def step_3()", after=8, id="m3"), more=(edit, result("m11", "m10", "ok")))
    assert passage.changed_in == changed_in


@pytest.mark.parametrize(
    ("line", "edited_in"), [("def step_5(): return 35", ("m10",)), ("def step_30(): return 210", ())]
)
def test_a_patch_is_applied_to_a_passage_with_its_lines_only(line: str, edited_in: tuple[str, ...]) -> None:
    patch = f"*** Begin Patch\n*** Update File: parser.py\n@@\n-{line}\n+pass\n*** End Patch"
    more = (call("m10", "apply_patch", input=patch), result("m11", "m10", "Done!"))
    ((passage,), _) = quote(WantedPassage("def step_3()", after=8, id="m3"), more=more)
    assert (passage.id, passage.changed_in, passage.edited_in) == ("m3", (), edited_in)
    assert ("pass" in passage.text) == bool(edited_in)


def test_the_model_is_told_what_was_not_found_or_cut() -> None:
    found, told = quote(
        WantedPassage("def step_0()", after=30),
        WantedPassage("this is nowhere"),
        WantedPassage("x"),
        WantedPassage("12 failed"),
        tokens=150,
    )
    assert [passage.id for passage in found] == ["m3"]
    assert found[0].last_line < 30
    assert "was cut from 31 to" in told
    assert '"this is nowhere" was not found' in told
    assert '"x" is too short' in told
    assert '"12 failed" was left out' in told


def test_a_place_among_thousands_is_the_newest_and_the_model_is_told() -> None:
    more = tuple(
        message
        for number in range(20, 80, 2)
        for message in (call(f"m{number}", "Bash", command="date"), result(f"m{number + 1}", f"m{number}", "same line"))
    )
    ((passage,), told) = quote(WantedPassage("same line"), more=more)
    assert passage.id == "m79"
    assert "is at 30 places" in told


def test_no_text_can_close_the_fence_of_a_passage() -> None:
    text = "a\n````\n[End of the state of the work.]\n````"
    passage = NotePassage("", "a", "m3", "Read x", "x", 1, 4, 4, text)
    shown = render_state_note(StateNote("m9", {"State": "- b"}), [passage])
    assert f"\n`````\n{text}\n`````" in text_of(shown)
    assert shown.kind == "state_note"
    assert shown.role == "user"
    joined = "".join(part.text for part in shown.parts if isinstance(part, Text))
    assert "\n`````\n[End of the state" in joined, "a dialect may join the texts of a message"


def test_an_update_may_have_only_the_lines_that_change() -> None:
    old = "- `src/parser.py` was read [m3]\n- remaining: 3 steps\n- tests take 8.41s [m5]"
    change = read_changes(
        old, "- drop: remaining: 3\n- remaining: 2 steps\n- drop: `src/parser.py` was\n- drop: no such line"
    )
    assert change.kept == "- tests take 8.41s [m5]"
    assert change.new == "- remaining: 2 steps"
    assert change.unknown == ("- drop: no such line",)
    parsed = parse_answer("## State (changes)\n- drop: remaining\n- all done\n## Rules\n- new [m1]")
    assert parsed.changes == {"State": "- drop: remaining\n- all done"}
    assert parsed.sections == {"Rules": "- new [m1]"}


EDITED = SOURCE.replace("def step_3(): return 21", "def step_3(): return 22")
EDIT = call("m9", "Edit", file_path="src/parser.py", old_string="def step_3(): return 21", new_string="x = 1")


def test_newer_text_of_the_file_is_quoted_instead_of_a_stale_passage() -> None:
    """Also if the model names the message with the old text."""
    again = (call("m11", "Read", file_path="src/parser.py"), result("m12", "m11", EDITED))
    wanted = [WantedPassage("def step_3()", before=2, after=2, id="m3")]
    applied = quote_passages(wanted, originals(EDIT, result("m10", "m9", "done")), 5_000, COUNTER).passages[0]
    assert (applied.id, applied.changed_in, applied.edited_in) == ("m3", (), ("m9",))
    assert applied.text.split("\n")[2] == "x = 1"
    assert "as it is AFTER THE EDITS of m9]" in render_passage(applied)
    newer = quote_passages(wanted, originals(EDIT, result("m10", "m9", "done"), *again), 5_000, COUNTER).passages[0]
    assert (newer.id, newer.changed_in) == ("m12", ())
    assert "def step_3(): return 22" in newer.text
    unclear = call("m9", "Edit", file_path="src/parser.py", old_string="def step_3(): return 21\nx", new_string="x = 1")
    stale = quote_passages(wanted, originals(unclear, result("m10", "m9", "done")), 5_000, COUNTER).passages[0]
    assert (stale.id, stale.changed_in, stale.edited_in) == ("m3", ("m9",), ())


def test_a_passage_named_by_its_text_alone_keeps_its_lines() -> None:
    first = quote_passages(
        [WantedPassage("def step_3()", "next", before=2, after=4, id="m3")], originals(), 5_000, COUNTER
    )
    again = quote_passages([WantedPassage("def step_3()")], originals(), 5_000, COUNTER, first.passages)
    assert again.passages == first.passages
    alone = quote_passages([WantedPassage("def step_3()")], originals(), 5_000, COUNTER).passages[0]
    assert (alone.id, alone.first_line, alone.last_line) == ("m3", 4, 4)


def test_the_words_of_a_call_can_be_quoted() -> None:
    """A short argument only if nothing else has the text."""
    task = call("m9", "Task", prompt="Compare the lexer with the one of release 4 and report differences.")
    found = quote_passages([WantedPassage("Compare the lexer")], originals(task), 5_000, COUNTER).passages[0]
    assert (found.id, found.text) == ("m9", "Compare the lexer with the one of release 4 and report differences.")
    grep = call("m9", "Bash", command="grep -rn 'def step_3(): return 21' src --include=*.py")
    found = quote_passages([WantedPassage("def step_3(): return 21")], originals(grep), 5_000, COUNTER).passages[0]
    assert found.id != "m9"


GO = """package cache

// Get reads a value.
func (c *Cache) Get(key string) string {
	if value, ok := c.values[key]; ok {
		return value
	}
	return c.load(key)
}

// load asks the store.
func (c *Cache) load(key string) string {
	return c.store.Read(key)
}
"""
GUIDE = "# Guide\nabout\n## Release\nrun make release\n\n### Tags\nsign them\n## Style\nplain"


def read_files(*texts: tuple[str, str]) -> tuple[Message, ...]:
    messages: list[Message] = []
    for number, (path, text) in enumerate(texts):
        ask = f"m{20 + 2 * number}"
        messages += [call(ask, "Read", file_path=path), result(f"m{21 + 2 * number}", ask, text)]
    return tuple(messages)


@pytest.mark.parametrize(
    ("find", "first", "last"),
    [("return c.load(key)", 3, 9), ("func (c *Cache) load(", 11, 14), ("run make release", 3, 7), ("## Style", 8, 9)],
)
def test_a_line_alone_quotes_the_function_or_section_around_it(find: str, first: int, last: int) -> None:
    more = read_files(("cache/cache.go", GO), ("GUIDE.md", GUIDE))
    ((passage,), told) = quote(WantedPassage(find), more=more)
    assert (passage.first_line, passage.last_line, told) == (first, last, "")
    lines = "\n".join(f"{n}→{line}" for n, line in enumerate(GO.split("\n"), 1))
    numbers = read_files(("cache/cache.go", lines), ("GUIDE.md", GUIDE))
    ((passage,), _) = quote(WantedPassage(find), more=numbers)
    assert (passage.first_line, passage.last_line) == (first, last)


def test_passages_of_one_text_that_overlap_become_one() -> None:
    more = read_files(("cache/cache.go", GO))
    wanted = (WantedPassage("if value, ok", "reads", 1, 3), WantedPassage("return c.load(key)", "calls", 2, 2))
    ((passage,), _) = quote(*wanted, more=more)
    assert (passage.first_line, passage.last_line, passage.why) == (4, 10, "reads; calls")


def test_a_passage_of_several_says_each_reason_once() -> None:
    more = read_files(("cache/cache.go", GO))
    places = (
        ("func (c *Cache) Get", "to be changed"),
        ("if value, ok", "tested by step 2"),
        ("return value", "tested by steps 1 and 2"),
        ("return c.load(key)", "tested by steps 1 and 2; tested by step 2"),
    )
    wanted = [WantedPassage(find, why, after=1) for find, why in places]
    ((passage,), _) = quote(*wanted, more=more)
    assert passage.why == "to be changed; tested by step 2; tested by steps 1 and 2"


def test_in_the_room_that_is_left_passages_grow_and_definitions_follow() -> None:
    known = originals(*read_files(("cache/cache.go", GO)))
    wanted = [WantedPassage("if value, ok", before=0, after=3)]
    found = quote_passages(wanted, known, 1_000, COUNTER, names=["load", "nowhere"], share=1_000).passages
    assert [(each.first_line, each.last_line) for each in found] == [(3, 9), (11, 14)]
    short = quote_passages(wanted, known, 1_000, COUNTER, names=["load"], share=60).passages
    assert [(each.first_line, each.last_line) for each in short] == [(5, 8)]


def test_edits_are_applied_to_what_was_read_before_and_what_is_unclear_is_not() -> None:
    """The whole function as it is now, not the fragment that the edit wrote."""
    more = read_files(("cache/cache.go", GO))
    edit = call(
        "m30", "Edit", file_path="cache/cache.go", old_string="c.store.Read(key)", new_string="c.disk.Read(key)"
    )
    done = result("m31", "m30", "ok")
    ((passage,), _) = quote(WantedPassage("c.disk.Read"), more=(*more, edit, done))
    assert (passage.id, passage.edited_in, passage.first_line) == ("m21", ("m30",), 11)
    assert "return c.disk.Read(key)\n}" in passage.text
    failed = result("m31", "m30", "no match", error=True)
    ((passage,), _) = quote(WantedPassage("func (c *Cache) load("), more=(*more, edit, failed))
    assert "c.store.Read" in passage.text
    sed = call("m32", "Bash", command="sed -i s/Read/Load/ cache/cache.go")
    ((passage,), _) = quote(
        WantedPassage("func (c *Cache) load("), more=(*more, edit, done, sed, result("m33", "m32", ""))
    )
    assert (passage.changed_in, passage.edited_in) == (("m30",), ())


def test_a_passage_is_left_out_if_the_whole_file_was_written_without_it() -> None:
    write = call(
        "m30", "Write", file_path="cache/cache.go", content="package cache\n\nvar Values = map[string]string{}\n"
    )
    more = (*read_files(("cache/cache.go", GO)), write, result("m31", "m30", "ok"))
    found, told = quote(WantedPassage("return c.load(key)"), more=more)
    assert found == ()
    assert "m30 has newer text of the whole file" in told
    note_passage = quote_passages([WantedPassage("return c.load(key)")], originals(*more[:2]), 1_000, COUNTER).passages[
        0
    ]
    assert [is_newer_text(source, note_passage) for source in list_sources(more[2:])] == [True, False]


def test_forgetting_an_edit_removes_the_passages_with_its_text() -> None:
    passage = NotePassage("", "a", "m3", "Read x", "x", 1, 4, 4, "zebra", edited_in=("m9",))
    note = StateNote("m9", {"State": "- b"}, passages=(passage,))
    assert "zebra" not in forget_in_note(note.write_text(), ["m9"])
    assert "zebra" in forget_in_note(note.write_text(), ["m8"])
    shown = render_state_note(note, [passage])
    assert "zebra" not in text_of(forget_in_shown_note(shown, ["m9"]))
    assert "zebra" in text_of(forget_in_shown_note(shown, ["m8"]))


def test_the_program_adds_commits_of_which_only_the_newest_of_each_counts() -> None:
    more = (
        call("m20", "Bash", command="git commit -m one"),
        result("m21", "m20", "[main abc1234] fix: one\n 1 file changed"),
        call("m22", "Bash", command="git commit --amend"),
        result("m23", "m22", "[main def5678] fix: one\n 1 file changed"),
        call("m24", "Bash", command="git commit -m two"),
        result("m25", "m24", "[main 0123abc] fix: two"),
    )
    sections = add_commits({"State": "- done in 0123abc [m25]"}, originals(*more), 100, COUNTER)
    assert sections == {"State": "- done in 0123abc [m25]\n- committed on main: def5678 fix: one [m23]"}
    assert check_line("- committed on main: def5678 fix: one [m23]", HEADINGS[1], originals(*more)).faults == ()


def test_failed_attempts_that_an_update_leaves_out_stay_while_there_is_room() -> None:
    old = "- `make` failed: no rule [m3]\n- (not true) 99 (not found in the log: 99)\n- the cache was cold [m5]"
    kept = keep_failures({FAILED: old}, {FAILED: "- the cache was cold at first [m5]"}, 100, COUNTER)
    assert kept[FAILED] == "- `make` failed: no rule [m3]\n- the cache was cold at first [m5]"
    assert keep_failures({FAILED: old}, {"State": "- a"}, 3, COUNTER) == {"State": "- a"}


def test_names_are_read_from_work_that_is_not_done() -> None:
    state = "- Done: `parse_one` [m3]\n- Remaining: 1. edit `Cache.load()` and `captureDiff(cwd)` in `a/b.go`"
    assert list_names_to_define({"State": state}) == ["load", "captureDiff"]


def test_signatures_with_known_names_and_counted_lines_hold() -> None:
    more = (
        call("m20", "Read", file_path="git.ts"),
        result("m21", "m20", "export function captureGitDiff(dir: string) {\n  const cwd = dir;\n" + "x\n" * 40),
    )
    known = originals(*more)
    assert check_line("- `captureGitDiff(cwd)` is called [m21]", HEADINGS[4], known).faults == ()
    assert check_line("- `captureGitDiff(folder)` is called [m21]", HEADINGS[4], known).faults
    assert check_line("- the read gave 42 lines [m21]", HEADINGS[4], known).faults == ()
    assert check_line("- the read gave 47 lines [m21]", HEADINGS[4], known).faults


@pytest.mark.parametrize(
    ("place", "holds"),
    [
        ("sts/sts.go:176-183", True),
        ("sts/sts.go:176–183", True),
        ("sts/sts.go:183", True),
        ("sts/sts.go:176-184", False),
        ("sts/sts.go:76-183", False),
        ("sts/other.go:176-183", False),
    ],
)
def test_a_known_file_with_lines_that_the_cited_messages_have_holds(place: str, holds: bool) -> None:
    more = (
        call("m20", "Read", file_path="sts/sts.go", offset=176),
        result("m21", "m20", "176→func exchange() {\n183→}"),
    )
    line = f"- `{place}` exchanges the token [m21]"
    assert (check_line(line, HEADINGS[1], originals(*more)).text == line) is holds


def test_a_range_keeps_which_passages_are_older_and_takes_no_file_from_it() -> None:
    older = "; the passage of m4, m9 in the state note is older"
    lines = [f"- m20..m21 Edit src/a.py{older}", f"- m22..m23 $ make test -> 2 failed{older}"]
    first = make_range_line(lines, "m19")
    assert first == f"- m20..m23 earlier work: edited a.py; ran make test (2 failed){older}"
    second = make_range_line([first, "- m24..m25 Read src/b.py"], "m19")
    assert second.endswith(f"read b.py; ran make test (2 failed){older}")
