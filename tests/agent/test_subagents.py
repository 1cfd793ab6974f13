"""Subagents: a window of their own, the conclusion for the asker, bounded in every direction, gone when stopped."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate import Session
from tidegate.agent.loop import Agent, AgentEvent, ToolFinished, TurnEnded
from tidegate.agent.spending import SessionSpending
from tidegate.agent.subagents import (
    TASK_TOOL_NAME,
    SubagentKind,
    SubagentLimits,
    SubagentSession,
    SubagentTool,
)
from tidegate.agent.tools.approval import ALLOW_ALL, ApprovalQuestion, ApprovalRules, ask_one_at_a_time
from tidegate.agent.tools.tool import AgentTool, FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.events import NoteAdded
from tidegate.core.messages import Call, Tool, result_of, text_of
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import classify_response
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep


class Named(msgspec.Struct):
    path: str


async def _read(arguments: Named, context: ToolContext) -> ToolResult:
    return ToolResult(f"content of {arguments.path} " * 40)


READ = FunctionTool("read", "Read a file.", Named, _read)


class World:
    """A parent with the tool, and the sessions its subagents had."""

    def __init__(
        self,
        child: list[ScriptStep],
        parent: list[ScriptStep] | None = None,
        *,
        limits: SubagentLimits | None = None,
        tool: AgentTool = READ,
        approval: ApprovalRules = ALLOW_ALL,
    ) -> None:
        self.provider = ScriptedProvider("openai_chat", child)
        self.sessions: list[Session] = []
        kinds = {
            "general": SubagentKind("anything", self.provider, [tool], self._opened),
            "reviewer": SubagentKind(
                "reads code", ScriptedProvider("openai_chat", ["Looks good."]), [tool], self._opened
            ),
        }
        self.session = Session("scripted", wire="openai_chat", window=8000)
        self.spending = SessionSpending(self.session)
        self.tool = SubagentTool(kinds, approval=approval, meters=[self.spending], limits=limits)
        toolbox = Toolbox([self.tool])
        self.session.set_tools(toolbox.definitions())
        self.context = ToolContext(Path("."), self.session, session_name="build")
        self.agent = Agent(self.session, ScriptedProvider("openai_chat", parent or []), toolbox, self.context)

    def _opened(self, asker: str, tools: Sequence[Tool]) -> SubagentSession:
        session = Session("scripted", wire="openai_chat", window=2000, tools=tools)
        self.sessions.append(session)
        return SubagentSession(session, f"{asker}.task-{len(self.sessions)}")

    def call(self, **arguments: Any) -> ToolResult:
        return asyncio.run(self.tool(arguments, self.context))

    def turn(self, text: str = "Find out.") -> list[AgentEvent]:
        async def read() -> list[AgentEvent]:
            return [each async for each in self.agent.run_turn(text)]

        return asyncio.run(read())

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(request) for request in self.provider.requests]

    @property
    def notes(self) -> list[str]:
        events = [event.payload for event in self.session.log.read(1)]
        return [what.text for what in events if isinstance(what, NoteAdded) and what.topic == TASK_TOOL_NAME]


def reads(*paths: str, text: str = "") -> ScriptedAnswer:
    calls = tuple(Call(f"c{path}", "read", json.dumps({"path": path})) for path in paths)
    return ScriptedAnswer(text=text, calls=calls, usage=Usage(100, 10, 0, 0))


def tasks(*prompts: str) -> ScriptedAnswer:
    return ScriptedAnswer(
        calls=tuple(Call(f"t{n}", "task", json.dumps({"prompt": text})) for n, text in enumerate(prompts))
    )


@pytest.mark.seed("JUT-17")
def test_the_parent_pays_for_the_conclusion_only() -> None:
    world = World(
        [*(reads(f"f{n}", text="I look.") for n in range(12)), "It is the linker."],
        [tasks("Why is it slow?"), "The linker."],
    )
    happened = world.turn()
    assert happened[-1] == TurnEnded("end")
    (ended,) = [each for each in happened if isinstance(each, ToolFinished)]
    assert ended.result.text.startswith("It is the linker.\n[build.task-1: 12 tool calls")
    assert not ended.result.is_error
    (child,) = world.sessions
    assert child.log.head > 24
    assert "content of" not in str([text_of(item.message) for item in world.session.view.items])
    assert world.session.view.tokens < 200
    assert child.tokens <= 2000, "it has a window of its own"
    assert world.notes == ["build.task-1 began: Why is it slow?", "build.task-1 ended: answered"]


class Command(msgspec.Struct):
    command: str


async def _run(arguments: Command, context: ToolContext) -> ToolResult:
    return ToolResult("collected 12 items\n12 passed in 0.4s")


def read_ledger_after_long_talk(world: World) -> str:
    """The parent's ledger once the result of the task has left its view."""
    for number in range(40):
        world.session.add({"role": "user", "content": f"Question {number}. " + "Some words of it. " * 60})
        world.session.add({"role": "assistant", "content": f"Answer {number}. " + "It is so. " * 60})
    world.session.add({"role": "user", "content": "And now?"})
    world.session.compact()
    shown = world.session.prepare().to_bytes().decode()
    assert "[work in build.task-1]" not in shown, "the result has left the view"
    return str(next(message["content"] for message in json.loads(shown)["messages"] if "[Ledger" in str(message)))


def test_commands_of_a_subagent_reach_the_parents_ledger() -> None:
    """With the name of its session and the message there, and also when its result has left the parent's view."""
    calls = (Call("c1", "shell", json.dumps({"command": "pytest -q tests/parser"})),)
    child: list[ScriptStep] = [
        ScriptedAnswer(calls=calls),
        "It is fixed.",
    ]
    shell = FunctionTool("shell", "Run a command.", Command, _run)
    world = World(child, [tasks("Fix the parser."), "Done."], tool=shell)
    happened = world.turn()
    (ended,) = [each for each in happened if isinstance(each, ToolFinished)]
    assert "[work in build.task-1]" in ended.result.text
    ledger = read_ledger_after_long_talk(world)
    assert re.search(r"- ran m\d+: build\.task-1 m\d+: pytest -q tests/parser -> 2 lines, 12 passed", ledger)


def test_files_that_a_subagent_changed_reach_the_parents_ledger() -> None:
    calls = (Call("c1", "write_file", json.dumps({"path": "src/parser/cache.py"})),)
    write = FunctionTool("write_file", "Write a file.", Named, _read)
    world = World([ScriptedAnswer(calls=calls), "It is fixed."], [tasks("Fix the parser."), "Done."], tool=write)
    world.turn()
    ledger = read_ledger_after_long_talk(world)
    assert re.search(r"- changed m\d+: build\.task-1 m\d+: src/parser/cache\.py", ledger)


def test_what_a_subagent_spends_is_the_parents() -> None:
    world = World([reads("a"), ScriptedAnswer(text="Done.", usage=Usage(200, 20, 0, 0))])
    world.call(prompt="Look.")
    assert world.spending.session_total.tokens == 330


def test_the_first_request_of_a_subagent_holds_the_prompt_and_nothing_of_the_parent() -> None:
    world = World(["Done."])
    world.session.add({"role": "user", "content": "a secret plan"})
    world.call(prompt="Look at the port.")
    (body,) = world.bodies
    assert [message["content"] for message in body["messages"]] == ["Look at the port."]


def test_a_kind_is_chosen_by_name() -> None:
    world = World(["Done."])
    assert world.call(prompt="Look.", agent="reviewer").text.startswith("Looks good.")
    assert world.provider.requests == []
    wrong = world.call(prompt="Look.", agent="reviever")
    assert wrong.is_error
    assert "reviewer" in wrong.text
    assert "reviewer: reads code" in world.tool.tool.description


def test_the_result_is_bounded_whatever_it_says() -> None:
    world = World(["word " * 50_000])
    result = world.call(prompt="Tell me everything.")
    assert world.session.counter.count_text(result.text) <= 1100  # an eighth of the room of 8,000, and the last line


def test_tokens_are_bounded_and_what_was_found_comes_back() -> None:
    steps: list[ScriptStep] = [reads(f"f{n}", text=f"Finding {n}.") for n in range(50)]
    world = World(steps, limits=SubagentLimits(max_tokens=500))
    result = world.call(prompt="Look for ever.")
    assert result.is_error
    assert "Finding 0.\n\nFinding 1." in result.text
    assert "used 550 of its 500 tokens" in result.text
    assert len(world.provider.requests) == 5


def test_steps_are_bounded() -> None:
    world = World([reads(f"f{n}", text=f"Finding {n}.") for n in range(50)], limits=SubagentLimits(max_steps=3))
    result = world.call(prompt="Look for ever.")
    assert result.is_error
    assert "Finding 2." in result.text
    assert "it stopped: steps" in result.text
    assert len(world.provider.requests) == 3


@pytest.mark.parametrize(
    "step",
    [classify_response(401, "Incorrect API key"), ScriptedAnswer(text="", stop="refused"), ScriptedAnswer(text="")],
)
def test_failures_are_results(step: ScriptStep) -> None:
    world = World([step, step])
    result = world.call(prompt="Look.")
    assert result.is_error
    assert "not finished" in result.text
    assert world.notes[-1].startswith("build.task-1 ended: ")
    assert world.call(prompt="").is_error


def test_nesting_ends_at_the_limit() -> None:
    world = World([tasks("Go deeper."), tasks("Deeper still."), "The bottom.", "The top."])
    result = world.call(prompt="Begin.")
    names = [[tool["function"]["name"] for tool in body.get("tools", [])] for body in world.bodies]
    assert ["task" in each for each in names] == [True, False, False, True]
    answers = [body["messages"][-1]["content"] for body in world.bodies]
    assert "There is no tool 'task'" in answers[2]
    assert result.text.startswith("The top.")


def test_calls_made_together_run_together_and_stand_in_their_order() -> None:
    """The first to be asked for ends last: each waits for the one behind it."""
    gates = [asyncio.Event() for _ in range(3)]
    gates[2].set()

    async def slow(request: bytes) -> str:
        number = next(n for n in range(3) if f"part {n}" in request.decode())
        await gates[number].wait()
        if number:
            gates[number - 1].set()
        return f"Answer {number}."

    world = World([slow] * 3, [tasks("part 0", "part 1", "part 2"), "All three."])
    happened = world.turn()
    results = [each.result.text[:9] for each in happened if isinstance(each, ToolFinished)]
    assert results == ["Answer 0.", "Answer 1.", "Answer 2."]
    assert happened[-1] == TurnEnded("end")
    kept = [result_of(item.message) for item in world.session.view.items if item.message.role == "tool"]
    assert [result.call_id for result in kept if result is not None] == ["t0", "t1", "t2"]


def test_no_more_run_at_once_than_may() -> None:
    running, most, together = 0, 0, asyncio.Barrier(3)

    async def step(request: bytes) -> str:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await together.wait()
        running -= 1
        return "Done."

    world = World([step] * 9, limits=SubagentLimits(max_parallel=3))

    async def all_of_them() -> None:
        await asyncio.gather(*(world.tool({"prompt": "Look."}, world.context) for _ in range(9)))

    asyncio.run(all_of_them())
    assert most == 3
    assert len({note.split()[0] for note in world.notes}) == 9


def test_stopping_the_parent_stops_it_and_both_sessions_go_on() -> None:
    begun, left = asyncio.Event(), []

    async def hang(request: bytes) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            left.append(True)
        return "Never."

    world = World([reads("a", text="I found one thing."), hang], [tasks("Look.")])

    async def interrupt() -> None:
        async def read() -> None:
            async for _ in world.agent.run_turn("Find out."):
                pass

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    assert left == [True]
    assert world.notes[-1] == "build.task-1 ended: interrupted"
    world.agent.provider = ScriptedProvider("openai_chat", ["I see."])
    assert world.turn("What happened?")[-1] == TurnEnded("end")
    (child,) = world.sessions
    assert child.prepare().messages[-1]["role"] in ("tool", "user")


def test_questions_of_many_reach_a_person_one_by_one() -> None:
    asked, most = 0, 0

    async def person(question: ApprovalQuestion) -> bool:
        nonlocal asked, most
        asked, most = asked + 1, max(most, asked + 1)
        await asyncio.sleep(0)
        asked -= 1
        return question.tool == "read"

    ask = ask_one_at_a_time(person)

    async def all_of_them() -> list[bool]:
        return await asyncio.gather(*(ask(ApprovalQuestion(name, {}, "")) for name in ("read", "shell", "read")))

    assert asyncio.run(all_of_them()) == [True, False, True]
    assert most == 1


def test_a_subagent_has_the_approval_of_its_parent() -> None:
    world = World([reads("a"), "I could not."], approval=ApprovalRules(verdicts={"read": "deny"}))
    world.call(prompt="Look.")
    assert "Denied by the rule for read" in world.bodies[1]["messages"][-1]["content"]
