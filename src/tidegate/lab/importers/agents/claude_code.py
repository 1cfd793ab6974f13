"""Claude Code sessions: one line per content block, under `~/.claude/projects`.

The blocks of one answer share `message.id`; results can come between them. Subagents (`isSidechain`) are sessions of
their own. After a compaction the file continues: the summary is stored apart and the earlier messages stay. A prompt
that was taken back and written again stays in the file with all that followed it; only the newest version is read.
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
    collect_part_types,
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "claude-code"
_MESSAGE_TYPES = ("user", "assistant")
_METADATA_TYPES = tuple(
    "summary file-history-snapshot permission-mode queue-operation last-prompt ai-title mode".split()
)


def recognizes(head: SourceFile) -> bool:
    for value in head.head_objects():
        kind = value.get("type")
        if (
            kind in _MESSAGE_TYPES
            and isinstance(value.get("message"), dict)
            and ("uuid" in value or "sessionId" in value)
        ):
            return True
        if kind == "system" and "sessionId" in value and "uuid" in value:
            return True
        if kind in _METADATA_TYPES and ({"sessionId", "leafUuid", "snapshot"} & value.keys()):
            return True
    return False


def read(source: SourceFile) -> Iterator[Recording]:
    lines = [value for _, value in source.read_values() if isinstance(value, dict)]
    message_lines = [line for line in lines if line.get("type") in _MESSAGE_TYPES]
    subagent = bool(message_lines) and all(line.get("isSidechain") is True for line in message_lines)
    session = _SessionReader(subagent, _find_abandoned_lines(lines))
    for line in lines:
        session.read_line(line)
    first = next((line for line in lines if "sessionId" in line), {})
    name = source.stem if subagent else string_or_empty(first.get("sessionId")) or source.stem
    meta = RecordingOrigin(FORMAT, "Claude Code", session.model, name, session.folder, str(source.path))
    recording = session.conversation.build_recording(source, name, meta)
    if recording:
        yield recording


class _SessionReader:
    def __init__(self, subagent: bool, abandoned: set[str]) -> None:
        self.conversation = ConversationBuilder()
        self.model = self.folder = ""
        self._subagent = subagent
        self._abandoned = abandoned
        self._answers: dict[str, JsonRecord] = {}

    def read_line(self, line: JsonRecord) -> None:
        kind = line.get("type")
        if kind == "system" and line.get("subtype") == "compact_boundary":
            self.conversation.add_compaction()
        elif kind == "attachment":
            self.conversation.count_omitted("attachment lines")
        if kind not in _MESSAGE_TYPES:
            return
        message = object_or_empty(line.get("message"))
        self.folder = self.folder or string_or_empty(line.get("cwd"))
        if line.get("isSidechain") is True and not self._subagent:
            self.conversation.count_omitted("lines of subagents")
        elif string_or_empty(line.get("uuid")) in self._abandoned:
            self.conversation.count_omitted("lines of an abandoned branch")
        elif line.get("isCompactSummary") is True:
            self._read_summary(message)
        elif kind == "user":
            self._read_user(message, parse_recorded_time(line.get("timestamp")), is_typed=_is_typed(line))
        elif message.get("model") == "<synthetic>" or line.get("isApiErrorMessage") is True:
            self.conversation.count_omitted("messages of the program itself")
        else:
            self._read_assistant(message, parse_recorded_time(line.get("timestamp")))

    def _read_summary(self, message: JsonRecord) -> None:
        self.conversation.add_compaction("\n".join(_read_texts(message.get("content"))))

    def _read_user(self, message: JsonRecord, time: float, *, is_typed: bool) -> None:
        content = message.get("content")
        for block in list_objects(content):
            if block.get("type") == "tool_result":
                self.conversation.add_result(
                    string_or_empty(block.get("tool_use_id")), _read_content(block.get("content")), time
                )
        self.conversation.add_message("user", _read_content(content), time, typed=is_typed)

    def _read_assistant(self, message: JsonRecord, time: float) -> None:
        self.model = self.model or string_or_empty(message.get("model"))
        key = first_text(message, "id")
        answer = self._answers.get(key) if key else None
        if answer is None:
            answer = self.conversation.add_answer(time=time)
            self._answers[key] = answer
        content = message.get("content")
        if isinstance(content, str):
            self.conversation.extend_answer(answer, content)
        for block in list_objects(content):
            kind = block.get("type")
            if kind == "text":
                self.conversation.extend_answer(answer, string_or_empty(block.get("text")))
            elif kind == "thinking":
                self.conversation.extend_answer(answer, thinking=string_or_empty(block.get("thinking")))
            elif kind == "tool_use":
                call = RecordedCall(
                    string_or_empty(block.get("id")), string_or_empty(block.get("name")), block.get("input")
                )
                self.conversation.extend_answer(answer, calls=[call])
            elif kind != "redacted_thinking":
                self.conversation.count_omitted("calls the provider served itself")


def _read_texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    texts = []
    for block in list_objects(content):
        if block.get("type") == "text":
            texts.append(string_or_empty(block.get("text")))
        elif block.get("type") == "tool_reference":
            texts.append(f"[tool: {string_or_empty(block.get('tool_name'))}]")
    return texts


def _read_content(content: object) -> ChatContent:
    """Return the texts and images of a content, without its tool results."""
    images = []
    for block in list_objects(content):
        if block.get("type") == "image":
            data = object_or_empty(block.get("source"))
            url = string_or_empty(data.get("url")) or make_data_url(
                string_or_empty(data.get("media_type")), string_or_empty(data.get("data"))
            )
            images.append(url)
    return make_content(_read_texts(content), images)


def _find_abandoned_lines(lines: list[JsonRecord]) -> set[str]:
    """Return the lines that follow prompts which were written again: of several prompts after one line the last
    counts.
    """
    children: dict[str, list[str]] = {}
    prompts: dict[str, list[str]] = {}
    for line in lines:
        parent, ident = string_or_empty(line.get("parentUuid")), string_or_empty(line.get("uuid"))
        if parent and ident:
            children.setdefault(parent, []).append(ident)
            if _is_prompt(line):
                prompts.setdefault(parent, []).append(ident)
    abandoned_lines: set[str] = set()
    queue = [ident for line_ids in prompts.values() for ident in line_ids[:-1]]
    while queue:
        ident = queue.pop()
        if ident not in abandoned_lines:
            abandoned_lines.add(ident)
            queue.extend(children.get(ident, []))
    return abandoned_lines


def _is_prompt(line: JsonRecord) -> bool:
    if line.get("type") != "user" or line.get("isMeta") is True or line.get("isSidechain") is True:
        return False
    content = object_or_empty(line.get("message")).get("content")
    kinds = collect_part_types(content)
    return isinstance(content, str) or (bool(list_or_empty(content)) and "tool_result" not in kinds)


def _is_typed(line: JsonRecord) -> bool:
    """Return whether the user typed this prompt. Commands of the program and their output are in tags."""
    texts = "\n".join(_read_texts(object_or_empty(line.get("message")).get("content")))
    return _is_prompt(line) and not texts.lstrip().startswith("<")
