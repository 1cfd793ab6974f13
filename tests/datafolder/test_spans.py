"""Spans as OpenTelemetry's own SDK sees them: names, numbers and times, and no word of what was said."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from tidegate import Session
from tidegate.integrations.otel_spans import create_span_watcher, guess_provider


class Clock:
    """Seconds since noon; each step of a test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Recorder:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = self.provider.get_tracer("test")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        found = [span for span in self.all() if span.name == name]
        assert len(found) == 1, [span.name for span in self.all()]
        return found[0]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def watched(recorder: Recorder, clock: Callable[[], float], model: str = "gpt-4o", **more: Any) -> Session:
    session = Session(model, window=8_000, wire="openai_chat", count="chars/4", clock=clock)
    session.history.observe(create_span_watcher(recorder.tracer, session="build-fix", **more))
    return session


def calls(*ids: str) -> dict[str, Any]:
    made = [{"id": each, "type": "function", "function": {"name": "read", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(ident: str, text: str = "secret words") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


def test_a_model_call_lasts_from_its_request_to_its_reply(recorder: Recorder) -> None:
    clock = Clock()
    session = watched(recorder, clock)
    clock.now = 10.0
    session.add({"role": "user", "content": "secret words"})
    clock.now = 12.0
    session.prepare()
    clock.now = 15.5
    session.add({"role": "assistant", "content": "secret words"})
    clock.now = 16.0
    session.record(
        {"input_tokens": 40, "output_tokens": 9, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 60}
    )
    span = recorder.named("chat gpt-4o")
    assert span.kind is SpanKind.CLIENT
    assert seconds(span) == (12.0, 15.5)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.conversation.id": "build-fix",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 300,
        "gen_ai.usage.cache_creation.input_tokens": 60,
    }


def test_each_call_has_its_own_times_whichever_is_recorded_first(recorder: Recorder) -> None:
    clock = Clock()
    session = watched(recorder, clock)
    for number in range(3):
        clock.now = 100.0 * number + 10
        session.add({"role": "user", "content": "go on"})
        session.prepare()
        clock.now += 2
        if number == 1:
            session.record({"prompt_tokens": number, "completion_tokens": 1})
        session.add({"role": "assistant", "content": "well"})
        clock.now += 1
        if number != 1:
            session.record({"prompt_tokens": number, "completion_tokens": 1})
    found = [(dict(span.attributes or {})["gen_ai.usage.input_tokens"], *seconds(span)) for span in recorder.all()]
    assert found == [(0, 10.0, 12.0), (1, 110.0, 112.0), (2, 210.0, 212.0)]


def test_a_tool_runs_from_its_call_to_its_result(recorder: Recorder) -> None:
    clock = Clock()
    session = watched(recorder, clock)
    session.add({"role": "user", "content": "look"})
    clock.now = 5.0
    session.add(calls("c1", "c2"))
    clock.now = 6.5
    session.add(result("c2"))
    clock.now = 9.0
    session.add(result("c1"))
    session.add(result("c9"))
    found = {dict(span.attributes or {})["gen_ai.tool.call.id"]: span for span in recorder.all()}
    assert {ident: seconds(span) for ident, span in found.items()} == {"c1": (5.0, 9.0), "c2": (5.0, 6.5)}
    assert found["c1"].name == "execute_tool read"
    assert found["c1"].kind is SpanKind.INTERNAL
    assert found["c1"].status.status_code is StatusCode.UNSET
    assert dict(found["c1"].attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "build-fix",
    }


def test_a_tool_that_failed_or_never_returned_is_an_error(recorder: Recorder) -> None:
    clock = Clock()
    session = Session("claude-sonnet-4-5", window=8_000, count="chars/4", clock=clock)
    session.history.observe(create_span_watcher(recorder.tracer))
    session.add({"role": "user", "content": "look"}, calls("c1", "c2"))
    clock.now = 3.0
    failed = {"type": "tool_result", "tool_use_id": "c1", "content": "no such file", "is_error": True}
    session.add({"role": "user", "content": [failed]})
    clock.now = 8.0
    session.prepare()
    session.add(result("c2"))
    errors = {
        dict(span.attributes or {})["gen_ai.tool.call.id"]: (
            dict(span.attributes or {})["error.type"],
            span.status.status_code,
            seconds(span)[1],
        )
        for span in recorder.all()
        if span.name.startswith("execute_tool")
    }
    assert errors == {"c1": ("_OTHER", StatusCode.ERROR, 3.0), "c2": ("interrupted", StatusCode.ERROR, 8.0)}


def test_a_compaction_says_what_it_saved(recorder: Recorder) -> None:
    clock = Clock()
    session = watched(recorder, clock)
    for number in range(8):
        session.add({"role": "user", "content": f"question {number} " * 60})
        session.add({"role": "assistant", "content": "secret words " * 60})

    def slow(_: object) -> str:
        clock.now += 4
        return "They spoke."

    clock.now = 20.0
    session.compact(slow)
    made = [span for span in recorder.all() if span.name == "context_compaction"]
    assert made
    last = dict(made[-1].attributes or {})
    assert last["tidegate.compaction.moment"] == "manual"
    assert last["tidegate.compaction.stage"] in session.edit_counts
    before, after = last["tidegate.compaction.before"], last["tidegate.compaction.after"]
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert before > after == session.view.tokens
    assert seconds(made[-1]) == (20.0, 24.0)


def test_no_word_of_what_was_said_is_in_any_span(recorder: Recorder) -> None:
    session = watched(recorder, Clock())
    session.set_system("secret words")
    for number in range(12):
        session.add({"role": "user", "content": "secret words " * 50}, calls(f"c{number}"), result(f"c{number}"))
        session.prepare(lambda _: "secret words")
        session.add({"role": "assistant", "content": "secret words " * 50})
        session.record({"prompt_tokens": 10, "completion_tokens": 1})
    session.history.add_note("error", "secret words")
    session.compact(lambda _: "secret words")
    names = {span.name for span in recorder.all()}
    assert names == {"chat gpt-4o", "execute_tool read", "context_compaction"}
    assert "secret" not in "".join(span.to_json() for span in recorder.all())


def test_spans_stand_below_the_one_that_is_open(recorder: Recorder) -> None:
    session = watched(recorder, Clock())
    with recorder.tracer.start_as_current_span("invoke_agent") as above:
        session.add(calls("c1"), result("c1"))
    parent = recorder.named("execute_tool read").parent
    assert parent is not None
    assert parent.span_id == above.get_span_context().span_id


def test_calls_that_are_never_answered_are_not_remembered_for_ever(recorder: Recorder) -> None:
    session = watched(recorder, Clock())
    for number in range(1_100):
        session.add(calls(f"c{number}"))
    session.add(result("c0"), result("c1099"))
    assert [dict(span.attributes or {})["gen_ai.tool.call.id"] for span in recorder.all()] == ["c1099"]


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4o", "openai"),
        ("o3-mini", "openai"),
        ("claude-opus-4-5", "anthropic"),
        ("gemini-2.5-pro", "gcp.gemini"),
        ("mistral/mistral-large", "mistral_ai"),
        ("bedrock/claude-opus-4-5", "aws.bedrock"),
        ("ollama/gpt-oss", ""),
        ("qwen2.5", ""),
        ("", ""),
    ],
)
def test_the_provider_is_told_from_the_name_or_not_at_all(model: str, provider: str, recorder: Recorder) -> None:
    assert guess_provider(model) == provider
    for given in ("", "my.proxy"):
        session = watched(recorder, Clock(), model, provider=given)
        session.record({"prompt_tokens": 1, "completion_tokens": 1})
        found = dict(recorder.all()[-1].attributes or {})
        assert found.get("gen_ai.provider.name", "") == (given or provider)
        assert found.get("gen_ai.request.model", "") == model
        assert recorder.all()[-1].name == f"chat {model}".strip()


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    return done.stdout + done.stderr


def test_who_does_not_ask_does_not_load_it_and_who_lacks_it_is_told() -> None:
    loaded = (
        "import sys, tidegate.integrations.otel_spans; print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    assert run(loaded) == "[]\n"
    lacking = """
import sys
sys.modules["opentelemetry"] = None
from tidegate import BadInput
from tidegate.integrations.otel_spans import create_span_watcher
try:
    create_span_watcher()
except BadInput as told:
    print(told)
"""
    assert run(lacking) == "OpenTelemetry is not installed. Run pip install 'tidegate[otel]'.\n"


def test_without_a_tracer_the_programs_own_is_taken() -> None:
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tidegate import Session
from tidegate.integrations.otel_spans import create_span_watcher

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
session = Session("gpt-4o", count="chars/4")
session.history.observe(create_span_watcher())
session.record({"prompt_tokens": 1, "completion_tokens": 1})
print([(span.name, span.instrumentation_scope.name) for span in exporter.get_finished_spans()])
"""
    assert run(code) == "[('chat gpt-4o', 'tidegate')]\n"
