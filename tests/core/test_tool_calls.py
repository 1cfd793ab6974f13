"""What a tool call is about: its files, and whether it changes something. Sweep, ledger and digest give one answer."""

import json

import pytest

from tidegate.core.digest.units import ARTIFACTS_SECTION, collect_units
from tidegate.core.messages import Call, Message
from tidegate.core.text.tool_calls import ToolAccess, call_target_of, changed_paths_of, classify_call, open_todos_of

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n-a\n+b"


@pytest.mark.parametrize(
    ("tool", "access"),
    [
        ("edit", "write"),
        ("NotebookEdit", "write"),
        ("create_file", "write"),
        ("delete_file", "write"),
        ("removeFile", "write"),
        ("move_file", "write"),
        ("rename", "write"),
        ("search_and_replace", "write"),
        ("search_movies", "read"),
        ("read_file", "read"),
        ("grep", "read"),
        ("bash", "other"),
        ("upload", "other"),
    ],
)
def test_sweep_ledger_and_digest_agree_on_what_a_call_does(tool: str, access: ToolAccess) -> None:
    call = Call("c", tool, json.dumps({"path": "src/billing/invoice.py"}))
    message = Message("assistant", (call,), id="m2")
    assert classify_call(call) == access
    assert call_target_of(call).writes == (access == "write")
    assert changed_paths_of(call) == (["src/billing/invoice.py"] if access == "write" else [])
    verb = {"write": "changed", "read": "read", "other": "used"}[access]
    assert [unit.group for unit in collect_units([message]) if unit.section == ARTIFACTS_SECTION] == [
        f"agent {verb} ({tool})"
    ]


def test_a_patch_is_a_write_whatever_the_tool_is_called() -> None:
    call = Call("c", "shell", json.dumps({"command": ["apply", PATCH]}))
    assert classify_call(call) == "write"
    target = call_target_of(call)
    assert (target.files, target.writes, target.whole_file) == (frozenset({"a.py"}), True, False)


def test_an_edit_names_its_file_and_the_text_it_removes() -> None:
    arguments = {"file_path": "/a/b.go", "old_string": "x\ny", "new_string": "z\nz"}
    target = call_target_of(Call("c", "Edit", json.dumps(arguments)))
    assert target.files == {"b.go"}
    assert [(each.text, each.is_replaced_text) for each in target.texts] == [("x\ny", True), ("z\nz", False)]


def test_a_command_is_recognized_by_its_argument() -> None:
    assert call_target_of(Call("c", "bash", '{"command": "make test"}')).runs_command
    assert not call_target_of(Call("c", "read", '{"path": "src/errors.py"}')).runs_command


def test_open_items_of_a_todo_list() -> None:
    todos = [{"content": "write it"}, {"content": "plan it", "status": "done"}, {"step": "test it", "status": "open"}]
    assert open_todos_of({"todos": todos}) == ["write it", "test it"]
    assert open_todos_of({"todos": [], "plan": todos[:1]}) == ["write it"]
    assert open_todos_of({"plan": "write it"}) == open_todos_of("text") == []


WRITTEN = {"path": "src/a.py", "content": "one\ntwo\nthree"}


@pytest.mark.parametrize(
    ("name", "arguments", "whole"),
    [
        ("write", WRITTEN, True),
        ("create_file", WRITTEN, True),
        ("insert_at_line", WRITTEN, False),
        ("append_to_file", WRITTEN, False),
        ("edit", {**WRITTEN, "old_string": "one\nzero"}, False),
        ("write", {"path": "src/a.py", "content": "*** Begin Patch\n*** Update File: src/a.py\n-a\n+b"}, False),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/a.py\n-a\n+b"}, False),
        ("read_file", {"path": "src/a.py"}, True),
        ("read_file", {"path": "src/a.py", "limit": 20}, False),
        ("grep", {"path": "src/a.py", "pattern": "one"}, False),
    ],
)
def test_a_whole_file_is_read_or_written(name: str, arguments: dict[str, object], whole: bool) -> None:
    target = call_target_of(Call("c", name, json.dumps(arguments)))
    assert (target.files, target.whole_file) == (frozenset({"a.py"}), whole)


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("sed -n '1,80p' src/a.go", True),
        ("cd work && cat src/a.go", True),
        ("cat > src/a.go <<'EOF'", False),
        ("go test ./src/a_test.go", False),
        ("cat", False),
    ],
)
def test_a_command_that_only_prints_a_file_is_a_reading(command: str, shows: bool) -> None:
    target = call_target_of(Call("c", "bash", json.dumps({"command": command})))
    assert target.runs_command
    assert target.shows_file == shows
