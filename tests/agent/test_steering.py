"""What the user says while a turn is under way is heard at the next safe point, and every request stays valid."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_loop import WIRES, an_agent, called, reading
from tests.scale import parametrize_pairs
from tidegate import BadInput
from tidegate.agent.hook_types import Always, Hook, RunFunction
from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.agent.loop import (
    NOT_RUN_AFTER_STEERING,
    Agent,
    AgentEvent,
    RequestSent,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserSteered,
)
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult
from tidegate.core.messages import INTERRUPTED, Tool, result_of, text_of, user_message
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.provider import Delta, Reply
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep

NEWS = "Stop that. Use the other file."


def steered(agent: Agent, when: Callable[[AgentEvent], bool], text: str = NEWS) -> list[AgentEvent]:
    """A turn that is steered once, when this has happened."""

    async def run() -> list[AgentEvent]:
        happened: list[AgentEvent] = []
        said = False
        async for each in agent.run_turn("Look."):
            happened.append(each)
            if not said and when(each):
                said = True
                agent.steer(text)
        return happened

    return asyncio.run(run())


def told(agent: Agent) -> list[str]:
    """The log's messages after the first, in short."""
    return [f"{item.message.role}: {text_of(item.message)[:30]}" for item in agent.session.view.items[1:]]


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_runs_may_end_and_one_that_was_not_begun_is_not(wire: str) -> None:
    ran: list[str] = []
    agent: Agent

    async def act(path: str) -> None:
        ran.append(path)
        agent.steer(NEWS)

    agent = an_agent([called("a", "b", text="I look."), "The other, then."], wire=wire, tool=reading(act))
    happened = asyncio.run(gathered(agent))
    assert ran == ["a"]
    ended = {each.call.id: each.result for each in happened if isinstance(each, ToolFinished)}
    assert not ended["ca"].is_error
    assert ended["cb"] == NOT_RUN_AFTER_STEERING
    assert [each for each in happened if isinstance(each, UserSteered)] == [UserSteered(NEWS)]
    assert happened[-1] == TurnEnded("end")
    roles = [item.message.role for item in agent.session.view.items]
    assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert isinstance(agent.provider, ScriptedProvider)
    assert NEWS.encode() in agent.provider.requests[1]
    assert b"the user said something new" in agent.provider.requests[1]


async def gathered(agent: Agent, text: str = "Look.") -> list[AgentEvent]:
    return [each async for each in agent.run_turn(text)]


def test_words_that_come_while_the_model_speaks_are_answered_behind_its_answer() -> None:
    agent = an_agent(["It is the linker.", "Then it is the cache."])
    happened = steered(agent, lambda each: isinstance(each, Delta))
    assert told(agent) == ["assistant: It is the linker.", f"user: {NEWS}", "assistant: Then it is the cache."]
    assert [type(each) for each in happened if isinstance(each, RequestSent | UserSteered | TurnEnded)] == [
        RequestSent,
        UserSteered,
        RequestSent,
        TurnEnded,
    ]


def test_calls_that_were_still_being_written_are_not_begun() -> None:
    ran: list[str] = []

    async def act(path: str) -> None:
        ran.append(path)

    agent = an_agent([called("a", "b"), "As you like."], tool=reading(act))
    happened = steered(agent, lambda each: isinstance(each, Reply))
    assert ran == []
    assert [each.result for each in happened if isinstance(each, ToolFinished)] == [
        NOT_RUN_AFTER_STEERING,
        NOT_RUN_AFTER_STEERING,
    ]
    assert happened[-1] == TurnEnded("end")


class ParallelTool:
    """A tool whose calls may run at the same time."""

    runs_in_parallel = True

    def __init__(self, inner: AgentTool) -> None:
        self._inner = inner

    @property
    def tool(self) -> Tool:
        return self._inner.tool

    async def __call__(self, arguments: Any, context: ToolContext) -> ToolResult:
        return await self._inner(arguments, context)


def test_calls_that_run_together_have_all_begun() -> None:
    agent: Agent

    async def act(path: str) -> None:
        await asyncio.sleep(0)
        if not agent.has_steering:
            agent.steer(NEWS)

    agent = an_agent([called("a", "b"), "Yes."], tool=ParallelTool(reading(act)))
    happened = asyncio.run(gathered(agent))
    assert [each.result.is_error for each in happened if isinstance(each, ToolFinished)] == [False, False]
    assert UserSteered(NEWS) in happened


def test_steps_are_counted_anew_for_what_was_said_anew() -> None:
    agent = an_agent([called("a", "b"), called("c"), called("d"), "Done."], max_steps=2)
    happened = steered(agent, lambda each: isinstance(each, ToolFinished) and each.call.id == "cb")
    assert happened[-1] == TurnEnded("steps")
    assert [each.call.id for each in happened if isinstance(each, ToolStarted)] == ["ca", "cb", "cc", "cd"]
    assert agent.session.view.total_turns == 2


def test_what_is_said_while_the_turn_ends_is_heard() -> None:
    agent = an_agent(["Done.", "Done again."])
    agent.hooks = HookRunner([Hook("say", Always(), RunFunction(lambda at: f"turn {at.turn}"))])
    happened = steered(agent, lambda each: isinstance(each, HookReport))
    assert [each.text for each in happened if isinstance(each, HookReport)] == ["turn 1", "turn 2"]
    assert happened[-1] == TurnEnded("end")


def test_several_things_are_heard_in_their_order() -> None:
    agent = an_agent([called("a"), "All right."])

    async def run() -> list[AgentEvent]:
        happened: list[AgentEvent] = []
        async for each in agent.run_turn("Look."):
            happened.append(each)
            if isinstance(each, ToolFinished):
                agent.steer("First.")
            if each == UserSteered("First."):
                agent.steer(user_message("Second."))
        return happened

    happened = asyncio.run(run())
    assert [each.text for each in happened if isinstance(each, UserSteered)] == ["First.", "Second."]
    assert sum(isinstance(each, RequestSent) for each in happened) == 2


def test_only_a_turn_can_be_steered() -> None:
    agent = an_agent(["Yes."])
    with pytest.raises(BadInput, match="No turn is running"):
        agent.steer("Hello?")
    assert not agent.is_busy
    asyncio.run(gathered(agent))
    with pytest.raises(BadInput):
        agent.steer("Hello?")


def test_a_turn_that_fails_does_not_lose_what_was_said_in_it() -> None:
    agent: Agent

    def refused(request: bytes) -> ProviderError:
        agent.steer(NEWS)
        return classify_response(401, "Incorrect API key provided")

    agent = an_agent([refused])
    with pytest.raises(ProviderError):
        asyncio.run(gathered(agent))
    assert not agent.is_busy
    agent.provider = ScriptedProvider("openai_chat", ["Here."])
    asyncio.run(gathered(agent, "Again."))
    assert [text.split(": ")[1] for text in told(agent)] == [NEWS, "Again.", "Here."]


@parametrize_pairs(("wire", "kind"), WIRES, [RequestSent, Delta, Reply, ToolStarted, ToolFinished])
def test_a_hard_steer_leaves_a_valid_session(wire: str, kind: type[AgentEvent]) -> None:
    """Interrupted and told something else: whatever was open is answered, nothing is run again."""
    ran: list[str] = []
    agent: Agent

    async def act(path: str) -> None:
        ran.append(path)
        if kind is ToolStarted:
            await asyncio.sleep(60)

    steps: list[ScriptStep] = [called("a", "b", text="I look.")]
    agent = an_agent(steps, wire=wire, tool=reading(act))

    async def run() -> list[AgentEvent]:
        reached = asyncio.Event()

        async def read() -> None:
            async for each in agent.run_turn("Look."):
                if isinstance(each, kind) and kind is not ToolStarted:
                    reached.set()
                    await asyncio.sleep(60)

        task = asyncio.create_task(read())
        while not (reached.is_set() or (kind is ToolStarted and ran)):
            await asyncio.sleep(0)
        agent.steer("This waits and must not be lost.")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        agent.provider = ScriptedProvider(wire, ["The other, then."], model=agent.provider.model)
        return await gathered(agent, NEWS)

    happened = asyncio.run(run())
    assert happened[-1] == TurnEnded("end")
    assert ran == (["a"] if kind in (ToolStarted, ToolFinished) else [])
    assert isinstance(agent.provider, ScriptedProvider)
    (request,) = agent.provider.requests
    assert b"This waits and must not be lost." in request
    assert NEWS.encode() in request
    answers = [item.message for item in agent.session.view.items if item.message.kind == INTERRUPTED]
    results = [result for answer in answers if (result := result_of(answer)) is not None]
    assert [result.call_id for result in results] == {
        ToolStarted: ["ca", "cb"],
        ToolFinished: ["cb"],
        Reply: ["ca", "cb"],
    }.get(kind, [])


def test_a_tool_of_the_agent_itself_may_be_steered_from_another_task(tmp_path: Path) -> None:
    """As a face does it: the turn is read by one task, the user types in another."""
    begun = asyncio.Event()
    free = asyncio.Event()

    async def act(path: str) -> None:
        begun.set()
        await free.wait()

    agent = an_agent([called("a"), "Heard."], tool=reading(act))

    async def run() -> list[AgentEvent]:
        task = asyncio.create_task(gathered(agent))
        await begun.wait()
        assert agent.is_busy
        agent.steer(NEWS)
        free.set()
        return await task

    happened = asyncio.run(run())
    assert UserSteered(NEWS) in happened
    assert told(agent)[-1] == "assistant: Heard."
