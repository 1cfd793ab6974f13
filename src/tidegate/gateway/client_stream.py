"""The bytes of an answer as the client gets them, if calls of a hidden tool may be in it."""

import re
from typing import Final

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.wire.limits import MAX_ANSWER_VALUES, ProviderLimits, has_too_many_values
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import KEEP, MergedAnswer
from tidegate.wire.streaming.sse import SseFrame, SseReader, decode_frame

EVENT_END: Final = re.compile(rb"\n\n+|\r\n\r\n(?:\r\n)*|\r\r+")
"""Each case begins with a plain byte, so that `re` looks for these bytes and skips the others."""
_PLAIN_EVENT: Final = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: (\{[^\r\n]*\})\n\n")
"""An event as nearly all servers write it. Others are read by `SseReader`."""
_MAX_EVENT_BYTES: Final = ProviderLimits().max_line_bytes


class ClientStream:
    """Feed it the pieces of the provider's answers, one after the other.

    Events that need no change keep their bytes. An answer in one piece is held until `end`. After an event that is
    too long, the rest of an answer passes unchanged.
    """

    def __init__(self, merger: MergedAnswer) -> None:
        self._merged = merger
        self._is_stream = self._is_passed_on = False
        self._buffer = bytearray()
        self._listed: list[JsonObject] = []

    def start(self, *, is_stream: bool) -> None:
        """An answer of the provider begins."""
        self._is_stream, self._is_passed_on = is_stream, False
        self._buffer.clear()

    def feed(self, piece: bytes) -> bytes:
        """What the client gets now."""
        if self._is_passed_on:
            return piece
        searched = max(0, len(self._buffer) - 3)  # the end of an event may be cut
        self._buffer += piece
        if not self._is_stream:
            return b""
        pieces: list[bytes] = []
        start = 0
        for end in [match.end() for match in EVENT_END.finditer(self._buffer, searched)]:
            pieces.append(self._change_event(bytes(self._buffer[start:end])))
            start = end
        del self._buffer[:start]
        if len(self._buffer) > _MAX_EVENT_BYTES:
            self._is_passed_on = True
            pieces.append(self._take_buffer())
        return b"".join(pieces)

    def _take_buffer(self) -> bytes:
        raw = bytes(self._buffer)
        self._buffer.clear()
        return raw

    def end(self) -> bytes:
        """What is left when the answer has ended. Half an event is passed on as it is."""
        raw = self._take_buffer()
        return raw if self._is_stream or not raw else self._change_body(raw)

    def _change_event(self, raw: bytes) -> bytes:
        if b"data" not in raw:
            return raw
        try:
            frame = _read_event(raw)
            value = decode_frame(frame) if frame is not None else None
        except (TidegateError, msgspec.MsgspecError, ValueError, RecursionError):
            return raw
        if frame is None:
            return raw
        if value is None:  # [DONE]
            return b"" if self._merged.goes_on else raw
        new = self._merged.feed(value)
        if new is KEEP or new is None:
            return b"" if new is None else raw
        head = f"event: {frame.event}\n".encode() if frame.event else b""
        return head + b"data: " + msgspec.json.encode(new) + b"\n\n"

    def _change_body(self, raw: bytes) -> bytes:
        if has_too_many_values(raw, MAX_ANSWER_VALUES):
            return raw
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return raw
        if isinstance(body, list):  # Gemini streams a list without alt=sse
            return self._change_list(raw, body)
        new = self._merged.feed_body(body) if isinstance(body, dict) else KEEP
        if new is KEEP or new is None:
            return b"" if new is None else raw
        return msgspec.json.encode(new)

    def _change_list(self, raw: bytes, frames: list[JsonObject]) -> bytes:
        new = [(frame, self._merged.feed(frame)) for frame in frames if isinstance(frame, dict)]
        if not self._listed and all(replacement is KEEP for _, replacement in new):
            return raw
        self._listed += [
            frame if replacement is KEEP else replacement for frame, replacement in new if replacement is not None
        ]
        return b"" if self._merged.goes_on else msgspec.json.encode(self._listed)


def _read_event(raw: bytes) -> SseFrame | None:
    """The frame of an event; None if it has no data."""
    plain = _PLAIN_EVENT.fullmatch(raw)
    if plain is not None:
        return SseFrame((plain[1] or b"").decode("utf-8", "replace"), plain[2].decode("utf-8", "replace"))
    frames = SseReader().feed(raw)
    return frames[0] if frames else None
