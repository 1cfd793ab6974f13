"""Memory, recall, compact, skills."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.tools.workshop import kept_context, make_context, use
from tidegate.agent.skills import Skills
from tidegate.agent.tools.context_tools import (
    COMPACT_TOOL,
    MEMORY_SEARCH_TOOL,
    MEMORY_WRITE_TOOL,
    RECALL_TOOL,
    create_skills_tool,
)
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, ToolContext
from tidegate.core.messages import user_message


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    context = kept_context(tmp_path)
    yield context
    context.session.close()
    context.data.close()  # type: ignore[union-attr]


def test_what_is_noted_is_found_and_read(context: ToolContext) -> None:
    assert use(MEMORY_WRITE_TOOL, context, text="The gateway listens on 8443.", about="ports").text.startswith(
        "Noted in 20"
    )
    written = use(MEMORY_WRITE_TOOL, context, text="Use ruff.\n", note="style.md")
    assert written.text == "Wrote style.md."
    assert use(MEMORY_WRITE_TOOL, context, text="Use ruff.\n", note="style.md").text == "Unchanged: style.md."
    found = use(MEMORY_SEARCH_TOOL, context, words="gateway")
    assert "8443" in found.text
    assert ".md:" in found.text
    assert use(MEMORY_SEARCH_TOOL, context, note="style.md").text == "Use ruff.\n"
    assert "[style.md](style.md): Use ruff." in use(MEMORY_SEARCH_TOOL, context).text
    assert use(MEMORY_SEARCH_TOOL, context, words="zeppelin").text.startswith("[nothing found")


@pytest.mark.parametrize("note", ["../out.md", "/etc/x.md", "x.txt", ".hidden.md", "a\nb.md"])
def test_a_note_stays_in_its_folder(context: ToolContext, tmp_path: Path, note: str) -> None:
    assert use(MEMORY_WRITE_TOOL, context, text="x", note=note).is_error
    assert use(MEMORY_SEARCH_TOOL, context, note=note).is_error
    assert not (tmp_path / "out.md").exists()


def test_without_a_data_folder_there_is_no_memory(tmp_path: Path) -> None:
    for tool, arguments in ((MEMORY_WRITE_TOOL, {"text": "x"}), (MEMORY_SEARCH_TOOL, {"words": "x"})):
        assert "no data folder" in use(tool, make_context(tmp_path), **arguments).text


def test_what_left_the_view_is_read_back(context: ToolContext) -> None:
    (ident,) = context.session.add(user_message("The port is 8443. " + "filler " * 3000))
    (second,) = context.session.add(user_message("And the host is heron."))
    first = use(RECALL_TOOL, context, what=ident).text
    assert "The port is 8443." in first
    assert len(first) > 20_000, "a message comes back whole, up to a quarter of the room"
    assert len(use(RECALL_TOOL, context, what=ident, max_chars=8_000).text) <= 8_000
    more = use(RECALL_TOOL, context, what=ident, offset=8000).text
    assert "filler" in more
    assert "heron" in use(RECALL_TOOL, context, what=f"{second}..{second}").text
    assert second in use(RECALL_TOOL, context, what="host heron").text
    assert "Give the id" in use(RECALL_TOOL, context, what="m99999").text
    assert len(use(RECALL_TOOL, context, what=ident, max_chars=60_000).text.encode()) <= MAX_RESULT_BYTES


def test_a_search_does_not_find_its_own_call(context: ToolContext) -> None:
    context.session.add(user_message("The host is heron."))
    call = {"id": "c1", "type": "function", "function": {"name": "recall", "arguments": '{"what": "host heron"}'}}
    context.session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    context.session.add({"role": "tool", "tool_call_id": "c1", "content": "m2 user: The host is heron."})
    assert use(RECALL_TOOL, context, what="host heron").text == "m2 user: The host is heron."


def test_a_search_in_the_memory_finds_notes_and_no_session(context: ToolContext) -> None:
    context.session.add(user_message("The host is heron."))
    assert context.data is not None
    context.data.notes.write("hosts.md", "The host is heron.\n", about="machines")
    found = use(MEMORY_SEARCH_TOOL, context, words="host heron").text
    assert "hosts.md:1  The host is heron." in found
    assert "session" not in found


def test_a_compaction_is_asked_for_and_made_by_the_loop(context: ToolContext) -> None:
    head, before = context.session.log.head, context.requested_compaction
    assert not use(COMPACT_TOOL, context, focus=" the ports ").is_error
    assert (before, context.requested_compaction) == (None, "the ports")
    assert context.session.log.head == head


def test_skills_are_listed_and_read(context: ToolContext, tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: release\ndescription: How to release\n---\n1. Tag it.\n")
    tool = create_skills_tool(Skills([tmp_path / "skills"]))
    assert use(tool, context).text == "release: How to release"
    assert use(tool, context, name="release").text == "1. Tag it."
    assert use(tool, context, name="relase").is_error
    assert use(create_skills_tool(Skills()), context).text == "[there are no skills]"
