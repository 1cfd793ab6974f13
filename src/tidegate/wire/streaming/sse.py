"""Reader for server-sent events, from bytes that were cut anywhere.

A frame is complete only after its blank line, so a frame that was cut is never used.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.wire.limits import MAX_JSON_VALUES, LimitExceeded, ProviderLimits, has_too_many_values
from tidegate.wire.parsing import abbreviate_value
from tidegate.wire.rendering.blocks import JsonObject

_MAX_LINE_BYTES = ProviderLimits().max_line_bytes
_BOM = b"\xef\xbb\xbf"
_PLAIN_EVENT: Final = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: ([^\r\n]*)\n\n")
"""An event as nearly all servers write it. It is read as a whole; others are read line by line."""


class SseFrame(msgspec.Struct, frozen=True, gc=False):
    event: str
    data: str


class SseReader:
    """`longest` limits a line and a frame in bytes: a server that never ends one must not fill the memory.

    `ends` says where each frame of the last `feed` ends in the bytes that were fed.
    """

    def __init__(self, longest: int = _MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._line = bytearray()  # the beginning of a line that was cut
        self._size = 0  # of the current frame
        self._started = False
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []
        self.ends: list[int] = []

    def feed(self, data: bytes) -> list[SseFrame]:
        end = 0
        if self._after_cr and data:  # the second half of a line break that was cut
            self._after_cr = False
            end = int(data.startswith(b"\n"))
        frames: list[SseFrame] = []
        self.ends = []
        if not (self._line or self._size):
            end = self._read_plain(data, end, frames)
        for line in data[end:].splitlines(keepends=True):
            end += len(line)
            is_whole = line[-1] in b"\r\n"
            if self._line or not is_whole:
                self._bound(len(self._line) + len(line))
                self._line += line
                if not is_whole:
                    break
                line, self._line = bytes(self._line), bytearray()
            self._size += len(line)
            line = line.rstrip(b"\r\n")
            if not self._started:
                self._started = True
                line = line.removeprefix(_BOM)
            if line:
                self._read(line)
            else:
                if self._data:
                    frames.append(SseFrame(self._event, "\n".join(self._data)))
                    self.ends.append(end)
                self._event, self._data, self._size = "", [], 0
        self._after_cr = self._after_cr or data.endswith(b"\r")
        return frames

    def _read_plain(self, data: bytes, start: int, frames: list[SseFrame]) -> int:
        """Read the plain events that begin here. Return where the first other one begins."""
        while (match := _PLAIN_EVENT.match(data, start)) is not None and match.end() - start <= self._longest:
            self._started = True
            name, text = match.groups(b"")
            frames.append(SseFrame(name.decode("utf-8", "replace"), text.decode("utf-8", "replace")))
            start = match.end()
            self.ends.append(start)
        return start

    def _bound(self, length: int) -> None:
        if length > self._longest:
            raise LimitExceeded(f"A line or frame of the stream is longer than {self._longest:,} bytes.")

    def _read(self, line: bytes) -> None:
        self._bound(self._size)
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "error":  # older llama.cpp servers report an error in mid-stream in this field
            self._event = "error"
            self._data.append(value)


def decode_frames(frames: Sequence[SseFrame]) -> tuple[list[JsonObject | None], TidegateError | None]:
    """Decode frames up to the first damaged one. Return them, and what is wrong with that one."""
    values: list[JsonObject | None] = []
    try:
        for frame in frames:
            values.append(decode_frame(frame))
    except TidegateError as fault:
        return values, fault
    return values, None


def decode_frame(frame: SseFrame) -> JsonObject | None:
    """Decode the JSON of a frame; None for a frame that only marks the end of the stream or keeps it alive."""
    text = frame.data.strip()
    if not text or text == "[DONE]":
        return None
    if len(text) > MAX_JSON_VALUES and has_too_many_values(text):  # few are as long
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
