"""LangChain's own agent with the middleware, against the strict fake provider."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.fake.server import Fake
from tests.fake.words import refusal, too_long
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
    check_users_stay_apart,
    run_program,
)
from tidegate.core.events import UsageReported
from tidegate.core.messages import Call
from tidegate.datafolder.data_folder import DataFolder
from tidegate.integrations.langchain import TidegateMiddleware
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


@tool
def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def make_model(fake: Fake, **options: Any) -> Any:
    if fake.wire == "anthropic":
        return ChatAnthropic(
            model="claude-sonnet-4-6", base_url=fake.url, api_key=KEY, max_retries=0, max_tokens=2000, **options
        )
    responses = fake.wire == "openai_responses"
    return ChatOpenAI(
        model="gpt-4o", base_url=fake.url, api_key=KEY, max_retries=0, use_responses_api=responses, **options
    )


def config(thread: str | int) -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1000}


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.parametrize(("wire", "pages"), [("openai_chat", 200), ("openai_responses", 40), ("anthropic", 60)])
def test_a_long_run_fits_and_the_state_stays_complete(wire: str, pages: int, tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    with run_provider(wire, LongTask(pages, parallel=2), WINDOW) as fake:
        agent = create_agent(make_model(fake), [read], middleware=[middleware], checkpointer=InMemorySaver())
        result = agent.invoke(ask("Read all pages. Always answer in English."), config("t"))
        assert fake.refused == []
        assert len(fake.seen) == pages // 2 + 1
    messages = result["messages"]
    assert messages[-1].text == FINAL_ANSWER
    results = [message.content for message in messages if isinstance(message, ToolMessage)]
    assert results == [read_page(number) for number in range(pages)]
    for number in (0, pages // 3, pages - 1):
        assert f"K{number:04d}" in middleware.threads.recall("t", f"K{number:04d}")
    reports = usage_reports(middleware, "t")
    assert len(reports) == pages // 2 + 1
    assert all(report.input_tokens for report in reports)
    middleware.threads.close()


def usage_reports(middleware: TidegateMiddleware, thread: str) -> list[UsageReported]:
    events = middleware.session(thread).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    """Images, thinking and everything else of the host's own messages is sent as without the middleware."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    question = HumanMessage([{"type": "text", "text": "What is this?"}, image])
    bodies = []
    for middleware in ([], [TidegateMiddleware(tmp_path, recall=False)]):
        with run_provider("anthropic", LongTask(3, thinking="Let me look.")) as fake:
            model = make_model(fake, thinking={"type": "enabled", "budget_tokens": 1024})
            agent = create_agent(model, [read], middleware=middleware, system_prompt="Be brief.")
            result = agent.invoke({"messages": [question]}, config("same"))
            assert result["messages"][-1].text == FINAL_ANSWER
            assert result["messages"][0] is question or result["messages"][0].content == question.content
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]
    assert any(block["type"] == "thinking" for message in bodies[1][-1]["messages"] for block in message["content"])


def test_async_and_streaming(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    async def run() -> list[Any]:
        agent = create_agent(make_model(fake), [read], middleware=[middleware], checkpointer=InMemorySaver())
        streamed = agent.astream(ask("Read all pages."), config("stream"), stream_mode="messages")
        return [chunk async for chunk, _ in streamed]

    with run_provider("openai_chat", LongTask(30, parallel=3), WINDOW) as fake:
        chunks = asyncio.run(run())
        assert fake.refused == []
        assert all(seen.body["stream"] for seen in fake.seen)
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, AIMessage))
    assert text.endswith(FINAL_ANSWER)
    assert len(usage_reports(middleware, "stream")) == len(fake.seen)
    middleware.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    task = LongTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any("recalled" in str(message.get("tool_call_id")) for message in body["messages"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)

    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = create_agent(make_model(fake), [read], middleware=[middleware], checkpointer=InMemorySaver())
        result = agent.invoke(ask("Read all pages."), config("r"))
        assert fake.refused == []
        last = fake.seen[-1].body["messages"]
        assert not any(message["content"] == read_page(3) for message in last)
    recalled = next(m for m in result["messages"] if isinstance(m, ToolMessage) and m.tool_call_id == "recalled")
    assert "K0003" in recalled.text
    middleware.threads.close()


def test_a_sub_agent_has_a_session_of_its_own(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    inner = LongTask(6)

    def script(body: dict[str, Any]) -> Any:
        if any(tool["function"]["name"] == "read" for tool in body["tools"]):
            return inner(body)
        asked = any(message["role"] == "tool" for message in body["messages"])
        return "The reader is done." if asked else ScriptedAnswer(calls=(Call("d", "delegate", "{}"),), number=800)

    with run_provider("openai_chat", script, WINDOW) as fake:
        reader = create_agent(make_model(fake), [read], middleware=[middleware])

        @tool
        def delegate() -> str:
            """Let the reader read."""
            return str(reader.invoke(ask("Read all pages."))["messages"][-1].text)

        agent = create_agent(make_model(fake), [delegate], middleware=[middleware], checkpointer=InMemorySaver())
        result = agent.invoke(ask("Delegate it."), config("main"))
        assert fake.refused == []
    assert result["messages"][-1].text == "The reader is done."
    names = sorted(info.name for info in middleware.threads.data.store.sessions())
    assert len(names) == 2
    assert names[0] == "main"
    assert names[1].startswith("main.")
    assert len(usage_reports(middleware, "main")) == 2
    assert len(usage_reports(middleware, names[1])) == 7
    middleware.threads.close()


KILLED = """
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.test_langchain import *
@tool
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
with SqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
    middleware = TidegateMiddleware(folder / "data", window=WINDOW)
    model = ChatOpenAI(model="gpt-4o", base_url=url, api_key=KEY, max_retries=0)
    agent = create_agent(model, [read], middleware=[middleware], checkpointer=saver)
    given = None if agent.get_state(config("k")).values else ask("Read all pages.")
    print(agent.invoke(given, config("k"))["messages"][-1].text)
    middleware.threads.close()
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    check_killed_run(KILLED, "openai_chat", tmp_path)


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW, policy=policy, summarize=True)

    def run(fake: Fake) -> str:
        agent = create_agent(make_model(fake), [read], middleware=[middleware], checkpointer=InMemorySaver())
        return str(agent.invoke(ask("Read all pages."), config("s"))["messages"][-1].text)

    check_summaries(run, "openai_chat", **SUMMARIES[policy])
    middleware.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("langchain_agent.py", "openai_chat", tmp_path)


@pytest.mark.parametrize(("check", "is_async"), [*zip(REFUSAL_CHECKS, (False, False, True, False, True), strict=True)])
def test_a_refusal_for_length_is_answered(check: Any, is_async: bool, tmp_path: Path) -> None:
    opened: list[TidegateMiddleware] = []

    def run(fake: Fake, window: int, max_output: int) -> str:
        middleware = opened[0] if opened else TidegateMiddleware(tmp_path, window=window)
        opened.append(middleware)
        model = make_model(fake, max_tokens=max_output or None)
        agent = create_agent(model, [read], middleware=[middleware], checkpointer=InMemorySaver())
        given, thread = ask("Read all pages."), config(f"run {len(opened)}")
        result = asyncio.run(agent.ainvoke(given, thread)) if is_async else agent.invoke(given, thread)
        return str(result["messages"][-1].text)

    check(run, "openai_chat")
    opened[0].threads.close()


@pytest.mark.parametrize("is_last", [True, False])
def test_the_last_middleware_of_the_list_sees_what_the_others_changed(is_last: bool, tmp_path: Path) -> None:
    @wrap_model_call
    def redact(request: Any, handler: Any) -> Any:
        return handler(request.override(messages=[HumanMessage("[redacted]")]))

    tidegate = TidegateMiddleware(tmp_path, window=WINDOW)
    with run_provider("openai_chat", lambda body: "Good day.") as fake:
        order = [redact, tidegate] if is_last else [tidegate, redact]
        create_agent(make_model(fake), [], middleware=order).invoke(ask(TOLD))
        assert "[redacted]" in fake.seen[0].raw.decode()
    logged = tidegate.threads.recall("", "m1..m9")
    assert ("[redacted]" in logged, TOLD in logged) == (is_last, not is_last)
    tidegate.threads.close()


def test_other_errors_of_a_provider_are_raised_as_they_are(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    steps = [refusal("openai_chat", 401, "Incorrect API key provided."), *[too_long("openai_chat", 9, 5000)] * 3]
    with run_provider("openai_chat", lambda body: steps.pop(0)) as fake:
        agent = create_agent(make_model(fake), [read], middleware=[middleware])
        for expected in (openai.AuthenticationError, openai.BadRequestError):
            with pytest.raises(expected):
                agent.invoke(ask("Read all pages."))
        assert len(fake.seen) == 2, "5000 tokens are far more than this request has: that is not why it was refused"
    middleware.threads.close()


def test_thinking_that_is_refused_after_an_edit_is_left_out(tmp_path: Path) -> None:
    """The model's name says that its thinking is not bound to what is before it; the provider knows better."""
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def run(fake: Fake, window: int, max_output: int) -> str:
        model = make_model(fake, thinking={"type": "adaptive"})
        agent = create_agent(model, [read], middleware=[middleware], checkpointer=InMemorySaver())
        return str(agent.invoke(ask("Read all pages."), config("t"))["messages"][-1].text)

    check_refused_thinking(run)
    middleware.threads.close()


# --- whose session it is ----------------------------------------------------------------------------------------------


def names_of(middleware: TidegateMiddleware) -> list[str]:
    return sorted(info.name for info in middleware.threads.data.store.sessions())


def test_two_agents_with_threads_of_the_same_id_do_not_read_each_other(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def talk(fake: Fake, user: str, texts: Any) -> None:
        agent = create_agent(make_model(fake), [], middleware=[middleware], checkpointer=InMemorySaver())
        for text in texts:
            agent.invoke(ask(text), config("1"))

    check_users_stay_apart(talk, "openai_chat")
    middleware.threads.close()


def test_a_recall_that_was_interrupted_reads_its_own_conversation(tmp_path: Path) -> None:
    """Meanwhile the other agent has continued the session that both have."""
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    with run_provider("openai_chat", answer_and_recall) as fake:
        alice, bob = (
            create_agent(
                make_model(fake), [], middleware=[middleware], checkpointer=InMemorySaver(), interrupt_before=["tools"]
            )
            for _ in range(2)
        )
        for agent, text in ((alice, GREETING), (bob, GREETING), (bob, QUESTION), (alice, TOLD)):
            agent.invoke(ask(text), config("1"))
        result = bob.invoke(None, config("1"))
        check_secret_stays(fake)
    recalled = next(message for message in result["messages"] if isinstance(message, ToolMessage))
    assert QUESTION in recalled.text
    middleware.threads.close()


def test_without_a_thread_id_users_do_not_read_each_other(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def talk(fake: Fake, user: str, texts: Any) -> None:
        agent = create_agent(make_model(fake), [], middleware=[middleware])
        messages: list[Any] = []
        for text in texts:
            messages = agent.invoke({"messages": [*messages, HumanMessage(text)]})["messages"]

    check_users_stay_apart(talk, "openai_chat")
    assert len(names_of(middleware)) == 2
    middleware.threads.close()


PROGRAM = """
import sys
from tests.integrations.test_langchain import *
url, texts = sys.argv[1], sys.argv[2:]
middleware = TidegateMiddleware(window=WINDOW)
model = ChatOpenAI(model="gpt-4o", base_url=url, api_key=KEY, max_retries=0)
agent = create_agent(model, [], middleware=[middleware], checkpointer=InMemorySaver())
for text in texts:
    agent.invoke(ask(text), config("1"))
print(middleware.session("1").view.items[0].message.parts[0].text)
"""


def test_two_programs_with_the_default_folder_do_not_share_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    for name in ("alice.py", "bob.py"):
        (tmp_path / name).write_text(PROGRAM)
    with run_provider("openai_chat", answer_and_recall) as fake:
        for name, text in (("alice.py", TOLD), ("bob.py", QUESTION)):
            done = run_program([sys.executable, str(tmp_path / name), fake.url, GREETING, text])
            assert done.returncode == 0, done.stderr[-2000:]
            assert done.stdout.strip() == GREETING
        check_secret_stays(fake)
    with DataFolder(tmp_path / "data") as data:
        names = sorted(info.name for info in data.store.sessions())
    assert [name.partition("~")[0] for name in names] == ["alice", "bob"]
    assert all(name.endswith("/1") for name in names)


def test_without_a_thread_id_a_run_has_one_session(tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    task = LongTask(61)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any(message.get("tool_call_id") == "recalled" for message in body["messages"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)

    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = create_agent(make_model(fake), [read], middleware=[middleware])
        result = agent.invoke(ask("Read all pages."), {"recursion_limit": 1000})
        assert fake.refused == []
    recalled = next(m for m in result["messages"] if isinstance(m, ToolMessage) and m.tool_call_id == "recalled")
    assert "K0003" in recalled.text
    assert len(names_of(middleware)) == 1
    assert len(usage_reports(middleware, "")) == 63
    middleware.threads.close()


@pytest.mark.parametrize("way", ["batch", "abatch", "streams in turn"])
def test_runs_with_equal_input_at_the_same_time_have_a_session_each(way: str, tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def script(body: dict[str, Any]) -> Any:
        results = sum(message["role"] == "tool" for message in body["messages"])
        return LongTask(1, start=results)(body) if results < 3 else FINAL_ANSWER

    with run_provider("openai_chat", script, WINDOW) as fake:
        agent = create_agent(make_model(fake), [read], middleware=[middleware])
        inputs = [ask("Read all pages.") for _ in range(3)]
        if way == "batch":
            agent.batch(inputs)
        elif way == "abatch":
            asyncio.run(agent.abatch(inputs))
        else:
            streams = [agent.stream(each) for each in inputs]
            while streams:
                streams = [each for each in streams if next(each, None) is not None]
        assert fake.refused == []
    assert [len(usage_reports(middleware, name)) for name in names_of(middleware)] == [4, 4, 4]
    middleware.threads.close()


@pytest.mark.parametrize("thread", ["", "main"])
def test_an_agent_that_is_a_node_has_one_session_for_its_place(thread: str, tmp_path: Path) -> None:
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)
    task = LongTask(4)
    with run_provider("openai_chat", task, WINDOW) as fake:
        graph = StateGraph(MessagesState)
        graph.add_node("reader", create_agent(make_model(fake), [read], middleware=[middleware]))
        graph.add_edge(START, "reader")
        graph.add_edge("reader", END)
        app = graph.compile(checkpointer=InMemorySaver() if thread else None)
        messages = app.invoke(ask("Read all pages."), config(thread) if thread else None)["messages"]
        task.left = [4, 5, 6]
        given = [HumanMessage("Go on.")] if thread else [*messages, HumanMessage("Go on.")]
        app.invoke({"messages": given}, config(thread) if thread else None)
        assert fake.refused == []
        assert len(fake.seen) == 5 + 4
    (name,) = names_of(middleware)
    assert name.startswith("main.reader" if thread else "langchain.reader-")
    assert len(usage_reports(middleware, name)) == 9
    assert "branched" not in str(list(middleware.session(name).log.read()))
    middleware.threads.close()


def test_sub_agents_that_run_at_the_same_time_have_sessions_of_their_own(tmp_path: Path) -> None:
    """Two calls of one tool start the same agent with the same task."""
    middleware = TidegateMiddleware(tmp_path, window=WINDOW)

    def script(body: dict[str, Any]) -> Any:
        results = sum(message["role"] == "tool" for message in body["messages"])
        if any(tool["function"]["name"] == "read" for tool in body["tools"]):
            return LongTask(1, start=results)(body) if results < 3 else FINAL_ANSWER
        calls = tuple(Call(f"d{number}", "delegate", "{}") for number in (1, 2))
        return "Both are done." if results else ScriptedAnswer(calls=calls, number=800)

    with run_provider("openai_chat", script, WINDOW) as fake:
        reader = create_agent(make_model(fake), [read], middleware=[middleware])

        @tool
        def delegate() -> str:
            """Let the reader read."""
            return str(reader.invoke(ask("Read all pages."))["messages"][-1].text)

        agent = create_agent(make_model(fake), [delegate], middleware=[middleware], checkpointer=InMemorySaver())
        assert agent.invoke(ask("Delegate it."), config(0))["messages"][-1].text == "Both are done."
        assert fake.refused == []
    names = names_of(middleware)
    assert names[:2] == ["0", "0.tools"]
    assert names[2].startswith("0.tools.")
    assert [len(usage_reports(middleware, name)) for name in names] == [2, 4, 4]
    middleware.threads.close()


def test_a_session_of_version_0_1_0_is_continued_by_its_own_thread_only(tmp_path: Path) -> None:
    """Its name was the thread id as it is; `a/b` is named with its hash now."""
    saver, folder = InMemorySaver(), tmp_path / "data"

    def talk(fake: Fake, thread: str, text: str, saver: Any) -> list[str]:
        with DataFolder(folder) as data:
            middleware = TidegateMiddleware(data, window=WINDOW)
            create_agent(make_model(fake), [], middleware=[middleware], checkpointer=saver).invoke(
                ask(text), config(thread)
            )
            found = names_of(middleware)
            middleware.threads.close()
            return found

    with run_provider("openai_chat", lambda body: "Good day.") as fake:
        (name,) = talk(fake, "a/b", GREETING, saver)
        with DataFolder(folder) as data:
            data.fork(name, data.open_log(name).head, "a/b")
            data.store.delete(name)
        assert talk(fake, "a/b", TOLD, saver) == ["a/b"]
        assert sorted(talk(fake, "a/b", GREETING, InMemorySaver())) == sorted(["a/b", name])
