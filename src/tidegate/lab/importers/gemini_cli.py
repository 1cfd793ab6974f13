"""Gemini CLI: one JSON with all messages, or, since 0.58, lines that add to it and change it.

In the lines form a message can come again under its id, now with its results; `$set` with messages replaces all of
them, `$rewindTo` takes back everything from a message on. Results stand inside their calls.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, json_text, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, data_url, with_images

FORMAT = "gemini-cli"
_TYPES = ("user", "gemini", "info", "error", "warning")


def recognises(head: Source) -> bool:
    values = head.dicts()
    return bool(values) and "sessionId" in values[0] and {"projectHash", "startTime"} & values[0].keys() != set()


def read(source: Source) -> Iterator[Recording]:
    info: Json = {}
    messages: dict[str, Json] = {}
    taken_back = 0
    for number, value in source.values():
        if not isinstance(value, dict):
            continue
        if "$rewindTo" in value:
            taken_back += _rewind(messages, a_str(value["$rewindTo"]))
        elif value.get("type") in _TYPES:
            messages[text_at(value, "id") or f"line {number}"] = value
        else:
            change = a_dict(value.get("$set")) or value
            info |= {key: inner for key, inner in change.items() if key != "messages"}
            if "messages" in change:
                messages = {text_at(each, "id") or str(at): each for at, each in enumerate(dicts(change["messages"]))}
    found = _session(source, info, list(messages.values()), taken_back)
    if found:
        yield found


def _rewind(messages: dict[str, Json], to: str) -> int:
    gone = 0
    while to in messages:
        messages.popitem()
        gone += 1
    return gone


def _session(source: Source, info: Json, messages: list[Json], taken_back: int) -> Recording | None:
    talk = Talk()
    model = ""
    if taken_back:
        talk.leave("messages that were taken back", taken_back)
    for message in messages:
        time = time_of(message.get("timestamp"))
        kind = message.get("type")
        if kind == "user":
            talk.say("user", _content(message.get("content")), time)
        elif kind == "gemini":
            model = model or a_str(message.get("model"))
            _answer(talk, message, time)
        else:
            talk.leave("messages of the program itself")
    name = text_at(info, "sessionId") or source.stem
    meta = Meta(FORMAT, "Gemini CLI", model, name, text_at(info, "projectHash"), str(source.path))
    return talk.recording(source, name, meta)


def _answer(talk: Talk, message: Json, time: float) -> None:
    thoughts = [
        ": ".join(filter(None, [text_at(each, "subject"), text_at(each, "description")]))
        for each in dicts(message.get("thoughts"))
    ]
    made = dicts(message.get("toolCalls"))
    calls = [Call(a_str(each.get("id")), a_str(each.get("name")), each.get("args") or {}) for each in made]
    talk.answer(_content(message.get("content")), calls, "\n".join(thoughts), time)
    for call in made:
        result = call.get("result")
        if result:
            talk.result(a_str(call.get("id")), _result(result), time_of(call.get("timestamp")))


def _content(value: object) -> Content:
    if isinstance(value, str):
        return value
    images = []
    for part in dicts(value):
        data = a_dict(part.get("inlineData"))
        if data:
            images.append(data_url(a_str(data.get("mimeType")), a_str(data.get("data"))))
    texts = [each if isinstance(each, str) else text_at(a_dict(each), "text") for each in a_list(value)]
    return with_images(filter(None, texts), images)


def _result(value: object) -> Content:
    if isinstance(value, str):
        return value
    texts = []
    for part in dicts(value):
        response = part.get("functionResponse")
        if isinstance(response, dict):
            inner = response.get("response")
            texts.append(text_at(a_dict(inner), "output", "error") or (json_text(inner) if inner else ""))
    rest = _content([part for part in dicts(value) if "functionResponse" not in part])
    if isinstance(rest, str):
        return "\n".join(filter(None, [*texts, rest]))
    return [{"type": "text", "text": "\n".join(texts)}, *rest] if texts else rest
