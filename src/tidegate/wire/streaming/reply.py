"""The results of a stream: deltas for display, and one reply at the end.

Nothing is interpreted here. A call that was cut off is kept as it came, and `Reply.stop` or `Reply.broken_call_ids`
says so: it must never be run.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.messages import Message
from tidegate.wire.limits import MAX_CALLS, MAX_PARTS, MAX_USAGE_FIELDS, LimitExceeded
from tidegate.wire.parsing import is_object_text
from tidegate.wire.rendering.blocks import JsonObject

StopReason = Literal["end", "calls", "length", "refused", "filtered", "paused", "unknown"]


class IncompleteReply(TidegateError):
    """The stream ended before the answer did, or is damaged. No part of it may be used as an answer."""


class Delta(NamedTuple):
    """A piece for display. The first of a call holds its name, the others its arguments."""

    kind: Literal["text", "thinking", "call"]
    text: str
    call_index: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A whole answer. `messages` are in the dialect's own form; only Responses has more than one.

    `usage` is as the provider reported it, {} if it did not; `provider_stop` is its own stop reason. `broken_call_ids`
    are the calls whose arguments are not a JSON object: some servers call an answer complete that was cut by the limit.
    """

    messages: list[JsonObject]
    usage: JsonObject
    stop: StopReason
    model: str = ""
    provider_stop: str = ""
    broken_call_ids: tuple[str, ...] = ()

    @property
    def message(self) -> JsonObject:
        return self.messages[0] if self.messages else {}


class ReplyAssembler(Protocol):
    """Feed it the frames of one answer. `error` is the error that the server reported; `done` means that nothing is
    missing.

    `feed` raises LimitExceeded if the answer is too long, `finish` raises IncompleteReply if it is not whole.
    """

    @property
    def error(self) -> JsonObject | None: ...
    @property
    def done(self) -> bool: ...
    def feed(self, frame: Mapping[str, object], /) -> list[Delta]: ...
    def finish(self) -> Reply: ...


def incomplete_reply_error() -> IncompleteReply:
    return IncompleteReply("The stream ended before the answer did.", "Ask again; nothing of it was kept.")


def ensure_parseable(parse_message: Callable[[object], list[Message]], reply: Reply) -> Reply:
    """Return the reply if it can be parsed. Leaving out what cannot be parsed would make half an answer of it."""
    try:
        for message in reply.messages:
            parse_message(message)
    except BadInput as bad:
        raise IncompleteReply(
            f"The answer cannot be read: {bad.args[0]}", "Ask again; nothing of it was kept."
        ) from None
    return reply


def bound_parts(parts: int, calls: int) -> None:
    """Raise LimitExceeded if an answer has more parts or tool calls than it may."""
    for count, most, what in ((calls, MAX_CALLS, "tool calls"), (parts, MAX_PARTS, "parts")):
        if count > most:
            raise LimitExceeded(f"The answer holds more than {most:,} {what}.")


# --- JSON of strangers --------------------------------------------------------------------------------------------


def as_object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def extract_error(frame: Mapping[str, object]) -> JsonObject:
    """Return the error of a frame; some servers send a bare text."""
    error = frame.get("error")
    return error if isinstance(error, dict) else {"message": str(error)}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def as_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_index(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def merge_usage(old: JsonObject, new: object) -> JsonObject:
    """Merge usage reports: a later one may say 0 or null where an earlier one had a number."""
    usage = old | {key: value for key, value in as_object(new).items() if value or key not in old}
    return usage if len(usage) <= MAX_USAGE_FIELDS else dict(list(usage.items())[:MAX_USAGE_FIELDS])


def assign_unique_ids(ids: list[str]) -> list[str]:
    """Make the call ids of an answer unique: a missing one is made up, a repeated one gets a number."""
    unique_ids: list[str] = []
    for place, ident in enumerate(ids):
        name = ident or f"call_{place}"
        candidate, number = name, 2
        while candidate in unique_ids or (candidate != ident and candidate in ids):
            candidate, number = f"{name}_{number}", number + 1
        unique_ids.append(candidate)
    return unique_ids


def normalize_stop(stop: StopReason, calls: bool) -> StopReason:
    """Correct the stop reason: some servers report an ordinary end for a tool call, or a tool call where there is
    none.
    """
    if stop not in ("end", "calls"):
        return stop
    return "calls" if calls else "end"


def find_broken_calls(ids: list[str], arguments: list[str]) -> tuple[str, ...]:
    """Return the ids of calls whose arguments are not a JSON object."""
    pairs = zip(ids, arguments, strict=True)
    return tuple(ident for ident, text in pairs if text.strip() and not is_object_text(text))
