"""The answers of a provider in any dialect: reading them and the usage they report, encoding them, joining several.

    reader, assembler = SseReader(), create_assembler("anthropic")
    for frame in reader.feed(data):
        if (value := decode_frame(frame)) is not None:
            deltas = assembler.feed(value)
    reply = assembler.finish()                    # raises IncompleteReply if the end is missing
    session.add(*parse_reply("anthropic", reply))

A stream that was cut gives either the whole message or IncompleteReply.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from tidegate.core.messages import Message
from tidegate.core.usage import Usage
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import merge_adjacent_messages
from tidegate.wire.registry import DIALECTS, get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import MergedAnswer
from tidegate.wire.streaming.reply import Reply, ReplyAssembler
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.usage import INPUT_USAGE, UsageForm, bound_usage


def create_assembler(wire: str) -> ReplyAssembler:
    return get_dialect(wire).answers.create_assembler()


def frames_from_response(wire: str, body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to frames to feed."""
    return get_dialect(wire).answers.frames_from_body(body)


def read_response(wire: str, body: Mapping[str, object]) -> Reply:
    """Read the reply from an unstreamed answer. Raises IncompleteReply if it holds none."""
    answer = create_assembler(wire)
    for frame in frames_from_response(wire, body):
        answer.feed(frame)
    return answer.finish()


def parse_reply(wire: str, reply: Reply) -> list[Message]:
    """Parse the reply to one message, also where the dialect writes each part as a message."""
    read = get_dialect(wire).parse_message
    return merge_adjacent_messages([message for each in reply.messages for message in read(each)], "assistant")


def read_reply(dialect: Dialect, client_messages: Sequence[JsonObject]) -> Message | None:
    """The answer of a provider as it will be read when the client sends it back; None for an empty one."""
    units = dialect.read_request({dialect.form.key: client_messages}).units
    return units[0].message if units else None


def create_merged_answer(wire: str, hidden_tool: str) -> MergedAnswer:
    return get_dialect(wire).answers.create_merger(hidden_tool)


def encode_response_frames(wire: str, answer: ScriptedAnswer) -> list[JsonObject]:
    """The frames of a stream."""
    return list(get_dialect(wire).answers.encode_frames(answer))


def encode_response_body(wire: str, answer: ScriptedAnswer) -> JsonObject:
    """Encode the answer to a request without streaming."""
    return get_dialect(wire).answers.encode_body(answer)


def encode_sse(wire: str, frames: list[JsonObject]) -> bytes:
    """Encode frames as the bytes of a stream."""
    form = get_dialect(wire).answers
    events = []
    for frame in frames:
        name = b"event: %s\n" % str(frame.get("type")).encode() if form.names_events else b""
        events.append(b"%sdata: %s\n\n" % (name, msgspec.json.encode(frame)))
    return b"".join(events) + form.end_mark


# --- usage reports --------------------------------------------------------------------------------------------------


def _list_forms() -> list[UsageForm]:
    return _list_forms_of(tuple(DIALECTS))


@cache
def _list_forms_of(names: tuple[str, ...]) -> list[UsageForm]:
    return list(dict.fromkeys(DIALECTS[name].usage for name in names))


def list_usage_fields() -> list[str]:
    """The fields by which reports are known, those of each dialect."""
    return list(dict.fromkeys(field for form in _list_forms() for field in form.fields))


def is_usage(usage: Mapping[str, object] | None) -> bool:
    """Whether this can be a usage report: it has a known field, or it is empty because nothing was counted."""
    return not usage or any(name in usage for form in _list_forms() for name in (*form.fields, *form.further_fields))


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Read a usage report. A missing or impossible number is 0.

    What a compaction by the provider cost is not in it: it says nothing about the size of the request.
    """
    for form in _list_forms():
        if form.fields[0] in usage:
            return bound_usage(form.read(usage))
    return bound_usage(INPUT_USAGE.read(usage))


def read_compaction_usage(usage: Mapping[str, object]) -> Usage | None:
    """Read what a compaction by the provider cost; None if there was none."""
    for form in _list_forms():
        if form.read_compaction is not None and (cost := form.read_compaction(usage)) is not None:
            return cost
    return None
