"""Messages of a log as the scripts of the page read them: one form for every dialect, secrets masked, texts bounded."""

from collections.abc import Callable, Iterable

import msgspec

from tidegate.core.events import Event, MessageAdded
from tidegate.core.messages import Call, Compaction, Image, Message, Part, Result, Text, Thinking
from tidegate.core.notes import Denial, SystemSet, ToolsSet, is_note, read_note
from tidegate.session.message_text import describe_compaction
from tidegate.web.text_pool import TextPool

JsonPart = dict[str, object]


def describe_event(event: Event, previous: Event | None = None) -> JsonPart | None:
    """A message, the system prompt or the tools, as the log has them; None for other events. The `previous` event says
    whether a result is that of a denied call."""
    what = event.payload
    if isinstance(what, MessageAdded):
        denial = read_note(previous.payload, Denial) if previous is not None else None
        return describe_message(what.message, denial)
    if is_note(what, SystemSet, ToolsSet):
        return {"role": what.topic, "content": _indent(what.text) if is_note(what, ToolsSet) else what.text}
    return None


def describe_message(message: Message, denial: Denial | None = None) -> JsonPart:
    content = [
        {"type": "text", "text": describe_compaction(message.id, part)}
        if isinstance(part, Compaction)
        else _describe_part(part, denial)
        for part in message.parts
    ]
    return {"id": message.id, "role": message.role, "content": content}


def _describe_part(part: Part, denial: Denial | None = None) -> JsonPart:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        size = len(part.data or part.url)
        return {"type": "text", "text": f"[{part.media}, {size:,} characters]"}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.text or f"[a signed block of {len(part.block):,} characters]"}
    if isinstance(part, Call):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": _indent(part.arguments)}
    assert isinstance(part, Result)
    described: JsonPart = {
        "type": "tool_result",
        "tool_use_id": part.call_id,
        "content": list(map(_describe_part, part.parts)),
    }
    if denial is not None and denial.call_id == part.call_id:
        described["denied_by"] = denial.by
    return described


def _indent(text: str) -> str:
    try:
        return msgspec.json.format(text.encode(), indent=2).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


def encode_messages(messages: Iterable[JsonPart], mask: Callable[[str], str], limit: int) -> bytes:
    """The messages as a JSON array of about `limit` characters at most: secrets masked, then long texts cut."""
    pool = TextPool(mask)
    places = pool.add_all(msgspec.json.encode(each) for each in messages)
    values = pool.bound_texts(limit).values
    return b"[" + b",".join(values[place] for place in places) + b"]"
