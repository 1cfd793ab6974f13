"""The runner of OpenAI Agents with the filter and the session, against the strict fake provider."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.run_config import CallModelData, ModelInputData
from openai import AsyncOpenAI

from tests.fake.server import Fake
from tests.integrations.examples import check_example
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import (
    GREETING,
    QUESTION,
    REFUSAL_CHECKS,
    SECRET,
    SUMMARIES,
    TOLD,
    WINDOW,
    answer_and_recall,
    check_killed_run,
    check_secret_stays,
    check_summaries,
    check_users_stay_apart,
)
from tidegate.core.events import BranchStarted, UsageReported
from tidegate.core.messages import Call
from tidegate.integrations.item_session import TidegateSession
from tidegate.integrations.openai_agents import TidegateFilter
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

set_tracing_disabled(True)


@function_tool
def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def make_agent(client: AsyncOpenAI, wire: str = "openai_responses", **options: Any) -> Agent[Any]:
    form = OpenAIResponsesModel if wire == "openai_responses" else OpenAIChatCompletionsModel
    settings = {"name": "reader", "instructions": "Be brief.", "tools": [read], **options}
    return Agent(model=form("gpt-4o", client), **settings)


def run_agent(fake: Fake, make: Callable[[AsyncOpenAI], Agent[Any]], given: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with AsyncOpenAI(base_url=fake.url, api_key=KEY, max_retries=0) as client:
            return await Runner.run(make(client), given, **options)

    return asyncio.run(run())


def options_of(tidegate: TidegateFilter) -> dict[str, Any]:
    config = RunConfig(call_model_input_filter=tidegate)
    return {"run_config": config, "hooks": tidegate.hooks, "max_turns": 500}


def usage_reports(tidegate: TidegateFilter, name: str = "") -> list[UsageReported]:
    events = tidegate.session(name).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


class CountedItem(dict[str, Any]):
    """An item that counts how often it is read. Comparing it is not reading."""

    reads = 0

    def get(self, *args: Any) -> Any:
        CountedItem.reads += 1
        return super().get(*args)


def make_step(number: int) -> list[Any]:
    call = {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": f'{{"number":{number}}}'}
    output = {"type": "function_call_output", "call_id": f"c{number}", "output": read_page(number)}
    return [CountedItem(call), CountedItem(output)]


def test_known_items_are_not_read_again_and_no_client_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # a client for the default provider would be refused
    tidegate = TidegateFilter(tmp_path, session="count", window=WINDOW)
    agent = Agent(name="reader", model="gpt-4o", tools=[read])
    items: list[Any] = [CountedItem(role="user", content="Read all pages.")]
    reads = []
    for number in range(60):
        items += make_step(number)
        copies = [CountedItem(item) for item in items]  # as the framework does
        CountedItem.reads = 0
        asyncio.run(tidegate(CallModelData(ModelInputData(input=copies, instructions=None), agent, None)))
        reads.append(CountedItem.reads)
    assert reads[-1] < 2 * reads[1], "what is new"
    tidegate.threads.close()


def test_a_changed_past_is_noticed(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, session="changed", window=WINDOW)
    agent = Agent(name="reader", model="gpt-4o", tools=[read])
    items: list[Any] = [{"role": "user", "content": "Read all pages."}]
    for number in range(60):
        items += make_step(number)
        if number == 50:
            items[10] = {**items[10], "output": "[redacted]"}
        copies = [dict(item) for item in items]
        asyncio.run(tidegate(CallModelData(ModelInputData(input=copies, instructions=None), agent, None)))
    log = list(tidegate.session().log.read())
    assert len([event for event in log if isinstance(event.payload, BranchStarted)]) == 1
    assert "[redacted]" in tidegate.threads.recall("changed", "redacted")
    tidegate.threads.close()


@pytest.mark.parametrize(("wire", "pages"), [("openai_responses", 60), ("openai_chat", 200)])
def test_a_long_run_fits_and_the_result_stays_complete(wire: str, pages: int, tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, session="long", window=WINDOW)
    with run_provider(wire, LongTask(pages, parallel=2), WINDOW) as fake:
        result = run_agent(fake, lambda client: make_agent(client, wire), "Read all pages.", **options_of(tidegate))
        assert fake.refused == []
        assert len(fake.seen) == pages // 2 + 1
    assert result.final_output == FINAL_ANSWER
    outputs = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]
    assert outputs == [read_page(number) for number in range(pages)]
    for number in (0, pages // 3, pages - 1):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    assert len(usage_reports(tidegate)) == pages // 2 + 1
    log = tidegate.session().log
    assert not [event for event in log.read() if isinstance(event.payload, BranchStarted)]
    tidegate.threads.close()


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}
    question: Any = [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]}]
    bodies = []
    for options in ({}, options_of(TidegateFilter(tmp_path))):
        with run_provider("openai_responses", LongTask(3, thinking="Let me look.")) as fake:
            result = run_agent(fake, make_agent, question, **options)
            assert result.final_output == FINAL_ANSWER
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]
    assert any(item.get("type") == "reasoning" for item in bodies[1][-1]["input"])


def test_streaming(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, window=WINDOW)

    async def run(fake: Fake) -> str:
        async with AsyncOpenAI(base_url=fake.url, api_key=KEY, max_retries=0) as client:
            result = Runner.run_streamed(make_agent(client), "Read all pages.", **options_of(tidegate))
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

    with run_provider("openai_responses", LongTask(40, parallel=3), WINDOW) as fake:
        assert asyncio.run(run(fake)) == FINAL_ANSWER
        assert fake.refused == []
        assert all(seen.body["stream"] for seen in fake.seen)
    assert len(usage_reports(tidegate)) == len(fake.seen)
    tidegate.threads.close()


def test_a_handoff_goes_on_and_a_nested_run_has_its_own_session(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, session="main", window=WINDOW)
    inner = LongTask(4)

    def script(body: dict[str, Any]) -> Any:
        names = {tool["name"] for tool in body["tools"]}
        if "read" in names:
            return inner(body)
        if "ask_reader" in names:
            done = any(item.get("call_id") == "n" for item in body["input"])
            call = Call("n", "ask_reader", '{"input":"Go."}')
            return "Both are done." if done else ScriptedAnswer(calls=(call,), number=70)
        return ScriptedAnswer(calls=(Call("h", "transfer_to_second", "{}"),), number=71)

    def make_first(client: AsyncOpenAI) -> Agent[Any]:
        config = RunConfig(call_model_input_filter=tidegate)
        nested = make_agent(client).as_tool("ask_reader", "Reads.", run_config=config, hooks=tidegate.hooks)
        second = make_agent(client, name="second", tools=[nested])
        return make_agent(client, name="first", tools=[], handoffs=[second])

    with run_provider("openai_responses", script, WINDOW) as fake:
        result = run_agent(fake, make_first, "Hand it over.", **options_of(tidegate))
        assert fake.refused == []
    assert result.final_output == "Both are done."
    names = sorted(info.name for info in tidegate.threads.data.store.sessions())
    assert len(names) == 2
    assert len(usage_reports(tidegate, "main")) == 3
    assert len(usage_reports(tidegate, names[1])) == 5
    tidegate.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, window=WINDOW)
    task = LongTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if any(item.get("call_id") == "recalled" for item in body["input"]):
            return FINAL_ANSWER
        return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003","offset":0}'),), number=900)

    with run_provider("openai_responses", script, WINDOW) as fake:
        tools = [read, tidegate.recall_tool()]
        result = run_agent(
            fake, lambda client: make_agent(client, tools=tools), "Read all pages.", **options_of(tidegate)
        )
        assert fake.refused == []
        assert not any(item.get("output") == read_page(3) for item in fake.seen[-1].body["input"])
    outputs = {item["call_id"]: item["output"] for item in result.to_input_list() if "output" in item}
    assert "K0003" in outputs["recalled"]
    tidegate.threads.close()


def test_the_session_keeps_items_as_the_framework_expects(tmp_path: Path) -> None:
    async def run() -> None:
        session = TidegateSession("s", data=tmp_path)
        items: Any = [{"role": "user", "content": f"item {n}", "extra": [n]} for n in range(4)]
        await session.add_items(items[:2])
        await session.add_items(items[2:])
        assert await session.get_items() == items
        assert await session.get_items(2) == items[2:]
        assert await session.pop_item() == items[3]
        assert await session.get_items() == items[:3]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None

    asyncio.run(run())


KILLED = """
from tests.integrations.test_openai_agents import *
@function_tool
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
tidegate = TidegateFilter(folder / "data", session="k", window=WINDOW)
client = AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
agent = make_agent(client, tools=[read])
print(Runner.run_sync(agent, question, session=tidegate.make_session(), **options_of(tidegate)).final_output)
tidegate.threads.close()
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    check_killed_run(KILLED, "openai_responses", tmp_path)


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, window=WINDOW, policy=policy, summarize=True)

    def run(fake: Fake) -> str:
        return str(run_agent(fake, make_agent, "Read all pages.", **options_of(tidegate)).final_output)

    check_summaries(run, "openai_responses", **SUMMARIES[policy])
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("openai_agents_run.py", "openai_responses", tmp_path)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("check", REFUSAL_CHECKS)
def test_a_refusal_for_length_is_answered(check: Any, is_stream: bool, tmp_path: Path) -> None:
    opened: list[TidegateFilter] = []

    def run_new(fake: Fake, window: int, max_output: int) -> str:
        tidegate = opened[0] if opened else TidegateFilter(tmp_path, window=window)
        opened.append(tidegate)

        async def run() -> str:
            async with AsyncOpenAI(base_url=fake.url, api_key=KEY, max_retries=0) as client:
                agent = make_agent(client, model_settings=ModelSettings(max_tokens=max_output or None))
                assert isinstance(agent.model, Model)
                agent.model = tidegate.wrap_model(agent.model)
                if not is_stream:
                    return str((await Runner.run(agent, "Read all pages.", **options_of(tidegate))).final_output)
                streamed = Runner.run_streamed(agent, "Read all pages.", **options_of(tidegate))
                async for _ in streamed.stream_events():
                    pass
                return str(streamed.final_output)

        return asyncio.run(run())

    check(run_new, "openai_responses")
    opened[0].threads.close()


# --- whose session it is ----------------------------------------------------------------------------------------------


def names_of(tidegate: TidegateFilter) -> list[str]:
    return sorted(info.name for info in tidegate.threads.data.store.sessions())


async def talk_as(fake: Fake, tidegate: TidegateFilter, texts: Any, session: Any, hooks: bool = True) -> None:
    options = options_of(tidegate)
    if not hooks:
        del options["hooks"]
    async with AsyncOpenAI(base_url=fake.url, api_key=KEY, max_retries=0) as client:
        agent = make_agent(client, tools=[tidegate.recall_tool()])
        for text in texts:
            await Runner.run(agent, text, session=session, **options)


@pytest.mark.parametrize("hooks", [True, False])
@pytest.mark.parametrize("kind", ["sqlite", "tidegate"])
def test_sessions_of_two_users_stay_apart(kind: str, hooks: bool, tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path / "data", window=WINDOW)

    def talk(fake: Fake, user: str, texts: Any) -> None:
        items = SQLiteSession(user, tmp_path / "items.db")
        session: Any = tidegate.make_session(user) if kind == "tidegate" else items
        asyncio.run(talk_as(fake, tidegate, texts, session, hooks))
        items.close()

    check_users_stay_apart(talk, "openai_responses")
    names = names_of(tidegate)
    assert names == ["alice", "bob"] if kind == "tidegate" else len(names) == 2
    tidegate.threads.close()


def test_runs_that_begin_at_the_same_time_stay_apart(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path / "data", window=WINDOW)

    async def run(fake: Fake) -> None:
        users = [(SQLiteSession(user), text) for user, text in (("alice", TOLD), ("bob", QUESTION), ("carol", TOLD))]
        for turn in range(2):
            talks = [
                talk_as(fake, tidegate, [GREETING if turn == 0 else text], session)
                for session, text in sorted(users, key=lambda user: user[1] == QUESTION)
            ]
            await asyncio.gather(*talks)
        for session, _ in users:
            session.close()

    with run_provider("openai_responses", answer_and_recall) as fake:
        asyncio.run(run(fake))
        check_secret_stays(fake)
    assert len(names_of(tidegate)) == 3
    tidegate.threads.close()


def test_one_task_may_run_for_several_users(tmp_path: Path) -> None:
    """The session of the run before must not be taken for that of the next, which has none."""
    tidegate = TidegateFilter(tmp_path / "data", window=WINDOW)

    async def run(fake: Fake) -> None:
        await talk_as(fake, tidegate, [GREETING, TOLD], tidegate.make_session("alice"))
        async with AsyncOpenAI(base_url=fake.url, api_key=KEY, max_retries=0) as client:
            agent = make_agent(client, tools=[tidegate.recall_tool()])
            first = await Runner.run(agent, GREETING, **options_of(tidegate))
            given: Any = [*first.to_input_list(), {"role": "user", "content": QUESTION}]
            await Runner.run(agent, given, **options_of(tidegate))

    with run_provider("openai_responses", answer_and_recall) as fake:
        asyncio.run(run(fake))
        check_secret_stays(fake)
    assert len(names_of(tidegate)) == 2
    tidegate.threads.close()


def test_a_session_without_an_id_has_a_new_one(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path / "data", window=WINDOW)
    first, second = tidegate.make_session(), tidegate.make_session()
    assert first.session_id != second.session_id

    async def run() -> None:
        await first.add_items([{"role": "user", "content": TOLD}])
        assert await second.get_items() == []
        again = TidegateFilter(tmp_path / "data").make_session(first.session_id)
        assert SECRET in str(await again.get_items())

    asyncio.run(run())
    tidegate.threads.close()


def test_items_are_not_shared_by_programs_with_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path))

    async def run() -> None:
        await TidegateFilter(app="alice").make_session("1").add_items([{"role": "user", "content": TOLD}])
        assert await TidegateFilter(app="bob").make_session("1").get_items() == []
        assert await TidegateFilter().make_session("1").get_items() == []
        assert SECRET in str(await TidegateFilter(app="alice").make_session("1").get_items())

    asyncio.run(run())
