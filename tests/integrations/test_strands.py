"""Strands agents with the conversation manager, against the strict fake provider."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.middleware.stages import InvokeModelStage
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager

from tests.fake.server import Fake
from tests.fake.words import refusal
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
from tidegate.integrations.strands import TidegateConversation
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


@tool
def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def make_agent(url: str, tidegate: Any, name: str = "default", **options: Any) -> Agent:
    model = OpenAIModel(client_args={"base_url": url, "api_key": KEY, "max_retries": 0}, model_id="gpt-4o")
    settings = {"tools": [read], "system_prompt": "Be brief.", "callback_handler": None, **options}
    return Agent(model, conversation_manager=tidegate, agent_id=name, **settings)


def usage_reports(tidegate: TidegateConversation, name: str) -> list[UsageReported]:
    events = tidegate.session(name).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


def results_of(agent: Agent) -> dict[str, str]:
    results = [block["toolResult"] for each in agent.messages for block in each["content"] if "toolResult" in block]
    return {result["toolUseId"]: result["content"][0]["text"] for result in results}


def test_a_long_run_fits_and_the_messages_stay_complete(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW)
    with run_provider("openai_chat", LongTask(200, parallel=2), WINDOW) as fake:
        agent = make_agent(fake.url, tidegate, "long")
        assert str(agent("Read all pages.")).strip() == FINAL_ANSWER
        assert fake.refused == []
        assert len(fake.seen) == 101
    assert results_of(agent) == {f"call_{number}": read_page(number) for number in range(200)}
    for number in (0, 70, 199):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    assert len(usage_reports(tidegate, "long")) == 101
    assert not [event for event in tidegate.session("long").log.read() if isinstance(event.payload, BranchStarted)]
    tidegate.threads.close()


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    image: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n"}}}
    bodies = []
    for tidegate in (None, TidegateConversation(tmp_path, recall=False)):
        with run_provider("openai_chat", LongTask(3)) as fake:
            result = make_agent(fake.url, tidegate)([{"text": "What is this?"}, image])
            assert str(result).strip() == FINAL_ANSWER
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]


def test_a_past_that_a_middleware_changed_is_noticed(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW)

    def redact(context: Any) -> Any:
        if len(context.messages) < 13:
            return context
        result = {**context.messages[2]["content"][0]["toolResult"], "content": [{"text": "[redacted]"}]}
        changed = {"role": "user", "content": [{"toolResult": result}]}
        return context.replace(messages=[*context.messages[:2], changed, *context.messages[3:]])

    with run_provider("openai_chat", LongTask(8), WINDOW) as fake:
        agent = make_agent(fake.url, tidegate, "changed")
        agent.add_middleware(InvokeModelStage.Input, redact)
        agent("Read all pages.")
        assert fake.refused == []
        assert ["redacted" in seen.raw.decode() for seen in fake.seen] == [False] * 6 + [True] * 3
    log = list(tidegate.session("changed").log.read())
    assert len([event for event in log if isinstance(event.payload, BranchStarted)]) == 1
    assert "[redacted]" in tidegate.threads.recall("changed", "redacted")
    tidegate.threads.close()


def test_async_streaming(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW)

    async def run(fake: Fake) -> str:
        events = make_agent(fake.url, tidegate, "stream").stream_async("Read all pages.")
        return "".join([event["data"] async for event in events if "data" in event])

    with run_provider("openai_chat", LongTask(40, parallel=3), WINDOW) as fake:
        assert asyncio.run(run(fake)).endswith(FINAL_ANSWER)
        assert fake.refused == []
        assert all(seen.body["stream"] for seen in fake.seen)
    assert len(usage_reports(tidegate, "stream")) == len(fake.seen)
    tidegate.threads.close()


def test_an_agent_inside_a_tool_has_a_session_of_its_own(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW, recall=False)
    inner = LongTask(4)

    def script(body: dict[str, Any]) -> Any:
        if any(each["function"]["name"] == "read" for each in body["tools"]):
            return inner(body)
        asked = any(message["role"] == "tool" for message in body["messages"])
        return "The reader is done." if asked else ScriptedAnswer(calls=(Call("d", "delegate", "{}"),), number=800)

    with run_provider("openai_chat", script, WINDOW) as fake:
        reader = make_agent(fake.url, tidegate, "reader")

        @tool
        def delegate() -> str:
            """Let the reader read."""
            return str(reader("Read all pages."))

        agent = make_agent(fake.url, tidegate, "main", tools=[delegate])
        assert str(agent("Delegate it.")).strip() == "The reader is done."
        assert fake.refused == []
    assert len(usage_reports(tidegate, "main")) == 2
    assert len(usage_reports(tidegate, "reader")) == 5
    tidegate.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW)
    task = LongTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any(message.get("tool_call_id") == "recalled" for message in body["messages"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)

    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = make_agent(fake.url, tidegate, "r")
        agent("Read all pages.")
        assert fake.refused == []
    assert "K0003" in results_of(agent)["recalled"]
    tidegate.threads.close()


@pytest.mark.parametrize("check", REFUSAL_CHECKS)
def test_a_refusal_for_length_is_answered(check: Any, tmp_path: Path) -> None:
    opened: list[TidegateConversation] = []

    def run(fake: Fake, window: int, max_output: int) -> str:
        tidegate = opened[0] if opened else TidegateConversation(tmp_path, window=window)
        opened.append(tidegate)
        agent = make_agent(fake.url, tidegate, f"run-{len(opened)}")
        if max_output:
            agent.model.update_config(params={"max_tokens": max_output})
        return str(agent("Read all pages."))

    check(run, "openai_chat")
    opened[0].threads.close()


def test_after_the_last_attempt_the_refusal_is_raised(tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW)
    words = refusal("openai_chat", 400, "Your input exceeds the context window of this model.")
    task = LongTask(8)
    with run_provider("openai_chat", lambda body: task(body) if task.left else words) as fake:
        with pytest.raises(Exception, match="context window"):
            make_agent(fake.url, tidegate, "over")("Read all pages.")
        assert len(fake.refused) == 3
    tidegate.threads.close()


KILLED = """
from tests.integrations.test_strands import *
@tool
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
tidegate = TidegateConversation(folder / "data", window=WINDOW)
saved = FileSessionManager(session_id="k", storage_dir=str(folder / "saved"))
print(make_agent(url, tidegate, tools=[read], session_manager=saved)(question))
tidegate.threads.close()
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    check_killed_run(KILLED, "openai_chat", tmp_path)


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    tidegate = TidegateConversation(tmp_path, window=WINDOW, policy=policy, summarize=True)

    def run(fake: Fake) -> str:
        return str(make_agent(fake.url, tidegate, "s")("Read all pages."))

    check_summaries(run, "openai_chat", **SUMMARIES[policy])
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("strands_agent.py", "openai_chat", tmp_path)


# --- whose session it is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["no id", "agent id", "session manager"])
def test_users_stay_apart(kind: str, tmp_path: Path) -> None:
    """Each user has an agent of the same kind, as a web server makes it."""
    tidegate = TidegateConversation(tmp_path / "data", window=WINDOW)
    agents = []

    def talk(fake: Fake, user: str, texts: Any) -> None:
        saved = FileSessionManager(session_id=user, storage_dir=str(tmp_path / "saved"))
        name = "default" if kind == "no id" else "support"
        options = {"session_manager": saved} if kind == "session manager" else {}
        agents.append(make_agent(fake.url, tidegate, name, tools=[], **options))
        for text in texts:
            agents[-1](text)

    check_users_stay_apart(talk, "openai_chat")
    names = {info.name for info in tidegate.threads.data.store.sessions()}
    assert len(names) == 2
    if kind == "session manager":
        assert names == {"alice.support", "bob.support"}
    tidegate.threads.close()


def test_an_agent_that_has_the_messages_of_a_session_continues_it(tmp_path: Path) -> None:
    messages: list[Any] = []
    for question in ("Read all pages.", "Go on."):
        tidegate = TidegateConversation(tmp_path / "data", window=WINDOW)
        with run_provider("openai_chat", LongTask(4), WINDOW) as fake:
            agent = make_agent(fake.url, tidegate, "reader", messages=messages)
            agent(question)
            assert fake.refused == []
        messages = [*agent.messages]
        assert [info.name for info in tidegate.threads.data.store.sessions()] == ["reader"]
        tidegate.threads.close()
