"""Copilot CLI sessions: a log of events, `events.jsonl`. Events of a subagent carry the id of the call that started
it.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import (
    ConversationBuilder,
    RecordedCall,
    make_content,
    make_data_url,
)
from tidegate.lab.importers.json_fields import (
    encode_recorded_json,
    first_text,
    list_objects,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "copilot"
_EVENT_TYPES = ("session.start", "session.resume", "user.message", "assistant.message", "system.message")


def recognizes(head: SourceFile) -> bool:
    return any(
        value.get("type") in _EVENT_TYPES and isinstance(value.get("data"), dict) for value in head.head_objects()
    )


def read(source: SourceFile) -> Iterator[Recording]:
    log = _EventReader()
    for _, value in source.read_values():
        if isinstance(value, dict):
            log.read_event(
                string_or_empty(value.get("type")),
                object_or_empty(value.get("data")),
                parse_recorded_time(value.get("timestamp")),
            )
    name = log.session or source.stem
    meta = RecordingOrigin(FORMAT, "Copilot CLI", log.model, name, log.folder, str(source.path))
    recording = log.conversation.build_recording(source, name, meta)
    if recording:
        yield recording


class _EventReader:
    def __init__(self) -> None:
        self.conversation = ConversationBuilder()
        self.session = self.model = self.folder = self._system = ""

    def read_event(self, kind: str, data: JsonRecord, time: float) -> None:
        if data.get("parentToolCallId") or data.get("agentId"):
            self.conversation.count_omitted("events of subagents")
        elif kind in ("session.start", "session.resume"):
            self.session = self.session or string_or_empty(data.get("sessionId"))
            self.folder = self.folder or string_or_empty(object_or_empty(data.get("context")).get("cwd"))
        elif kind == "system.message":
            if string_or_empty(data.get("content")) != self._system:
                self._system = string_or_empty(data.get("content"))
                self.conversation.add_message("system", self._system, time)
        elif kind == "user.message":
            self._read_user(data, time)
        elif kind == "assistant.message":
            self._read_assistant(data, time)
        elif kind == "tool.execution_complete":
            self.conversation.add_result(string_or_empty(data.get("toolCallId")), _read_result(data), time)
        elif kind == "session.compaction_complete":
            self.conversation.add_compaction(first_text(data, "summaryContent", "summary"))
        elif kind == "system.notification":
            self.conversation.count_omitted("notifications")

    def _read_user(self, data: JsonRecord, time: float) -> None:
        images = [
            make_data_url(first_text(each, "mimeType", "mime"), string_or_empty(each.get("data")))
            for each in list_objects(data.get("attachments"))
            if first_text(each, "mimeType", "mime").startswith("image/") and each.get("data")
        ]
        self.conversation.add_message(
            "user", make_content([string_or_empty(data.get("content"))], images), time, typed=True
        )

    def _read_assistant(self, data: JsonRecord, time: float) -> None:
        self.model = self.model or string_or_empty(data.get("model"))
        calls = [
            RecordedCall(
                string_or_empty(each.get("toolCallId")), string_or_empty(each.get("name")), each.get("arguments")
            )
            for each in list_objects(data.get("toolRequests"))
        ]
        self.conversation.add_answer(
            string_or_empty(data.get("content")), calls, string_or_empty(data.get("reasoningText")), time
        )


def _read_result(data: JsonRecord) -> str:
    result = data.get("result")
    if isinstance(result, dict):
        return first_text(result, "content", "detailedContent")
    error = data.get("error")
    if isinstance(error, dict):
        return f"Error: {encode_recorded_json(error)}"
    return string_or_empty(result) or string_or_empty(error)
