"""The user's own sessions: found where each agent keeps them, and only looked at."""

import os
from pathlib import Path

import pytest

from tests.lab.importers import samples
from tests.lab.importers.test_formats import stored
from tidegate.cli import import_
from tidegate.core.errors import BadInput
from tidegate.lab.importers import LOCAL_AGENTS, find_local_sessions, read_recordings

PLACES = [
    ("claude-code", ".claude/projects/-p/cc.jsonl", samples.CLAUDE_CODE, "", ""),
    ("claude-code", "elsewhere/projects/-p/ab.jsonl", samples.CLAUDE_CODE, "CLAUDE_CONFIG_DIR", "elsewhere"),
    ("codex", ".codex/sessions/2026/05/01/rollout-1.jsonl", samples.CODEX, "", ""),
    ("codex", "cx/sessions/2026/05/01/rollout-1.jsonl", samples.CODEX, "CODEX_HOME", "cx"),
    ("copilot", ".copilot/session-state/cp-1/events.jsonl", samples.COPILOT, "", ""),
    ("copilot", "cp/session-state/cp-1/events.jsonl", samples.COPILOT, "COPILOT_HOME", "cp"),
    ("gemini", ".gemini/tmp/ab/chats/session-1.json", samples.GEMINI, "", ""),
    ("gemini", "ge/.gemini/tmp/ab/chats/session-1.jsonl", samples.GEMINI_LINES, "GEMINI_CLI_HOME", "ge"),
    ("pi", ".pi/agent/sessions/--p--/1_x.jsonl", samples.PI, "", ""),
    ("pi", "pi/sessions/--p--/1_x.jsonl", samples.PI, "PI_CODING_AGENT_DIR", "pi"),
]


@pytest.mark.parametrize(("agent", "place", "content", "variable", "value"), PLACES)
def test_found(tmp_path: Path, agent: str, place: str, content: bytes, variable: str, value: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    told = {"HOME": str(tmp_path), **({variable: str(tmp_path / value)} if variable else {})}
    assert find_local_sessions(agent, told) == [file]
    assert len(read_recordings(file)) == 1


def test_opencode_in_its_folder(tmp_path: Path) -> None:
    session = stored(tmp_path / "data" / "opencode" / "storage")
    told = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    assert find_local_sessions("opencode", told) == [session]
    database = session.parents[3] / "opencode.db"
    database.write_bytes(b"")
    assert set(find_local_sessions("opencode", told)) == {session, database}


def test_subagents_are_not_sessions_and_the_newest_is_last(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    for at, name in enumerate(["new.jsonl", "old.jsonl", "agent-1.jsonl", "a2.jsonl"]):
        (folder / name).write_bytes(b"{}")
        os.utime(folder / name, (1000 - at, 1000 - at))
    assert [path.name for path in find_local_sessions("claude-code", {"HOME": str(tmp_path)})] == [
        "a2.jsonl",
        "old.jsonl",
        "new.jsonl",
    ]


def test_none_and_unknown(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"No sessions of codex in .*/\.codex"):
        find_local_sessions("codex", {"HOME": str(tmp_path)})
    with pytest.raises(BadInput, match="'vim' is unknown"):
        find_local_sessions("vim", {})


def test_the_parser_knows_the_same_agents() -> None:
    assert import_.LOCAL_AGENT_CHOICES == LOCAL_AGENTS
