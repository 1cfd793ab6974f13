"""Chat messages in OpenAI form: one a line after an optional `meta` line, or a list of them.

Messages of other providers in the same place are parsed by their own dialect.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.messages import Image, Message, Result, Text, Thinking, Tool, calls_of, common_mark
from tidegate.lab.importers.conversation_builder import (
    ChatContent,
    ConversationBuilder,
    RecordedCall,
    make_content,
    make_data_url,
)
from tidegate.lab.importers.json_fields import (
    collect_part_types,
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
from tidegate.wire.parsing import decode_object
from tidegate.wire.registry import parse_any_message

FORMAT = "chat"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CHAT_PART_TYPES = ("", "text", "image_url", "input_text", "output_text", "refusal")


def recognizes(head: SourceFile) -> bool:
    values = [value for _, value in head.head if not _is_meta(value)]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return bool(values) and all(_is_chat_message(value) for value in values[:64])


def _is_meta(value: object) -> bool:
    return isinstance(value, dict) and "meta" in value and "role" not in value


def _is_chat_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("role") in _ROLES and ("content" in value or "tool_calls" in value)


def read(source: SourceFile) -> Iterator[Recording]:
    """Yield the sessions of a file. A meta line starts a session; most files hold one."""
    sessions = [_ChatSession({}, ConversationBuilder())]
    for number, value in source.read_values():
        if _is_meta(value):
            sessions.append(_ChatSession(object_or_empty(object_or_empty(value)["meta"]), ConversationBuilder()))
            continue
        for each in value if isinstance(value, list) else [value]:
            if not _is_chat_message(each):
                raise source.make_error(number, "not a message", 'A message has a "role" and a "content".')
            _add_chat_message(source, number, object_or_empty(each), sessions[-1].conversation)
    used_sessions = [session for session in sessions if session.conversation.messages]
    for session in used_sessions:
        ident = first_text(session.meta, "id")
        recording = _build_recording(source, ident if len(used_sessions) > 1 and ident else source.stem, session)
        if recording:
            yield recording


class _ChatSession(NamedTuple):
    meta: JsonRecord
    conversation: ConversationBuilder


def _build_recording(source: SourceFile, name: str, session: _ChatSession) -> Recording | None:
    meta = session.meta
    about = RecordingOrigin(
        FORMAT,
        first_text(meta, "agent"),
        first_text(meta, "model"),
        first_text(meta, "id") or name,
        first_text(meta, "repo", "source"),
        str(source.path),
    )
    return session.conversation.build_recording(source, name, about)


def build_chat_conversation(source: SourceFile, number: int, messages: Iterable[JsonRecord]) -> ConversationBuilder:
    """Build a conversation from messages that are at this line of the file."""
    talk = ConversationBuilder()
    for message in messages:
        _add_chat_message(source, number, message, talk)
    return talk


def _add_chat_message(source: SourceFile, number: int, message: JsonRecord, talk: ConversationBuilder) -> None:
    role, content = message.get("role"), message.get("content")
    time = parse_recorded_time(message.get("timestamp", message.get("time")))
    kinds = collect_part_types(content)
    if not kinds <= set(_CHAT_PART_TYPES):
        _add_foreign_message(source, number, message, talk, time)
    elif role == "assistant":
        talk.add_answer(
            read_chat_content(content),
            _read_calls(message),
            first_text(message, "reasoning_content", "reasoning"),
            time,
        )
    elif role in ("tool", "function"):
        talk.add_result(first_text(message, "tool_call_id"), read_chat_content(content), time)
    else:
        talk.add_message("user" if role == "user" else "system", read_chat_content(content), time)


def _read_calls(message: JsonRecord) -> list[RecordedCall]:
    calls = []
    for each in list_objects(message.get("tool_calls")):
        function = object_or_empty(each.get("function")) or object_or_empty(each.get("custom")) or each
        arguments = function.get("arguments", function.get("input"))
        calls.append(RecordedCall(first_text(each, "id"), first_text(function, "name"), arguments))
    return calls or read_function_call(message)


def read_function_call(message: JsonRecord) -> list[RecordedCall]:
    """Read the call in the form that OpenAI used before `tool_calls`."""
    old = object_or_empty(message.get("function_call"))
    return [RecordedCall("", first_text(old, "name"), old.get("arguments"))] if old else []


def read_chat_content(value: object) -> ChatContent:
    """Read a text, or a list of parts: texts, images in the form of OpenAI or Anthropic, JSON."""
    if isinstance(value, str):
        return value
    texts, images = [], []
    for part in list_or_empty(value):
        block = object_or_empty(part)
        image = block.get("image_url")
        if isinstance(part, str):
            texts.append(part)
        elif image:
            images.append(first_text(image, "url") if isinstance(image, dict) else string_or_empty(image))
        elif block.get("type") == "image":
            inner = object_or_empty(block.get("source")) or block
            data = make_data_url(first_text(inner, "media_type", "mime_type"), first_text(inner, "data", "base64"))
            images.append(first_text(inner, "url") or data)
        elif block.get("type") == "json":
            texts.append(encode_recorded_json(block.get("json")))
        else:
            texts.append(first_text(block, "text", "refusal"))
    return make_content(texts, images)


# --- by way of our own form ---------------------------------------------------------------------------------------


def _add_foreign_message(
    source: SourceFile, number: int, message: JsonRecord, talk: ConversationBuilder, time: float
) -> None:
    try:
        messages = parse_any_message(message)
    except BadInput as fault:
        raise source.make_error(number, str(fault.args[0]).rstrip("."), fault.remedy) from None
    for each in messages:
        add_core_message(talk, each, time)


def add_core_message(talk: ConversationBuilder, message: Message, time: float = 0.0) -> None:
    """Add a message of tidegate's own type, in chat form."""
    if message.role == "assistant":
        thoughts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
        calls = [RecordedCall(call.id, call.name, call.arguments) for call in calls_of(message)]
        talk.add_answer(_render_parts(message.parts), calls, "\n".join(thoughts), time)
        return
    for part in message.parts:
        if isinstance(part, Result):
            talk.add_result(part.call_id, _render_parts(part.parts), time)
    if message.role != "tool":
        role, is_typed = ("user", common_mark(message.parts)) if message.role == "user" else ("system", None)
        talk.add_message(role, _render_parts(message.parts), time, typed=is_typed)


def _render_parts(parts: Iterable[object]) -> ChatContent:
    part_list = list(parts)
    images = [part.url or make_data_url(part.media, part.data) for part in part_list if isinstance(part, Image)]
    return make_content([part.text for part in part_list if isinstance(part, Text)], images)


def render_chat_tools(tools: Iterable[Tool]) -> list[JsonRecord]:
    """Return tidegate's tools in chat form."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": decode_object(tool.parameters),
            },
        }
        for tool in tools
    ]
