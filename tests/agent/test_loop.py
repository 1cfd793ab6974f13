"""The loop against a scripted model: it ends, it recovers, it can be stopped anywhere, and the session stays valid."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate import Session
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, ToolFinished, ToolStarted, TurnEnded
from tidegate.agent.tools.approval import ApprovalRules
from tidegate.agent.tools.tool import AgentTool, FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import GiveUp
from tidegate.core.messages import INTERRUPTED, Call, result_of, text_of
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.provider import Delta
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
OVERFLOW = "This model's maximum context length is 2000 tokens. However, your messages resulted in 9999 tokens."


class Named(msgspec.Struct):
    path: str


def reading(act: Callable[[str], Any] | None = None) -> AgentTool:
    async def read(arguments: Named, context: ToolContext) -> ToolResult:
        if act is not None:
            await act(arguments.path)
        return ToolResult(f"content of {arguments.path} " * 40)

    return FunctionTool("read", "Read a file.", Named, read)


def an_agent(
    steps: list[ScriptStep],
    *,
    wire: str = "openai_chat",
    window: int = 2000,
    tool: AgentTool | None = None,
    output: int = 0,
    **options: Any,
) -> Agent:
    toolbox = Toolbox([tool or reading()], approval=ApprovalRules(default_verdict="allow"))
    model = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}.get(wire, "gpt-4o")
    tools = toolbox.definitions()
    session = Session(model, wire=wire, window=window, tools=tools, system="Be brief.", max_tokens=output)
    provider = ScriptedProvider(wire, steps, model=model)
    return Agent(session, provider, toolbox, ToolContext(Path("."), session), **options)


def called(*paths: str, text: str = "") -> ScriptedAnswer:
    return ScriptedAnswer(text=text, calls=tuple(Call(f"c{path}", "read", f'{{"path": "{path}"}}') for path in paths))


async def gathered(agent: Agent, text: str) -> list[AgentEvent]:
    return [each async for each in agent.run_turn(text)]


def run(agent: Agent, text: str = "Look.") -> list[AgentEvent]:
    return asyncio.run(gathered(agent, text))


@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_calls_tools_until_the_model_has_answered(wire: str) -> None:
    agent = an_agent([called("a"), called("b", "c"), "It is the linker."], wire=wire)
    happened = run(agent)
    assert [each.call.id for each in happened if isinstance(each, ToolStarted)] == ["ca", "cb", "cc"]
    assert happened[-1] == TurnEnded("end")
    assert sum(isinstance(each, RequestSent) for each in happened) == 3
    shown = "".join(each.text for each in happened if isinstance(each, Delta) and each.kind == "text")
    assert shown == "It is the linker."
    assert text_of(agent.session.view.items[-1].message) == "It is the linker."


def test_many_steps_in_a_small_window_never_overflow() -> None:
    """Measured before every call, also inside the tool loop: every request fits."""
    agent = an_agent([*(called(f"file{number}") for number in range(60)), "Done."], window=1500)
    happened = run(agent)
    sizes = [each.request.tokens for each in happened if isinstance(each, RequestSent)]
    assert len(sizes) == 61
    assert max(sizes) <= 1500
    assert happened[-1] == TurnEnded("end")
    assert any(decision.acted for each in happened if isinstance(each, RequestSent) for decision in each.decisions)


@pytest.mark.seed("COW-02", fixed="the loop is given the number; the preset's own is in its settings")
def test_the_steps_of_a_turn_are_bounded_and_a_batch_is_not_split() -> None:
    agent = an_agent([called("a", "b"), called("c", "d"), called("e")], max_steps=3)
    happened = run(agent)
    assert [each.call.id for each in happened if isinstance(each, ToolFinished)] == ["ca", "cb", "cc", "cd"]
    assert happened[-1] == TurnEnded("steps")
    agent.provider = ScriptedProvider("openai_chat", ["Going on."])
    assert run(agent, "And?")[-1] == TurnEnded("end")


def test_an_overflow_is_shrunk_and_sent_again() -> None:
    agent = an_agent([*(called(f"f{n}") for n in range(8)), classify_response(400, OVERFLOW), "Done."], window=8000)
    happened = run(agent)
    (refused,) = [each for each in happened if isinstance(each, RequestRefused)]
    assert refused.error.kind == "overflow"
    assert agent.session.window == 2000
    assert [each for each in happened if isinstance(each, RequestSent)][-1].request.tokens <= 2000
    assert happened[-1] == TurnEnded("end")


def test_after_two_recoveries_it_gives_up_and_the_session_goes_on() -> None:
    agent = an_agent([classify_response(400, OVERFLOW)] * 3, window=8000)
    with pytest.raises(GiveUp, match="nothing was lost"):
        run(agent)
    agent.provider = ScriptedProvider("openai_chat", ["Here."])
    assert run(agent, "Try this instead.")[-1] == TurnEnded("end")


def test_what_no_smaller_request_cures_is_raised_at_once() -> None:
    agent = an_agent([classify_response(401, "Incorrect API key provided")])
    with pytest.raises(ProviderError) as caught:
        run(agent)
    assert caught.value.kind == "auth"
    agent.provider = ScriptedProvider("openai_chat", ["Here."])
    assert run(agent, "Again.")[-1] == TurnEnded("end")


def test_a_call_that_was_cut_off_is_not_run() -> None:
    ran: list[str] = []

    async def act(path: str) -> None:
        ran.append(path)

    cut = ScriptedAnswer(calls=(Call("c1", "read", '{"path": "a"}'),), stop="length")
    agent = an_agent([cut, "I see."], tool=reading(act))
    happened = run(agent)
    (ended,) = [each for each in happened if isinstance(each, ToolFinished)]
    assert ended.result.is_error
    assert ran == []
    assert happened[-1] == TurnEnded("end")


def test_unknown_tools_and_broken_arguments_become_results() -> None:
    wrong = ScriptedAnswer(
        calls=(Call("c1", "raed", "{}"), Call("c2", "read", "{not json"), Call("c3", "read", '{"pth": 1}'))
    )
    happened = run(an_agent([wrong, "Sorry."]))
    results = [each.result for each in happened if isinstance(each, ToolFinished)]
    assert all(result.is_error for result in results)
    assert "'read'" in results[0].text
    assert happened[-1] == TurnEnded("end")


def test_empty_answers_end() -> None:
    happened = run(an_agent([ScriptedAnswer(text=""), ScriptedAnswer(text="")]))
    assert happened[-1] == TurnEnded("empty")


async def stopped_when(agent: Agent, when: Callable[[AgentEvent], bool]) -> list[AgentEvent]:
    """Read the turn in a task and cancel it as Ctrl-C does."""
    happened: list[AgentEvent] = []

    async def read() -> None:
        async for each in agent.run_turn("Look."):
            happened.append(each)
            if when(each):
                reached.set()
                await asyncio.sleep(60)

    reached = asyncio.Event()
    task = asyncio.create_task(read())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return happened


@pytest.mark.parametrize("kind", [RequestSent, Delta, ToolStarted, ToolFinished])
def test_stopping_anywhere_leaves_a_valid_session(kind: type[AgentEvent]) -> None:
    steps: list[ScriptStep] = [called("a", "b", text="I will look."), "Done."]
    agent = an_agent(steps)
    asyncio.run(stopped_when(agent, lambda each: isinstance(each, kind)))
    agent.provider = ScriptedProvider("openai_chat", ["I stopped."])
    assert run(agent, "Stop. What did you do?")[-1] == TurnEnded("end")
    for body in agent.provider.bodies:
        assert body["messages"]


def test_a_call_that_was_interrupted_is_answered_so_and_not_run_again() -> None:
    ran: list[str] = []

    async def hang(path: str) -> None:
        ran.append(path)
        await asyncio.sleep(60)

    agent = an_agent([called("a")], tool=reading(hang))

    async def interrupt() -> None:
        async def read() -> None:
            async for _ in agent.run_turn("Look."):
                pass

        task = asyncio.create_task(read())
        while not ran:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    agent.provider = ScriptedProvider("openai_chat", ["I see."])
    run(agent, "What happened?")
    assert ran == ["a"]
    (answer,) = [item.message for item in agent.session.view.items if item.message.kind == INTERRUPTED]
    result = result_of(answer)
    assert result is not None
    assert result.error


def test_words_that_were_shown_are_kept_when_stopped() -> None:
    agent = an_agent(["It is the linker, I think, because of the flags."])
    asyncio.run(stopped_when(agent, lambda each: isinstance(each, Delta)))
    last = agent.session.view.items[-1].message
    assert last.role == "assistant"
    assert text_of(last).endswith("[interrupted]")


def test_nothing_is_sent_that_was_not_prepared() -> None:
    agent = an_agent([called("a"), "Done."])
    happened = run(agent)
    asked = [each.request.to_bytes() for each in happened if isinstance(each, RequestSent)]
    assert isinstance(agent.provider, ScriptedProvider)
    assert agent.provider.requests == asked


def test_a_tool_whose_name_the_wire_cannot_carry_is_found() -> None:
    async def act(arguments: Named, context: ToolContext) -> ToolResult:
        return ToolResult("found")

    tool = FunctionTool("files.read it", "Read.", Named, act)
    agent = an_agent([], tool=tool)
    (sent,) = agent.session.dialect.tool_names(agent.session.view.tools)
    assert sent != "files.read it"
    agent.provider = ScriptedProvider(
        "openai_chat", [ScriptedAnswer(calls=(Call("c1", sent, '{"path": "a"}'),)), "Done."]
    )
    happened = run(agent)
    assert [each.result.text for each in happened if isinstance(each, ToolFinished)] == ["found"]


CAPS = {
    "openai_chat": "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you"
    " provided 9000.",
    "openai_responses": "Invalid max_output_tokens: This model supports at most 4096 output tokens.",
    "anthropic": "max_tokens: 9000 > 4096, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    "gemini": "Unable to submit request because it has a maxOutputTokens value of 9000 but the supported range is from"
    " 1 (inclusive) to 4097 (exclusive). Update the value and try again.",
}


@pytest.mark.parametrize("wire", WIRES)
def test_too_much_output_is_asked_for_once(wire: str) -> None:
    """The named limit is kept from then on, and stands in the log: past requests are rendered with it."""
    agent = an_agent([classify_response(400, CAPS[wire]), "Yes.", "No."], wire=wire, window=50_000, output=9000)
    happened = run(agent)
    assert [each.error.kind for each in happened if isinstance(each, RequestRefused)] == ["output_cap"]
    assert happened[-1] == TurnEnded("end")
    assert run(agent, "And now?")[-1] == TurnEnded("end")
    assert isinstance(agent.provider, ScriptedProvider)
    asked = [b"9000" in request for request in agent.provider.requests]
    assert asked == [True, False, False]
    assert all(b":4096" in request for request in agent.provider.requests[1:])
    assert "4096" in agent.session.view.model_note


def test_output_that_is_refused_again_or_without_a_limit_is_told() -> None:
    twice = an_agent(
        [classify_response(400, CAPS["openai_chat"]), classify_response(400, CAPS["openai_chat"])], output=9000
    )
    with pytest.raises(ProviderError, match="More output was asked for"):
        run(twice)
    less = an_agent([classify_response(400, CAPS["openai_chat"])], output=1000)
    with pytest.raises(ProviderError, match="max_output of the model"):
        run(less)
    unnamed = an_agent([classify_response(400, "max_completion_tokens is limited for this model")], output=9000)
    with pytest.raises(ProviderError):
        run(unnamed)


def test_where_only_the_window_is_named_an_answer_may_take_a_quarter_of_it() -> None:
    words = (
        "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192 tokens"
        " and your request has 50 input tokens (9000 > 8192 - 50)."
    )
    agent = an_agent([classify_response(400, words), "Yes."], window=50_000, output=9000)
    assert run(agent)[-1] == TurnEnded("end")
    assert isinstance(agent.provider, ScriptedProvider)
    assert b":2048" in agent.provider.requests[1]
