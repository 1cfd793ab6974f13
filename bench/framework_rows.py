"""Long runs of agent frameworks with their adapters: the rows of `bench/client_rows.py` that have no program.

Each function makes an agent, runs two turns with it and returns the adapter's sessions. It runs in the environment of
its framework, which `make integrations` builds. Models of Anthropic always think here: LangChain, deepagents,
pydantic-ai, Strands and inspect_ai ask them. Those of Gemini (ADK) and OpenAI (OpenAI Agents) think with `:block`.
"""

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.fake.server import Fake
from tests.integrations.provider import KEY, LongTask, read_page, run_provider
from tidegate.core.messages import Call
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

CALLS = 10_000
"""Of a run at most, where a framework has a limit."""


class Run(NamedTuple):
    """A run: where the provider is, the adapter's folder and window, the requests of the user, and the model."""

    url: str
    folder: Path
    window: int
    requests: Sequence[str]
    model: str


def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def run_langchain(run: Run, make_agent: Callable[..., Any] | None = None) -> None:
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from tidegate.integrations.langchain import TidegateMiddleware

    middleware = TidegateMiddleware(run.folder, window=run.window, is_deep_agent=make_agent is not None)
    if run.model.startswith("claude"):
        from langchain_anthropic import ChatAnthropic

        model: Any = ChatAnthropic(
            model=run.model,
            base_url=run.url,
            api_key=KEY,
            max_retries=0,
            max_tokens=4000,
            thinking=_thinking(run.model),
        )
    else:
        model = ChatOpenAI(model=run.model, base_url=run.url, api_key=KEY, max_retries=0)
    agent = (make_agent or create_agent)(model, [tool(read)], middleware=[middleware], checkpointer=InMemorySaver())
    for text in run.requests:
        agent.invoke(
            {"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}, "recursion_limit": 10 * CALLS}
        )
    middleware.threads.close()


def run_deepagents(run: Run) -> None:
    from deepagents import create_deep_agent

    run_langchain(run, create_deep_agent)


def run_pydantic_ai(run: Run) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.usage import UsageLimits

    from tidegate.integrations.pydantic_ai import TidegateCapability

    async def act() -> None:
        tidegate = TidegateCapability(run.folder, window=run.window)
        history: list[Any] = []
        async with _open_pydantic_model(run) as model:
            settings: Any = {"max_tokens": 4000, "anthropic_thinking": _thinking(run.model)}
            agent = Agent(model, tools=[read], capabilities=[tidegate])
            for text in run.requests:
                result = await agent.run(
                    text,
                    conversation_id="t",
                    message_history=history,
                    usage_limits=UsageLimits(request_limit=None),
                    model_settings=settings,
                )
                history = result.all_messages()
        tidegate.threads.close()

    asyncio.run(act())


def _open_pydantic_model(run: Run) -> Any:
    from contextlib import asynccontextmanager

    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    @asynccontextmanager
    async def open_model() -> Any:
        async with AsyncAnthropic(base_url=run.url, api_key=KEY, max_retries=0) as client:
            yield AnthropicModel(run.model, provider=AnthropicProvider(anthropic_client=client))

    return open_model()


def run_openai_agents(run: Run) -> None:
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, SQLiteSession, function_tool
    from agents import set_tracing_disabled as disable_tracing
    from openai import AsyncOpenAI

    from tidegate.integrations.openai_agents import TidegateFilter

    disable_tracing(True)

    async def act() -> None:
        tidegate = TidegateFilter(run.folder, session="t", window=run.window)
        async with AsyncOpenAI(base_url=run.url, api_key=KEY, max_retries=0) as client:
            model = OpenAIResponsesModel(run.model, client)
            agent: Any = Agent(name="reader", tools=[function_tool(read)], model=model)
            items = SQLiteSession("t")
            for text in run.requests:
                config = RunConfig(call_model_input_filter=tidegate)
                options: Any = {"run_config": config, "hooks": tidegate.hooks, "max_turns": CALLS}
                await Runner.run(agent, text, session=items, **options)
        tidegate.threads.close()

    asyncio.run(act())


def run_strands(run: Run) -> None:
    from strands import Agent, tool
    from strands.models.anthropic import AnthropicModel

    from tidegate.integrations.strands import TidegateConversation

    tidegate = TidegateConversation(run.folder, window=run.window)
    client: Any = {"base_url": run.url, "api_key": KEY, "max_retries": 0}
    model = AnthropicModel(
        client_args=client, model_id=run.model, max_tokens=4000, params={"thinking": _thinking(run.model)}
    )
    agent = Agent(model, tools=[tool(read)], conversation_manager=tidegate, agent_id="t", callback_handler=None)

    async def act() -> None:  # in one event loop: the connections of the model's client belong to it
        for text in run.requests:
            await agent.invoke_async(text)

    asyncio.run(act())
    tidegate.threads.close()


def run_agent_framework(run: Run) -> None:
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    from tidegate.integrations.agent_framework import TidegateMiddleware

    async def act() -> None:
        tidegate = TidegateMiddleware(run.folder, window=run.window)
        async with AsyncOpenAI(base_url=run.url, api_key=KEY, max_retries=0) as client:
            limits: Any = {"max_iterations": CALLS}
            chat = OpenAIChatCompletionClient(
                model=run.model, async_client=client, function_invocation_configuration=limits
            )
            agent = Agent(chat, tools=[read], middleware=[tidegate])
            session = agent.create_session(session_id="t")
            for text in run.requests:
                await agent.run(text, session=session)
        tidegate.threads.close()

    asyncio.run(act())


def run_google_adk(run: Run) -> None:
    os.environ["GOOGLE_API_KEY"] = KEY
    from google.adk.agents import LlmAgent, RunConfig
    from google.adk.apps import App
    from google.adk.models import Gemini
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from tidegate.integrations.google_adk import TidegatePlugin

    async def act() -> None:
        tidegate = TidegatePlugin(run.folder, window=run.window)
        agent = LlmAgent(name="reader", model=Gemini(model=run.model, base_url=run.url), tools=[read])
        runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[tidegate]))
        await runner.session_service.create_session(app_name="app", user_id="me", session_id="t")
        for text in run.requests:
            message = types.Content(role="user", parts=[types.Part(text=text)])
            settings = RunConfig(max_llm_calls=CALLS)
            async for _ in runner.run_async(user_id="me", session_id="t", new_message=message, run_config=settings):
                pass
        await runner.close()
        tidegate.threads.close()

    asyncio.run(act())


def run_inspect_ai(run: Run) -> None:
    """The second request is what its agent hears after an answer that is not correct."""
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.agent import AgentAttempts, react
    from inspect_ai.dataset import Sample
    from inspect_ai.model import modelapi
    from inspect_ai.model._providers.anthropic import AnthropicAPI
    from inspect_ai.scorer import match
    from inspect_ai.tool import Tool, tool

    from tidegate.integrations.inspect_ai import TidegateCompaction

    @modelapi(name="loopback")
    class LoopbackAPI(AnthropicAPI):
        async def count_tokens(self, *arguments: Any) -> int:  # without another server
            return len(str(arguments)) // 4

        async def count_tool_tokens(self, tools: Any) -> int:
            return len(str(tools)) // 4

    @tool(name="read")
    def read_tool() -> Tool:
        async def execute(number: int) -> str:
            """Read a page of the report.

            Args:
                number: the number of the page
            """
            return read_page(number)

        return execute

    tidegate = TidegateCompaction(run.folder, threshold=run.window - 4_000, session="t")
    attempts = AgentAttempts(attempts=len(run.requests), incorrect_message=run.requests[-1])
    solver = react(tools=[read_tool()], compaction=tidegate, attempts=attempts)
    model = {"model": f"loopback/{run.model}", "model_base_url": run.url, "model_args": {"api_key": KEY}}
    asks = {"reasoning_tokens": 1024} if "budget_tokens" in _thinking(run.model) else {"reasoning_effort": "high"}
    task = Task(dataset=[Sample(input=run.requests[0], target="nothing")], solver=solver, scorer=match())
    logs = run_eval(
        task, **model, **asks, max_tokens=4000, log_dir=str(run.folder / "logs"), display="none", max_retries=0
    )
    assert logs[0].status == "success", logs[0].error
    tidegate.threads.close()


class Framework(NamedTuple):
    run: Callable[[Run], None]
    wire: str
    model: str = "gpt-4o"


FRAMEWORKS = {
    "langchain": Framework(run_langchain, "anthropic"),
    "deepagents": Framework(run_deepagents, "anthropic"),
    "pydantic_ai": Framework(run_pydantic_ai, "anthropic"),
    "openai_agents": Framework(run_openai_agents, "openai_responses"),
    "strands": Framework(run_strands, "anthropic"),
    "agent_framework": Framework(run_agent_framework, "openai_chat"),
    "google_adk": Framework(run_google_adk, "gemini", "gemini-2.5-flash"),
    "inspect_ai": Framework(run_inspect_ai, "anthropic"),
}


def _thinking(model: str) -> dict[str, object]:
    return {"type": "enabled", "budget_tokens": 1024} if model.startswith("claude-sonnet-4-5") else {"type": "adaptive"}


class TwoTurns:
    """The scripted model: a page for each step, half of them in each turn. `ends_with_call`: by the tool `submit`."""

    def __init__(self, steps: int, *, thinking: bool, ends_with_call: bool) -> None:
        words = "Let me look." if thinking else ""
        half = steps // 2
        self._turns = [LongTask(half, thinking=words), LongTask(steps - half, start=half, thinking=words)]
        self._ends_with_call = ends_with_call

    def __call__(self, body: dict[str, Any]) -> Any:
        is_last = len(self._turns) == 1
        turn = self._turns[0]
        if not turn.left:
            self._turns = self._turns if is_last else self._turns[1:]
            if self._ends_with_call:
                call = Call(f"done_{len(self._turns)}_{is_last}", "submit", '{"answer":"something"}')
                return ScriptedAnswer(calls=(call,), number=99_999)
        return turn(body)


class SignedThinking:
    """A script whose answers of Gemini's or OpenAI's models think, and whose signatures must come back as they were.

    `faults`: signatures that were not issued, and calls of the running turn of Gemini's without the one they came with.
    """

    def __init__(self, script: TwoTurns, *, signs: bool) -> None:
        self._script, self._signs = script, signs
        self._issued: set[str] = set()
        self.faults: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        signatures = set(_SIGNATURE.findall(json.dumps(body)))
        self.faults += [f"unknown signature {each[:40]}" for each in signatures - self._issued]
        running = list[dict[str, Any]]()
        for content in body.get("contents", ()):
            is_request = content["role"] == "user" and any("text" in part for part in content["parts"])
            running = [] if is_request else [*running, *content["parts"]]
        calls = [part for part in running if "functionCall" in part]
        if self._signs:
            self.faults += ["a call without its signature" for part in calls if "thoughtSignature" not in part]
        answer = self._script(body)
        if self._signs:
            signature = b64encode(b"signature %d" % len(self._issued)).decode()
            self._issued.add(signature)
            answer = msgspec.structs.replace(answer, thinking="Let me look.", signature=signature)
        return answer


_SIGNATURE = re.compile(r'"(?:encrypted_content|thoughtSignature)": "([^"]+)"')


@contextmanager
def serve(framework: Framework, steps: int, window: int, mode: str, *, ends_with_call: bool) -> Iterator[Fake]:
    is_anthropic, is_checked = framework.wire == "anthropic", mode != "none"
    turns = TwoTurns(steps, thinking=is_anthropic, ends_with_call=ends_with_call)
    signed = SignedThinking(turns, signs=is_checked)
    binding: Any = mode if is_anthropic and is_checked else ""
    with run_provider(framework.wire, turns if is_anthropic else signed, window, binding=binding) as fake:
        yield fake
        fake.refused.extend(signed.faults)
