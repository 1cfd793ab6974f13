"""Agents of pydantic-ai with the capability, against the strict fake provider."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from tests.fake.server import Fake
from tests.integrations.examples import check_example
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import (
    GREETING,
    QUESTION,
    REFUSAL_CHECKS,
    SUMMARIES,
    TOLD,
    WINDOW,
    answer_and_recall,
    check_killed_run,
    check_refused_thinking,
    check_secret_stays,
    check_summaries,
)
from tidegate.core.events import BranchStarted, UsageReported
from tidegate.core.messages import Call
from tidegate.integrations.pydantic_ai import TidegateCapability
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

NO_LIMIT = UsageLimits(request_limit=None)
PROMPT = "Be brief."


def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def run_agent(wire: str, url: str, act: Callable[[Any], Any]) -> Any:
    """Call `act` with a model in an event loop, and close the client afterwards."""

    async def run() -> Any:
        if wire == "anthropic":
            async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
                return await act(
                    AnthropicModel("claude-sonnet-4-6", provider=AnthropicProvider(anthropic_client=client))
                )
        async with AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            form = OpenAIResponsesModel if wire == "openai_responses" else OpenAIChatModel
            return await act(form("gpt-4o", provider=OpenAIProvider(openai_client=client)))

    return asyncio.run(run())


def usage_reports(tidegate: TidegateCapability, name: str) -> list[UsageReported]:
    events = tidegate.session(name).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


def returned(messages: list[Any]) -> list[Any]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part.content for each in requests for part in each.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.parametrize(("wire", "pages"), [("openai_chat", 200), ("openai_responses", 40), ("anthropic", 60)])
def test_a_long_run_fits_and_the_history_stays_complete(wire: str, pages: int, tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW)

    async def act(model: Any) -> Any:
        agent = Agent(model, tools=[read], capabilities=[tidegate], system_prompt="Be brief.")
        return await agent.run("Read all pages.", conversation_id="long", usage_limits=NO_LIMIT)

    with run_provider(wire, LongTask(pages, parallel=2), WINDOW) as fake:
        result = run_agent(wire, fake.url, act)
        assert fake.refused == []
        assert len(fake.seen) == pages // 2 + 1
        assert all("Be brief." in seen.raw.decode() for seen in fake.seen)
    assert result.output == FINAL_ANSWER
    assert returned(result.all_messages()) == [read_page(number) for number in range(pages)]
    for number in (0, pages // 3, pages - 1):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    assert len(usage_reports(tidegate, "long")) == pages // 2 + 1
    assert not [event for event in tidegate.session("long").log.read() if isinstance(event.payload, BranchStarted)]
    tidegate.threads.close()


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    image = BinaryContent(b"\x89PNG\r\n", media_type="image/png")
    bodies = []
    for capabilities in ([], [TidegateCapability(tmp_path, recall=False)]):

        async def act(model: Any, capabilities: Any = capabilities) -> Any:
            settings: Any = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
            agent = Agent(model, tools=[read], capabilities=capabilities, instructions="Be brief.")
            return await agent.run(["What is this?", image], conversation_id="same", model_settings=settings)

        with run_provider("anthropic", LongTask(3, thinking="Let me look.")) as fake:
            assert run_agent("anthropic", fake.url, act).output == FINAL_ANSWER
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]
    assert "thinking" in str(bodies[1][-1]["messages"])


class CountedRequest(ModelRequest):
    """A request that counts how often its parts are read."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "parts":
            CountedRequest.reads += 1
        return super().__getattribute__(name)


def test_known_messages_are_not_read_again(tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW // 4)
    settings: Any = SimpleNamespace(conversation_id="count", run_id="r")
    messages: list[Any] = [CountedRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Read all pages.")])]
    reads = []
    for number in range(200):
        messages.append(ModelResponse(parts=[ToolCallPart("read", {"number": number}, f"c{number}")]))
        messages.append(CountedRequest(parts=[ToolReturnPart("read", "all is well " * 20, f"c{number}")]))
        context = ModelRequestContext(
            model=TestModel(),
            messages=[*messages],
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        CountedRequest.reads = 0
        sent = asyncio.run(tidegate.before_model_request(settings, context)).messages
        reads.append(CountedRequest.reads)
        assert "Be brief." in str(sent[0])
        assert reads[-1] < 2 * len(sent) + 20, "what is sent, not the history"
    tidegate.threads.close()


def test_streaming(tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW)

    async def act(model: Any) -> str:
        agent = Agent(model, tools=[read], capabilities=[tidegate])
        async with agent.run_stream("Read all pages.", conversation_id="stream", usage_limits=NO_LIMIT) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    with run_provider("openai_chat", LongTask(40, parallel=3), WINDOW) as fake:
        assert run_agent("openai_chat", fake.url, act) == FINAL_ANSWER
        assert fake.refused == []
        assert all(seen.body["stream"] for seen in fake.seen)
    assert len(usage_reports(tidegate, "stream")) == len(fake.seen)
    tidegate.threads.close()


def run_sync(url: str, tidegate: TidegateCapability, question: str, history: list[Any] | None = None) -> Any:
    """Run an agent as a program without an event loop does; the loop that the framework makes is closed."""
    client = AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, tools=[read], capabilities=[tidegate])
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        result = agent.run_sync(question, conversation_id="sync", message_history=history, usage_limits=NO_LIMIT)
        runner.run(client.close())
    return result


def test_sync_runs_in_two_threads_continue_one_session(tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW)
    task = LongTask(40, parallel=2)
    with run_provider("openai_chat", task, WINDOW) as fake, ThreadPoolExecutor(1) as pool:
        first = run_sync(fake.url, tidegate, "Read all pages.")
        task.left = list(range(40, 60))
        second = pool.submit(run_sync, fake.url, tidegate, "Go on.", first.all_messages()).result(60)
        assert fake.refused == []
        assert len(fake.seen) == 21 + 11
    assert (first.output, second.output) == (FINAL_ANSWER, FINAL_ANSWER)
    assert returned(second.all_messages()) == [read_page(number) for number in range(60)]
    assert [info.name for info in tidegate.threads.data.store.sessions()] == ["sync"]
    assert len(usage_reports(tidegate, "sync")) == len(fake.seen)
    assert not [event for event in tidegate.session("sync").log.read() if isinstance(event.payload, BranchStarted)]
    assert "K0003" in tidegate.threads.recall("sync", "K0003")
    tidegate.threads.close()


def test_an_agent_inside_a_tool_has_a_session_of_its_own(tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW)
    inner = LongTask(4)

    def script(body: dict[str, Any]) -> Any:
        if any(tool["function"]["name"] == "read" for tool in body["tools"]):
            return inner(body)
        asked = any(message["role"] == "tool" for message in body["messages"])
        return "The reader is done." if asked else ScriptedAnswer(calls=(Call("d", "delegate", "{}"),), number=800)

    async def act(model: Any) -> Any:
        reader = Agent(model, tools=[read], capabilities=[tidegate])

        async def delegate() -> str:
            """Let the reader read."""
            return (await reader.run("Read all pages.")).output

        agent = Agent(model, tools=[delegate], capabilities=[tidegate])
        return await agent.run("Delegate it.", conversation_id="main")

    with run_provider("openai_chat", script, WINDOW) as fake:
        assert run_agent("openai_chat", fake.url, act).output == "The reader is done."
        assert fake.refused == []
    names = {info.name for info in tidegate.threads.data.store.sessions()}
    assert len(names) == 2
    assert len(usage_reports(tidegate, "main")) == 2
    assert len(usage_reports(tidegate, (names - {"main"}).pop())) == 5
    tidegate.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW)
    task = LongTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any(message.get("tool_call_id") == "recalled" for message in body["messages"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)

    async def act(model: Any) -> Any:
        agent = Agent(model, tools=[read], capabilities=[tidegate])
        return await agent.run("Read all pages.", conversation_id="r", usage_limits=NO_LIMIT)

    with run_provider("openai_chat", script, WINDOW) as fake:
        result = run_agent("openai_chat", fake.url, act)
        assert fake.refused == []
        assert not any(message["content"] == read_page(3) for message in fake.seen[-1].body["messages"])
    assert "K0003" in returned(result.all_messages())[-1]
    tidegate.threads.close()


KILLED = """
from pydantic_ai.messages import ModelMessagesTypeAdapter
from tests.integrations.test_pydantic_ai import *
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
saved = folder / "history.json"
async def run():
    tidegate = TidegateCapability(folder / "data", window=WINDOW)
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key=KEY))
    agent = Agent(model, tools=[read], capabilities=[tidegate])
    history = ModelMessagesTypeAdapter.validate_json(saved.read_bytes()) if saved.exists() else None
    given = None if history else question
    async with agent.iter(given, message_history=history, conversation_id="k", usage_limits=NO_LIMIT) as run:
        async for node in run:
            saved.write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
    print(run.result.output)
asyncio.run(run())
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    check_killed_run(KILLED, "openai_chat", tmp_path)


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    tidegate = TidegateCapability(tmp_path, window=WINDOW, policy=policy, summarize=True)

    async def act(model: Any) -> Any:
        agent = Agent(model, tools=[read], capabilities=[tidegate])
        return (await agent.run("Read all pages.", conversation_id="s", usage_limits=NO_LIMIT)).output

    check_summaries(lambda fake: str(run_agent("openai_chat", fake.url, act)), "openai_chat", **SUMMARIES[policy])
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("pydantic_ai_agent.py", "openai_chat", tmp_path)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("check", REFUSAL_CHECKS)
def test_a_refusal_for_length_is_answered(check: Any, is_stream: bool, tmp_path: Path) -> None:
    opened: list[TidegateCapability] = []

    def run(fake: Fake, window: int, max_output: int) -> str:
        tidegate = opened[0] if opened else TidegateCapability(tmp_path, window=window)
        opened.append(tidegate)
        settings: Any = {"max_tokens": max_output} if max_output else None

        async def act(model: Any) -> str:
            agent = Agent(model, tools=[read], capabilities=[tidegate], model_settings=settings, system_prompt=PROMPT)
            if not is_stream:
                return str((await agent.run("Read all pages.", usage_limits=NO_LIMIT)).output)
            async with agent.run_stream("Read all pages.", usage_limits=NO_LIMIT) as result:
                return "".join([text async for text in result.stream_text(delta=True)])

        answer = str(run_agent("openai_chat", fake.url, act))
        assert all(PROMPT in seen.raw.decode() for seen in fake.seen)
        return answer

    check(run, "openai_chat")
    opened[0].threads.close()


# --- whose session it is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversation", [None, "support"])
def test_users_whose_runs_begin_with_the_same_history_stay_apart(conversation: str | None, tmp_path: Path) -> None:
    """The framework takes the conversation id from the history, which is the same for both users here."""
    tidegate = TidegateCapability(tmp_path, window=WINDOW)

    async def act(model: Any) -> None:
        agent = Agent(model, capabilities=[tidegate])
        common = (await agent.run(GREETING, conversation_id=conversation)).all_messages()
        for text in (TOLD, QUESTION):
            await agent.run(text, message_history=common)

    with run_provider("openai_chat", answer_and_recall) as fake:
        run_agent("openai_chat", fake.url, act)
        check_secret_stays(fake)
    names = sorted(info.name for info in tidegate.threads.data.store.sessions())
    assert len(names) == 2
    assert names[1].startswith(f"{names[0]}.")
    tidegate.threads.close()


def test_thinking_that_is_refused_after_an_edit_is_left_out(tmp_path: Path) -> None:
    """The model's name says that its thinking is not bound to what is before it; the provider knows better."""
    tidegate = TidegateCapability(tmp_path, window=WINDOW)

    def run(fake: Fake, window: int, max_output: int) -> str:
        settings: Any = {"anthropic_thinking": {"type": "adaptive"}, "max_tokens": 2000}

        async def act(model: Any) -> str:
            agent = Agent(model, tools=[read], capabilities=[tidegate], model_settings=settings)
            return str((await agent.run("Read all pages.", conversation_id="t", usage_limits=NO_LIMIT)).output)

        return str(run_agent("anthropic", fake.url, act))

    check_refused_thinking(run)
    tidegate.threads.close()
