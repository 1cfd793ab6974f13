"""OpenTelemetry spans of a session, after the conventions for generative AI. Optional.

    session.history.observe(create_span_watcher(trace.get_tracer("my-agent"), session="build-fix"))

Model calls, tool calls and compactions become spans, with names, numbers and times, and no message content. A
span is made when it is over, with the times of its events, so none is left open by a process that ends. Its parent is
the span that is current then, if there is one; `gen_ai.conversation.id` ties together what belongs to a session.

Two processes that have the same session open see the same events: let only one of them make spans.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.event_check import is_possible_time
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.messages import Message, calls_of, result_of
from tidegate.core.notes import CompactionEnded, CompactionStarted, is_note
from tidegate.wire.registry import DIALECTS, find_dialect_of_model

if TYPE_CHECKING:
    from opentelemetry.trace import SpanKind, Tracer

_MAX_REMEMBERED = 1_000
"""Open calls and past moments to remember: a call that is never answered must not take memory without limit."""

_VENDORS = {
    **{dialect.vendor.name: dialect.vendor.otel_name for dialect in DIALECTS.values() if dialect.vendor},
    "google": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "xai": "x_ai",
    "groq": "groq",
    "cohere": "cohere",
    "perplexity": "perplexity",
}
_MAKERS = (
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("grok-", "x_ai"),
)

_K = TypeVar("_K")
_V = TypeVar("_V")
_Attributes = dict[str, str | int]


def create_span_watcher(
    tracer: "Tracer | None" = None, *, session: str = "", provider: str = ""
) -> Callable[[Event], None]:
    """A watcher for a session. Without a tracer the one of the program's own set-up is taken.

    `provider` is who serves the model, in the words of the conventions; without it the model's name must tell.
    """
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra that most do without
    except ImportError:
        raise BadInput("OpenTelemetry is not installed.", "Run pip install 'tidegate[otel]'.") from None
    return _SpanWatcher(tracer or trace.get_tracer("tidegate"), session, provider)


def guess_provider(model: str) -> str:
    """Return the provider of a model if its name identifies it; a name with an unknown vendor prefix does not."""
    vendor, slash, _ = model.lower().partition("/")
    if slash:
        return _VENDORS.get(vendor, "")
    dialect = find_dialect_of_model(vendor)
    if dialect and dialect.vendor:
        return dialect.vendor.otel_name
    return next((maker for start, maker in _MAKERS if vendor.startswith(start)), "")


class _OpenCall(NamedTuple):
    name: str
    time: float


class _SpanWatcher:
    def __init__(self, tracer: "Tracer", session: str, provider: str) -> None:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - as above

        self._tracer = tracer
        self._outside, self._inside = SpanKind.CLIENT, SpanKind.INTERNAL
        self._session = session
        self._provider = provider
        self._calls: dict[str, _OpenCall] = {}
        self._times: dict[int, float] = {}
        self._replies: dict[int, float] = {}
        self._compacting = 0.0

    def __call__(self, event: Event) -> None:
        self._times[event.seq] = event.time
        what = event.payload
        if isinstance(what, MessageAdded):
            self._record_message(what.message, event)
        elif isinstance(what, ViewEdited):
            self._record_edit(what, event)
        elif isinstance(what, UsageReported):
            self._record_usage(what, event)
        else:
            self._record_note(what, event)
        _forget_oldest(self._calls)
        _forget_oldest(self._times)
        _forget_oldest(self._replies)

    def _record_message(self, message: Message, event: Event) -> None:
        if message.role == "assistant":
            self._replies[event.seq] = event.time
            for call in calls_of(message):
                self._calls[call.id] = _OpenCall(call.name, event.time)
        self._record_result(message, event, "_OTHER")

    def _record_result(self, message: Message, event: Event, error: str) -> None:
        result = result_of(message)
        call = self._calls.pop(result.call_id, None) if result else None
        if result is None or call is None:
            return
        attributes: _Attributes = {"gen_ai.tool.name": call.name, "gen_ai.tool.call.id": result.call_id}
        if result.error:
            attributes["error.type"] = error
        self._span("execute_tool", call.name, call.time, event.time, {**attributes, "gen_ai.tool.type": "function"})

    def _record_usage(self, what: UsageReported, event: Event) -> None:
        """A call starts after the last event of its request and ends with the reply."""
        start = self._times.get(what.log_head, event.time)
        replied = (time for seq, time in self._replies.items() if seq > what.log_head)
        numbers: _Attributes = {
            "gen_ai.usage.input_tokens": what.input_tokens,
            "gen_ai.usage.output_tokens": what.output_tokens,
        }
        if what.cache_read:
            numbers["gen_ai.usage.cache_read.input_tokens"] = what.cache_read
        if what.cache_write:
            numbers["gen_ai.usage.cache_creation.input_tokens"] = what.cache_write
        provider = self._provider or guess_provider(what.model)
        if provider:
            numbers["gen_ai.provider.name"] = provider
        if what.model:
            numbers["gen_ai.request.model"] = what.model
        self._span("chat", what.model, start, next(replied, event.time), numbers, self._outside)
        self._replies.clear()

    def _record_edit(self, what: ViewEdited, event: Event) -> None:
        numbers: _Attributes = {
            "tidegate.compaction.stage": what.stage,
            "tidegate.compaction.rule": what.rule,
            "tidegate.compaction.moment": what.moment,
            "tidegate.compaction.before": what.tokens_before,
            "tidegate.compaction.after": what.tokens_after,
            "tidegate.compaction.edits": len(what.edits),
        }
        self._span("context_compaction", "", self._compacting or event.time, event.time, numbers)
        for edit in what.edits:
            if isinstance(edit, Insert):  # a call whose tool never returned was answered for it
                self._record_result(edit.message, event, "interrupted")

    def _record_note(self, what: NoteAdded, event: Event) -> None:
        if is_note(what, CompactionStarted, CompactionEnded):
            self._compacting = event.time if is_note(what, CompactionStarted) else 0.0

    def _span(
        self, does: str, to: str, start: float, end: float, attributes: _Attributes, kind: "SpanKind | None" = None
    ) -> None:
        if does != "context_compaction":
            attributes["gen_ai.operation.name"] = does
        if self._session:
            attributes["gen_ai.conversation.id"] = self._session
        span = self._tracer.start_span(
            f"{does} {to}".strip(), kind=kind or self._inside, attributes=attributes, start_time=_nanoseconds(start)
        )
        if "error.type" in attributes:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - as above

            span.set_status(StatusCode.ERROR)
        span.end(_nanoseconds(max(start, end)))


def _forget_oldest(entries: dict[_K, _V]) -> None:
    while len(entries) > _MAX_REMEMBERED:
        del entries[next(iter(entries))]


def _nanoseconds(time: float) -> int:
    return int(time * 1_000_000_000) if is_possible_time(time) else 0
