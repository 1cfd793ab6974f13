"""The runner of OpenAI Agents with the filter and the session, against the strict fake provider."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.run_config import CallModelData, ModelInputData
from openai import AsyncOpenAI

from tests.fake.server import Fake
from tests.integrations.examples import check_example
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import WINDOW, check_killed_run, check_summaries
from tidegate.core.events import BranchStarted, UsageReported
from tidegate.core.messages import Call
from tidegate.integrations.item_session import TidegateSession
from tidegate.integrations.openai_agents import TidegateFilter
from tidegate.wire.streaming.response_encoder import ScriptedAnswer

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


def test_summaries_are_written_by_the_agents_model(tmp_path: Path) -> None:
    tidegate = TidegateFilter(tmp_path, window=WINDOW, policy="ai", summarize=True)

    def run(fake: Fake) -> str:
        return str(run_agent(fake, make_agent, "Read all pages.", **options_of(tidegate)).final_output)

    check_summaries(run, "openai_responses")
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("openai_agents_run.py", "openai_responses", tmp_path)
