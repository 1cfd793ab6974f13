"""`read`: bounded, numbered, and always with a way to the rest."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.agent.tools.workshop import kept_context, make_context, use
from tidegate.agent.tools.files.read_tool import READ_TOOL
from tidegate.agent.tools.files.search_tools import GREP_TOOL
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, ToolContext


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def test_lines_are_numbered_and_the_rest_is_told(context: ToolContext) -> None:
    (context.workspace / "f").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    assert use(READ_TOOL, context, path="f", offset=3, limit=2).text == (
        "3\tline 3\n4\tline 4\n[lines 3-4 of 100; go on with offset 5]"
    )
    assert use(READ_TOOL, context, path="f", offset=99).text == "99\tline 99\n100\tline 100"
    assert use(READ_TOOL, context, path="f", offset=101).text == "[f: 100 lines, none at 101]"


@pytest.mark.seed("JUT-09", fixed="that a name in the view can be read is the tool's, whatever the preset")
def test_a_result_that_left_the_view_is_read_by_the_name_that_stands_there(tmp_path: Path) -> None:
    context = kept_context(tmp_path, policy="jutul")
    with context.session as session:
        call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        session.add({"role": "user", "content": "Count."})
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": "c1", "content": "\n".join(f"row {n}" for n in range(30_000))})
        sent = str(session.prepare().body["messages"])
        name = re.search(r"Saved to (\S+)", sent)
        assert name is not None
        assert "row 15000" not in sent
        assert use(READ_TOOL, context, path=name[1], offset=15_001, limit=1).text.startswith("15001\trow 15000\n")
        assert use(GREP_TOOL, context, pattern="row 29999$", path=name[1]).text.endswith(":30000:row 29999")
    context.data.close()  # type: ignore[union-attr]


def test_an_empty_file_and_line_ends(context: ToolContext) -> None:
    (context.workspace / "empty").write_text("")
    (context.workspace / "dos").write_bytes(b"a\r\nb\r\n")
    assert use(READ_TOOL, context, path="empty").text == "[empty: empty]"
    assert use(READ_TOOL, context, path="dos").text == "1\ta\n2\tb"


def test_a_slip_in_a_name_is_answered_with_the_nearest(context: ToolContext) -> None:
    (context.workspace / "settings.toml").write_text("")
    assert "Did you mean settings.toml?" in use(READ_TOOL, context, path="setings.toml").text
    assert "does not exist" in use(READ_TOOL, context, path="no/settings.toml").text


def test_what_is_no_text_is_said(context: ToolContext) -> None:
    Image.new("RGB", (40, 30)).save(context.workspace / "p.png")
    (context.workspace / "b").write_bytes(b"\x7fELF\0\0" + bytes(100))
    (context.workspace / "u").write_text("hi", "utf-16")
    (context.workspace / "l").write_bytes("naïve\n".encode("latin-1"))
    assert "picture: PNG, 40 x 30 pixels" in use(READ_TOOL, context, path="p.png").text
    assert "binary, 106 bytes" in use(READ_TOOL, context, path="b").text
    assert "UTF-16" in use(READ_TOOL, context, path="u").text
    latin = use(READ_TOOL, context, path="l")
    assert not latin.is_error
    assert "na\ufffdve" in latin.text
    assert "not UTF-8" in latin.text


def test_a_large_file_is_read_in_parts_to_its_end(context: ToolContext) -> None:
    lines = [f"{n} " + "x" * (n % 500) for n in range(3000)]
    (context.workspace / "f").write_text("\n".join(lines))
    seen: list[str] = []
    offset = 1
    for _ in range(100):
        text = use(READ_TOOL, context, path="f", offset=offset).text
        assert len(text.encode()) <= MAX_RESULT_BYTES
        seen += re.findall(r"^\d+\t(.*)$", text, re.MULTILINE)
        more = re.search(r"go on with offset (\d+)\]$", text)
        if more is None:
            break
        offset = int(more[1])
    assert seen == lines


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9), st.integers(5000, 9000)
)
def test_one_long_line_can_be_read_to_its_end(context: ToolContext, piece: str, times: int) -> None:
    """A result that was saved in one line must not be lost behind its first characters."""
    whole = piece * times
    (context.workspace / "f").write_text(f"first\n{whole}\nlast\n", "utf-8")
    text = use(READ_TOOL, context, path="f").text
    assert len(text.encode()) <= MAX_RESULT_BYTES
    found = re.search(r"^2\t(.*) \[the line has .*: offset 2, char (\d+) goes on\]$", text, re.MULTILINE)
    assert found is not None
    parts, char = [found[1]], int(found[2])
    while True:
        text = use(READ_TOOL, context, path="f", offset=2, char=char).text
        assert len(text.encode()) <= MAX_RESULT_BYTES
        body, note = text.rsplit("\n", 1)
        parts.append(body)
        more = re.search(r"char (\d+)\]$", note)
        if more is None:
            break
        char = int(more[1])
    assert "".join(parts) == whole


def test_a_huge_file_costs_no_memory_for_its_lines(context: ToolContext) -> None:
    with open(context.workspace / "f", "wb") as file:
        file.write(b"first\n" * 2000)
        file.truncate(8_000_000)  # a hole: NULs far behind the beginning
        file.seek(8_000_000)
        file.write(b"\nlast\n")
    text = use(READ_TOOL, context, path="f", offset=2000).text
    assert text.startswith("2000\tfirst\n2001\t")
    assert text.endswith("2002\tlast")
    assert len(text) < 10_000
