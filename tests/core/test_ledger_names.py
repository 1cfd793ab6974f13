"""The names of what leaves: which are listed, with which words before them, in which order."""

import pytest

from tidegate import Session
from tidegate.core.edits import Drop, Replace
from tidegate.core.events import ViewEdited
from tidegate.core.ledger.lines import LEDGER
from tidegate.core.ledger.loss_check import LossCheck, collect_words
from tidegate.core.ledger.names import rank_names
from tidegate.core.messages import Call, Message, Result, Text, text_of


def said(*texts: str) -> list[str]:
    """The names in what a tool printed, the best first."""
    results = [Message("tool", (Result("c", (Text(text),)),), id=f"m{place}") for place, text in enumerate(texts)]
    return [name.text for name in rank_names(results)]


def test_a_number_keeps_its_label_wherever_else_it_stands() -> None:
    assert said('The port 48443 is taken.\nSet "48443" there.') == ["The port 48443"]


def test_a_name_that_begins_with_a_dot_is_seen_where_it_stands() -> None:
    for name in (".env.local", ".github/workflows/build.yml", "./src/a.py", "src/a.py"):
        assert name in collect_words(f"see {name}, it is there")
        assert name in collect_words(f"see {name}.")


def test_files_come_before_folders_and_what_only_looks_like_a_path_last() -> None:
    found = said("<section>src/planner/relay.go in src/planner/relays</section>")
    assert found[0] == "src/planner/relay.go"
    assert found.index("src/planner/relays") < found.index("/section")


def test_the_number_of_a_line_is_no_part_of_the_name_behind_it() -> None:
    assert said("    14→RelayPlanner\n    15→    src/planner/relay.go") == ["src/planner/relay.go", "RelayPlanner"]


def test_of_a_message_that_is_shortened_only_the_lines_that_leave_are_read() -> None:
    told = Message("tool", (Result("c", (Text("see src/first.py\nsee src/second.py\nsee src/third.py"),)),), id="m1")
    assert [line.text for line in rank_names([told], {"m1": "[1 of 3 lines]\nsee src/second.py"})] == [
        "src/first.py",
        "src/third.py",
    ]


def test_a_sweep_reads_so_much_from_the_oldest_on_and_every_call() -> None:
    """However large the window is, it takes no longer."""
    plain = "word " * 2_000
    results = [
        Message("tool", (Result("c", (Text(f"src/part_{place}.py\n{plain}"),)),), id=f"m{place}") for place in range(9)
    ]
    call = Message("assistant", (Call("c9", "read", '{"path": "src/called.py"}'),), id="m9")
    found = {line.text for line in rank_names([*results, call])}
    assert found == {*(f"src/part_{place}.py" for place in range(5)), "src/called.py"}


def test_what_a_sweep_only_shortens_is_listed_too() -> None:
    """No message leaves whole: each keeps the lines it begins with, and of the rest the names go into the ledger."""
    session = Session(policy="default", window=16_000, count="chars/4")
    session.add({"role": "user", "content": "Look at the reports."})
    for step in range(9):
        lines = [f"from package_{step} import the_{place}th_of_its_parts\n" for place in range(5)]
        lines += [f"            total += entry_{step}_{place} * 3\n" for place in range(150)]
        call = {"id": f"c{step}", "type": "function", "function": {"name": "show", "arguments": f'{{"n": {step}}}'}}
        session.add({"role": "assistant", "content": "", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{step}", "content": "".join(lines)})
        session.fit()
    (swept,) = [event.payload for event in session.log.read() if isinstance(event.payload, ViewEdited)]
    assert not any(isinstance(edit, Drop) for edit in swept.edits)
    shown = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind != LEDGER)
    ledger = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == LEDGER)
    assert "entry_7_12" not in shown
    assert "entry_7_12" in ledger
    assert "package_7" not in ledger, "it is in the view"


@pytest.mark.parametrize(("place", "moves"), [(2, True), (16, False), (20, False)], ids=["first", "midst", "new"])
def test_what_is_cut_further_on_leaves_the_head_of_the_view_as_it_is(place: int, moves: bool) -> None:
    """A line there would cost all that is cached, and the message says where the rest is."""
    session = Session(policy="default", window=64_000, count="chars/4")
    session.add({"role": "user", "content": "Look at the reports."})
    for step in range(10):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "show", "arguments": "{}"}}
        session.add({"role": "assistant", "content": "", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{step}", "content": f"report_of_step_{step} " * 50})
    item = session.view.items[place]
    assert item.message.role == "tool"
    check = LossCheck(session.view, [Replace(item.message.id, (Result("c", (Text("cleared"),)),))], [])
    assert check.moves is moves
    assert [line.text for line in check.wanted() if line.listed] == (
        [f"report_of_step_{place // 2 - 1}"] if moves else []
    )
