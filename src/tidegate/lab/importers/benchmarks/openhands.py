"""OpenHands: the events of an instance (`history`), one instance a line in `output.jsonl`; also a saved trajectory.

The answer of the model stands whole in the metadata of the first action it led to. The last call, `finish`, is never
answered: its words stay, the call does not. An error that answers no action was a call the program refused to read;
the call itself is not recorded.
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
    return any(_find_events(value) for value in [*head.dicts(), head.only()])


def read(source: SourceFile) -> Iterator[Recording]:
    for _, value in source.values():
        events = _find_events(value)
        if not events:
            continue
        about = value if isinstance(value, dict) else {}
        history = _HistoryReader()
        for event in events:
            history.event(event)
        name = first_text(about, "instance_id") or source.stem
        folder = first_text(object_or_empty(about.get("instance")), "repo")
        meta = RecordingOrigin(FORMAT, "OpenHands", history.model, name, folder, str(source.path))
        found = history.talk.recording(source, name, meta)
        if found:
            yield found


def _find_events(value: object) -> list[JsonRecord]:
    """The history in its three forms: under a key, as a bare list, or as pairs of action and observation."""
    found = list_or_empty(value.get("history", value.get("trajectory")) if isinstance(value, dict) else value)
    events: list[JsonRecord] = []
    for each in found:
        events.extend(list_objects(each) if isinstance(each, list) else list_objects([each]))
    known = any(("action" in event or "observation" in event) and "source" in event for event in events[:16])
    return events if known else []


class _HistoryReader:
    def __init__(self) -> None:
        self.talk = ConversationBuilder()
        self.model = ""
        self._answers: set[str] = set()
        self._left: set[str] = set()

    def event(self, event: JsonRecord) -> None:
        time = parse_recorded_time(event.get("timestamp"))
        action, arguments = event.get("action"), object_or_empty(event.get("args"))
        told = object_or_empty(event.get("tool_call_metadata"))
        if action == "system":
            self.talk.say("system", string_or_empty(arguments.get("content")), time)
            self.talk.tools = list_objects(arguments.get("tools"))
        elif "observation" in event:
            self._observation(event, told, time)
        elif told:
            self._answer(told, time)
        elif action == "message":
            self._message(event, arguments, time)
        elif action == "finish":
            self.talk.answer(
                first_text(arguments, "final_thought", "thought") or string_or_empty(event.get("message")), time=time
            )
        elif action in ("recall", "condensation", "change_agent_state"):
            self.talk.leave("events of the program itself")

    def _message(self, event: JsonRecord, arguments: JsonRecord, time: float) -> None:
        images = [url for url in list_or_empty(arguments.get("image_urls")) if isinstance(url, str)]
        content = make_content([string_or_empty(arguments.get("content"))], images)
        if event.get("source") == "user":
            self.talk.say("user", content, time)
        else:
            self.talk.answer(content, time=time)

    def _answer(self, told: JsonRecord, time: float) -> None:
        response = object_or_empty(told.get("model_response"))
        message = object_or_empty(next(iter(list_objects(response.get("choices"))), {}).get("message"))
        self.model = self.model or string_or_empty(response.get("model"))
        key = first_text(response, "id") or first_text(told, "tool_call_id")
        if key in self._answers:
            return
        self._answers.add(key)
        calls = []
        for made in list_objects(message.get("tool_calls")):
            function = object_or_empty(made.get("function"))
            if function.get("name") == "finish":
                self.talk.leave("calls that end the task")
                self._left.add(string_or_empty(made.get("id")))
            else:
                calls.append(
                    RecordedCall(
                        string_or_empty(made.get("id")),
                        string_or_empty(function.get("name")),
                        function.get("arguments"),
                    )
                )
        self.talk.answer(_read_text(message.get("content")), calls, first_text(message, "reasoning_content"), time)

    def _observation(self, event: JsonRecord, told: JsonRecord, time: float) -> None:
        ident = first_text(told, "tool_call_id")
        if ident and ident not in self._left:
            self.talk.result(ident, string_or_empty(event.get("content")), time)
        elif event.get("observation") == "error":
            self.talk.leave("errors that answer no call")
        else:
            self.talk.leave("events of the program itself")


def _read_text(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    return "\n".join(first_text(part, "text") for part in list_objects(value))
