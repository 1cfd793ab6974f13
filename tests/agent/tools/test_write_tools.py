"""`write` and `edit`."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.tools.workshop import make_context, use
from tidegate.agent.tools.files.paths import (
    open_confined_file,
    read_file_stamp,
    resolve_write_path,
    write_confined_file,
)
from tidegate.agent.tools.files.write_tools import EDIT_TOOL, MAX_WRITE_BYTES, WRITE_TOOL
from tidegate.agent.tools.tool import ToolContext, ToolFailed


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def test_a_file_is_made_with_its_folders_and_replaced_with_its_rights(context: ToolContext) -> None:
    assert use(WRITE_TOOL, context, path="a/b/c.sh", text="one\ntwo").text == "Made a/b/c.sh: 2 lines, 7 bytes."
    path = context.workspace / "a/b/c.sh"
    path.chmod(0o755)
    assert use(WRITE_TOOL, context, path="a/b/c.sh", text="").text == "Replaced a/b/c.sh: 0 lines, 0 bytes."
    assert path.stat().st_mode & 0o777 == 0o755
    assert use(WRITE_TOOL, context, path="new", text="x").text.startswith("Made new: 1 lines")
    (context.workspace / "other").touch()
    assert (context.workspace / "new").stat().st_mode == (context.workspace / "other").stat().st_mode


def test_nothing_is_left_over_and_too_much_is_refused(context: ToolContext) -> None:
    use(WRITE_TOOL, context, path="f", text="x")
    assert use(WRITE_TOOL, context, path="f", text="x" * (MAX_WRITE_BYTES + 1)).is_error
    assert os.listdir(context.workspace) == ["f"]
    assert (context.workspace / "f").read_text() == "x"


def test_an_edit_replaces_exactly_one_place(context: ToolContext) -> None:
    path = context.workspace / "f.py"
    path.write_text("a = 1\nb = 2\nc = 1\n")
    assert (
        use(EDIT_TOOL, context, path="f.py", old="b = 2", new="b = 3").text
        == "Changed f.py: 1 place, the first at line 2."
    )
    assert path.read_text() == "a = 1\nb = 3\nc = 1\n"
    twice = use(EDIT_TOOL, context, path="f.py", old="= 1", new="= 9")
    assert twice.is_error
    assert "2 times in f.py, at lines 1, 3" in twice.text
    assert path.read_text() == "a = 1\nb = 3\nc = 1\n"
    assert not use(EDIT_TOOL, context, path="f.py", old="= 1", new="= 9", all=True).is_error
    assert path.read_text() == "a = 9\nb = 3\nc = 9\n"


def test_what_is_not_found_is_answered_with_the_nearest_lines(context: ToolContext) -> None:
    (context.workspace / "f.py").write_text("def run(self):\n    return self.total + 1\n\nother\n")
    result = use(EDIT_TOOL, context, path="f.py", old="return self.total+1", new="pass")
    assert result.is_error
    assert "2\t    return self.total + 1" in result.text
    assert "other" not in result.text
    assert "No line is like it" in use(EDIT_TOOL, context, path="f.py", old="@@@@", new="").text


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("other", "other"), ("  \n ", "x")])
def test_an_edit_that_says_nothing_is_refused(context: ToolContext, old: str, new: str) -> None:
    (context.workspace / "f").write_text("other\n")
    assert use(EDIT_TOOL, context, path="f", old=old, new=new).is_error
    assert (context.workspace / "f").read_text() == "other\n"


def test_line_ends_stay_as_they_are(context: ToolContext) -> None:
    path = context.workspace / "dos.txt"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert not use(EDIT_TOOL, context, path="dos.txt", old="one\ntwo", new="1\n2\nand").is_error
    assert path.read_bytes() == b"1\r\n2\r\nand\r\nthree\r\n"
    path = context.workspace / "unix.txt"
    path.write_bytes(b"one\ntwo\n")
    assert not use(EDIT_TOOL, context, path="unix.txt", old="one\ntwo", new="1\n2").is_error
    assert path.read_bytes() == b"1\n2\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(before=st.binary(max_size=40), after=st.binary(max_size=40), new=st.text(max_size=10))
def test_the_rest_of_a_file_is_not_touched(context: ToolContext, before: bytes, after: bytes, new: str) -> None:
    """Whatever bytes stand around the place, UTF-8 or not."""
    path = context.workspace / "f"
    whole = before + b"<the place>" + after
    path.write_bytes(whole)
    result = use(EDIT_TOOL, context, path="f", old="<the place>", new=new)
    if result.is_error:
        assert path.read_bytes() == whole
        image = whole.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF"))
        assert image or b"\0" in whole or whole[:2] in (b"\xff\xfe", b"\xfe\xff")
    else:
        dos = whole.count(b"\r\n") * 2 > whole.count(b"\n")
        put = new.replace("\r\n", "\n").replace("\n", "\r\n") if dos else new
        assert path.read_bytes() == before + put.encode() + after


def test_a_file_that_changed_meanwhile_is_not_overwritten(context: ToolContext) -> None:
    path = context.workspace / "f"
    path.write_text("first")
    place = resolve_write_path(context, "f")
    with open_confined_file(place) as file:
        seen = read_file_stamp(file)
    path.write_text("by someone else")
    with pytest.raises(ToolFailed, match="changed by someone else"):
        write_confined_file(place, b"ours", expected_stamp=seen)
    path.unlink()
    with pytest.raises(ToolFailed, match="changed by someone else"):
        write_confined_file(place, b"ours", expected_stamp=seen)
    assert os.listdir(context.workspace) == []
