"""Logs of requests to a model, of OpenAI (chat and responses), Anthropic and Gemini, with the answers if there.

Each line is the body of a request, or an object that holds one: a proxy's log, a batch file, a completion log of
litellm. Requests that each begin with all of the one before are one session; the last of them is all of it.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, json_text, kinds_of, text_at, time_of
from tidegate.lab.importers.normal import tell, tools_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Talk
from tidegate.wire.dialects import DIALECTS, parse_any

FORMAT = "requests"
_REQUEST = ("request", "body", "request_body", "requestBody", "input", "kwargs", "params")
_RESPONSE = ("response", "response_body", "responseBody", "output", "raw_response")
_TIME = ("timestamp", "time", "created_at", "startTime", "start_time", "ts")


class _Logged(NamedTuple):
    line: int
    body: Json
    response: Json
    time: float


class _Asked(NamedTuple):
    """When an answer was asked for, by how many answers the request held already."""

    answers: int
    time: float


class _Chain(NamedTuple):
    """A session so far: its last request, and of those before only when they were made."""

    last: _Logged
    asked: tuple[_Asked, ...]


def recognises(head: Source) -> bool:
    return any(_body(each) for _, value in head.head for each in _each(value)[:4])


def _each(value: object) -> list[Json]:
    return dicts(value) if isinstance(value, list) else dicts([value])


def _body(value: Json) -> Json:
    """The body of a request, wherever in this object it is."""
    places = [value, *(a_dict(value.get(key)) for key in _REQUEST)]
    places.extend(a_dict(place.get("body")) for place in places[1:])
    return next((place for place in places if _dialect(place)), {})


def _dialect(body: Json) -> str:
    messages = body.get("messages")
    if isinstance(messages, list) and all(isinstance(each, dict) and "role" in each for each in messages):
        kinds = {kind for each in dicts(messages) for kind in kinds_of(each.get("content"))}
        blocks = kinds & {"tool_use", "tool_result", "thinking", "image"}
        return "anthropic" if "system" in body or blocks or "anthropic_version" in body else "openai_chat"
    if isinstance(body.get("contents"), list):
        return "gemini"
    responses = isinstance(body.get("input"), str | list) and "model" in body
    return "openai_responses" if responses and _items(body.get("input")) else ""


def _items(value: object) -> bool:
    return isinstance(value, str) or all("role" in each or "type" in each for each in dicts(value))


def read(source: Source) -> Iterator[Recording]:
    chains: list[_Chain] = []
    ends: dict[str, int] = {}
    for number, value in source.values():
        for each in _each(value):
            body = _body(each)
            if body:
                logged = _Logged(number, body, _response(each), time_of(next(filter(None, map(each.get, _TIME)), 0)))
                _join(chains, ends, logged)
    for count, chain in enumerate(chains):
        name = source.stem if len(chains) == 1 else f"{source.stem}-{count + 1}"
        model = text_at(chain.last.body, "model")
        talk = _talk(source, chain.last)
        _date(talk, chain.asked)
        found = talk.recording(source, name, Meta(FORMAT, "", model, name, "", str(source.path)))
        if found:
            yield found


def _response(value: Json) -> Json:
    places = [a_dict(value.get(key)) for key in _RESPONSE]
    places.extend(a_dict(place.get("body")) for place in list(places))
    return next((place for place in places if {"choices", "content", "output", "candidates"} & place.keys()), {})


def _join(chains: list[_Chain], ends: dict[str, int], logged: _Logged) -> None:
    """To the session whose last request this one goes on from, by a sum over its messages; else it begins one."""
    key = DIALECTS[_dialect(logged.body)].key
    told = logged.body.get(key)
    messages: Sequence[object] = told if isinstance(told, list) else [told]
    total = sha256(json_text(logged.body.get("system")).encode())
    at = -1
    sums = []
    for message in messages:
        total.update(json_text(_unmarked(message)).encode())
        sums.append(total.hexdigest())
        at = ends.get(sums[-1], at)
    if at < 0:
        at = len(chains)
        chains.append(_Chain(logged, ()))
    answers = sum(a_dict(message).get("role") in ("assistant", "model") for message in messages)
    chains[at] = _Chain(logged, (*chains[at].asked, _Asked(answers, logged.time)))
    if sums:
        ends[sums[-1]] = at


def _unmarked(message: object) -> object:
    """Without the marks for the provider's cache, which move from request to request."""
    if not isinstance(message, dict):
        return message
    parts = [
        {key: inner for key, inner in part.items() if key != "cache_control"} if isinstance(part, dict) else part
        for part in a_list(message.get("content"))
    ]
    only = a_dict(parts[0]) if len(parts) == 1 else {}
    if only.keys() == {"type", "text"} and only["type"] == "text":
        return {**message, "content": only["text"]}
    return {**message, "content": parts} if parts else message


def _date(talk: Talk, asked: tuple[_Asked, ...]) -> None:
    times = {each.answers: each.time for each in asked}
    answers = [at for at, message in enumerate(talk.messages) if message["role"] == "assistant"]
    for count, at in enumerate(answers):
        talk.times[at] = times.get(count, 0.0)


def _talk(source: Source, logged: _Logged) -> Talk:
    talk = Talk()
    dialect = DIALECTS[_dialect(logged.body)]
    try:
        parsed = dialect.parse_body(logged.body)
        answer = [message for value in _answers(logged.response) for message in parse_any(value)]
    except BadInput as fault:
        raise source.bad(logged.line, str(fault.args[0]).rstrip("."), fault.remedy) from None
    talk.say("system", parsed.system)
    for message in [*parsed.messages, *answer]:
        tell(talk, message)
    talk.tools = tools_of(parsed.tools)
    return talk


def _answers(response: Json) -> list[Json]:
    """The message in a response of any provider; more than one only where the response is a list of items."""
    choices = dicts(response.get("choices"))
    if choices:
        return dicts([choices[0].get("message")])
    candidates = dicts(response.get("candidates"))
    if candidates:
        return dicts([candidates[0].get("content")])
    if isinstance(response.get("output"), list):
        return dicts(response["output"])
    if a_str(response.get("role")) == "assistant" and "content" in response:
        return [{"role": "assistant", "content": response["content"]}]
    return []
