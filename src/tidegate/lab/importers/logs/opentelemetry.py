"""OpenTelemetry traces: sessions from the spans of model calls.

The span of a model call holds the whole prompt of that call, so the longest of an agent's calls is its session. Spans
come nested (`child_spans`), as OTLP JSON (`resourceSpans`) or as an SDK prints them. Messages are attributes of
OpenInference, of OpenLLMetry, or of the GenAI conventions: see `opentelemetry_messages`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.logs.opentelemetry_messages import build_span_conversation, read_span_prompt
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "spans"
_MAX_ANCESTORS = 200
"""Spans above a span that are looked at for its agent."""
_KIND_KEY = "openinference.span.kind"


class _TraceSpan(NamedTuple):
    trace: str
    id: str
    parent: str
    name: str
    start: float
    attributes: JsonRecord


def recognizes(head: SourceFile) -> bool:
    values = _list_documents(value for _, value in head.head)
    return any(_is_span(value) or "resourceSpans" in value or _holds_spans(value) for value in values)


def _list_documents(values: Iterable[object]) -> list[JsonRecord]:
    return [
        each for value in values for each in (list_objects(value) if isinstance(value, list) else list_objects([value]))
    ]


def _holds_spans(value: JsonRecord) -> bool:
    spans = list_objects(value.get("spans"))
    return bool(spans) and "span_id" in spans[0]


def _is_span(value: JsonRecord) -> bool:
    if "span_id" in value and "span_attributes" in value:
        return True
    return isinstance(value.get("attributes"), dict) and "span_id" in object_or_empty(value.get("context"))


def read(source: SourceFile) -> Iterator[Recording]:
    spans: dict[str, _TraceSpan] = {}
    for top in _list_documents(value for _, value in source.read_values()):
        for span in _read_spans(top):
            spans[f"{span.trace}/{span.id}"] = span
    groups: dict[str, list[_TraceSpan]] = {}
    for span in spans.values():
        if read_span_prompt(span.attributes):
            groups.setdefault(_find_owner(span, spans), []).append(span)
    numbers: dict[str, int] = {}
    for found in groups.values():
        longest = max(found, key=lambda span: (len(read_span_prompt(span.attributes)), span.start))
        name = f"{longest.trace or source.stem}-{numbers.setdefault(longest.trace, 0)}"
        numbers[longest.trace] += 1
        recording = _build_recording(source, name, longest, spans)
        if recording:
            yield recording


def _build_recording(source: SourceFile, name: str, span: _TraceSpan, spans: dict[str, _TraceSpan]) -> Recording | None:
    agent = spans.get(_find_owner(span, spans))
    about = span.attributes
    model = first_text(about, "llm.model_name", "gen_ai.request.model", "gen_ai.response.model")
    project = first_text(about, "pat.project.name", "gen_ai.conversation.id", "session.id")
    meta = RecordingOrigin(
        FORMAT, (agent.name if agent else "").removesuffix(".run"), model, name, project, str(source.path)
    )
    return build_span_conversation(about).build_recording(source, name, meta)


def _find_owner(span: _TraceSpan, spans: dict[str, _TraceSpan]) -> str:
    """Return the nearest agent above a span, or its trace if there is none."""
    seen: set[str] = set()
    key = f"{span.trace}/{span.parent}"
    while key in spans and key not in seen and len(seen) < _MAX_ANCESTORS:
        seen.add(key)
        about = spans[key].attributes
        if about.get(_KIND_KEY) == "AGENT" or about.get("gen_ai.operation.name") == "invoke_agent":
            return key
        key = f"{spans[key].trace}/{spans[key].parent}"
    return span.trace


def _read_spans(top: JsonRecord) -> Iterator[_TraceSpan]:
    queue = list_objects(top.get("spans")) or ([top] if _is_span(top) else [])
    for resource in list_objects(top.get("resourceSpans")):
        for scope in list_objects(resource.get("scopeSpans")):
            queue.extend(list_objects(scope.get("spans")))
    waiting = [(value, "") for value in reversed(queue)]
    while waiting:
        value, above = waiting.pop()
        span = _read_span(value, above)
        waiting.extend((inner, span.id) for inner in reversed(list_objects(value.get("child_spans"))))
        yield span


def _read_span(span: JsonRecord, above: str) -> _TraceSpan:
    context = object_or_empty(span.get("context"))
    attributes = span.get("span_attributes", span.get("attributes"))
    if isinstance(attributes, list):
        attributes = {
            string_or_empty(each.get("key")): _unwrap_otlp_value(each.get("value")) for each in list_objects(attributes)
        }
    return _TraceSpan(
        first_text(span, "trace_id", "traceId") or first_text(context, "trace_id"),
        first_text(span, "span_id", "spanId") or first_text(context, "span_id"),
        first_text(span, "parent_span_id", "parentSpanId", "parent_id") or above,
        first_text(span, "span_name", "name"),
        parse_recorded_time(span.get("timestamp", span.get("startTimeUnixNano", span.get("start_time")))),
        object_or_empty(attributes),
    )


def _unwrap_otlp_value(value: object) -> object:
    """Return a value of OTLP JSON without its type."""
    inner = object_or_empty(value)
    if "arrayValue" in inner:
        return [_unwrap_otlp_value(each) for each in list_objects(object_or_empty(inner["arrayValue"]).get("values"))]
    if "kvlistValue" in inner:
        pairs = list_objects(object_or_empty(inner["kvlistValue"]).get("values"))
        return {string_or_empty(each.get("key")): _unwrap_otlp_value(each.get("value")) for each in pairs}
    return next(iter(inner.values()), None)
