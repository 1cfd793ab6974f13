"""From the frames of a provider's answer to a reply, in any dialect.

    reader, assembler = SseReader(), create_assembler("anthropic")
    for frame in reader.feed(data):
        if (value := decode_frame(frame)) is not None:
            deltas = assembler.feed(value)
    reply = assembler.finish()                    # raises IncompleteReply if the end is missing
    session.add(*reply.to_messages("anthropic"))

A stream that was cut gives either the whole message or IncompleteReply.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.wire.anthropic import stream as stream_anthropic
from tidegate.wire.gemini import stream as stream_gemini
from tidegate.wire.limits import MAX_JSON_VALUES, LimitExceeded, has_too_many_values
from tidegate.wire.openai_chat import stream as stream_openai_chat
from tidegate.wire.openai_responses import stream as stream_openai_responses
from tidegate.wire.parsing import abbreviate_value
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import Delta, IncompleteReply, Reply, ReplyAssembler, StopReason
from tidegate.wire.streaming.sse import SseFrame, SseReader

__all__ = [
    "Delta",
    "IncompleteReply",
    "Reply",
    "ReplyAssembler",
    "SseFrame",
    "SseReader",
    "StopReason",
    "create_assembler",
    "decode_frame",
    "frames_from_response",
    "parse_reply",
]


class _StreamFormat(NamedTuple):
    assembler: Callable[[], ReplyAssembler]
    whole: Callable[[Mapping[str, object]], list[JsonObject]]


_STREAM_FORMATS: Mapping[str, _StreamFormat] = MappingProxyType(
    {
        "openai_chat": _StreamFormat(stream_openai_chat.ChatAssembler, stream_openai_chat.frames_from_body),
        "openai_responses": _StreamFormat(
            stream_openai_responses.ResponsesAssembler, stream_openai_responses.frames_from_body
        ),
        "anthropic": _StreamFormat(stream_anthropic.AnthropicAssembler, stream_anthropic.frames_from_body),
        "gemini": _StreamFormat(stream_gemini.GeminiAssembler, stream_gemini.frames_from_body),
    }
)


def create_assembler(dialect: str) -> ReplyAssembler:
    return _STREAM_FORMATS[get_dialect(dialect).family].assembler()


def frames_from_response(dialect: str, body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to frames to feed."""
    return _STREAM_FORMATS[get_dialect(dialect).family].whole(body)


def parse_reply(dialect: str, body: Mapping[str, object]) -> Reply:
    """Read the reply from an unstreamed answer. Raises IncompleteReply if it holds none."""
    answer = create_assembler(dialect)
    for frame in frames_from_response(dialect, body):
        answer.feed(frame)
    return answer.finish()


def decode_frame(frame: SseFrame) -> JsonObject | None:
    """Decode the JSON of a frame; None for a frame that only marks the end of the stream or keeps it alive."""
    text = frame.data.strip()
    if not text or text == "[DONE]":
        return None
    if has_too_many_values(text):
        raise LimitExceeded(f"A frame of the stream holds more than {MAX_JSON_VALUES:,} values.")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        if frame.event == "error":
            return {"error": {"message": text[:2000]}}
        raise BadInput(f"A frame of the stream is not a JSON object: {abbreviate_value(text)!r}.", "Ask again.")
    if frame.event == "error" and "error" not in value and "type" not in value:
        return {"error": value}
    return value
