"""The react agent of inspect_ai with the compaction strategy, against the strict fake provider."""

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.agent import AgentAttempts, react
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ChatMessageUser, modelapi
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
from inspect_ai.scorer import match
from inspect_ai.tool import Tool, tool

from tests.integrations.examples import EXAMPLES
from tests.integrations.provider import KEY, LongTask, read_page, run_provider
from tests.integrations.shared_checks import (
    QUESTION,
    TOLD,
    WINDOW,
    ResumedTask,
    check_killed_run,
    check_secret_stays,
)
from tidegate.core.messages import Call
from tidegate.integrations.inspect_ai import TidegateCompaction
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework's own programs


@pytest.fixture(autouse=True)
def _collect_streams() -> Iterator[None]:
    """The framework does not close all of its streams; they are collected here, where that is no error."""
    yield
    gc.collect()


@modelapi(name="loopback")
class LoopbackAPI(OpenAICompatibleAPI):
    """The framework's own client, with a token count that needs no download."""

    async def count_text_tokens(self, text: str) -> int:
        return len(text) // 4


@tool
def read() -> Tool:
    async def execute(number: int) -> str:
        """Read a page of the report.

        Args:
            number: the number of the page
        """
        return read_page(number)

    return execute


class SubmittingTask(LongTask):
    """Ends by calling the tool `submit`, as the react agent wants it."""

    def __call__(self, body: dict[str, Any]) -> Any:
        if self.left:
            return super().__call__(body)
        return ScriptedAnswer(calls=(Call("done", "submit", '{"answer":"All pages are read."}'),), number=999)


class ResumedSubmittingTask(SubmittingTask, ResumedTask):
    """The same for a run that begins again."""


def run_task(task: Task, url: str, folder: Path, **options: Any) -> Any:
    model = {"model": "loopback/local/gpt-4o", "model_base_url": url, "model_args": {"api_key": KEY}}
    logs = run_eval(
        task, **model, log_dir=str(folder / "logs"), display="none", max_retries=0, **{"score": False, **options}
    )
    assert logs[0].status == "success", logs[0].error
    assert logs[0].samples
    return logs[0].samples[0]


def results_of(sample: Any) -> list[str]:
    return [
        message.text for message in sample.messages if isinstance(message, ChatMessageTool) if "Page" in message.text
    ]


def test_a_long_run_fits_and_the_messages_stay_complete(tmp_path: Path) -> None:
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW - 2_000, session="long")
    with run_provider("openai_chat", SubmittingTask(200, parallel=2), WINDOW) as fake:
        task = Task(dataset=[Sample(input="Read all pages.")], solver=react(tools=[read()], compaction=tidegate))
        sample = run_task(task, fake.url, tmp_path)
        assert fake.refused == []
    assert sample.output.completion.strip().endswith("All pages are read.")
    assert results_of(sample) == [read_page(number) for number in range(200)]
    for number in (0, 70, 150):
        assert f"K{number:04d}" in tidegate.threads.recall("long", f"K{number:04d}")
    tidegate.threads.close()


def test_a_refusal_for_length_is_answered(tmp_path: Path) -> None:
    """The window is much smaller than the threshold: the framework compacts after each refusal, and goes on."""
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW, session="over")
    with run_provider("openai_chat", SubmittingTask(24), 6_000) as fake:
        task = Task(dataset=[Sample(input="Read all pages.")], solver=react(tools=[read()], compaction=tidegate))
        sample = run_task(task, fake.url, tmp_path)
        assert 1 <= len(fake.refused) <= 24 * 700 // 4_000
    assert results_of(sample) == [read_page(number) for number in range(24)]
    assert tidegate.session("over").window in range(6_000, 9_000)
    tidegate.threads.close()


def test_the_first_request_is_sent_once_when_it_is_joined_with_a_second(tmp_path: Path) -> None:
    """An answer that is not correct is followed by a second request: between both, everything leaves the view."""
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW - 2_000, session="two")
    left = [40, 40]

    def script(body: dict[str, Any]) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            return ScriptedAnswer(calls=(Call(f"c{sum(left)}", "read", f'{{"number":{sum(left)}}}'),), number=sum(left))
        done = left.pop(0)
        left.append(0)
        return ScriptedAnswer(calls=(Call(f"done{done}{sum(left)}", "submit", '{"answer":"All."}'),), number=999)

    with run_provider("openai_chat", script, WINDOW) as fake:
        attempts = AgentAttempts(attempts=2, incorrect_message="Read the others.")
        solver = react(tools=[read()], compaction=tidegate, attempts=attempts)
        samples = [Sample(input="Read all pages.", target="nothing")]
        run_task(Task(dataset=samples, solver=solver, scorer=match()), fake.url, tmp_path, score=True)
        assert fake.refused == []
        assert len(fake.seen) == 82
        assert [str(seen.body["messages"]).count("Read all pages.") for seen in fake.seen] == [1] * 82
        assert "Read the others." in str(fake.seen[-1].body)
    tidegate.threads.close()


def test_below_the_threshold_nothing_changes(tmp_path: Path) -> None:
    bodies = []
    for compaction in (None, TidegateCompaction(tmp_path / "data", threshold=WINDOW)):
        with run_provider("openai_chat", SubmittingTask(4)) as fake:
            solver = react(tools=[read()], compaction=compaction)
            run_task(Task(dataset=[Sample(input="Read all pages.")], solver=solver), fake.url, tmp_path)
            bodies.append([seen.body["messages"] for seen in fake.seen])
    assert bodies[0] == bodies[1]


def test_samples_that_run_at_the_same_time_have_sessions_of_their_own(tmp_path: Path) -> None:
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW - 2_000)

    def script(body: dict[str, Any]) -> Any:
        asked = sum(message["role"] == "assistant" for message in body["messages"])
        number = 2 * asked if asked < 200 else 0
        if sum(len(str(message)) for message in body["messages"]) and asked >= 24:
            return ScriptedAnswer(calls=(Call("done", "submit", '{"answer":"All."}'),), number=999)
        calls = tuple(Call(f"c{number + n}", "read", f'{{"number":{number + n}}}') for n in (0, 1))
        return ScriptedAnswer(calls=calls, number=number)

    with run_provider("openai_chat", script, WINDOW) as fake:
        samples = [Sample(input=f"Read all pages for {name}.") for name in ("Ann", "Ben")]
        run_task(Task(dataset=samples, solver=react(tools=[read()], compaction=tidegate)), fake.url, tmp_path)
        assert fake.refused == []
    names = [info.name for info in tidegate.threads.data.store.sessions()]
    assert len(names) == 2
    tidegate.threads.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_samples_whose_messages_have_the_same_ids_stay_apart(is_first: bool, tmp_path: Path) -> None:
    """One sample tells a secret, the next one asks for it: before its own first compaction, or after it."""
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW - 2_000)

    def script(body: dict[str, Any]) -> Any:
        asked = sum(message["role"] == "assistant" for message in body["messages"])
        if QUESTION in str(body) and "recalled" not in str(body) and (is_first or asked >= 24):
            return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"passphrase"}'),), number=900)
        if asked >= 26:
            return ScriptedAnswer(calls=(Call("done", "submit", '{"answer":"All."}'),), number=999)
        calls = tuple(Call(f"c{2 * asked + n}", "read", f'{{"number":{2 * asked + n}}}') for n in (0, 1))
        return ScriptedAnswer(calls=calls, number=asked)

    with run_provider("openai_chat", script, WINDOW) as fake:
        samples = [Sample(input=[ChatMessageUser(content=text, id="1")]) for text in (TOLD, QUESTION)]
        solver = react(tools=[read(), tidegate.recall_tool().as_tool()], compaction=tidegate)
        run_task(Task(dataset=samples, solver=solver), fake.url, tmp_path, max_samples=1)
        check_secret_stays(fake)
    assert len(tidegate.threads.data.store.sessions()) == 2
    tidegate.threads.close()


def test_the_model_calls_recall_as_a_tool_of_the_agent(tmp_path: Path) -> None:
    tidegate = TidegateCompaction(tmp_path / "data", threshold=WINDOW - 2_000, session="r")
    task = SubmittingTask(40, parallel=2)

    def script(body: dict[str, Any]) -> Any:
        if not task.left and not any(message.get("tool_call_id") == "recalled" for message in body["messages"]):
            return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"K0003"}'),), number=900)
        return task(body)

    with run_provider("openai_chat", script, WINDOW) as fake:
        solver = react(tools=[read(), tidegate.recall_tool().as_tool()], compaction=tidegate)
        sample = run_task(Task(dataset=[Sample(input="Read all pages.")], solver=solver), fake.url, tmp_path)
        assert fake.refused == []
    recalled = next(m for m in sample.messages if isinstance(m, ChatMessageTool) and m.tool_call_id == "recalled")
    assert "K0003" in recalled.text
    tidegate.threads.close()


KILLED = """
from tests.integrations.test_inspect_ai import *
@tool
def read():
    async def execute(number: int) -> str:
        \'\'\'Read a page of the report.

        Args:
            number: the number of the page
        \'\'\'
        return read_or_die(number)
    return execute
tidegate = TidegateCompaction(folder / "data", threshold=WINDOW - 2_000, session="k")
solver = react(tools=[read()], compaction=tidegate)
sample = run_task(Task(dataset=[Sample(input="Read all pages.")], solver=solver), url, folder)
print(sample.output.completion)
"""


def test_a_killed_run_goes_on_in_a_new_process(tmp_path: Path) -> None:
    """The framework begins a sample again. What was read before is still in the log."""
    check_killed_run(KILLED, "openai_chat", tmp_path, begins_again=True, unlogged=20, task=ResumedSubmittingTask())


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path / "data"))
    spec = importlib.util.spec_from_file_location("inspect_ai_task", EXAMPLES / "inspect_ai_task.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with run_provider("openai_chat", SubmittingTask(40, parallel=2), 18_000) as fake:
        sample = run_task(example.report(), fake.url, tmp_path)
        assert fake.refused == []
    assert len(results_of(sample)) == 40
