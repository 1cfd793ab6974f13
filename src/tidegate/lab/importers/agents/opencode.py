"""OpenCode sessions as `opencode export` writes them: one JSON document with messages, each with its parts.

A message can hold several steps of the model, each started by a `step-start`. A result is inside its call.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ChatContent, ConversationBuilder, RecordedCall, make_content
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import RecordingLocation, SourceFile

FORMAT = "opencode"


def recognizes(head: SourceFile) -> bool:
    return any(_is_session(value) for value in head.head_objects())


def _is_session(value: JsonRecord) -> bool:
    messages = value.get("messages")
    if not isinstance(value.get("info"), dict) or not isinstance(messages, list):
        return False
    is_known = all(isinstance(each, dict) and "info" in each and "parts" in each for each in messages[:8])
    return is_known and (bool(messages) or string_or_empty(object_or_empty(value["info"]).get("id")).startswith("ses_"))


def read(source: SourceFile) -> Iterator[Recording]:
    for _, value in source.read_values():
        if isinstance(value, dict) and _is_session(value):
            info = object_or_empty(value["info"])
            messages = [
                (object_or_empty(each.get("info")), list_objects(each.get("parts")))
                for each in list_objects(value["messages"])
            ]
            recording = build_opencode_recording(source, info, messages)
            if recording:
                yield recording


def build_opencode_recording(
    source: SourceFile | RecordingLocation, info: JsonRecord, messages: list[tuple[JsonRecord, list[JsonRecord]]]
) -> Recording | None:
    """Build a recording from the info and the messages of a session, from whichever storage they were read."""
    talk = ConversationBuilder()
    model = ""
    for about, parts in messages:
        time = parse_recorded_time(object_or_empty(about.get("time")).get("created"))
        if about.get("role") == "user":
            _add_user_message(talk, parts, time)
        elif about.get("role") == "assistant":
            model = model or first_text(about, "modelID")
            if about.get("summary") is True:
                talk.add_compaction("\n".join(_read_texts(parts)))
            else:
                _add_answers(talk, parts, time)
    name = first_text(info, "id") or source.stem
    folder = first_text(info, "directory")
    model = model or first_text(object_or_empty(info.get("model")), "id", "modelID")
    return talk.build_recording(
        source, name, RecordingOrigin(FORMAT, "OpenCode", model, name, folder, str(source.path))
    )


def _read_texts(parts: list[JsonRecord]) -> list[str]:
    return [
        string_or_empty(part.get("text")) for part in parts if part.get("type") == "text" and not part.get("ignored")
    ]


def _add_user_message(talk: ConversationBuilder, parts: list[JsonRecord], time: float) -> None:
    images = []
    for part in parts:
        if part.get("type") == "file":
            if string_or_empty(part.get("mime")).startswith("image/"):
                images.append(string_or_empty(part.get("url")))
            else:
                talk.count_omitted("attached files")
    texts = [part for part in parts if part.get("type") == "text" and not part.get("ignored")]
    is_typed = not any(part.get("synthetic") for part in texts)  # the program adds what a mentioned file holds
    talk.add_message("user", make_content(_read_texts(parts), images), time, typed=is_typed)


def _add_answers(talk: ConversationBuilder, parts: list[JsonRecord], time: float) -> None:
    """Add the answers of a step. Text after a call becomes a new answer: results must directly follow their calls."""
    answer: JsonRecord | None = None
    results: list[tuple[str, ChatContent, float]] = []
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" or (kind in ("text", "reasoning") and answer and answer.get("tool_calls")):
            answer = None
        if kind == "step-start":
            _flush_results(talk, results)
        elif kind in ("text", "reasoning", "tool"):
            if answer is None:
                answer = talk.add_answer(
                    time=parse_recorded_time(object_or_empty(part.get("time")).get("start")) or time
                )
            _add_part(talk, answer, part, results)
    _flush_results(talk, results)


def _add_part(
    talk: ConversationBuilder, answer: JsonRecord, part: JsonRecord, results: list[tuple[str, ChatContent, float]]
) -> None:
    if part.get("type") == "text":
        talk.extend_answer(answer, string_or_empty(part.get("text")))
    elif part.get("type") == "reasoning":
        talk.extend_answer(answer, thinking=string_or_empty(part.get("text")))
    else:
        state = object_or_empty(part.get("state"))
        ident = first_text(part, "callID", "id")
        talk.extend_answer(
            answer, calls=[RecordedCall(ident, string_or_empty(part.get("tool")), state.get("input") or {})]
        )
        if state.get("status") in ("completed", "error"):
            content = state.get("output") if state.get("status") == "completed" else state.get("error")
            results.append(
                (ident, string_or_empty(content), parse_recorded_time(object_or_empty(state.get("time")).get("end")))
            )


def _flush_results(talk: ConversationBuilder, results: list[tuple[str, ChatContent, float]]) -> None:
    for ident, content, time in results:
        talk.add_result(ident, content, time)
    results.clear()
