"""Gemini CLI sessions: one JSON document with all messages or, since version 0.58, lines that extend and change it.

In the line form a message can come again under its id, now with its results. `$set` with messages replaces all of them;
`$rewindTo` removes everything from a message on. Results are inside their calls.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import (
    ChatContent,
    ConversationBuilder,
    RecordedCall,
    make_content,
    make_data_url,
)
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
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "gemini-cli"
_MESSAGE_TYPES = ("user", "gemini", "info", "error", "warning")


def recognizes(head: SourceFile) -> bool:
    values = head.head_objects()
    return bool(values) and "sessionId" in values[0] and {"projectHash", "startTime"} & values[0].keys() != set()


def read(source: SourceFile) -> Iterator[Recording]:
    info: JsonRecord = {}
    messages: dict[str, JsonRecord] = {}
    taken_back = 0
    for number, value in source.read_values():
        if not isinstance(value, dict):
            continue
        if "$rewindTo" in value:
            taken_back += _remove_from(messages, string_or_empty(value["$rewindTo"]))
        elif value.get("type") in _MESSAGE_TYPES:
            messages[first_text(value, "id") or f"line {number}"] = value
        else:
            change = object_or_empty(value.get("$set")) or value
            info |= {key: inner for key, inner in change.items() if key != "messages"}
            if "messages" in change:
                messages = {
                    first_text(each, "id") or str(at): each for at, each in enumerate(list_objects(change["messages"]))
                }
    recording = _build_recording(source, info, list(messages.values()), taken_back)
    if recording:
        yield recording


def _remove_from(messages: dict[str, JsonRecord], to: str) -> int:
    count = 0
    while to in messages:
        messages.popitem()
        count += 1
    return count


def _build_recording(
    source: SourceFile, info: JsonRecord, messages: list[JsonRecord], taken_back: int
) -> Recording | None:
    talk = ConversationBuilder()
    model = ""
    if taken_back:
        talk.count_omitted("messages that were taken back", taken_back)
    for message in messages:
        time = parse_recorded_time(message.get("timestamp"))
        kind = message.get("type")
        if kind == "user":
            talk.add_message("user", _read_content(message.get("content")), time)
        elif kind == "gemini":
            model = model or string_or_empty(message.get("model"))
            _add_answer(talk, message, time)
        else:
            talk.count_omitted("messages of the program itself")
    name = first_text(info, "sessionId") or source.stem
    meta = RecordingOrigin(FORMAT, "Gemini CLI", model, name, first_text(info, "projectHash"), str(source.path))
    return talk.build_recording(source, name, meta)


def _add_answer(talk: ConversationBuilder, message: JsonRecord, time: float) -> None:
    thoughts = [
        ": ".join(filter(None, [first_text(each, "subject"), first_text(each, "description")]))
        for each in list_objects(message.get("thoughts"))
    ]
    objects = list_objects(message.get("toolCalls"))
    calls = [
        RecordedCall(string_or_empty(each.get("id")), string_or_empty(each.get("name")), each.get("args") or {})
        for each in objects
    ]
    talk.add_answer(_read_content(message.get("content")), calls, "\n".join(thoughts), time)
    for call in objects:
        result = call.get("result")
        if result:
            talk.add_result(
                string_or_empty(call.get("id")), _read_result(result), parse_recorded_time(call.get("timestamp"))
            )


def _read_content(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    images = []
    for part in list_objects(value):
        data = object_or_empty(part.get("inlineData"))
        if data:
            images.append(make_data_url(string_or_empty(data.get("mimeType")), string_or_empty(data.get("data"))))
    texts = [
        each if isinstance(each, str) else first_text(object_or_empty(each), "text") for each in list_or_empty(value)
    ]
    return make_content(filter(None, texts), images)


def _read_result(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    texts = []
    for part in list_objects(value):
        response = part.get("functionResponse")
        if isinstance(response, dict):
            inner = response.get("response")
            texts.append(
                first_text(object_or_empty(inner), "output", "error") or (encode_recorded_json(inner) if inner else "")
            )
    rest = _read_content([part for part in list_objects(value) if "functionResponse" not in part])
    if isinstance(rest, str):
        return "\n".join(filter(None, [*texts, rest]))
    return [{"type": "text", "text": "\n".join(texts)}, *rest] if texts else rest
