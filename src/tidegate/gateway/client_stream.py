"""The bytes of an answer as the client gets them, if calls of a hidden tool may be in it."""

import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.assembly import SseReader, decode_frame
from tidegate.wire.streaming.merged_answer import KEEP, MergedAnswer

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


async def split_first_event(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a stream, with its first event apart: it is passed on before the rest of its piece is parsed."""
    is_first = True
    async for piece in pieces:
        end = _EVENT_END.search(piece) if is_first else None
        is_first = False
        if end is not None and end.end() < len(piece):
            yield piece[: end.end()]
            yield piece[end.end() :]
        else:
            yield piece


class ClientStream:
    """Feed it the pieces of the provider's answers, one after the other. Without `merged` they pass unchanged.

    Events that need no change keep their bytes. An answer that is no stream is held until `end`.
    """

    def __init__(self, merged: MergedAnswer | None) -> None:
        self._merged = merged
        self._is_stream = False
        self._buffer = b""
        self._listed: list[JsonObject] = []

    def start(self, *, is_stream: bool) -> None:
        """An answer of the provider begins."""
        self._is_stream = is_stream
        self._buffer = b""

    def feed(self, piece: bytes) -> bytes:
        """What the client gets now."""
        if self._merged is None:
            return piece
        self._buffer += piece
        if not self._is_stream:
            return b""
        found: list[bytes] = []
        start = 0
        for end in _EVENT_END.finditer(self._buffer):
            found.append(self._change_event(self._merged, self._buffer[start : end.end()]))
            start = end.end()
        self._buffer = self._buffer[start:]
        return b"".join(found)

    def end(self) -> bytes:
        """What is left when the answer has ended. Half an event is passed on as it is."""
        raw, self._buffer = self._buffer, b""
        if self._merged is None or self._is_stream or not raw:
            return raw
        return self._change_body(self._merged, raw)

    def _change_event(self, merged: MergedAnswer, raw: bytes) -> bytes:
        try:
            frames = SseReader().feed(raw)
            values = [decode_frame(frame) for frame in frames]
        except (TidegateError, msgspec.MsgspecError, ValueError, RecursionError):
            return raw
        if not frames:
            return raw
        if values[0] is None:  # [DONE]
            return b"" if merged.goes_on else raw
        new = merged.feed(values[0])
        if new is KEEP or new is None:
            return b"" if new is None else raw
        named = f"event: {frames[0].event}\n".encode() if frames[0].event else b""
        return named + b"data: " + msgspec.json.encode(new) + b"\n\n"

    def _change_body(self, merged: MergedAnswer, raw: bytes) -> bytes:
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return raw
        if isinstance(body, list):  # Gemini streams a list without alt=sse
            return self._change_list(merged, raw, body)
        new = merged.feed_body(body) if isinstance(body, dict) else KEEP
        if new is KEEP or new is None:
            return b"" if new is None else raw
        return msgspec.json.encode(new)

    def _change_list(self, merged: MergedAnswer, raw: bytes, frames: list[JsonObject]) -> bytes:
        new = [(frame, merged.feed(frame)) for frame in frames]
        if not self._listed and all(changed is KEEP for _, changed in new):
            return raw
        self._listed += [frame if changed is KEEP else changed for frame, changed in new if changed is not None]
        return b"" if merged.goes_on else msgspec.json.encode(self._listed)
