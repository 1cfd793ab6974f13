"""deepagents with LangChain's middleware, against the strict fake provider."""

from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from tests.fake.server import Fake
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import check_users_stay_apart
from tidegate.core.messages import Call
from tidegate.integrations.langchain import TidegateMiddleware
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WINDOW = 40_000
"""Prompt and tools of deepagents alone have several thousand tokens."""


@tool
def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def make_agent(fake: Fake, middleware: TidegateMiddleware, **options: Any) -> Any:
    model = ChatOpenAI(model="gpt-4o", base_url=fake.url, api_key=KEY, max_retries=0)
    return create_deep_agent(model, [read], middleware=[middleware], **options)


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1000}


def names_of(middleware: TidegateMiddleware) -> list[str]:
    return sorted(info.name for info in middleware.threads.data.store.sessions())


def test_a_long_run_fits_and_the_state_stays_complete(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    with run_provider("openai_chat", LongTask(100, parallel=2), WINDOW) as fake:
        agent = make_agent(fake, middleware, checkpointer=InMemorySaver())
        messages = agent.invoke(ask("Read all pages."), config("t"))["messages"]
        assert fake.refused == []
    assert messages[-1].text == FINAL_ANSWER
    results = [message.content for message in messages if isinstance(message, ToolMessage)]
    assert results == [read_page(number) for number in range(100)]
    assert "K0003" in middleware.threads.recall("t", "K0003")
    assert names_of(middleware) == ["t"]
    middleware.threads.close()


def test_users_stay_apart(tmp_path: Path) -> None:
    """Without a thread id, as a web server uses an agent whose list of messages it keeps itself."""
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def talk(fake: Fake, user: str, texts: Any) -> None:
        agent, messages = make_agent(fake, middleware), list[Any]()
        for text in texts:
            messages = agent.invoke({"messages": [*messages, HumanMessage(text)]})["messages"]

    check_users_stay_apart(talk, "openai_chat")
    assert len(names_of(middleware)) == 2
    middleware.threads.close()


def test_a_sub_agent_has_a_session_of_its_own(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    inner = LongTask(4)
    task = Call("t1", "task", '{"description": "Read the four pages.", "subagent_type": "reader"}')

    def script(body: dict[str, Any]) -> Any:
        if "You are the reader." in str(body["messages"][0]):
            return inner(body)
        is_done = any(message["role"] == "tool" for message in body["messages"])
        return "The reader is done." if is_done else ScriptedAnswer(calls=(task,), number=800)

    reader = {
        "name": "reader",
        "description": "Reads pages.",
        "system_prompt": "You are the reader.",
        "middleware": [middleware],
    }
    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = make_agent(fake, middleware, checkpointer=InMemorySaver(), subagents=[reader])
        assert agent.invoke(ask("Delegate it."), config("main"))["messages"][-1].text == "The reader is done."
        assert fake.refused == []
        assert len(fake.seen) == 7
    names = names_of(middleware)
    assert names == ["main", "main.tools"]
    assert "K0003" in middleware.threads.recall(names[1], "K0003")
    assert "K0003" not in middleware.threads.recall("main", "K0003")
    middleware.threads.close()


def test_the_default_sub_agent_is_managed(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, is_deep_agent=True, window=WINDOW)
    inner = LongTask(40)
    task = Call("t1", "task", '{"description": "Read all pages.", "subagent_type": "general-purpose"}')

    def script(body: dict[str, Any]) -> Any:
        users = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
        if not any("Delegate it." in text for text in users):
            return inner(body)
        is_done = any(message["role"] == "tool" for message in body["messages"])
        return "The sub-agent is done." if is_done else ScriptedAnswer(calls=(task,), number=800)

    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = make_agent(fake, middleware, checkpointer=InMemorySaver())
        messages = agent.invoke(ask("Delegate it."), config("main"))["messages"]
        assert messages[-1].text == "The sub-agent is done."
        assert fake.refused == []
    names = names_of(middleware)
    assert names == ["main", "main.tools"]
    assert "K0003" in middleware.threads.recall(names[1], "K0003")
    assert "K0003" not in middleware.threads.recall("main", "K0003")
    middleware.threads.close()
