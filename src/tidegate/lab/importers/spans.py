"""Traces of OpenTelemetry: sessions out of the spans of model calls.

A span of a model call holds the whole prompt of that call, so the longest of an agent's calls is its session. Spans
come nested (`child_spans`), as OTLP JSON (`resourceSpans`) or as an SDK prints them; messages as attributes of
OpenInference, of OpenLLMetry, or of the GenAI conventions. See `span_messages` for these.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.lab.importers.fields import a_dict, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.span_messages import prompt_of, talk_of

FORMAT = "spans"
FARTHEST = 200
"""Spans above a span that are looked at for its agent."""
_KIND = "openinference.span.kind"


class Span(NamedTuple):
    trace: str
    id: str
    parent: str
    name: str
    start: float
    attributes: Json


def recognises(head: Source) -> bool:
    values = _tops(value for _, value in head.head)
    return any(_is_span(value) or "resourceSpans" in value or _nested(value) for value in values)


def _tops(values: Iterable[object]) -> list[Json]:
    return [each for value in values for each in (dicts(value) if isinstance(value, list) else dicts([value]))]


def _nested(value: Json) -> bool:
    spans = dicts(value.get("spans"))
    return bool(spans) and "span_id" in spans[0]


def _is_span(value: Json) -> bool:
    if "span_id" in value and "span_attributes" in value:
        return True
    return isinstance(value.get("attributes"), dict) and "span_id" in a_dict(value.get("context"))


def read(source: Source) -> Iterator[Recording]:
    spans: dict[str, Span] = {}
    for top in _tops(value for _, value in source.values()):
        for span in _spans(top):
            spans[f"{span.trace}/{span.id}"] = span
    groups: dict[str, list[Span]] = {}
    for span in spans.values():
        if prompt_of(span.attributes):
            groups.setdefault(_owner(span, spans), []).append(span)
    numbers: dict[str, int] = {}
    for found in groups.values():
        longest = max(found, key=lambda span: (len(prompt_of(span.attributes)), span.start))
        name = f"{longest.trace or source.stem}-{numbers.setdefault(longest.trace, 0)}"
        numbers[longest.trace] += 1
        recording = _recording(source, name, longest, spans)
        if recording:
            yield recording


def _recording(source: Source, name: str, span: Span, spans: dict[str, Span]) -> Recording | None:
    agent = spans.get(_owner(span, spans))
    about = span.attributes
    model = text_at(about, "llm.model_name", "gen_ai.request.model", "gen_ai.response.model")
    project = text_at(about, "pat.project.name", "gen_ai.conversation.id", "session.id")
    meta = Meta(FORMAT, (agent.name if agent else "").removesuffix(".run"), model, name, project, str(source.path))
    return talk_of(about).recording(source, name, meta)


def _owner(span: Span, spans: dict[str, Span]) -> str:
    """The nearest agent above a span; without one, its trace."""
    seen: set[str] = set()
    key = f"{span.trace}/{span.parent}"
    while key in spans and key not in seen and len(seen) < FARTHEST:
        seen.add(key)
        about = spans[key].attributes
        if about.get(_KIND) == "AGENT" or about.get("gen_ai.operation.name") == "invoke_agent":
            return key
        key = f"{spans[key].trace}/{spans[key].parent}"
    return span.trace


def _spans(top: Json) -> Iterator[Span]:
    queue = dicts(top.get("spans")) or ([top] if _is_span(top) else [])
    for resource in dicts(top.get("resourceSpans")):
        for scope in dicts(resource.get("scopeSpans")):
            queue.extend(dicts(scope.get("spans")))
    waiting = [(value, "") for value in reversed(queue)]
    while waiting:
        value, above = waiting.pop()
        span = _span(value, above)
        waiting.extend((inner, span.id) for inner in reversed(dicts(value.get("child_spans"))))
        yield span


def _span(span: Json, above: str) -> Span:
    context = a_dict(span.get("context"))
    attributes = span.get("span_attributes", span.get("attributes"))
    if isinstance(attributes, list):
        attributes = {a_str(each.get("key")): _plain(each.get("value")) for each in dicts(attributes)}
    return Span(
        text_at(span, "trace_id", "traceId") or text_at(context, "trace_id"),
        text_at(span, "span_id", "spanId") or text_at(context, "span_id"),
        text_at(span, "parent_span_id", "parentSpanId", "parent_id") or above,
        text_at(span, "span_name", "name"),
        time_of(span.get("timestamp", span.get("startTimeUnixNano", span.get("start_time")))),
        a_dict(attributes),
    )


def _plain(value: object) -> object:
    """A value of OTLP JSON, which says its type, without it."""
    inner = a_dict(value)
    if "arrayValue" in inner:
        return [_plain(each) for each in dicts(a_dict(inner["arrayValue"]).get("values"))]
    if "kvlistValue" in inner:
        pairs = dicts(a_dict(inner["kvlistValue"]).get("values"))
        return {a_str(each.get("key")): _plain(each.get("value")) for each in pairs}
    return next(iter(inner.values()), None)
