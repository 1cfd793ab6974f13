"""Agents of Microsoft Agent Framework with the middleware, against the strict fake provider."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, Content, Message, chat_middleware
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from tests.fake.server import Fake
from tests.integrations.examples import check_example
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import (
    REFUSAL_CHECKS,
    SUMMARIES,
    WINDOW,
    check_killed_run,
    check_summaries,
    check_users_stay_apart,
)
from tidegate.core.events import BranchStarted, UsageReported
from tidegate.core.messages import Call
from tidegate.integrations.agent_framework import TidegateMiddleware
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def run_agent(url: str, act: Callable[[AsyncOpenAI], Awaitable[Any]]) -> Any:
    """Call `act` with a client in an event loop, and close the client afterwards."""

    async def run() -> Any:
        async with AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            return await act(client)

    return asyncio.run(run())


def make_agent(client: AsyncOpenAI, tidegate: Any = None, **options: Any) -> Agent:
    limits: Any = {"max_iterations": 500}
    chat = OpenAIChatCompletionClient(model="gpt-4o", async_client=client, function_invocation_configuration=limits)
    middleware = [tidegate] if tidegate else []
    return Agent(chat, **{"tools": [read], "instructions": "Be brief.", "middleware": middleware, **options})


def usage_reports(tidegate: TidegateMiddleware, name: str) -> list[UsageReported]:
    events = tidegate.session(name).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


def results_of(messages: list[Message]) -> list[Any]:
    return [each.result for message in messages for each in message.contents if each.type == "function_result"]


def test_a_long_run_fits_and_the_result_stays_complete(tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)

    async def act(client: AsyncOpenAI) -> Any:
        agent = make_agent(client, tidegate)
        return await agent.run("Read all pages.", session=agent.create_session(session_id="long"))

    with run_provider("openai_chat", LongTask(200, parallel=2), WINDOW) as fake:
        result = run_agent(fake.url, act)
        assert fake.refused == []
        assert len(fake.seen) == 101
        assert all("Be brief." in seen.raw.decode() for seen in fake.seen)
    assert result.text.endswith(FINAL_ANSWER)
    assert results_of(result.messages) == [read_page(number) for number in range(200)]
    for number in (0, 70, 199):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    assert len(usage_reports(tidegate, "long")) == 101
    assert not [event for event in tidegate.session("long").log.read() if isinstance(event.payload, BranchStarted)]
    tidegate.threads.close()


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    image = Content.from_uri("data:image/png;base64,iVBORw0KGgo=", media_type="image/png")
    bodies = []
    for tidegate in (None, TidegateMiddleware(tmp_path)):

        async def act(client: AsyncOpenAI, tidegate: Any = tidegate) -> Any:
            return await make_agent(client, tidegate).run([Message("user", [image])])

        with run_provider("openai_chat", LongTask(3)) as fake:
            assert run_agent(fake.url, act).text.endswith(FINAL_ANSWER)
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]


def test_streaming(tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW, session="stream")

    async def act(client: AsyncOpenAI) -> str:
        updates = make_agent(client, tidegate).run("Read all pages.", stream=True)
        return "".join([update.text async for update in updates])

    with run_provider("openai_chat", LongTask(40, parallel=3), WINDOW) as fake:
        assert run_agent(fake.url, act).endswith(FINAL_ANSWER)
        assert fake.refused == []
        assert all(seen.body["stream"] for seen in fake.seen)
    assert len(usage_reports(tidegate, "stream")) == len(fake.seen)
    tidegate.threads.close()


def test_an_agent_inside_a_tool_has_a_session_of_its_own(tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)
    inner = LongTask(4)

    def script(body: dict[str, Any]) -> Any:
        if any(tool["function"]["name"] == "read" for tool in body["tools"]):
            return inner(body)
        asked = any(message["role"] == "tool" for message in body["messages"])
        call = Call("d", "delegate", '{"task":"Read all pages."}')
        return "The reader is done." if asked else ScriptedAnswer(calls=(call,), number=800)

    async def act(client: AsyncOpenAI) -> Any:
        reader = make_agent(client, tidegate)

        async def delegate(task: str) -> str:
            """Let the reader read."""
            return (await reader.run(task, session=reader.create_session(session_id="reader"))).text

        agent = make_agent(client, tidegate, tools=[delegate])
        return await agent.run("Delegate it.", session=agent.create_session(session_id="main"))

    with run_provider("openai_chat", script, WINDOW) as fake:
        result = run_agent(fake.url, act)
        assert result.text.endswith("The reader is done.")
        assert fake.refused == []
    assert {info.name for info in tidegate.threads.data.store.sessions()} == {"main", "reader"}
    assert len(usage_reports(tidegate, "main")) == 2
    assert len(usage_reports(tidegate, "reader")) == 5
    tidegate.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW, session="r")
    task = LongTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any(message.get("tool_call_id") == "recalled" for message in body["messages"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)

    async def act(client: AsyncOpenAI) -> Any:
        return await make_agent(client, tidegate, tools=[read, tidegate.recall_tool()]).run("Read all pages.")

    with run_provider("openai_chat", script, WINDOW) as fake:
        result = run_agent(fake.url, act)
        assert fake.refused == []
        assert not any(message.get("content") == read_page(3) for message in fake.seen[-1].body["messages"])
    assert "K0003" in results_of(result.messages)[-1]
    tidegate.threads.close()


KILLED = """
from agent_framework import AgentSession
from tests.integrations.test_agent_framework import *
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
tidegate = TidegateMiddleware(folder / "data", window=WINDOW)
async def act(client):
    agent = make_agent(client, tidegate, tools=[read])
    return (await agent.run("Read all pages.", session=AgentSession(session_id="k"))).text
print(run_agent(url, act))
tidegate.threads.close()
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    """The framework saves a session after a run, so the run begins again. What was read before is still in the log."""
    check_killed_run(KILLED, "openai_chat", tmp_path, begins_again=True)


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW, policy=policy, summarize=True)

    async def act(client: AsyncOpenAI) -> str:
        return (await make_agent(client, tidegate).run("Read all pages.")).text

    check_summaries(lambda fake: str(run_agent(fake.url, act)), "openai_chat", **SUMMARIES[policy])
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("agent_framework_agent.py", "openai_chat", tmp_path)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("check", REFUSAL_CHECKS)
def test_a_refusal_for_length_is_answered(check: Any, is_stream: bool, tmp_path: Path) -> None:
    opened: list[TidegateMiddleware] = []

    def run(fake: Fake, window: int, max_output: int) -> str:
        tidegate = opened[0] if opened else TidegateMiddleware(tmp_path, window=window)
        opened.append(tidegate)
        options: Any = {"max_tokens": max_output} if max_output else None

        async def act(client: AsyncOpenAI) -> str:
            agent = make_agent(client, tidegate, default_options=options)
            if not is_stream:
                return (await agent.run("Read all pages.")).text
            return "".join([update.text async for update in agent.run("Read all pages.", stream=True)])

        return str(run_agent(fake.url, act))

    check(run, "openai_chat")
    opened[0].threads.close()


@pytest.mark.parametrize("is_last", [True, False])
def test_the_last_middleware_of_the_list_sees_what_the_others_changed(is_last: bool, tmp_path: Path) -> None:
    @chat_middleware
    async def redact(context: Any, call_next: Any) -> None:
        context.messages = [Message("user", ["[redacted]"])]
        await call_next()

    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)
    order = [redact, tidegate] if is_last else [tidegate, redact]

    async def act(client: AsyncOpenAI) -> Any:
        return await make_agent(client, middleware=order).run("The secret.")

    with run_provider("openai_chat", lambda body: "Good day.") as fake:
        run_agent(fake.url, act)
        assert "[redacted]" in fake.seen[0].raw.decode()
    logged = tidegate.threads.recall("", "m1..m9")
    assert ("[redacted]" in logged, "The secret." in logged) == (is_last, not is_last)
    tidegate.threads.close()


# --- whose session it is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_session", [True, False])
def test_users_stay_apart(has_session: bool, tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)

    def talk(fake: Fake, user: str, texts: Any) -> None:
        async def act(client: AsyncOpenAI) -> None:
            agent = make_agent(client, tidegate, tools=[tidegate.recall_tool()])
            session = agent.create_session(session_id=user) if has_session else None
            messages: list[Message] = []
            for text in texts:
                given = [*messages, Message("user", [text])]
                messages = [*given, *(await agent.run(text if session else given, session=session)).messages]

        run_agent(fake.url, act)

    check_users_stay_apart(talk, "openai_chat")
    names = {info.name for info in tidegate.threads.data.store.sessions()}
    assert names == {"alice", "bob"} if has_session else len(names) == 2
    tidegate.threads.close()


def test_a_run_without_a_session_has_one_of_its_own(tmp_path: Path) -> None:
    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)

    async def act(client: AsyncOpenAI) -> None:
        await make_agent(client, tidegate).run("Read all pages.")

    with run_provider("openai_chat", LongTask(40, parallel=2), WINDOW) as fake:
        run_agent(fake.url, act)
        assert fake.refused == []
    assert len(usage_reports(tidegate, "")) == 21
    tidegate.threads.close()
