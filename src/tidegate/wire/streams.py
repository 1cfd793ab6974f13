"""From the frames of a provider's answer to a reply, in any dialect.

    reader, answer = SseReader(), assembler("anthropic")
    for frame in reader.feed(data):
        deltas = answer.feed(json_of(frame))
    reply = answer.finish()                       # raises Cut if the end is missing
    session.add(*reply.said("anthropic"))

A stream that was cut anywhere gives either the whole message or Cut; of the usage, what had come.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.wire import stream_anthropic, stream_gemini, stream_openai_chat, stream_openai_responses
from tidegate.wire.blocks import Json
from tidegate.wire.dialects import dialect_of
from tidegate.wire.limits import MAX_JSON_VALUES, LimitExceeded, has_too_many_values
from tidegate.wire.reading import shown
from tidegate.wire.replies import Assembler, Cut, Delta, Reply, Stop
from tidegate.wire.sse import Frame, SseReader

__all__ = [
    "Assembler",
    "Cut",
    "Delta",
    "Frame",
    "Reply",
    "SseReader",
    "Stop",
    "as_frames",
    "assembler",
    "json_of",
    "reply_of",
]


class _Streamed(NamedTuple):
    assembler: Callable[[], Assembler]
    whole: Callable[[Mapping[str, object]], list[Json]]


_FAMILIES: Mapping[str, _Streamed] = MappingProxyType(
    {
        "openai_chat": _Streamed(stream_openai_chat.ChatAssembler, stream_openai_chat.whole),
        "openai_responses": _Streamed(stream_openai_responses.ResponsesAssembler, stream_openai_responses.whole),
        "anthropic": _Streamed(stream_anthropic.AnthropicAssembler, stream_anthropic.whole),
        "gemini": _Streamed(stream_gemini.GeminiAssembler, stream_gemini.whole),
    }
)


def assembler(dialect: str) -> Assembler:
    return _FAMILIES[dialect_of(dialect).family].assembler()


def as_frames(dialect: str, body: Mapping[str, object]) -> list[Json]:
    """An answer that did not come as a stream, as frames to feed."""
    return _FAMILIES[dialect_of(dialect).family].whole(body)


def reply_of(dialect: str, body: Mapping[str, object]) -> Reply:
    """The reply in an answer that did not come as a stream. Raises Cut if it holds none."""
    answer = assembler(dialect)
    for frame in as_frames(dialect, body):
        answer.feed(frame)
    return answer.finish()


def json_of(frame: Frame) -> Json | None:
    """The JSON of a frame; None for a frame that only says that the stream is over or alive."""
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
        raise BadInput(f"A frame of the stream is not a JSON object: {shown(text)!r}.", "Ask again.")
    if frame.event == "error" and "error" not in value and "type" not in value:
        return {"error": value}
    return value
