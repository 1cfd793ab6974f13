"""File tools stay in the workspace, whatever the path says and wherever links lead."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.tools.workshop import make_context, use
from tidegate.agent.tools.files.paths import ConfinedPath, open_confined_file, write_confined_file
from tidegate.agent.tools.files.read_tool import READ_TOOL
from tidegate.agent.tools.files.search_tools import GREP_TOOL, LIST_TOOL
from tidegate.agent.tools.files.write_tools import EDIT_TOOL, WRITE_TOOL
from tidegate.agent.tools.tool import ToolContext, ToolFailed

SECRET = "outside-9f3a"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    """Beside the workspace lies what must not be reached; inside it, every kind of way out."""
    context = make_context(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (tmp_path / "workspace-too").mkdir()
    (tmp_path / "workspace-too" / "secret.txt").write_text(SECRET)
    space = context.workspace
    (space / "inner").mkdir()
    (space / "inner" / "a.txt").write_text("inside\n")
    (space / "link.txt").symlink_to(outside / "secret.txt")
    (space / "linked").symlink_to(outside)
    (space / "inner" / "up").symlink_to("../..")
    (space / "fine.txt").symlink_to("inner/a.txt")
    (space / "loop").symlink_to("loop")
    os.mkfifo(space / "pipe")
    return context


WAYS_OUT = """../outside/secret.txt link.txt linked/secret.txt inner/up/outside/secret.txt linked/../outside/secret.txt
inner/../../outside/secret.txt ./../outside/secret.txt inner/up/../outside/secret.txt""".split()


@pytest.mark.parametrize(
    "path", [*WAYS_OUT, "{outside}/secret.txt", "../workspace-too/secret.txt", "session:../outside/secret.txt"]
)
def test_no_way_leads_out(context: ToolContext, path: str) -> None:
    outside = context.workspace.parent / "outside"
    path = path.format(outside=outside)
    read = use(READ_TOOL, context, path=path)
    assert read.is_error
    assert "outside the workspace" in read.text
    assert use(WRITE_TOOL, context, path=path, text="changed").is_error
    assert use(EDIT_TOOL, context, path=path, old=SECRET, new="changed").is_error
    assert (outside / "secret.txt").read_text() == SECRET
    assert sorted(os.listdir(outside)) == ["secret.txt"]


@pytest.mark.parametrize("path", ["linked", "..", "/", "inner/up"])
def test_folders_outside_are_not_looked_through(context: ToolContext, path: str) -> None:
    assert use(LIST_TOOL, context, path=path).is_error
    assert use(GREP_TOOL, context, pattern=SECRET, path=path).is_error


def test_links_are_not_followed_on_the_way(context: ToolContext) -> None:
    found = use(GREP_TOOL, context, pattern=SECRET)
    assert "nothing found" in found.text
    assert "secret.txt" not in use(LIST_TOOL, context, depth=9).text


def test_links_inside_and_absolute_paths_inside_are_fine(context: ToolContext) -> None:
    assert "inside" in use(READ_TOOL, context, path="fine.txt").text
    assert "inside" in use(READ_TOOL, context, path=str(context.workspace / "inner/a.txt")).text
    assert not use(WRITE_TOOL, context, path="fine.txt", text="new\n").is_error
    assert (context.workspace / "inner" / "a.txt").read_text() == "new\n"
    assert (context.workspace / "fine.txt").is_symlink()


@pytest.mark.parametrize(
    "path", ["pipe", "loop", "inner", ".", "", "no/such", "a\0b", "x" * 300, "\ud800", "fine.txt/x"]
)
def test_what_is_no_plain_file_is_a_result(context: ToolContext, path: str) -> None:
    read = use(READ_TOOL, context, path=path)
    assert read.is_error
    assert len(read.text) > 10


@pytest.mark.parametrize("path", ["pipe", "inner", ".", "", "a\0b", "x" * 300, "\ud800", "inner/a.txt/b"])
def test_what_cannot_be_written_is_a_result(context: ToolContext, path: str) -> None:
    before = sorted(os.listdir(context.workspace))
    assert use(WRITE_TOOL, context, path=path, text="t").is_error
    assert sorted(os.listdir(context.workspace)) == before


def test_a_folder_swapped_for_a_link_after_the_check_is_not_followed(context: ToolContext) -> None:
    """The race: between finding the place and opening it the folder becomes a link to the outside."""
    root = os.path.realpath(context.workspace)
    place = ConfinedPath(root, ("inner", "secret.txt"), "inner/secret.txt")
    os.rename(context.workspace / "inner", context.workspace / "moved")
    (context.workspace / "inner").symlink_to(context.workspace.parent / "outside")
    with pytest.raises(ToolFailed), open_confined_file(place):
        pass
    with pytest.raises(ToolFailed):
        write_confined_file(place, b"changed")
    last = ConfinedPath(root, ("link.txt",), "link.txt")
    with pytest.raises(ToolFailed), open_confined_file(last):
        pass
    with pytest.raises(ToolFailed):
        write_confined_file(last, b"changed")
    assert (context.workspace.parent / "outside" / "secret.txt").read_text() == SECRET


def test_a_write_does_not_go_through_a_hard_link(context: ToolContext) -> None:
    os.link(context.workspace.parent / "outside" / "secret.txt", context.workspace / "hard.txt")
    assert not use(WRITE_TOOL, context, path="hard.txt", text="mine").is_error
    assert (context.workspace.parent / "outside" / "secret.txt").read_text() == SECRET


def test_the_files_of_the_session_can_be_read_and_not_written(context: ToolContext) -> None:
    assert context.session_folder is not None
    (context.session_folder / "large_tool_results").mkdir()
    (context.session_folder / "large_tool_results" / "m3").write_text("the whole result\n")
    for path in ("large_tool_results/m3", "session:large_tool_results/m3"):
        assert "the whole result" in use(READ_TOOL, context, path=path).text
    assert "m3:1:the whole" in use(GREP_TOOL, context, pattern="whole", path="session:.").text
    assert use(WRITE_TOOL, context, path="session:large_tool_results/m3", text="x").is_error
    assert use(WRITE_TOOL, context, path=str(context.session_folder / "x"), text="x").is_error


def test_of_two_files_by_one_name_the_other_is_told(context: ToolContext) -> None:
    assert context.session_folder is not None
    (context.session_folder / "a.md").write_text("kept\n")
    (context.workspace / "a.md").write_text("own\n")
    read = use(READ_TOOL, context, path="a.md")
    assert "own" in read.text
    assert "session:a.md" in read.text
    assert "kept" in use(READ_TOOL, context, path="session:a.md").text


def test_a_data_folder_inside_the_workspace_is_closed_to_writing(context: ToolContext) -> None:
    context.session_folder = context.workspace / ".tidegate" / "sessions" / "s"
    context.session_folder.mkdir(parents=True)
    (context.session_folder / "f").write_text("kept\n")
    path = ".tidegate/sessions/s/f"
    assert "kept" in use(READ_TOOL, context, path=path).text
    assert "can be read, not written" in use(WRITE_TOOL, context, path=path, text="x").text
    assert use(EDIT_TOOL, context, path=path, old="kept", new="x").is_error


PIECES = st.sampled_from(
    ["..", ".", "inner", "linked", "up", "a.txt", "link.txt", "secret.txt", "outside", "", "~", "x"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(PIECES, max_size=7).map("/".join) | st.text(max_size=30))
def test_any_path_at_all(context: ToolContext, path: str) -> None:
    """Nothing is read from outside, nothing is written there, nothing is raised."""
    assert SECRET not in use(READ_TOOL, context, path=path).text
    use(WRITE_TOOL, context, path=path, text="inside\n")
    use(EDIT_TOOL, context, path=path, old=SECRET, new="inside\n")
    parent = context.workspace.parent
    assert sorted(os.listdir(parent)) == ["kept", "outside", "workspace", "workspace-too"]
    assert os.listdir(parent / "outside") == ["secret.txt"]
    assert (parent / "outside" / "secret.txt").read_text() == SECRET
