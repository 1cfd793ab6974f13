"""LangChain and LangGraph: messages as `messages_to_dict`, `dumpd` or `model_dump` write them, and states.

Of a LangGraph state, or its history, the longest list of messages is read: each later state holds the earlier ones.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import (
    ConversationBuilder,
    RecordedCall,
)
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    string_or_empty,
)
from tidegate.lab.importers.logs.chat_messages import read_chat_content, read_function_call
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "langchain"
_ROLE_BY_TYPE = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
}
_STATE_KEYS = ("messages", "values", "channel_values", "checkpoint", "state", "kwargs")


class _UnwrappedMessage:
    """The role and the fields of a message, without its wrapping."""

    def __init__(self, value: JsonRecord) -> None:
        kind = string_or_empty(value.get("type")).removesuffix("Chunk").removesuffix("Message") or ""
        self.fields = value
        if value.get("lc") and isinstance(value.get("kwargs"), dict):
            self.fields = object_or_empty(value["kwargs"])
            kind = string_or_empty((list_or_empty(value.get("id")) or [""])[-1]).removesuffix("Chunk")
        elif isinstance(value.get("data"), dict):
            self.fields = object_or_empty(value["data"])
        self.role = _ROLE_BY_TYPE.get(
            kind, _ROLE_BY_TYPE.get(kind.lower(), _ROLE_BY_TYPE.get(string_or_empty(value.get("type")), ""))
        )


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    message = _UnwrappedMessage(value)
    wrapped = message.fields is not value
    plain = "content" in value and "role" not in value and ("additional_kwargs" in value or "type" in value)
    return bool(message.role) and "content" in message.fields and (wrapped or plain)


def _find_messages(value: object, depth: int = 0) -> list[JsonRecord]:
    """Return the longest list of messages inside a dump."""
    if depth > 6:
        return []
    if isinstance(value, dict):
        if _is_message(value):
            return [value]
        return max((_find_messages(value.get(key), depth + 1) for key in _STATE_KEYS), key=len)
    entries = list_or_empty(value)
    if entries and all(_is_message(each) for each in entries):
        return list_objects(entries)
    return max((_find_messages(each, depth + 1) for each in entries), key=len, default=[])


def recognizes(head: SourceFile) -> bool:
    return any(_find_messages(value) for _, value in head.head)


def read(source: SourceFile) -> Iterator[Recording]:
    """Yield the sessions of a file. Lines that are messages are one session; of lines that are states the longest
    counts.
    """
    longest: list[JsonRecord] = []
    records: list[JsonRecord] = []
    for _, value in source.read_values():
        messages = _find_messages(value)
        if isinstance(value, dict) and messages == [value]:
            records.append(value)
        elif len(messages) >= len(longest):
            longest = messages
    talk = ConversationBuilder()
    model = ""
    for message in map(_UnwrappedMessage, records if len(records) > len(longest) else longest):
        model = model or first_text(object_or_empty(message.fields.get("response_metadata")), "model_name", "model")
        _add_message(talk, message)
    found_one = talk.build_recording(
        source, source.stem, RecordingOrigin(FORMAT, "LangChain", model, source.stem, "", str(source.path))
    )
    if found_one:
        yield found_one


def _add_message(talk: ConversationBuilder, message: _UnwrappedMessage) -> None:
    fields = message.fields
    content = read_chat_content(fields.get("content"))
    if message.role == "tool":
        talk.add_result(first_text(fields, "tool_call_id"), content)
    elif message.role == "assistant":
        thoughts = [first_text(part, "thinking", "reasoning") for part in list_objects(fields.get("content"))]
        thoughts.append(first_text(object_or_empty(fields.get("additional_kwargs")), "reasoning_content"))
        talk.add_answer(content, _read_calls(fields), "\n".join(filter(None, thoughts)))
    else:
        talk.add_message(message.role, content)


def _read_calls(fields: JsonRecord) -> list[RecordedCall]:
    own_calls = list_objects(fields.get("tool_calls")) + list_objects(fields.get("invalid_tool_calls"))
    if own_calls:
        return [RecordedCall(first_text(each, "id"), first_text(each, "name"), each.get("args")) for each in own_calls]
    more = object_or_empty(fields.get("additional_kwargs"))
    blocks = [part for part in list_objects(fields.get("content")) if part.get("type") == "tool_use"]
    calls = [RecordedCall(first_text(each, "id"), first_text(each, "name"), each.get("input")) for each in blocks]
    for each in list_objects(more.get("tool_calls")) if not calls else []:
        function = object_or_empty(each.get("function"))
        calls.append(RecordedCall(first_text(each, "id"), first_text(function, "name"), function.get("arguments")))
    return calls or read_function_call(more)
