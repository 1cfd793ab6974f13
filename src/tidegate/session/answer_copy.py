"""A copy of an answer for the log, assembled while the answer is passed on. It never disturbs the answer itself."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.messages import Message, Text
from tidegate.models.errors.classification import ProviderError, classify_frame
from tidegate.wire.answers import read_reply
from tidegate.wire.dialect import Dialect
from tidegate.wire.limits import MAX_ANSWER_VALUES, LimitExceeded, has_too_many_values
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import Reply
from tidegate.wire.streaming.sse import SseReader, decode_frames

_MAX_COPY_BYTES: Final = 32_000_000
_MAX_REASON: Final = 80  # characters
# Tuples: the type of a frame may be anything, also a list, which cannot be looked up in a set.
_OPENING_TYPES: Final = ("response.created", "response.in_progress", "response.queued", "ping")
_ERROR_TYPES: Final = ("error", "response.failed")
_DROPPED_KEY: Final = "input_transformations"
_NOTED_KEYS: Final = frozenset(("message", "response", "context_management", "diagnostics", _DROPPED_KEY))
"""Of a frame that says more than words of the answer: nearly all frames have none of them."""


class CopiedAnswer(NamedTuple):
    """An answer for the log, and as the client would send it back. `asks_for_calls`: it ends with calls."""

    message: Message | None
    usage: JsonObject
    client_messages: list[JsonObject]
    asks_for_calls: bool


class AnswerCopy:
    """Feed it the bytes of an answer. `is_whole`: nothing is missing. `error` is the upstream's error in the stream.

    `has_begun`: something arrived that a client may show; before that, an answer can still be asked for again.
    `request` is the body that was sent, to tell the upstream's words from those that its error repeats.
    `dropped_thinking` counts the blocks of the request that the provider says it dropped. `cache_miss_reason` is its
    reason for not reading the request from its cache, where it gives one. `response_id` is the id of an answer that
    a later request can name. `cleared_tokens` is how much of the request the provider left out.
    """

    def __init__(self, dialect: Dialect, *, is_stream: bool, request: bytes = b"") -> None:
        self._dialect = dialect
        self._request = request
        self.is_stream = is_stream
        self._reader = SseReader() if is_stream else None
        self._assembler = self._dialect.answers.create_assembler()
        self._body = bytearray()
        self._texts: list[str] = []
        self._size = 0
        self._is_broken = False
        self.is_whole = self.has_begun = False
        self.error: ProviderError | None = None
        self.dropped_thinking = 0
        self.cache_miss_reason = ""
        self.response_id = ""
        self.cleared_tokens = 0

    def feed(self, data: bytes) -> int:
        """Return how many of these bytes come before the event that makes the answer whole; all if none does."""
        self._size += len(data)
        if self._is_broken:
            return len(data)
        try:
            if self._size > _MAX_COPY_BYTES:
                self._is_broken, self.is_whole = True, False
            elif self._reader is None:
                self._body += data
            else:
                return self._read_events(self._reader, data)
        except (TidegateError, msgspec.MsgspecError, RecursionError, ValueError):
            self._is_broken, self.is_whole, self.has_begun = True, False, True
        return len(data)

    def _read_events(self, reader: SseReader, data: bytes) -> int:
        frames, fault = decode_frames(reader.feed(data))
        before_last = self._take(frames)
        if fault is not None:
            raise fault
        if before_last is None:
            return len(data)
        return reader.ends[before_last - 1] if before_last else 0

    def end(self) -> None:
        """The answer has ended: read it if it was not a stream of events."""
        if self._reader is not None or self._is_broken:
            return
        try:
            if has_too_many_values(bytes(self._body), MAX_ANSWER_VALUES):
                raise LimitExceeded(f"The answer holds more than {MAX_ANSWER_VALUES:,} values.")
            value = msgspec.json.decode(bytes(self._body))
            for each in value if isinstance(value, list) else [value]:  # Gemini streams a list without alt=sse
                frames = [each] if isinstance(value, list) else self._dialect.answers.frames_from_body(each)
                self._take(frames)
        except (TidegateError, msgspec.MsgspecError, RecursionError, ValueError, AttributeError, TypeError):
            self._is_broken, self.is_whole = True, False

    def _take(self, frames: Iterable[JsonObject | None]) -> int | None:
        """Take over frames. Return how many of them come before the one that makes the answer whole; None if none does.

        A frame is None if it only marks the end of the stream, or keeps it alive.
        """
        was_whole, before_last = self.is_whole, None
        for place, frame in enumerate(frames):
            if frame is None:
                continue
            kind = frame.get("type")
            self.has_begun = self.has_begun or kind not in _OPENING_TYPES
            if self.error is None and ("error" in frame or kind in _ERROR_TYPES):
                self.error = classify_frame(frame, request=self._request)
            if not _NOTED_KEYS.isdisjoint(frame):
                self._take_notes(frame, frame.get("message"))
            for delta in self._assembler.feed(frame):
                if delta.kind == "text":
                    self._texts.append(delta.text)
            self.is_whole = self._assembler.done
            if self.is_whole and not was_whole:
                was_whole, before_last = True, place
        return before_last

    def _take_notes(self, frame: JsonObject, message: object) -> None:
        """What a frame says about the request and the answer as a whole."""
        self.dropped_thinking += _count_dropped(message) + _count_dropped(frame)
        self.cleared_tokens = _count_cleared(frame) or _count_cleared(message) or self.cleared_tokens
        if not self.response_id and isinstance(response := frame.get("response"), dict):
            self.response_id = ident if isinstance(ident := response.get("id"), str) else ""
        self.cache_miss_reason = self.cache_miss_reason or _read_miss_reason(frame) or _read_miss_reason(message)

    def read_reply(self) -> Reply:
        """The answer as it was given. TidegateError if it is not whole."""
        return self._assembler.finish()

    def read(self) -> CopiedAnswer:
        """The answer and its usage. TidegateError if it is not whole."""
        reply = self.read_reply()
        messages = self._dialect.to_client_messages(reply.messages)
        return CopiedAnswer(read_reply(self._dialect, messages), reply.usage, messages, reply.stop == "calls")

    def read_partial(self) -> Message | None:
        """The text that arrived of an answer that was cut off."""
        text = "".join(self._texts)
        return Message("assistant", (Text(text),)) if text.strip() else None

    def read_usage(self) -> JsonObject:
        try:
            return self._assembler.finish().usage
        except TidegateError:
            return {}


def _count_dropped(value: object) -> int:
    """Blocks that a provider dropped, as an answer of Anthropic's or its first event says."""
    listed = value.get(_DROPPED_KEY) if isinstance(value, dict) else None
    entries = listed if isinstance(listed, list) else []
    return sum(isinstance(each, dict) and each.get("type") == "thinking_dropped" for each in entries)


def _count_cleared(value: object) -> int:
    """Tokens that Anthropic cleared: https://platform.claude.com/docs/en/build-with-claude/context-editing"""
    managed = value.get("context_management") if isinstance(value, dict) else None
    listed = managed.get("applied_edits") if isinstance(managed, dict) else None
    edits = listed if isinstance(listed, list) else []
    numbers = [each.get("cleared_input_tokens") for each in edits if isinstance(each, dict)]
    return sum(number for number in numbers if isinstance(number, int) and number > 0)


def _read_miss_reason(value: object) -> str:
    """Anthropic's `diagnostics`: https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics"""
    diagnostics = value.get("diagnostics") if isinstance(value, dict) else None
    reason = diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
    kind = reason.get("type") if isinstance(reason, dict) else None
    return kind[:_MAX_REASON] if isinstance(kind, str) else ""
