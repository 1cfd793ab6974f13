"""OpenHands recordings: the events of an instance (`history`), one instance a line in `output.jsonl`, or a saved
trajectory.

The whole answer of the model is in the metadata of the first action it led to. The last call, `finish`, is never
answered: its text is read, the call is not. An error that answers no action was a call the program could not parse;
that call is not recorded.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ChatContent, ConversationBuilder, RecordedCall, make_content
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "openhands"


def recognizes(head: SourceFile) -> bool:
    return any(_find_events(value) for value in [*head.head_objects(), head.single_value()])


def read(source: SourceFile) -> Iterator[Recording]:
    for _, value in source.read_values():
        events = _find_events(value)
        if not events:
            continue
        about = value if isinstance(value, dict) else {}
        history = _HistoryReader()
        for event in events:
            history.read_event(event)
        name = first_text(about, "instance_id") or source.stem
        folder = first_text(object_or_empty(about.get("instance")), "repo")
        meta = RecordingOrigin(FORMAT, "OpenHands", history.model, name, folder, str(source.path))
        recording = history.conversation.build_recording(source, name, meta)
        if recording:
            yield recording


def _find_events(value: object) -> list[JsonRecord]:
    """Return the history in any of its three forms: under a key, a bare list, or pairs of action and observation."""
    entries = list_or_empty(value.get("history", value.get("trajectory")) if isinstance(value, dict) else value)
    events: list[JsonRecord] = []
    for each in entries:
        events.extend(list_objects(each) if isinstance(each, list) else list_objects([each]))
    is_known = any(("action" in event or "observation" in event) and "source" in event for event in events[:16])
    return events if is_known else []


class _HistoryReader:
    def __init__(self) -> None:
        self.conversation = ConversationBuilder()
        self.model = ""
        self._answer_ids: set[str] = set()
        self._omitted_call_ids: set[str] = set()

    def read_event(self, event: JsonRecord) -> None:
        time = parse_recorded_time(event.get("timestamp"))
        action, arguments = event.get("action"), object_or_empty(event.get("args"))
        metadata = object_or_empty(event.get("tool_call_metadata"))
        if action == "system":
            self.conversation.add_message("system", string_or_empty(arguments.get("content")), time)
            self.conversation.tools = list_objects(arguments.get("tools"))
        elif "observation" in event:
            self._read_observation(event, metadata, time)
        elif metadata:
            self._read_answer(metadata, time)
        elif action == "message":
            self._read_message(event, arguments, time)
        elif action == "finish":
            self.conversation.add_answer(
                first_text(arguments, "final_thought", "thought") or string_or_empty(event.get("message")), time=time
            )
        elif action in ("recall", "condensation", "change_agent_state"):
            self.conversation.count_omitted("events of the program itself")

    def _read_message(self, event: JsonRecord, arguments: JsonRecord, time: float) -> None:
        images = [url for url in list_or_empty(arguments.get("image_urls")) if isinstance(url, str)]
        content = make_content([string_or_empty(arguments.get("content"))], images)
        if event.get("source") == "user":
            self.conversation.add_message("user", content, time)
        else:
            self.conversation.add_answer(content, time=time)

    def _read_answer(self, metadata: JsonRecord, time: float) -> None:
        response = object_or_empty(metadata.get("model_response"))
        message = object_or_empty(next(iter(list_objects(response.get("choices"))), {}).get("message"))
        self.model = self.model or string_or_empty(response.get("model"))
        key = first_text(response, "id") or first_text(metadata, "tool_call_id")
        if key in self._answer_ids:
            return
        self._answer_ids.add(key)
        calls = []
        for call in list_objects(message.get("tool_calls")):
            function = object_or_empty(call.get("function"))
            if function.get("name") == "finish":
                self.conversation.count_omitted("calls that end the task")
                self._omitted_call_ids.add(string_or_empty(call.get("id")))
            else:
                calls.append(
                    RecordedCall(
                        string_or_empty(call.get("id")),
                        string_or_empty(function.get("name")),
                        function.get("arguments"),
                    )
                )
        self.conversation.add_answer(
            _read_text(message.get("content")), calls, first_text(message, "reasoning_content"), time
        )

    def _read_observation(self, event: JsonRecord, metadata: JsonRecord, time: float) -> None:
        ident = first_text(metadata, "tool_call_id")
        if ident and ident not in self._omitted_call_ids:
            self.conversation.add_result(ident, string_or_empty(event.get("content")), time)
        elif event.get("observation") == "error":
            self.conversation.count_omitted("errors that answer no call")
        else:
            self.conversation.count_omitted("events of the program itself")


def _read_text(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    return "\n".join(first_text(part, "text") for part in list_objects(value))
