"""Codex rollouts: `response_item` lines are what the model sees; `event_msg` lines repeat it for the screen.

Old rollouts have the items without the wrapper. Reasoning and the summary of a compaction are encrypted; only their
plain parts are read.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import (
    ChatContent,
    ConversationBuilder,
    RecordedCall,
    list_content_parts,
    make_content,
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

FORMAT = "codex"
_LINE_TYPES = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")
_ITEM_TYPES = ("message", "reasoning", "function_call", "function_call_output")


def recognizes(head: SourceFile) -> bool:
    values = head.head_objects()
    if any(value.get("type") in _LINE_TYPES and isinstance(value.get("payload"), dict) for value in values):
        return True
    old = bool(values) and {"id", "timestamp", "instructions"} <= values[0].keys()
    return old and all("record_type" in value or value.get("type") in _ITEM_TYPES for value in values[1:])


def read(source: SourceFile) -> Iterator[Recording]:
    rollout = _RolloutReader()
    for _, value in source.read_values():
        if isinstance(value, dict):
            rollout.read_line(value)
    rollout.mark_typed()
    name = rollout.session or source.stem
    meta = RecordingOrigin(FORMAT, "Codex CLI", rollout.model, name, rollout.folder, str(source.path))
    recording = rollout.conversation.build_recording(source, name, meta)
    if recording:
        yield recording


class _RolloutReader:
    def __init__(self) -> None:
        self.conversation = ConversationBuilder()
        self.session = self.model = self.folder = ""
        self._open_answer: JsonRecord | None = None
        self._pending_thinking = ""
        self._typed = set[str]()

    def read_line(self, line: JsonRecord) -> None:
        kind, payload = line.get("type"), line.get("payload")
        time = parse_recorded_time(line.get("timestamp"))
        if not isinstance(payload, dict):
            if "instructions" in line and not self.session:
                self._read_session_meta(line, time)
            elif kind in _ITEM_TYPES:
                self._read_item(line, time)
        elif kind == "session_meta" and not self.session:
            self._read_session_meta(payload, time)
        elif kind == "turn_context":
            self.model = self.model or string_or_empty(payload.get("model"))
        elif kind == "compacted":
            self.conversation.add_compaction(string_or_empty(payload.get("message")))
        elif kind == "response_item":
            self._read_item(payload, time)
        elif kind == "event_msg" and payload.get("type") == "user_message":
            self._typed.add(string_or_empty(payload.get("message")).strip())

    def mark_typed(self) -> None:
        """Mark what the user typed. The model's input also holds instructions; the events repeat only the prompts."""
        for place, message in enumerate(self.conversation.messages):
            if self._typed and message["role"] == "user":
                text = "\n".join(string_or_empty(part.get("text")) for part in list_content_parts(message["content"]))
                self.conversation.mark_typed(place, text.strip() in self._typed)

    def _read_session_meta(self, payload: JsonRecord, time: float) -> None:
        self.session = string_or_empty(payload.get("id"))
        self.folder = string_or_empty(payload.get("cwd"))
        base = payload.get("base_instructions")
        self.conversation.add_message(
            "system", string_or_empty(object_or_empty(base).get("text")) or first_text(payload, "instructions"), time
        )

    def _read_item(self, item: JsonRecord, time: float) -> None:
        kind = string_or_empty(item.get("type"))
        if kind == "message":
            self._read_message(item, time)
        elif kind == "reasoning":
            texts = [
                string_or_empty(part.get("text"))
                for key in ("summary", "content")
                for part in list_objects(item.get(key))
            ]
            self._pending_thinking = "\n".join(filter(None, [self._pending_thinking, *texts]))
        elif kind.endswith("_call_output") or (kind.endswith("_output") and "call_id" in item):
            self._open_answer = None
            self.conversation.add_result(string_or_empty(item.get("call_id")), _read_output(item.get("output")), time)
        elif kind.endswith("_call"):
            self._read_call(kind, item, time)

    def _read_message(self, item: JsonRecord, time: float) -> None:
        role, content = item.get("role"), _read_content(item.get("content"))
        if role == "assistant":
            if self._open_answer is not None and not self._open_answer.get("tool_calls"):
                self.conversation.extend_answer(self._open_answer, content, thinking=self._pending_thinking)
            else:
                self._open_answer = self.conversation.add_answer(content, thinking=self._pending_thinking, time=time)
            self._pending_thinking = ""
        else:
            self._open_answer = None
            self.conversation.add_message("user" if role == "user" else "system", content, time)

    def _read_call(self, kind: str, item: JsonRecord, time: float) -> None:
        ident = first_text(item, "call_id")
        if not ident:
            self.conversation.count_omitted("calls the provider served itself")
            return
        if kind == "custom_tool_call":
            arguments: object = {"input": item.get("input")}
        else:
            arguments = item.get("arguments", item.get("action"))
        call = RecordedCall(ident, first_text(item, "name") or kind.removesuffix("_call"), arguments)
        if self._open_answer is None:
            self._open_answer = self.conversation.add_answer(time=time)
        self.conversation.extend_answer(self._open_answer, calls=[call], thinking=self._pending_thinking)
        self._pending_thinking = ""


def _read_content(value: object) -> ChatContent:
    if isinstance(value, str):
        return value
    texts = [string_or_empty(part.get("text")) for part in list_objects(value) if part.get("type") != "input_image"]
    return make_content(texts, [first_text(part, "image_url") for part in list_objects(value) if part.get("image_url")])


def _read_output(value: object) -> ChatContent:
    """Return the text of an output: a text, parts, or an object with the text inside."""
    if isinstance(value, dict):
        inner = value.get("content", value.get("output"))
        return _read_content(inner) if isinstance(inner, str | list) else encode_recorded_json(value)
    return _read_content(value)
