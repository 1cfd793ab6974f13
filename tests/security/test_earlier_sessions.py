"""Threat: a model reads other sessions through recall. Only if the user's own file allows it, only of the same folder,
and without secrets.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.project import AGENT, Project, calls
from tidegate import DataFolder
from tidegate.core.errors import BadPolicy
from tidegate.datafolder.earlier_sessions import EarlierSessions
from tidegate.datafolder.forget.forget import forget_words
from tidegate.datafolder.workspaces import note_workspace

pytestmark = pytest.mark.sdk

KEY = "sk-verysecretkey0123456789"
DECISION = "We decided to keep the invoices in Postgres, not in files."
ELSEWHERE = "The other customer decided to keep invoices on paper."


def say(data: DataFolder, name: str, folder: Path | None, *texts: str) -> None:
    with data.open(name, "gpt-4o", window=100_000) as session:
        for number, text in enumerate(texts):
            session.add({"role": ("user", "assistant")[number % 2], "content": text})
    if folder is not None:
        note_workspace(data, name, folder)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataFolder]:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    with DataFolder(tmp_path / "data", secrets=[KEY]) as data:
        say(data, "monday", tmp_path / "here", "Where do invoices go?", DECISION, f"The key is {KEY}.")
        say(data, "tuesday", tmp_path / "here", "Fix the login.", "The login is fixed.")
        say(data, "stranger", tmp_path / "there", "Where do invoices go?", ELSEWHERE)
        say(data, "nowhere", None, "Where do invoices go?", ELSEWHERE)
        say(data, "now", tmp_path / "here", "What about invoices?")
        yield data


def test_what_was_decided_is_found_in_the_sessions_of_the_folder(data: DataFolder, tmp_path: Path) -> None:
    earlier = EarlierSessions(data, tmp_path / "here")
    found = earlier.recall("what did we decide about invoices last week", "*", current="now")
    first = found.splitlines()[0]
    assert first.startswith("[session monday, ")
    assert DECISION in found
    assert "session now" not in found
    assert DECISION in earlier.recall("m3", "monday", current="now")


@pytest.mark.parametrize("session", ["*", "stranger", "nowhere", "../there", "", "now"])
@pytest.mark.parametrize("what", ["other customer paper invoices", "m3", "m1..m9", '"on paper"'])
def test_a_session_of_another_folder_is_never_read(data: DataFolder, tmp_path: Path, session: str, what: str) -> None:
    found = EarlierSessions(data, tmp_path / "here").recall(what, session, current="now")
    assert "paper" not in found
    assert "stranger" not in found
    assert "nowhere" not in found


def test_a_folder_that_is_named_through_a_link_is_the_same_and_no_other_is(data: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "here")
    assert DECISION in EarlierSessions(data, tmp_path / "link").recall("invoices decided", "*")
    assert "monday" not in EarlierSessions(data, tmp_path).recall("invoices decided", "*")


def test_secrets_are_masked(data: DataFolder, tmp_path: Path) -> None:
    earlier = EarlierSessions(data, tmp_path / "here")
    for what, session in (("key", "*"), ("m4", "monday"), ("m1..m9", "monday"), (KEY, "*")):
        assert KEY not in earlier.recall(what, session, current="now")


def test_what_was_forgotten_is_not_found(data: DataFolder, tmp_path: Path) -> None:
    earlier = EarlierSessions(data, tmp_path / "here")
    assert "Postgres" in earlier.recall("Postgres", "*")
    forget_words(data, "monday", "Postgres")
    assert "Postgres" not in earlier.recall("invoices", "*")


def test_a_damaged_session_hides_no_other(data: DataFolder, tmp_path: Path) -> None:
    say(data, "broken", tmp_path / "here", "invoices", "invoices")
    data.store.append("broken", data.store.head("broken"), [b"no record"])
    assert DECISION in EarlierSessions(data, tmp_path / "here").recall("what was decided about invoices", "*")


OWN = "recall_earlier_sessions: true\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_tool_has_the_argument_only_if_the_user_allows_it(project: Project) -> None:
    project.write(user=AGENT)
    assert "an earlier session" not in project.talk().requests[0]
    project.write(user=AGENT + OWN)
    assert "an earlier session" in project.talk().requests[0]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_projects_file_cannot_allow_it(project: Project, trusted: bool) -> None:
    project.write(project=OWN, trusted=trusted)
    with pytest.raises(BadPolicy, match="cannot allow itself to read earlier sessions"):
        project.talk()


async def ask(data: DataFolder, folder: Path | None, only: str, tool: str = "recall", **arguments: str) -> str:
    from mcp import Client

    from tidegate.integrations.mcp_server import create_mcp_server

    async with Client(create_mcp_server(data, only, project=folder)) as client:
        result = await client.call_tool(tool, arguments)
        return "".join(block.text for block in result.content if block.type == "text")


def test_mcp_searches_them_only_if_allowed_and_masked(data: DataFolder, tmp_path: Path) -> None:
    asked = {"what": "invoices decided key", "session": "*"}
    allowed = asyncio.run(ask(data, tmp_path / "here", "", **asked))
    assert DECISION in allowed
    assert "paper" not in allowed
    assert KEY not in allowed
    for folder, only in ((None, ""), (tmp_path / "here", "now")):
        refused = asyncio.run(ask(data, folder, only, **asked))
        assert "recall_earlier_sessions: true" in refused
        assert DECISION not in refused


def test_the_search_of_mcp_reads_no_more_than_its_recall(data: DataFolder, tmp_path: Path) -> None:
    def search(folder: Path | None, only: str = "") -> str:
        return asyncio.run(ask(data, folder, only, "search", words="where do invoices go, key"))

    allowed = search(tmp_path / "here")
    assert "[session monday, " in allowed
    refused = search(None)
    assert "recall_earlier_sessions: true" in refused
    assert "invoices" not in refused
    for found in (allowed, refused, search(tmp_path / "here", "now")):
        assert "paper" not in found
        assert KEY not in found


def test_the_memory_of_an_agent_has_no_sessions(project: Project) -> None:
    """`memory_search` reads notes, whatever the user allows: sessions are read with `recall` only."""
    with DataFolder(project.data) as data:
        say(data, "stranger", None, "Where do invoices go?", ELSEWHERE)
    project.write(user=AGENT + OWN)
    answered = project.talk([calls("memory_search", words="invoices paper"), "Done."]).requests[-1]
    assert "nothing found; try" in answered
    assert "on paper" not in answered
