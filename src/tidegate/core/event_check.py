"""The check for impossible values in events: from an imported file, a provider's report or an edited store.

An import refuses them with the number of the record. A log that is already stored is read anyway: `View.recount` checks
its token counts, and a wrong time only affects what is displayed.
"""

from collections.abc import Iterable
from typing import Final, TypeGuard

from tidegate.core.edits import Insert, Replace
from tidegate.core.events import (
    BranchStarted,
    Event,
    EventPayload,
    HourWriteReported,
    MessageAdded,
    NoteAdded,
    UsageReported,
    ViewEdited,
)
from tidegate.core.messages import Image, Message, Part, Result
from tidegate.core.notes import RequestWeighed, is_note, read_note

MAX_TIME: Final = 253_370_764_800.0
"""The beginning of the year 9999, in seconds since 1970. Most calendars end there."""
MAX_TOKEN_COUNT: Final = 10**9
"""More tokens than any window or text has: a larger number is a mistake."""
_NUMBERS: Final = (int, float)
_MAX_PIXELS: Final = 10**6
"""The longest edge of an image."""


def is_possible_time(value: object) -> bool:
    """Whether the value is seconds since 1970 that a calendar can show. NaN is not."""
    return isinstance(value, _NUMBERS) and 0 <= value <= MAX_TIME


def is_possible_count(value: object, most: int = MAX_TOKEN_COUNT) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def find_impossible_value(event: Event) -> str:
    """What is impossible in an event, in words; empty if nothing is. Token counts of messages are not checked."""
    if not is_possible_time(event.time):
        return f"its time is {event.time:.6g}, not seconds since 1970"
    what = event.payload
    if [each.id for each in _messages_of(what)] != expected_message_ids(event):
        return "its messages do not have the ids of that place"
    if isinstance(what, UsageReported):
        return _check_report(event.seq, what)
    if isinstance(what, ViewEdited):
        counts = {"before": what.tokens_before, "after": what.tokens_after}
        parts = [part for edit in what.edits if isinstance(edit, Replace) for part in edit.parts]
        parts += [part for edit in what.edits if isinstance(edit, Insert) for part in edit.message.parts]
        return _check_counts(counts) or _check_images(parts)
    if isinstance(what, MessageAdded):
        return _check_images(what.message.parts)
    return _check_note(event.seq, what)


def expected_message_ids(event: Event) -> list[str]:
    """The ids that the messages of an event must have. Recall finds a message in the log by its id."""
    what = event.payload
    if isinstance(what, MessageAdded):
        return [f"m{event.seq}"]
    if isinstance(what, ViewEdited):
        return [f"e{event.seq}.{place}" for place, edit in enumerate(what.edits) if isinstance(edit, Insert)]
    return []


def _messages_of(what: EventPayload) -> list[Message]:
    if isinstance(what, MessageAdded):
        return [what.message]
    return [edit.message for edit in what.edits if isinstance(edit, Insert)] if isinstance(what, ViewEdited) else []


def _check_report(seq: int, report: UsageReported) -> str:
    if not 0 <= report.log_head < seq:
        return f"it reports on a request made at record {report.log_head}"
    names = ("counted_tokens", "input_tokens", "output_tokens", "cache_read", "cache_write", "shared_messages")
    counts = {name: getattr(report, name) for name in names}
    if isinstance(report, HourWriteReported):
        counts["cache_write_1h"] = report.cache_write_1h
    return _check_counts(counts)


def _check_note(seq: int, note: NoteAdded) -> str:
    if isinstance(note, BranchStarted) and not (note.text.isdecimal() and note.edit < seq):
        return "it continues the conversation after an event that is not before it"
    if not is_note(note, RequestWeighed):
        return ""
    request = read_note(note, RequestWeighed)
    if request is None:
        return "it does not say which request was refused"
    if not request.log_head < seq:
        return f"it reports on a request made at record {request.log_head}"
    return _check_counts({"counted": request.counted_tokens, "tokens": request.tokens})


def _check_counts(counts: dict[str, int]) -> str:
    for name, value in counts.items():
        if not is_possible_count(value):
            return f"{name} is {value}, not a number of tokens"
    return ""


def _check_images(parts: Iterable[Part]) -> str:
    for part in parts:
        if isinstance(part, Result) and (images := _check_images(part.parts)):
            return images
        if isinstance(part, Image) and not (
            is_possible_count(part.width, _MAX_PIXELS) and is_possible_count(part.height, _MAX_PIXELS)
        ):
            return f"a picture is {part.width} by {part.height} pixels"
    return ""
