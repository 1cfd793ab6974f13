"""Logs of requests to a model, of OpenAI (chat and responses), Anthropic and Gemini, with the answers if they are
there.

Each line is the body of a request, or an object that holds one: a proxy's log, a batch file, a completion log of
litellm. Requests that each start with all of the previous one are one session; the last of them holds all of it.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.importers.conversation_builder import ConversationBuilder
from tidegate.lab.importers.json_fields import (
    encode_recorded_json,
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.logs.chat_messages import add_core_message, render_chat_tools
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile
from tidegate.wire.dialect import Dialect
from tidegate.wire.registry import detect_request_dialect, parse_any_message

FORMAT = "requests"
_REQUEST_KEYS = ("request", "body", "request_body", "requestBody", "input", "kwargs", "params")
_RESPONSE_KEYS = ("response", "response_body", "responseBody", "output", "raw_response")
_TIME_KEYS = ("timestamp", "time", "created_at", "startTime", "start_time", "ts")


class _LoggedRequest(NamedTuple):
    line: int
    dialect: Dialect
    body: JsonRecord
    response: JsonRecord
    time: float


class _RequestTime(NamedTuple):
    """The time of a request, with the number of answers it already held."""

    answer_count: int
    time: float


class _RequestChain(NamedTuple):
    """A session so far: its last request, and only the times of the earlier ones."""

    last_request: _LoggedRequest
    request_times: tuple[_RequestTime, ...]


def recognizes(head: SourceFile) -> bool:
    return any(_find_body(each) for _, value in head.head for each in _list_entries(value)[:4])


def _list_entries(value: object) -> list[JsonRecord]:
    return list_objects(value) if isinstance(value, list) else list_objects([value])


def _find_body(value: JsonRecord) -> JsonRecord:
    """Return the body of a request, wherever in this object it is."""
    places = [value, *(object_or_empty(value.get(key)) for key in _REQUEST_KEYS)]
    places.extend(object_or_empty(place.get("body")) for place in places[1:])
    return next((place for place in places if detect_request_dialect(place)), {})


def read(source: SourceFile) -> Iterator[Recording]:
    chains: list[_RequestChain] = []
    ends: dict[str, int] = {}
    for number, value in source.read_values():
        for each in _list_entries(value):
            body = _find_body(each)
            dialect = detect_request_dialect(body)
            if dialect is not None:
                logged = _LoggedRequest(
                    number,
                    dialect,
                    body,
                    _find_response(each),
                    parse_recorded_time(next(filter(None, map(each.get, _TIME_KEYS)), 0)),
                )
                _extend_chain(chains, ends, logged)
    for count, chain in enumerate(chains):
        name = source.stem if len(chains) == 1 else f"{source.stem}-{count + 1}"
        model = first_text(chain.last_request.body, "model")
        talk = _build_conversation(source, chain.last_request)
        _set_times(talk, chain.request_times)
        recording = talk.build_recording(source, name, RecordingOrigin(FORMAT, "", model, name, "", str(source.path)))
        if recording:
            yield recording


def _find_response(value: JsonRecord) -> JsonRecord:
    places = [object_or_empty(value.get(key)) for key in _RESPONSE_KEYS]
    places.extend(object_or_empty(place.get("body")) for place in list(places))
    return next((place for place in places if {"choices", "content", "output", "candidates"} & place.keys()), {})


def _extend_chain(chains: list[_RequestChain], ends: dict[str, int], logged: _LoggedRequest) -> None:
    """Add a request to the session whose last request it continues, found by a hash of its messages, or start one."""
    sent_messages = logged.body.get(logged.dialect.messages_key)
    messages: Sequence[object] = sent_messages if isinstance(sent_messages, list) else [sent_messages]
    total = sha256(encode_recorded_json(logged.body.get("system")).encode())
    at = -1
    sums = []
    for message in messages:
        total.update(encode_recorded_json(_normalize_message(message)).encode())
        sums.append(total.hexdigest())
        at = ends.get(sums[-1], at)
    if at < 0:
        at = len(chains)
        chains.append(_RequestChain(logged, ()))
    answers = sum(object_or_empty(message).get("role") in ("assistant", "model") for message in messages)
    chains[at] = _RequestChain(logged, (*chains[at].request_times, _RequestTime(answers, logged.time)))
    if sums:
        ends[sums[-1]] = at


def _normalize_message(message: object) -> object:
    """Return the message without the marks for the provider's cache, which move from request to request."""
    if not isinstance(message, dict):
        return message
    parts = [
        {key: inner for key, inner in part.items() if key != "cache_control"} if isinstance(part, dict) else part
        for part in list_or_empty(message.get("content"))
    ]
    only = object_or_empty(parts[0]) if len(parts) == 1 else {}
    if only.keys() == {"type", "text"} and only["type"] == "text":
        return {**message, "content": only["text"]}
    return {**message, "content": parts} if parts else message


def _set_times(talk: ConversationBuilder, requests: tuple[_RequestTime, ...]) -> None:
    times = {each.answer_count: each.time for each in requests}
    answers = [at for at, message in enumerate(talk.messages) if message["role"] == "assistant"]
    for count, at in enumerate(answers):
        talk.times[at] = times.get(count, 0.0)


def _build_conversation(source: SourceFile, logged: _LoggedRequest) -> ConversationBuilder:
    talk = ConversationBuilder()
    try:
        body = logged.dialect.parse_body(logged.body)
        answer = [message for value in _find_answers(logged.response) for message in parse_any_message(value)]
    except BadInput as fault:
        raise source.make_error(logged.line, str(fault.args[0]).rstrip("."), fault.remedy) from None
    talk.add_message("system", body.system)
    for message in [*body.messages, *answer]:
        add_core_message(talk, message)
    talk.tools = render_chat_tools(body.tools)
    return talk


def _find_answers(response: JsonRecord) -> list[JsonRecord]:
    """Return the messages in a response of any provider; more than one only where it is a list of items."""
    choices = list_objects(response.get("choices"))
    if choices:
        return list_objects([choices[0].get("message")])
    candidates = list_objects(response.get("candidates"))
    if candidates:
        return list_objects([candidates[0].get("content")])
    if isinstance(response.get("output"), list):
        return list_objects(response["output"])
    if string_or_empty(response.get("role")) == "assistant" and "content" in response:
        return [{"role": "assistant", "content": response["content"]}]
    return []
