"""The preset `jutul` through the agent: its prompt, its window, its files and its trace."""

from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Json, Talk, call, run_agent
from tests.fake.server import Step
from tidegate import DataFolder
from tidegate.agent.config.settings import AgentModel, AgentSettings, ContextSettings
from tidegate.agent.loop import ToolFinished
from tidegate.agent.runtime import OpenAgent
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import make_command_context
from tidegate.datafolder.trace.writer import TraceLine, read_trace, sum_usage_by_model

JUTUL = "policy: jutul\nwindow: 16000\n"
SUMMARY = "The user asked about several valves. Valve four opens at nine bar; src/valve.py holds the table."
SMALL = "execution: {context: {summary_brain: {provider: small, model: gpt-4o-mini}}}\n"


def system_of(body: Json) -> str:
    return str(body["messages"][0]["content"])


def trace_of(folder: Path, name: str = "build") -> list[TraceLine]:
    data = DataFolder(folder / "data", secrets=[])
    lines = list(read_trace(data.trace_path(name)))
    data.close()
    return lines


def long_talk(folder: Path, turns: int = 12, name: str = "build") -> Talk:
    """Turns of about 1,500 tokens each, so that older ones are summarized."""
    steps = [f"Answer {number}: " + "the valve opens at nine bar. " * 100 for number in range(turns)]
    asks = [f"Question {number}: " + "when does it open? " * 100 for number in range(turns)]
    return run_agent(folder, JUTUL + SMALL, steps, *asks, small=lambda _: SUMMARY, name=name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a skill and a memory of an earlier session."""
    skill = tmp_path / ".tidegate" / "skills" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: release\ndescription: How to cut a release\n---\nFirst tag the commit.\n"
    )
    data = DataFolder(tmp_path / "data", secrets=[])
    data.notes.write("ports.md", "The gateway listens on 8443.", about="which ports are used")
    data.close()
    return tmp_path


@pytest.mark.seed("JUT-01")
@pytest.mark.seed("JUT-02")
@pytest.mark.seed("JUT-03")
def test_a_call_sends_the_prompt_the_indexes_and_the_conversation(project: Path) -> None:
    """Bodies of skills and notes enter when the model reads them."""
    config = (
        JUTUL + "agents: [{id: a, brain: {provider: main, model: gpt-4o}, system_prompt: You look after valves.}]\n"
    )
    steps: list[Step] = [
        call("skills", '{"name": "release"}', "c1"),
        call("memory_search", '{"note": "ports.md"}', "c2"),
        "Tag it; the port is 8443.",
        "Yes.",
    ]
    talk = run_agent(project, config, steps, "How do I release, and which port?", "Sure?")
    first, after_skill, after_note, last = talk.bodies
    for body in talk.bodies:
        system = system_of(body)
        assert "You look after valves." in system, "the domain"
        assert str(project) in system, "facts such as paths"
        assert "- release: How to cut a release" in system, "the index of skills"
        assert "[ports.md](ports.md): which ports are used" in system, "the index of the memory"
        assert "First tag the commit." not in system
        assert "8443" not in system
    assert len(system_of(first).split("\n\n")[0]) > 100, "the ground rules"
    assert "First tag the commit." not in str(first)
    assert "First tag the commit." in str(after_skill)
    assert "The gateway listens on 8443." not in str(after_skill)
    assert "The gateway listens on 8443." in str(after_note)
    assert [m["content"] for m in last["messages"] if m["role"] == "user"] == [
        "How do I release, and which port?",
        "Sure?",
    ]


@pytest.mark.seed("JUT-19")
def test_the_next_session_finds_and_uses_what_the_last_one_wrote(tmp_path: Path) -> None:
    write = '{"note": "valves.md", "text": "Valve four opens at nine bar.", "about": "when valves open"}'
    steps: list[Step] = [call("memory_write", write), "Noted."]
    run_agent(tmp_path, JUTUL, steps, "Remember: valve four opens at nine bar.", name="monday")
    search: list[Step] = [
        call("memory_search", '{"words": "valve opens bar"}', "c1"),
        call("memory_search", '{"note": "valves.md"}', "c2"),
        "Nine bar.",
    ]
    talk = run_agent(tmp_path, JUTUL, search, "When does valve four open?", name="tuesday")
    assert "when valves open" in system_of(talk.bodies[0]), "the index is in the prompt"
    assert "nine bar" not in str(talk.bodies[0]["messages"])
    found = [each.result.text for each in talk.events(ToolFinished)]
    assert "valves.md" in found[0]
    assert "Valve four opens at nine bar." in found[1]
    assert "Valve four opens at nine bar." in str(talk.bodies[-1])


@pytest.mark.seed("JUT-11")
def test_each_thread_has_its_own_history_file(tmp_path: Path) -> None:
    for name in ("build", "docs"):
        talk = long_talk(tmp_path, name=name)
        path = f"conversation_history/{name}.md"
        assert path in str(talk.bodies[-1]["messages"]), "the summary names the file"
        assert SUMMARY in str(talk.bodies[-1]["messages"])
        folder = tmp_path / "data" / "sessions" / name / "conversation_history"
        assert [each.name for each in folder.iterdir()] == [f"{name}.md"]
        assert "Question 0: when does it open?" in (folder / f"{name}.md").read_text()
        steps: list[Step] = [call("read", f'{{"path": "{path}", "limit": 5}}'), "It is there."]
        again = run_agent(tmp_path, JUTUL + SMALL, steps, "Look it up.", name=name, small=lambda _: SUMMARY)
        (read,) = again.events(ToolFinished)
        assert "Question 0" in read.result.text, "the agent can read it"


@pytest.mark.seed("JUT-20")
@pytest.mark.parametrize("content", [True, False])
def test_the_trace_can_hold_the_full_conversation(content: bool, tmp_path: Path) -> None:
    """With secrets masked, and without its text unless that is asked for."""
    (tmp_path / "valves.txt").write_text(
        "Valve four opens at nine bar. " * 60 + "key sk-proj-Zx81kQw93LmVb27TyRn50PdHs64"
    )
    steps: list[Step] = [call("read", '{"path": "valves.txt"}', text="I look it up."), "At nine bar."]
    talk = run_agent(tmp_path, JUTUL + f"trace: {{content: {str(content).lower()}}}\n", steps, "When does it open?")
    assert "Zx81" in str(talk.bodies[-1]), "the model read it"
    found = {line.event: line for line in trace_of(tmp_path) if line.event in ("tool_call", "tool_result")}
    texts = [line.text for line in trace_of(tmp_path) if line.event == "message"]
    if not content:
        assert texts == [None, None]
        assert (found["tool_call"].text, found["tool_result"].text) == (None, None)
        return
    assert texts == ["When does it open?", "At nine bar."]
    assert found["tool_call"].text == "I look it up."
    assert "Valve four opens at nine bar. " * 60 in str(found["tool_result"].text)
    assert "Zx81" not in str(trace_of(tmp_path))


@pytest.mark.seed("JUT-16")
def test_every_call_of_a_model_is_in_the_trace(tmp_path: Path) -> None:
    """Also those for summaries: the sums are those of what both servers answered."""
    talk = long_talk(tmp_path)
    assert talk.small_bodies
    lines = [line for line in trace_of(tmp_path) if line.event == "model_usage"]
    assert len(lines) == len(talk.bodies) + len(talk.small_bodies)
    assert [line.kind for line in lines].count("summary") == len(talk.small_bodies)
    usage = sum_usage_by_model(lines)
    assert {model: each.calls for model, each in usage.items()} == {
        "gpt-4o": len(talk.bodies),
        "gpt-4o-mini": len(talk.small_bodies),
    }
    tokens = sum(each.input_tokens + each.output_tokens for each in usage.values())
    assert tokens == talk.agent.spending.session_total.tokens > 0


@pytest.mark.seed("JUT-16")
def test_calls_of_a_subagent_are_in_its_own_trace_only(tmp_path: Path) -> None:
    steps: list[Step] = [call("task", '{"prompt": "Count the valves."}'), "Four valves.", "There are four."]
    talk = run_agent(tmp_path, JUTUL, steps, "How many valves?")
    lines = [*trace_of(tmp_path), *trace_of(tmp_path, "build.task-1")]
    usage = sum_usage_by_model(lines)["gpt-4o"]
    assert usage.calls == len(talk.bodies) == 3
    assert usage.input_tokens + usage.output_tokens == talk.agent.spending.session_total.tokens


@pytest.mark.seed("JUT-15")
def test_a_compaction_on_demand_is_in_the_trace(tmp_path: Path) -> None:
    """By the command and by the tool of the model: the next request is shorter, and the log keeps all."""
    (tmp_path / "empty.txt").write_text("")
    asks = [f"Question {number}: " + "when does it open? " * 30 for number in range(6)]
    steps: list[Step] = [f"Answer {number}: " + "at nine bar. " * 30 for number in range(6)]
    steps += [call("compact"), "Compacted.", "Again.", "Yes."]

    def compact_after_eight_turns(agent: OpenAgent) -> Awaitable[None] | None:
        return run_command(agent) if agent.session.view.total_turns == 8 else None

    async def run_command(agent: OpenAgent) -> None:
        told = await create_command_registry().answer("/compact", make_command_context(agent, None))
        assert not told.error, told.text

    talk = run_agent(
        tmp_path,
        JUTUL + SMALL,
        steps,
        *asks,
        "Compact.",
        "And now?",
        "Sure?",
        small=lambda _: SUMMARY,
        after_turn=compact_after_eight_turns,
    )
    made = [line for line in trace_of(tmp_path) if line.event == "context_compaction"]
    assert [(line.moment, line.stage) for line in made] == [("manual", "summarize")] * 2
    before, after, _, last = talk.bodies[-4:]
    assert asks[0] in str(before)
    assert asks[0] not in str(after)
    assert SUMMARY in str(after)
    assert SUMMARY in str(last)
    logged = "".join(str(event.payload) for event in talk.session.log.read())
    assert all(ask in logged for ask in asks), "nothing is lost from the record"


@pytest.mark.seed("JUT-14")
def test_the_window_is_the_one_that_the_server_has_loaded(tmp_path: Path) -> None:
    """The catalog knows the model with 128,000 tokens. The server has loaded 6,000 and refuses more."""
    steps = [f"Answer {number}: " + "the valve opens at nine bar. " * 60 for number in range(10)]
    asks = [f"Question {number}: " + "when does it open? " * 60 for number in range(10)]
    config = "policy: jutul\nmodules: {filesystem: {}}\n" + SMALL
    talk = run_agent(tmp_path, config, steps, *asks, window=6_000, loaded={"gpt-4o": 6_000}, small=lambda _: SUMMARY)
    assert (talk.agent.window.tokens, talk.agent.window.source) == (6_000, "server")
    assert talk.session.window == 6_000
    assert len(talk.bodies) >= 10
    made = [line for line in trace_of(tmp_path) if line.event == "context_compaction"]
    assert made, "it was compacted for the loaded window"
    assert {line.moment for line in made} == {"before_call"}, "and not after a refusal"


EXPLORE = '{"prompt": "Where is the port set?", "agent": "explore"}'


@pytest.mark.seed("JUT-18")
def test_a_subagent_explores_sources_and_the_parent_sees_only_its_conclusion(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("PORT = 8443  # the gateway\n" + "pass\n" * 500)
    (tmp_path / "out.txt").write_text("old")
    steps: list[Step] = [
        call("task", EXPLORE, "c1"),
        call("read", '{"path": "server.py"}', "c2"),
        call("write", '{"path": "out.txt", "text": "new"}', "c3"),
        "server.py:1 sets PORT = 8443.",
        "It is in server.py.",
    ]
    talk = run_agent(tmp_path, JUTUL, steps, "Which port?", ask=lambda _: True)
    parent, child = talk.bodies[0], talk.bodies[1]
    assert "explore: finds things out in source code" in str(parent["tools"])
    assert sorted(tool["function"]["name"] for tool in child["tools"]) == ["grep", "list", "read", "recall"]
    assert "You explore source code" in system_of(child)
    assert "There is no tool 'write'" in str(talk.bodies[3])
    assert (tmp_path / "out.txt").read_text() == "old"
    assert "pass" not in str(talk.bodies[-1]["messages"])
    assert "server.py:1 sets PORT = 8443." in str(talk.bodies[-1])


@pytest.mark.seed("JUT-18")
@pytest.mark.parametrize("way", ["a project's file", "a program"])
def test_a_kind_of_subagent_is_registered_with_prompt_tools_model_and_window(way: str, tmp_path: Path) -> None:
    config = JUTUL + "agents:\n  - {id: a, brain: {provider: main, model: gpt-4o}}\n"
    subagents: list[AgentSettings] = []
    if way == "a program":
        brain = AgentModel("small", "gpt-4o-mini", context=ContextSettings(max_tokens=5_000))
        subagents = [
            AgentSettings("manual", "specialist", "answers from the manual", brain, "You know the manual.", ("read",))
        ]
    else:
        config += (
            "  - {id: manual, role: specialist, description: answers from the manual, tools: [filesystem.read],"
            " system_prompt: You know the manual.,"
            " brain: {provider: small, model: gpt-4o-mini, context: {max_tokens: 5000}}}\n"
        )
    (tmp_path / "manual.txt").write_text("".join(f"{page}: a page about valves\n" for page in range(1_500)))
    steps: list[Step] = [call("task", '{"prompt": "Which valve?", "agent": "manual"}'), "Valve four."]
    talk = run_agent(
        tmp_path,
        config,
        steps,
        "Which valve?",
        small=[call("read", '{"path": "manual.txt"}'), "Valve four, page 9."],
        small_window=5_000,
        subagents=subagents,
        specialists=[] if subagents else ["manual"],
    )
    asked, again = talk.small_bodies
    assert "a page about valves" in str(again), "no request was refused: they were made for the window"
    assert asked["model"] == "gpt-4o-mini"
    assert "You know the manual." in system_of(asked)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["read"]
    assert "manual: answers from the manual" in str(talk.bodies[0]["tools"])
    assert "Valve four, page 9." in str(talk.bodies[-1])
