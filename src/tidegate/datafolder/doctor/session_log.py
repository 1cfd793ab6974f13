"""Checks of one log, record by record: unreadable records, and records that contradict earlier ones."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Insert, Replace
from tidegate.core.errors import BadEdit, BadInput, BadPolicy
from tidegate.core.event_check import find_impossible_value, is_possible_count, is_possible_time
from tidegate.core.events import (
    Event,
    EventPayload,
    MessageAdded,
    UsageReported,
    ViewEdited,
    decode_event,
    encode_event,
)
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Message, Text, resolve_visibility
from tidegate.core.notes import ModelNote, RecordsLost, SystemSet, ToolsSet, is_note
from tidegate.core.stages.repair import repair_view
from tidegate.core.text.plural import format_count
from tidegate.core.tokens.counting import TokenEstimator, count_message, fits_its_length
from tidegate.core.view import LogView, RefoldNeeded, View
from tidegate.datafolder.archive.recount import EventRecounter
from tidegate.session.request import parse_model_note
from tidegate.store.blobs import Blobs
from tidegate.store.errors import DamagedData
from tidegate.store.log import Log
from tidegate.store.session_log import parse_blob_reference
from tidegate.store.store import Store
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.request import RequestRenderer

FAR = 4
"""A stored token count this many times below our own count is wrong with any counter."""
_MAX_REFOLDS = 100
"""The most undos that are replayed exactly, because each folds the log again from the start."""


class RecordFault(NamedTuple):
    """A range of damaged records. `raw` is the record if it is complete.

    A fault with `is_repairable` false may be valid in another version, or its extent is not known; it stays as it is.
    """

    first: int
    last: int
    reason: str
    raw: bytes = b""
    blob_hash: str = ""
    is_repairable: bool = True


class LogSurvey(NamedTuple):
    """`shas` are the blobs that the records refer to, as far as these can be read."""

    head: int
    faults: list[RecordFault]
    blob_hashes: set[str]


def survey_log(store: Store, blobs: Blobs | None, session: str) -> LogSurvey:
    """Read every record, continuing after each damaged one. Always terminates."""
    survey = LogSurvey(store.head(session), [], set())
    start = 1
    while start <= survey.head:
        try:
            for seq, record in enumerate(islice(store.read(session, start), survey.head - start + 1), start):
                start = seq + 1
                fault = _check_record(seq, record, blobs, survey.blob_hashes)
                if fault is not None:
                    survey.faults.append(fault)
        except DamagedData as damage:
            is_known = damage.first_record >= start and damage.last_record >= damage.first_record
            last = min(damage.last_record, survey.head) if is_known else survey.head
            survey.faults.append(
                RecordFault(damage.first_record if is_known else start, last, damage.args[0], is_repairable=is_known)
            )
            start = last + 1
        else:
            if start <= survey.head:
                survey.faults.append(RecordFault(start, survey.head, "The log ends before them.", is_repairable=False))
            break
    return survey


def _check_record(seq: int, record: bytes, blobs: Blobs | None, shas: set[str]) -> RecordFault | None:
    sha = parse_blob_reference(record) or ""
    content = record
    if sha:
        shas.add(sha)
        if blobs is None:
            return RecordFault(seq, seq, f"It is in the blob {sha}, and this store has no blobs.", is_repairable=False)
        try:
            content = blobs.get(sha)
        except DamagedData as damage:
            return RecordFault(seq, seq, damage.args[0], record, sha)
    try:
        event = decode_event(content)
    except (msgspec.DecodeError, UnicodeError) as fault:
        if _looks_like_event(seq, content):
            return RecordFault(
                seq, seq, f"It is an event that this version does not know: {fault}.", is_repairable=False
            )
        return RecordFault(seq, seq, f"It is not an event: {fault}.", content)
    return None if event.seq == seq else RecordFault(seq, seq, f"It calls itself event {event.seq}.", content)


def _looks_like_event(seq: int, content: bytes) -> bool:
    """Return whether this could be an event of a newer version, which is not damage."""
    try:
        value = msgspec.msgpack.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return False
    match value:
        case [int() as its_seq, float(), [str(), *_], *_]:
            return its_seq == seq
        case _:
            return False


def encode_lost_record(seq: int, time: float, fault: RecordFault) -> bytes:
    """Encode the placeholder for a lost record."""
    return encode_event(Event(seq, time, RecordsLost(f"records {fault.first} to {fault.last} were damaged").pack()))


# --- impossible values
# ---------------------------------------------------------------------------------------------------


class Wrong(NamedTuple):
    """A record with an impossible value: why, and the same event corrected."""

    why: str
    right: Event


def impossible_values(log: Log) -> dict[int, Wrong]:
    """Return impossible records by seq. A token count is wrong only if it is far too low, because counters differ."""
    values: dict[int, Wrong] = {}
    model_note, time = "", 0.0
    for event in log.read():
        what = event.payload
        if is_note(what, ModelNote):
            model_note = what.text
        why = find_impossible_value(event) or _find_wrong_count(what)
        time = event.time if is_possible_time(event.time) else time
        if why:
            values[event.seq] = Wrong(why, _correct_values(EventRecounter(model_note).event(event), time))
    return values


def _find_wrong_count(what: EventPayload) -> str:
    for tokens, message in _list_counts(what):
        if not is_possible_count(tokens):
            return f"a message is counted as {tokens} tokens"
        if not fits_its_length(tokens, message):
            again = count_message(message, TokenEstimator())
            if FAR * tokens < again:
                return f"a message of about {again:,} tokens is counted as {tokens:,}"
    return ""


def _list_counts(what: EventPayload) -> Iterator[tuple[int, Message]]:
    """Yield the token counts of an event, each with its message."""
    if isinstance(what, MessageAdded):
        visible = resolve_visibility(what.message)
        if visible is not None:
            yield what.tokens, visible
    elif isinstance(what, ViewEdited):
        for edit in what.edits:
            if isinstance(edit, Replace):
                yield edit.tokens, Message("user", edit.parts)
            elif isinstance(edit, Insert):
                yield edit.tokens, edit.message
    elif is_note(what, SystemSet, ToolsSet):
        yield what.tokens, Message("user", (Text(what.text),))


def _correct_values(event: Event, time: float) -> Event:
    """Return the event with the given time and without impossible reported values."""
    what = event.payload
    if not is_possible_time(event.time):
        event = msgspec.structs.replace(event, time=time)
    if isinstance(what, MessageAdded):
        what = msgspec.structs.replace(what, message=msgspec.structs.replace(what.message, id=f"m{event.seq}"))
        event = msgspec.structs.replace(event, payload=what)
    if not find_impossible_value(event):
        return event
    if isinstance(what, UsageReported):
        head = what.log_head if 0 <= what.log_head < event.seq else 0
        return msgspec.structs.replace(event, payload=UsageReported(what.model, head, 0, 0))
    if isinstance(what, ViewEdited):
        event = msgspec.structs.replace(event, payload=msgspec.structs.replace(what, tokens_before=0, tokens_after=0))
        if not find_impossible_value(event):
            return event
    return msgspec.structs.replace(event, payload=RecordsLost("its numbers cannot be").pack())


# --- consistency -------------------------------------------------------------------------------------------


class LogCheck(NamedTuple):
    """The view at the end of the log, and the events whose edits were not valid for the view at that point."""

    view: LogView | None
    unlawful_seqs: list[int]
    failed_seq: int = 0


def check_log(log: Log) -> LogCheck:
    view = LogView()
    unlawful: list[int] = []
    refolds = 0
    event: Event | None = None
    try:
        for event in log.read():
            if (
                isinstance(event.payload, ViewEdited)
                and refolds <= _MAX_REFOLDS
                and not _is_lawful(view, event.payload)
            ):
                unlawful.append(event.seq)
            try:
                view.fold(event)
            except RefoldNeeded:
                refolds += 1
                if refolds <= _MAX_REFOLDS:
                    view = _fold_up_to(log, event.seq)
        return LogCheck(view if refolds <= _MAX_REFOLDS else fold_log(log.read), unlawful)
    except DamagedData:
        raise
    except Exception:  # noqa: BLE001 - whatever it is: this log does not open, and the others are still to be looked at
        return LogCheck(None, unlawful, event.seq if event else 0)


def _fold_up_to(log: Log, seq: int) -> LogView:
    return fold_log(lambda: islice(log.read(), seq))


def _is_lawful(view: View, edited: ViewEdited) -> bool:
    try:
        check_edits(view, edited.edits, may_touch_newest=edited.stage == "guard")
    except BadEdit:
        return False
    return True


def find_request_faults(view: LogView) -> Iterator[str]:
    """Yield what the provider would refuse in the next request after open and orphaned calls are repaired."""
    outcome = repair_view(view)
    if outcome.edits:
        edits = tuple(
            msgspec.structs.replace(edit, message=msgspec.structs.replace(edit.message, id=f"e{view.head + 1}.{place}"))
            if isinstance(edit, Insert)
            else edit
            for place, edit in enumerate(outcome.edits)
        )
        check_edits(view, edits)
        view.fold(Event(view.head + 1, 0.0, ViewEdited("repair", "tool_result", "", outcome.why, 0, 0, edits)))
    if view.orphans or view.unanswered:
        waiting = format_count(len(view.unanswered), "message")
        yield f"Without a call: {format_count(len(view.orphans), 'result')}. Without a result: {waiting}."
    note = parse_model_note(view.model_note)
    try:
        dialect = resolve_dialect(note.wire, note.model)
    except (BadInput, BadPolicy):
        dialect = resolve_dialect("", "")
    rendering = RequestRenderer(dialect, model=note.model)
    rendering.update(view)
    for fault in rendering.faults():
        yield f"{fault.rule}: {fault.text}"
