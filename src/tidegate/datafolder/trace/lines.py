"""The lines of a trace: made from events, read by people and scorers.

A line says what an event did and how large it was. The content itself is in the log, under the same seq; on request
a line has it, too, with secrets masked.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tidegate.core.edits import EditIndex
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.messages import calls_of, encode_into_bytes, result_of, texts_of
from tidegate.core.notes import (
    CompactionEnded,
    CompactionStarted,
    ContentForgotten,
    Denial,
    EditRedone,
    EditUndone,
    ModelNote,
    NoteKind,
    ProgramError,
    RequestOverflowed,
    SideCost,
    SummaryFailed,
    ViewCleared,
    kind_of,
    read_note,
)
from tidegate.core.text.clip import clip_chars

_MAX_TEXT_CHARS, _MAX_NAME_CHARS, _MAX_IDS = 500, 100, 20
"""Limits of a line: characters of a text, characters of a name, number of ids."""
_MASKED_CHARS, _MARGIN = 20_000, 4_000
_CUT = " [...]"
_TAIL_BYTES = 256 * 1024

_ERROR_NOTES = (ProgramError, SummaryFailed, RequestOverflowed)
_OWN_PURPOSES = frozenset({"summary", "state_note", "interrupted", "compaction"})
"""Calls besides those of turns that no other trace has. The calls of a subagent are in its own trace."""
_EVENT_NAMES: dict[NoteKind, str] = {
    ViewCleared: "context_clear",
    EditUndone: "context_undo",
    EditRedone: "context_redo",
    CompactionStarted: CompactionStarted.topic,
    CompactionEnded: CompactionEnded.topic,
    ContentForgotten: ContentForgotten.topic,
    ModelNote: ModelNote.topic,
}

TextMask = Callable[[str], str]


class TraceLine(msgspec.Struct, omit_defaults=True):
    """One line. The first four fields are always present, the others if the event has them. A zero is written.

    `id` is the message's name in the log, `call` the id that ties a tool_result to its tool_call. `more`: the event
    has further lines, so one that ends with it was cut off.
    """

    time: float
    seq: int
    event: str
    session: str
    role: str | None = None
    kind: str | None = None
    id: str | None = None
    call: str | None = None
    name: str | None = None
    arguments: str | None = None
    error: bool | None = None
    tokens: int | None = None
    chars: int | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    counted: int | None = None
    head: int | None = None
    stage: str | None = None
    rule: str | None = None
    moment: str | None = None
    why: str | None = None
    before: int | None = None
    after: int | None = None
    dropped: int | None = None
    replaced: int | None = None
    inserted: int | None = None
    ids: list[str] | None = None
    topic: str | None = None
    text: str | None = None
    more: bool = False


# --- events to lines ---------------------------------------------------------------------------------------


def mask_nothing(text: str) -> str:
    return text


def make_trace_lines(
    event: Event, session: str = "", mask: TextMask = mask_nothing, *, content: bool = False
) -> list[TraceLine]:
    """Return at least one line for any event, each of bounded length and without text of a message.

    With `content`, the lines of messages have their whole text and the whole arguments of their calls.
    """
    excerpt = (
        session
        if len(session) <= _MAX_TEXT_CHARS
        else clip_chars(session, _MAX_TEXT_CHARS, mode="head", notice="").text
    )

    def line(name: str) -> TraceLine:
        return TraceLine(event.time, event.seq, name, excerpt)

    what = event.payload
    if isinstance(what, MessageAdded):
        lines = _make_message_lines(what, line, mask, content)
    elif isinstance(what, ViewEdited):
        lines = [_make_edit_line(what, line("context_compaction"), mask)]
    elif isinstance(what, UsageReported):
        lines = [_make_usage_line(what, line("model_usage"))]
    else:
        lines = [_make_note_line(what, line, mask)]
    for each in lines[:-1]:
        each.more = True
    return lines


def _make_message_lines(
    what: MessageAdded, line: Callable[[str], TraceLine], mask: TextMask, content: bool
) -> list[TraceLine]:
    message, lines = what.message, list[TraceLine]()
    text = mask("\n".join(texts_of(message))) if content else None
    for call in calls_of(message):
        call_line = line("tool_call")
        call_line.id, call_line.call, call_line.name = (
            _clip_name(message.id),
            _clip_name(call.id),
            _clip_name(mask(call.name)),
        )
        call_line.arguments = mask(call.arguments) if content else _mask_and_clip(call.arguments, mask)
        call_line.chars = len(call.arguments)
        lines.append(call_line)
    if lines:
        lines[0].text = text or None
        return lines
    result = result_of(message)
    trace_line = line("message" if result is None else "tool_result")
    trace_line.id, trace_line.tokens = _clip_name(message.id), what.tokens
    trace_line.kind = _clip_name(message.kind) or None
    trace_line.chars, trace_line.text = sum(map(len, texts_of(message))), text
    if result is None:
        trace_line.role = message.role
    else:
        trace_line.call, trace_line.error = _clip_name(result.call_id), result.error
    return [trace_line]


def _make_edit_line(what: ViewEdited, line: TraceLine, mask: TextMask) -> TraceLine:
    changes = EditIndex(what.edits)
    touched = [*changes.dropped, *changes.replaced, *(insert.message.id for insert in changes.inserts)]
    line.stage, line.rule, line.moment, line.why = (
        what.stage,
        _clip_name(what.rule),
        what.moment,
        _mask_and_clip(what.why, mask),
    )
    line.before, line.after = what.tokens_before, what.tokens_after
    line.dropped, line.replaced, line.inserted = len(changes.dropped), len(changes.replaced), len(changes.inserts)
    line.ids = [_clip_name(ident) for ident in sorted(touched, key=_log_order)[:_MAX_IDS]]
    return line


def _log_order(ident: str) -> tuple[int, str]:
    """Return a sort key in the order of the log: `m9` before `m10`."""
    number = ident[1:].partition(".")[0]
    return (int(number) if number.isdecimal() else 0, ident)


def _make_usage_line(what: UsageReported, line: TraceLine) -> TraceLine:
    line.model, line.head, line.counted = _clip_name(what.model), what.log_head, what.counted_tokens
    line.input_tokens, line.output_tokens = what.input_tokens, what.output_tokens
    line.cache_read, line.cache_write = what.cache_read, what.cache_write
    return line


def _make_note_line(what: NoteAdded, line: Callable[[str], TraceLine], mask: TextMask) -> TraceLine:
    cost = read_note(what, SideCost)
    if cost is not None and cost.purpose in _OWN_PURPOSES:
        usage_line = _make_usage_line(UsageReported(cost.model, 0, 0, *cost.usage[:4]), line("model_usage"))
        usage_line.kind, usage_line.head, usage_line.counted = cost.purpose, None, None
        return usage_line
    if (denial := read_note(what, Denial)) is not None:
        denied = line("tool_denied")
        denied.call, denied.name = _clip_name(mask(denial.call_id)), _clip_name(mask(denial.tool))
        denied.why = f"denied by {_mask_and_clip(denial.by, mask)}"
        return denied
    kind = kind_of(what)
    own = _EVENT_NAMES.get(kind) if kind is not None else None
    note_line = line(own or ("error" if kind in _ERROR_NOTES else "note"))
    note_line.topic = None if own else _clip_name(mask(what.topic))
    note_line.text = _mask_and_clip(what.text, mask) if what.text else None
    note_line.chars, note_line.tokens = len(what.text) or None, what.tokens or None
    return note_line


def _clip_name(text: str) -> str:
    return text if len(text) <= _MAX_NAME_CHARS else clip_chars(text, _MAX_NAME_CHARS, mode="head", notice="").text


def _mask_and_clip(text: str, mask: TextMask) -> str:
    """Mask a text, then clip it: half a key would not be recognized. Of a huge text only the beginning is searched, and
    its end, where a key may be cut, is not shown."""
    beginning = clip_chars(text, _MASKED_CHARS, mode="head", notice="").text
    clip = mask(beginning)
    if len(beginning) < len(text):
        clip = clip_chars(clip, max(0, len(clip) - _MARGIN), mode="head", notice="").text
    elif len(clip) <= _MAX_TEXT_CHARS:
        return clip
    return clip_chars(clip, _MAX_TEXT_CHARS, mode="head", notice="").text + _CUT


# --- as JSON ----------------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TraceLine)


def encode_trace_line(line: TraceLine) -> bytes:
    return encode_into_bytes(_encoder, line) + b"\n"


def decode_trace_line(data: bytes) -> TraceLine | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_trace(path: Path | str, start: int = 0) -> Iterator[TraceLine]:
    """Yield the lines from seq `start` on. Damaged lines are left out and appear as a gap in the seqs."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        for data in file:
            line = decode_trace_line(data) if data.endswith(b"\n") else None
            if line is not None and line.seq >= start:
                yield line


def read_last_lines(path: Path, count: int) -> list[TraceLine]:
    """Return the last lines of a file, without reading all of a long one."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    lines = [decode_trace_line(line) for line in data.splitlines(keepends=True)[-count:]]
    return [line for line in lines if line is not None]


class ModelUsage(msgspec.Struct):
    """The usage of one model. `input_tokens` includes cached tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0


def sum_usage_by_model(lines: Iterable[TraceLine]) -> dict[str, ModelUsage]:
    """Add up the tokens by model over the lines of any number of sessions."""
    usages: dict[str, ModelUsage] = {}
    for line in lines:
        if line.event == "model_usage":
            usage = usages.setdefault(line.model or "", ModelUsage())
            usage.calls += 1
            usage.input_tokens += line.input_tokens or 0
            usage.output_tokens += line.output_tokens or 0
            usage.cache_read += line.cache_read or 0
            usage.cache_write += line.cache_write or 0
    return usages
