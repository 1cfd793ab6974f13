"""Pi sessions: lines that form a tree by `parentId`. The session is the path from the last line up to the root."""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import (
    ChatContent,
    ConversationBuilder,
    RecordedCall,
    make_content,
    make_data_url,
)
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "pi"
_ENTRY_TYPES = ("message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message")


def recognizes(head: SourceFile) -> bool:
    values = head.head_objects()
    if not values:
        return False
    first = values[0]
    begins = first.get("type") == "session" and "id" in first and "cwd" in first
    return begins or all(value.get("type") in _ENTRY_TYPES and "parentId" in value for value in values)


def read(source: SourceFile) -> Iterator[Recording]:
    lines = [value for _, value in source.read_values() if isinstance(value, dict)]
    header = next((line for line in lines if line.get("type") == "session"), {})
    path = _current_branch(lines)
    session = _SessionReader()
    other_count = sum("parentId" in line for line in lines) - sum("parentId" in line for line in path)
    if other_count > 0:
        session.conversation.count_omitted("lines of other branches", other_count)
    for line in path:
        session.read_line(line)
    name = first_text(header, "id") or source.stem
    meta = RecordingOrigin(FORMAT, "Pi", session.model, name, first_text(header, "cwd"), str(source.path))
    recording = session.conversation.build_recording(source, name, meta)
    if recording:
        yield recording


def _current_branch(lines: list[JsonRecord]) -> list[JsonRecord]:
    """Return the lines from the root to the last one. Sessions of the first version have no ids: all lines count."""
    lines_by_id = {
        string_or_empty(line.get("id")): line for line in lines if line.get("type") != "session" and line.get("id")
    }
    if not lines_by_id:
        return lines
    at = next(
        string_or_empty(line["id"]) for line in reversed(lines) if line.get("type") != "session" and line.get("id")
    )
    path: dict[str, JsonRecord] = {}
    while at in lines_by_id and at not in path:
        path[at] = lines_by_id[at]
        at = string_or_empty(lines_by_id[at].get("parentId"))
    return list(reversed(path.values()))


class _SessionReader:
    def __init__(self) -> None:
        self.conversation = ConversationBuilder()
        self.model = ""

    def read_line(self, line: JsonRecord) -> None:
        kind, time = line.get("type"), parse_recorded_time(line.get("timestamp"))
        if kind == "message":
            self._read_message(object_or_empty(line.get("message")), time)
        elif kind == "custom_message":
            self.conversation.add_message("user", _read_content(line.get("content")), time, typed=False)
        elif kind == "compaction":
            self.conversation.add_compaction(first_text(line, "summary"))
        elif kind == "branch_summary":
            self.conversation.count_omitted("summaries of other branches")

    def _read_message(self, message: JsonRecord, time: float) -> None:
        role, content = message.get("role"), message.get("content")
        if role in ("user", "custom", "hookMessage"):
            self.conversation.add_message("user", _read_content(content), time, typed=role == "user")
        elif role == "toolResult":
            self.conversation.add_result(string_or_empty(message.get("toolCallId")), _read_content(content), time)
        elif role == "bashExecution":
            self._read_shell_command(message, time)
        elif role == "assistant":
            self.model = self.model or string_or_empty(message.get("model"))
            blocks = list_objects(content)
            calls = [
                RecordedCall(string_or_empty(each.get("id")), string_or_empty(each.get("name")), each.get("arguments"))
                for each in blocks
                if each.get("type") == "toolCall"
            ]
            thoughts = [first_text(each, "thinking") for each in blocks if each.get("type") == "thinking"]
            self.conversation.add_answer(_read_content(content), calls, "\n".join(filter(None, thoughts)), time)

    def _read_shell_command(self, message: JsonRecord, time: float) -> None:
        """Read a command that the user ran. The model sees it unless the user excluded it."""
        if message.get("excludeFromContext") is True:
            self.conversation.count_omitted("commands kept from the model")
        else:
            command, output = string_or_empty(message.get("command")), string_or_empty(message.get("output"))
            self.conversation.add_message("user", f"Ran `{command}`\n```\n{output}\n```", time, typed=False)


def _read_content(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    blocks = list_objects(value)
    images = [
        make_data_url(string_or_empty(each.get("mimeType")), string_or_empty(each.get("data")))
        for each in blocks
        if each.get("type") == "image"
    ]
    return make_content([string_or_empty(each.get("text")) for each in blocks if each.get("type") == "text"], images)
