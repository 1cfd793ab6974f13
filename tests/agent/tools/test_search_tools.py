"""`list` and `grep`: bounded in time and size, whatever the pattern and the tree."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workshop import make_context, use
from tidegate.agent.tools.files import search_tools
from tidegate.agent.tools.files.search_program import is_ignored, parse_gitignore
from tidegate.agent.tools.files.search_tools import GREP_TOOL, LIST_TOOL, MAX_GREP_LINES
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, ToolContext


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    context = make_context(tmp_path)
    for name, text in {
        "src/app.py": "import os\nPORT = 8080\n",
        "src/deep/er/x.py": "port = None\n",
        "build/out.py": "PORT = 1\n",
        "keep.log": "PORT\n",
        "other.log": "PORT\n",
        ".git/config": "PORT\n",
        "README.md": "The Port.\n",
        ".gitignore": "# made\n/build/\n*.log\n!keep.log\n",
    }.items():
        path = context.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return context


def test_a_tree_without_what_is_ignored(context: ToolContext) -> None:
    assert use(LIST_TOOL, context, depth=3).text.split("\n") == [
        ".git/ ...",
        "src/",
        "  deep/",
        "    er/ ...",
        "  app.py",
        ".gitignore",
        "README.md",
        "keep.log",
    ]


def test_a_link_is_named_and_not_opened(context: ToolContext) -> None:
    (context.workspace / "src" / "self").symlink_to("..")
    assert use(LIST_TOOL, context, path="src", depth=9).text == "deep/\n  er/\n    x.py\napp.py\nself (link)"


def test_one_folder_and_what_is_no_folder(context: ToolContext) -> None:
    assert use(LIST_TOOL, context, path="src", depth=1).text == "deep/ ...\napp.py"
    (context.workspace / "none").mkdir()
    assert use(LIST_TOOL, context, path="none").text == "[empty]"
    assert use(LIST_TOOL, context, path="README.md").is_error
    missing = use(LIST_TOOL, context, path="nowhere")
    assert missing.is_error
    assert missing.text == "nowhere cannot be searched: No such file or directory. List shows what there is."


def test_a_large_folder_leaves_room_for_the_others(context: ToolContext) -> None:
    for number in range(700):
        (context.workspace / "src" / f"f{number:03}").touch()
    text = use(LIST_TOOL, context, depth=5).text
    assert "[602 more: list src/ alone]" in text
    assert "README.md" in text
    assert len(text.split("\n")) < 450
    assert "[302 more" in use(LIST_TOOL, context, path="src", depth=1).text


def test_odd_names_are_shown_on_one_line(context: ToolContext) -> None:
    (context.workspace / "a\nb\x1b[31m").touch()
    os.close(os.open(os.fsencode(context.workspace) + b"/\xff", os.O_CREAT))
    lines = use(LIST_TOOL, context, depth=1).text.split("\n")
    assert "a?b?[31m" in lines
    assert "?" in lines


def test_lines_that_match(context: ToolContext) -> None:
    assert use(GREP_TOOL, context, pattern="PORT").text == "src/app.py:2:PORT = 8080\nkeep.log:1:PORT"
    assert use(GREP_TOOL, context, pattern=r"\bport", ignore_case=True, glob="*.py").text == (
        "src/deep/er/x.py:1:port = None\nsrc/app.py:2:PORT = 8080"
    )
    assert use(GREP_TOOL, context, pattern=r"^port\b", path="src/deep").text == "er/x.py:1:port = None"
    assert use(GREP_TOOL, context, pattern="os", path="src/app.py").text == "app.py:1:import os"
    assert use(GREP_TOOL, context, pattern="nowhere").text == "[nothing found in 5 files]"


def test_a_pattern_that_is_not_one(context: ToolContext) -> None:
    result = use(GREP_TOOL, context, pattern="(")
    assert result.is_error
    assert "not valid" in result.text
    assert use(GREP_TOOL, context, pattern="a" * 3000).is_error


def test_hits_and_long_lines_are_bounded(context: ToolContext) -> None:
    (context.workspace / "many.txt").write_text("x\n" * 1000 + "-" * 5000 + "needle" + "-" * 5000)
    many = use(GREP_TOOL, context, pattern="x", path="many.txt").text
    assert len(many.split("\n")) == MAX_GREP_LINES + 1
    assert "there are more" in many
    found = use(GREP_TOOL, context, pattern="needle").text
    assert "needle" in found
    assert len(found) < 400
    (context.workspace / "wide.txt").write_text(("é" * 400 + "\n") * 1000)
    assert len(use(GREP_TOOL, context, pattern="é").text.encode()) <= MAX_RESULT_BYTES


def test_binary_pipes_and_links_are_passed_over(context: ToolContext) -> None:
    (context.workspace / "b").write_bytes(b"PORT\0")
    os.mkfifo(context.workspace / "pipe")
    (context.workspace / "src" / "self").symlink_to("..")
    assert use(GREP_TOOL, context, pattern="PORT").text == "src/app.py:2:PORT = 8080\nkeep.log:1:PORT"


def test_a_pattern_that_never_ends_is_stopped(context: ToolContext) -> None:
    """Backtracking without end holds Python's lock and hears no signal: only the end of its process stops it."""
    (context.workspace / "0first.txt").write_text("aab\n")
    (context.workspace / "evil.txt").write_text("a" * 60 + "\n")
    seconds = 1
    result = use(search_tools.create_grep_tool(seconds=seconds), context, pattern="(a+)+b$")
    while "0first.txt" not in result.text:  # it was over before the first file was read
        seconds *= 4
        result = use(search_tools.create_grep_tool(seconds=seconds), context, pattern="(a+)+b$")
    assert result.is_error
    assert result.text.startswith(f"0first.txt:1:aab\n[stopped after {seconds} s")


PATTERNS = [
    ("*.pyc", "a/b/x.pyc", False, True),
    ("*.pyc", "x.py", False, False),
    ("/top", "top", False, True),
    ("/top", "a/top", False, False),
    ("dir/", "a/dir", True, True),
    ("dir/", "a/dir", False, False),
    ("a/b", "a/b", False, True),
    ("a/b", "c/a/b", False, False),
    ("**/z", "q/w/z", False, True),
    ("a/**", "a/x/y", False, True),
    ("a/**/c", "a/c", False, True),
    ("[ab].txt", "b.txt", False, True),
    ("[!ab].txt", "b.txt", False, False),
    ("x?z", "xyz", False, True),
    ("x?z", "x/z", False, False),
    ("a.b", "axb", False, False),
    ("# no", "# no", False, False),
    ("[z-a]", "z", False, False),
]


def test_lines_of_a_gitignore() -> None:
    wrong = [case for case in PATTERNS if is_ignored(case[1], case[2], parse_gitignore(case[0], "")) is not case[3]]
    assert wrong == []


def test_the_last_rule_decides_and_holds_below_its_file() -> None:
    assert not is_ignored("a.log", False, parse_gitignore("*.log\n!a.log", ""))
    assert is_ignored("sub/x", False, parse_gitignore("/x", "sub/"))
    assert not is_ignored("x", False, parse_gitignore("/x", "sub/"))


@given(st.text(st.sampled_from("ab*?[]!/\\^-.#"), max_size=8), st.text(st.sampled_from("ab/"), max_size=8))
def test_any_gitignore_is_read(line: str, path: str) -> None:
    is_ignored(path, False, parse_gitignore(line, ""))
