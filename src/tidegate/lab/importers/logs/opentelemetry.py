"""OpenTelemetry traces: sessions from the spans of model calls.

The span of a model call holds the whole prompt of that call, so the longest of an agent's calls is its session. Spans
come nested (`child_spans`), as OTLP JSON (`resourceSpans`) or as an SDK prints them. Messages are attributes of
OpenInference, of OpenLLMetry, or of the GenAI conventions, or in the form of smolagents.

smolagents writes calls and results as text: `Calling tools:` with the printed form of Python objects, which is parsed
as a literal and never executed, and `Call id: ... Observation: ...`. The answer to the last prompt is there only as
text, with its call inside, so it is left out.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.lab.importers.conversation_builder import ConversationBuilder, RecordedCall
from tidegate.lab.importers.json_fields import (
    encode_recorded_json,
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile, load_bounded_json

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
    for group in groups.values():
        longest = max(group, key=lambda span: (len(read_span_prompt(span.attributes)), span.start))
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
    path: set[str] = set()
    key = f"{span.trace}/{span.parent}"
    while key in spans and key not in path and len(path) < _MAX_ANCESTORS:
        path.add(key)
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


_MAX_LITERAL_CHARS = 2**20
_INPUT_PREFIXES, _OUTPUT_PREFIXES = (
    ("llm.input_messages.", "gen_ai.prompt."),
    ("llm.output_messages.", "gen_ai.completion."),
)
_CALLS_HEADING = "Calling tools:\n"
_RESULT_PATTERN = re.compile(r"(?:Call id: (\S+)\n)?(?:Observation|Error):\n(.*)", re.DOTALL)


def read_span_prompt(attributes: JsonRecord) -> list[JsonRecord]:
    """Return the messages of a prompt by role, or nothing if the span is not a model call."""
    structured = _load_objects(attributes.get("gen_ai.input.messages"))
    if structured:
        return list_objects(_load_objects(attributes.get("gen_ai.system_instructions"))) + structured
    return _unflatten_messages(attributes, _INPUT_PREFIXES)


def build_span_conversation(attributes: JsonRecord) -> ConversationBuilder:
    talk = ConversationBuilder()
    roles = set()
    for message in read_span_prompt(attributes):
        roles.add(string_or_empty(message.get("role")))
        _add_message(talk, message)
    answer = _load_objects(attributes.get("gen_ai.output.messages")) or _unflatten_messages(
        attributes, _OUTPUT_PREFIXES
    )
    if answer and roles & {"tool-call", "tool-response"}:
        talk.count_omitted("answers to the last prompt")
    else:
        for message in answer[:1]:
            _add_message(talk, {"role": "assistant", **message})
    return talk


def _load_objects(value: object) -> list[JsonRecord]:
    return list_objects(load_bounded_json(value) if isinstance(value, str) else value)


def _unflatten_messages(attributes: JsonRecord, prefixes: tuple[str, ...]) -> list[JsonRecord]:
    """Build messages from keys such as `llm.input_messages.0.message.role`."""
    tree: JsonRecord = {}
    for key, value in attributes.items():
        prefix = next((each for each in prefixes if key.startswith(each)), "")
        steps = key[len(prefix) :].split(".") if prefix else []
        at = tree
        for step in steps[:-1][:8]:
            inner = at.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            at = inner
        if steps:
            at[steps[-1]] = value
    return [_unwrap_message(object_or_empty(message)) for message in _numbered_values(tree)]


def _numbered_values(tree: object) -> list[object]:
    numbered = {
        int(key): value
        for key, value in object_or_empty(tree).items()
        if key.isascii() and key.isdecimal() and len(key) < 9
    }
    return [numbered[key] for key in sorted(numbered)]


def _unwrap_message(message: JsonRecord) -> JsonRecord:
    """Unwrap a message of OpenInference, which puts each level under a name."""
    inner = object_or_empty(message.get("message")) or message
    calls = [
        object_or_empty(object_or_empty(each).get("tool_call")) or object_or_empty(each)
        for each in _numbered_values(inner.get("tool_calls"))
    ]
    parts = [
        object_or_empty(object_or_empty(each).get("message_content"))
        for each in _numbered_values(inner.get("contents"))
    ]
    content = string_or_empty(inner.get("content")) or "\n".join(first_text(part, "text") for part in parts)
    return {**inner, "content": content, "tool_calls": calls}


def _add_message(talk: ConversationBuilder, message: JsonRecord) -> None:
    role = string_or_empty(message.get("role"))
    content = string_or_empty(message.get("content"))
    if "parts" in message or message.get("type") == "text":
        _add_genai_message(talk, message)
    elif role == "tool-call":
        _add_smolagents_calls(talk, content)
    elif role == "tool-response":
        match = _RESULT_PATTERN.match(content)
        talk.add_result((match[1] or "") if match else "", match[2] if match else content)
    elif role in ("assistant", "ai", "model"):
        talk.add_answer(content, [_read_call(each) for each in list_objects(message.get("tool_calls"))])
    elif role in ("tool", "function"):
        talk.add_result(first_text(message, "tool_call_id"), content)
    else:
        talk.add_message("user" if role in ("user", "human") else "system", content)


def _add_genai_message(talk: ConversationBuilder, message: JsonRecord) -> None:
    """Add a message of the GenAI conventions. Instructions are parts without a message around them."""
    parts = list_objects(message.get("parts")) or [message]
    texts = [string_or_empty(part.get("content")) for part in parts if part.get("type") == "text"]
    role = string_or_empty(message.get("role"))
    for part in parts:
        if part.get("type") == "tool_call_response":
            response = part.get("response", part.get("result"))
            talk.add_result(
                first_text(part, "id"), response if isinstance(response, str) else encode_recorded_json(response)
            )
    if role == "assistant":
        calls = [_read_call(part) for part in parts if part.get("type") == "tool_call"]
        thoughts = [string_or_empty(part.get("content")) for part in parts if part.get("type") == "reasoning"]
        talk.add_answer("\n".join(texts), calls, "\n".join(thoughts))
    else:
        talk.add_message("user" if role == "user" else "system", "\n".join(texts))


def _read_call(call: JsonRecord) -> RecordedCall:
    function = object_or_empty(call.get("function"))
    name = first_text(function, "name") or first_text(call, "name", "function.name")
    return RecordedCall(first_text(call, "id"), name, function.get("arguments", call.get("arguments")))


def _add_smolagents_calls(talk: ConversationBuilder, content: str) -> None:
    calls = []
    for each in list_objects(_parse_literal(content.removeprefix(_CALLS_HEADING))):
        call = _read_call(each)
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"code" if call.name == "python_interpreter" else "input": arguments}
        calls.append(RecordedCall(call.id, call.name, arguments))
    last = talk.messages[-1] if talk.messages else {}
    if not calls:
        talk.count_omitted("calls that could not be read")
    elif last.get("role") == "assistant" and not last.get("tool_calls"):
        talk.extend_answer(last, calls=calls)
    else:
        talk.add_answer(calls=calls)


def _parse_literal(text: str) -> list[object]:
    """Parse Python's printed form of a list. Only literals are parsed; nothing is executed."""
    if len(text) > _MAX_LITERAL_CHARS:
        return []
    try:
        return list_or_empty(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
