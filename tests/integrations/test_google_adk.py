"""ADK agents with the plugin, against the strict fake provider."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

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
    check_secret_stays,
    check_summaries,
)
from tidegate.core.errors import BadInput
from tidegate.core.events import BranchStarted, UsageReported
from tidegate.core.messages import Call
from tidegate.integrations.google_adk import TidegatePlugin
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

# The framework does not close its HTTP clients.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning"),  # its own use in AgentTool
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collect_open_clients() -> Iterator[None]:
    """Collect them within a test, where their warnings are ignored, and not at the end of all tests."""
    yield
    gc.collect()


def read(number: int) -> str:
    """Read a page of the report."""
    return read_page(number)


def make_model(fake: Fake) -> Gemini:
    return Gemini(model="gemini-2.5-flash", base_url=fake.host)


async def run(
    agent: LlmAgent, plugins: list[Any], name: str, parts: list[types.Part] | None = None, **options: Any
) -> Any:
    return await run_app(App(name="app", root_agent=agent, plugins=plugins), name, parts, **options)


async def run_app(app: App, name: str, parts: list[types.Part] | None = None, **options: Any) -> Any:
    """The texts of the answer and all events of the session."""
    runner = InMemoryRunner(app=app)
    service = runner.session_service
    await service.create_session(app_name="app", user_id="me", session_id=name)
    question = types.Content(role="user", parts=parts or [types.Part(text="Read all pages.")])
    texts = []
    settings = RunConfig(max_llm_calls=1000, **options)
    async for event in runner.run_async(user_id="me", session_id=name, new_message=question, run_config=settings):
        texts += [part.text for part in (event.content.parts if event.content else None) or () if part.text]
    session = await service.get_session(app_name="app", user_id="me", session_id=name)
    await runner.close()
    return texts, session.events


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)


def usage_reports(tidegate: TidegatePlugin, name: str) -> list[UsageReported]:
    events = tidegate.session(name).log.read()
    return [event.payload for event in events if isinstance(event.payload, UsageReported)]


def results_of(events: list[Any]) -> list[Any]:
    parts = [part for event in events for part in (event.content.parts if event.content else None) or ()]
    return [next(iter(part.function_response.response.values())) for part in parts if part.function_response]


def test_a_long_run_fits_and_the_events_stay_complete(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    with run_provider("gemini", LongTask(200, parallel=2), WINDOW) as fake:
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read], instruction="Be brief.")
        texts, events = asyncio.run(run(agent, [tidegate], "long"))
        assert fake.refused == []
        assert len(fake.seen) == 101
    assert texts[-1] == FINAL_ANSWER
    assert results_of(events) == [read_page(number) for number in range(200)]
    for number in (0, 70, 199):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    assert len(usage_reports(tidegate, "long")) == 101
    assert not [event for event in tidegate.session("long").log.read() if isinstance(event.payload, BranchStarted)]
    tidegate.threads.close()


def test_without_pressure_the_request_is_the_same(tmp_path: Path) -> None:
    image = types.Part(inline_data=types.Blob(data=b"\x89PNG\r\n", mime_type="image/png"))
    bodies = []
    for plugins in ([], [TidegatePlugin(tmp_path)]):
        with run_provider("gemini", LongTask(3, thinking="Let me look.")) as fake:
            agent = LlmAgent(name="reader", model=make_model(fake), tools=[read])
            texts, _ = asyncio.run(run(agent, plugins, "same", [types.Part(text="What is this?"), image]))
            assert texts[-1] == FINAL_ANSWER
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]


class RedactingPlugin(BasePlugin):
    """Replaces a result in the requests, from the call on in which `at` contents are given."""

    def __init__(self, at: int) -> None:
        super().__init__(name="redacting")
        self._at = at

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        if len(llm_request.contents) >= self._at:
            given = llm_request.contents[2].parts[0].function_response
            response = given.model_copy(update={"response": {"result": "[redacted by a plugin]"}})
            llm_request.contents[2] = types.Content(role="user", parts=[types.Part(function_response=response)])


def test_a_past_that_another_plugin_changed_is_noticed(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    with run_provider("gemini", LongTask(8), WINDOW) as fake:
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read])
        asyncio.run(run(agent, [RedactingPlugin(13), tidegate], "changed"))
        assert fake.refused == []
        assert ["redacted" in seen.raw.decode() for seen in fake.seen] == [False] * 6 + [True] * 3
    log = list(tidegate.session("changed").log.read())
    assert len([event for event in log if isinstance(event.payload, BranchStarted)]) == 1
    assert "redacted by a plugin" in tidegate.threads.recall("changed", "redacted")
    tidegate.threads.close()


def test_streaming(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    with run_provider("gemini", LongTask(40, parallel=3), WINDOW) as fake:
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read])
        texts, events = asyncio.run(run(agent, [tidegate], "stream", streaming_mode=StreamingMode.SSE))
        assert texts[-1] == FINAL_ANSWER
        assert fake.refused == []
        assert all("alt=sse" in seen.path for seen in fake.seen)
    assert len(results_of(events)) == 40
    assert len(usage_reports(tidegate, "stream")) == len(fake.seen)
    tidegate.threads.close()


def test_an_agent_inside_a_tool_has_a_session_of_its_own(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    inner, asked = LongTask(4), [True]

    def script(body: dict[str, Any]) -> Any:
        declared = [each["name"] for tool in body["tools"] for each in tool["functionDeclarations"]]
        if "read" in declared:
            return inner(body)
        call = Call("t", "reader", '{"request":"Read all pages."}')
        return ScriptedAnswer(calls=(call,), number=800) if asked and asked.pop() else "The reader is done."

    with run_provider("gemini", script, WINDOW) as fake:
        reader = LlmAgent(name="reader", model=make_model(fake), tools=[read], description="Reads.")
        agent = LlmAgent(name="boss", model=make_model(fake), tools=[AgentTool(reader)])
        texts, _ = asyncio.run(run(agent, [tidegate], "main"))
        assert texts[-1] == "The reader is done."
        assert fake.refused == []
    names = {info.name for info in tidegate.threads.data.store.sessions()}
    assert len(names) == 2
    assert len(usage_reports(tidegate, "main")) == 2
    assert len(usage_reports(tidegate, (names - {"app/me@main"}).pop())) == 5
    tidegate.threads.close()


class TransferredTask:
    """The leader transfers to the reader, which reads the pages and transfers back."""

    def __init__(self, pages: int) -> None:
        self._task = LongTask(pages, parallel=2)
        self._transfers = {"reader": 800, "boss": 801}

    def __call__(self, body: dict[str, Any]) -> Any:
        is_reader = "You read." in str(body["systemInstruction"])
        number = self._transfers.get("boss" if is_reader else "reader")
        if is_reader and self._task.left:
            return self._task(body)
        if number is None:
            return FINAL_ANSWER
        name = "boss" if is_reader else "reader"
        del self._transfers[name]
        call = Call(f"t{number}", "transfer_to_agent", f'{{"agent_name":"{name}"}}')
        return ScriptedAnswer(calls=(call,), number=number)


def run_transfers(fake: Fake, plugins: list[Any]) -> Any:
    reader = LlmAgent(name="reader", model=make_model(fake), tools=[read], instruction="You read.")
    boss = LlmAgent(name="boss", model=make_model(fake), sub_agents=[reader], instruction="You lead.")
    return asyncio.run(run(boss, plugins, "main"))


def test_an_agent_to_which_another_transfers_has_a_session_of_its_own(tmp_path: Path) -> None:
    """ADK itself sends several messages of the user in a row: those of another agent are told as such."""
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    with run_provider("gemini", TransferredTask(40), WINDOW, alternate=False) as fake:
        texts, events = run_transfers(fake, [tidegate])
        assert fake.refused == []
        assert len(fake.seen) == 1 + 21 + 1, "the leader; 20 steps of the reader and its way back; the leader"
    assert texts[-1] == FINAL_ANSWER
    assert [page for page in results_of(events) if page] == [read_page(number) for number in range(40)]
    assert {info.name for info in tidegate.threads.data.store.sessions()} == {
        "app/me@main",
        "app/me@main.reader",
    }
    for name in ("main", "app/me@main.reader"):  # ADK tells the leader what the reader read
        assert "K0003" in tidegate.threads.recall(name, "K0003")
        log = tidegate.session(name).log.read()
        assert not [event for event in log if isinstance(event.payload, BranchStarted)]
    assert len(usage_reports(tidegate, "main")) == 2
    assert len(usage_reports(tidegate, "app/me@main.reader")) == 21
    tidegate.threads.close()


def test_without_pressure_transfers_send_the_same_requests(tmp_path: Path) -> None:
    bodies = []
    for plugins in ([], [TidegatePlugin(tmp_path)]):
        with run_provider("gemini", TransferredTask(4), alternate=False) as fake:
            run_transfers(fake, plugins)
            assert fake.refused == []
            bodies.append([seen.body for seen in fake.seen])
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 1 + 3 + 1


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)
    task, asked = LongTask(40, parallel=2), [True]

    def script(body: dict[str, Any]) -> Any:
        if task.left:
            return task(body)
        if asked and asked.pop():
            return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)
        return FINAL_ANSWER

    with run_provider("gemini", script, WINDOW) as fake:
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read, tidegate.recall_tool()])
        _, events = asyncio.run(run(agent, [tidegate], "r"))
        assert fake.refused == []
    assert "K0003" in results_of(events)[-1]
    tidegate.threads.close()


KILLED = """
from google.adk.apps import ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from tests.integrations.test_google_adk import *
def read(number: int) -> str:
    "Read a page of the report."
    return read_or_die(number)
async def main():
    service = SqliteSessionService(str(folder / "sessions.db"))
    named = {"user_id": "me", "session_id": "k"}
    known = await service.get_session(app_name="app", **named)
    agent = LlmAgent(name="reader", model=Gemini(model="gemini-2.5-flash", base_url=url), tools=[read])
    tidegate, resumable = TidegatePlugin(folder / "data", window=WINDOW), ResumabilityConfig(is_resumable=True)
    app = App(name="app", root_agent=agent, plugins=[tidegate], resumability_config=resumable)
    runner = Runner(app=app, session_service=service)
    if known is None:
        await service.create_session(app_name="app", **named)
        given = {"new_message": types.Content(role="user", parts=[types.Part(text=question)])}
    else:
        given = {"invocation_id": known.events[-1].invocation_id}
    async for event in runner.run_async(**named, **given, run_config=RunConfig(max_llm_calls=1000)):
        print(*(part.text or "" for part in (event.content.parts if event.content else None) or ()))
asyncio.run(main())
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    check_killed_run(KILLED, "gemini", tmp_path, session="app/me@k")


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_summaries_are_written_by_the_agents_model(policy: str, tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW, policy=policy, summarize=True)

    def run_summarized(fake: Fake) -> str:
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read])
        return str(asyncio.run(run(agent, [tidegate], "s"))[0][-1])

    check_summaries(run_summarized, "gemini", **SUMMARIES[policy])
    tidegate.threads.close()


def test_the_example_runs(tmp_path: Path) -> None:
    check_example("google_adk_agent.py", "gemini", tmp_path, "me@report")


@pytest.mark.parametrize("check", REFUSAL_CHECKS)
def test_a_refusal_for_length_is_answered(check: Any, tmp_path: Path) -> None:
    opened: list[TidegatePlugin] = []

    def run_new(fake: Fake, window: int, max_output: int) -> str:
        tidegate = opened[0] if opened else TidegatePlugin(tmp_path, window=window)
        opened.append(tidegate)
        config = types.GenerateContentConfig(max_output_tokens=max_output or None)
        agent = LlmAgent(name="reader", model=make_model(fake), tools=[read], generate_content_config=config)
        return str(asyncio.run(run(agent, [tidegate], f"run-{len(opened)}"))[0][-1])

    check(run_new, "gemini")
    opened[0].threads.close()


# --- whose session it is ----------------------------------------------------------------------------------------------


def test_users_with_the_same_session_id_stay_apart(tmp_path: Path) -> None:
    tidegate = TidegatePlugin(tmp_path, window=WINDOW)

    async def talk(fake: Fake) -> None:
        agent = LlmAgent(name="helper", model=make_model(fake), tools=[tidegate.recall_tool()])
        runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[tidegate]))
        for user, texts in (("alice", (GREETING, TOLD)), ("bob", (GREETING, QUESTION))):
            await runner.session_service.create_session(app_name="app", user_id=user, session_id="1")
            for text in texts:
                question = types.Content(role="user", parts=[types.Part(text=text)])
                async for _ in runner.run_async(user_id=user, session_id="1", new_message=question):
                    pass
        await runner.close()

    with run_provider("gemini", answer_and_recall) as fake:
        asyncio.run(talk(fake))
        check_secret_stays(fake)
    assert {info.name for info in tidegate.threads.data.store.sessions()} == {"app/alice@1", "app/bob@1"}
    with pytest.raises(BadInput, match="'1' has 2 sessions"):
        tidegate.session("1")
    tidegate.threads.close()
