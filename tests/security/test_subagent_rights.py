"""Threat: a subagent that may only read, talked into it by a file, hands the work to a subagent that may write. No
subagent has more tools than the agent that asked it, along the whole chain.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Talk, call, run_agent
from tests.fake.server import Step
from tidegate import DataFolder, Session, Tool
from tidegate.agent.config.settings import AgentSettings
from tidegate.agent.subagents import SubagentKind, SubagentLimits, SubagentSession, SubagentTool
from tidegate.agent.tools.approval import ALLOW_ALL
from tidegate.agent.tools.files.read_tool import READ_TOOL
from tidegate.agent.tools.files.write_tools import WRITE_TOOL
from tidegate.agent.tools.tool import ToolContext
from tidegate.core.messages import Message, user_message
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider

ALLOWED = "capabilities: {default_policy: allow}\n"
WRITE = call("write", '{"path": "out.txt", "text": "new"}')


def ask(kind: str) -> ScriptedAnswer:
    return call("task", f'{{"prompt": "Go on.", "agent": "{kind}"}}')


def tools_of(talk: Talk) -> list[list[str]]:
    return [sorted(tool["function"]["name"] for tool in body.get("tools", [])) for body in talk.bodies]


def run(
    folder: Path, steps: Sequence[Step], *subagents: AgentSettings, config: str = ALLOWED, name: str = "build"
) -> Talk:
    """Everything that is offered may run without asking."""
    (folder / "out.txt").write_text("old")
    talk = run_agent(folder, config, [*steps, "Done.", "Done.", "Done."], "Go on.", subagents=subagents, name=name)
    assert (folder / "out.txt").read_text() == "old"
    return talk


@pytest.mark.seed("JUT-18")
def test_the_explorer_starts_no_other_subagent(tmp_path: Path) -> None:
    talk = run(tmp_path, [ask("explore"), ask("general"), WRITE])
    assert tools_of(talk)[1] == ["grep", "list", "read", "recall"]
    assert "There is no tool 'task'" in str(talk.bodies[2])


def test_a_subagent_has_only_the_tools_that_are_listed(tmp_path: Path) -> None:
    talk = run(tmp_path, [ask("reader"), ask("general"), WRITE], AgentSettings("reader", "worker", tools=("read",)))
    assert tools_of(talk)[1] == ["read"]


@pytest.mark.seed("JUT-18")
@pytest.mark.parametrize("kind", ["general", "writer"])
def test_a_subagent_that_may_ask_others_passes_on_its_own_tools_only(tmp_path: Path, kind: str) -> None:
    reader = AgentSettings("reader", "worker", tools=("read", "grep", "task"))
    writer = AgentSettings("writer", "worker", tools=("write", "read"))
    talk = run(tmp_path, [ask("reader"), ask(kind), WRITE], reader, writer)
    assert tools_of(talk)[1:3] == [["grep", "read", "task"], {"general": ["grep", "read"], "writer": ["read"]}[kind]]
    assert "There is no tool 'write'" in str(talk.bodies[3])


def test_what_the_agent_itself_may_not_do_its_subagents_may_not_do(tmp_path: Path) -> None:
    config = f"agents: [{{id: a, tools: [read, task], model: {{provider: main, model: gpt-4o}}}}]\n{ALLOWED}"
    talk = run(tmp_path, [ask("general"), WRITE], config=config)
    assert tools_of(talk)[:2] == [["read", "recall", "task"], ["read", "recall", "task"]]


def test_a_subagent_that_is_resumed_has_at_most_the_tools_of_the_agent(tmp_path: Path) -> None:
    """The user opens its session: it is then the agent of the configuration, and so are the subagents that it asks."""
    config = f"agents: [{{id: a, tools: [read, task], model: {{provider: main, model: gpt-4o}}}}]\n{ALLOWED}"
    run(tmp_path, [ask("general")], config=config)
    asked = [WRITE, ask("general"), WRITE, ask("general"), WRITE]
    talk = run(tmp_path, asked, config=config, name="build.task-1")
    assert "Go on." in str(talk.bodies[0])
    assert "Done." in str(talk.bodies[0]), "it is the subagent's conversation"
    assert set(map(tuple, tools_of(talk))) <= {("read", "recall", "task"), ("read", "recall"), ("read",)}
    assert all("There is no tool 'write'" in str(talk.bodies[place]) for place in (1, 3, 5))


def test_a_call_that_a_subagent_could_not_make_is_not_made_when_its_session_is_resumed(tmp_path: Path) -> None:
    """It called a tool that it did not have, and the process was killed before the call was refused."""
    run(tmp_path, [ask("explore")])
    with DataFolder(tmp_path / "data", secrets=[]) as data:
        session = data.open("build.task-1", "gpt-4o", wire="openai_chat")
        session.add(user_message("Look on.", typed=False))
        session.add(Message("assistant", WRITE.calls))
        session.close()
    talk = run(tmp_path, [], name="build.task-1")
    assert "Look on." in str(talk.bodies[0])
    assert "write" in tools_of(talk)[0], "the user's agent may write, but was not asked to"
    (result,) = [each for each in talk.bodies[0]["messages"] if each["role"] == "tool"]
    assert "interrupted" in str(result)


def test_tools_that_are_lost_on_the_way_do_not_come_back(tmp_path: Path) -> None:
    """Any (read, write), then one that only reads, then any again."""
    shown: list[list[str]] = []

    def opened(asker: str, tools: Sequence[Tool]) -> SubagentSession:
        shown.append([tool.name for tool in tools])
        return SubagentSession(Session("scripted", wire="openai_chat", window=8_000, tools=tools), f"{asker}.task")

    general = ScriptedProvider("openai_chat", [ask("reader"), ask("general"), "Done.", "Done.", "Done."])
    reader = ScriptedProvider("openai_chat", [ask("general"), "Done."])
    kinds = {
        "general": SubagentKind("anything", general, [READ_TOOL, WRITE_TOOL], opened),
        "reader": SubagentKind("reads", reader, [READ_TOOL], opened),
    }
    tool = SubagentTool(kinds, approval=ALLOW_ALL, limits=SubagentLimits(max_depth=4))
    context = ToolContext(tmp_path, Session("scripted", wire="openai_chat", window=8_000), session_name="a")
    asyncio.run(tool({"prompt": "Go on."}, context))
    assert shown == [["read", "write", "task"], ["read", "task"], ["read", "task"], ["read"]]
