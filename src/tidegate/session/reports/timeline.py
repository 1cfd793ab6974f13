"""The edits of a session's view, newest first: each with its reason, what it removed, what it cost and saved.

The log is read backwards, only as far as needed.
"""

import copy
import math
from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.edits import Drop, Replace
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.notes import CompactionStarted, EditRedone, EditUndone, SideCost, ViewCleared, is_note, read_note
from tidegate.core.tokens.counting import is_plausible_report
from tidegate.models.catalog import ModelInfo, compute_model_cost
from tidegate.session.costs import usage_or_estimate
from tidegate.session.reports.changes import Change, read_change
from tidegate.store.log import LogReader

_MAX_ENTRIES: Final = 50
MAX_SCANNED_EVENTS: Final = 8_192
"""The number of entries of a page, and of events read for it, at most."""

_BLOCK_EVENTS: Final = 256


class TimelineEntry(msgspec.Struct):
    """A change with the messages that it touched, and what it cost and saved.

    `summary_tokens` is what writing its summary cost. `lost_cache_tokens` is how much less the next request read from
    the provider's cache than the previous one. `calls_affected` are the requests until the next compaction while the
    edit was in effect, and `saved_tokens` what they did not read; beyond the next compaction the savings cannot be
    known. Dollars are None if the price is not known.
    """

    change: Change
    removed_ids: tuple[str, ...] = ()
    shortened_ids: tuple[str, ...] = ()
    summary_tokens: int = 0
    summary_dollars: float | None = None
    lost_cache_tokens: int = 0
    calls_affected: int = 0
    saved_tokens: int = 0
    saved_dollars: float | None = None

    @property
    def is_compaction(self) -> bool:
        return self.change.tokens_before > self.change.tokens_after


class _RequestSums(msgspec.Struct, frozen=True):
    """Sums over requests: their number, and the provider tokens and dollars per counted token."""

    calls: int = 0
    tokens: float = 0.0
    dollars: float = 0.0

    def plus(self, other: "_RequestSums", sign: int = 1) -> "_RequestSums":
        return _RequestSums(
            self.calls + sign * other.calls, self.tokens + sign * other.tokens, self.dollars + sign * other.dollars
        )


class _LaterState(msgspec.Struct):
    """State of the backward scan: the requests up to the next compaction, and which edits were undone when.

    `lost` are the requests in which an edit was not in effect; `redone` are the sums at the point where it was redone.
    """

    sums: _RequestSums = _RequestSums()
    next_usage: UsageReported | None = None
    undo_state: dict[int, str] = {}
    redone: dict[int, _RequestSums] = {}
    lost: dict[int, _RequestSums] = {}

    def reset(self) -> None:
        self.sums, self.redone, self.lost = _RequestSums(), {}, {}


class TimelineCursor(msgspec.Struct, frozen=True):
    """The end of a page and the state of the scan there; pass it to `read_timeline` to continue."""

    seq: int
    state: _LaterState


class Timeline(msgspec.Struct, frozen=True):
    """A page of entries. `next_page` is None at the beginning of the log."""

    entries: tuple[TimelineEntry, ...]
    next_page: TimelineCursor | None = None


def read_timeline(
    log: LogReader,
    *,
    before: TimelineCursor | None = None,
    max_entries: int = _MAX_ENTRIES,
    model_overrides: Mapping[str, ModelInfo] | None = None,
) -> Timeline:
    """Read the newest entries, or those before a cursor: about `max_entries`, fewer where they are far apart."""
    walk = _BackwardReader(_LaterState() if before is None else copy.deepcopy(before.state), model_overrides)
    end = log.head if before is None else before.seq - 1
    last = max(0, end - MAX_SCANNED_EVENTS)
    while end > last and (len(walk.entries) < max_entries or walk.is_incomplete):
        start = max(last, end - _BLOCK_EVENTS)
        for event in reversed(list(islice(log.read(start + 1), end - start))):
            walk.add_event(event)
            end = event.seq - 1
            if len(walk.entries) >= max_entries and not walk.is_incomplete:
                break
    return Timeline(tuple(walk.entries), TimelineCursor(end + 1, walk.state) if end > 0 else None)


class _BackwardReader:
    """Builds entries from events given newest first. `is_incomplete`: events that complete an entry's cost are still to
    come.
    """

    def __init__(self, since: _LaterState, prices: Mapping[str, ModelInfo] | None) -> None:
        self.entries: list[TimelineEntry] = []
        self.state = since
        self._prices = prices
        self._writing: TimelineEntry | None = None
        self._rereading: list[TimelineEntry] = []

    @property
    def is_incomplete(self) -> bool:
        return self._writing is not None or bool(self._rereading)

    def add_event(self, event: Event) -> None:
        what = event.payload
        self._rereading = [entry for entry in self._rereading if event.seq > entry.change.seq - _BLOCK_EVENTS]
        if isinstance(what, UsageReported):
            self._add_usage(what)
        elif isinstance(what, MessageAdded):
            self._writing = None
        elif isinstance(what, NoteAdded):
            self._add_note(what)
        change = read_change(event, is_undone=self.state.undo_state.get(event.seq) == "undo")
        if change is not None:
            self.entries.append(TimelineEntry(change))
        if isinstance(what, ViewEdited):
            self._complete_edit(self.entries[-1], what)

    def _complete_edit(self, entry: TimelineEntry, what: ViewEdited) -> None:
        edits = what.edits
        entry.removed_ids = tuple(ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids)
        entry.shortened_ids = tuple(edit.id for edit in edits if isinstance(edit, Replace))
        self._writing = entry
        if not entry.is_compaction:
            return
        sums = self.state.sums.plus(self.state.lost.get(entry.change.seq, _RequestSums()), -1)
        entry.calls_affected, entry.saved_tokens = (
            sums.calls,
            round((what.tokens_before - what.tokens_after) * sums.tokens),
        )
        if sums.calls and not math.isnan(sums.dollars):
            entry.saved_dollars = (what.tokens_before - what.tokens_after) * sums.dollars
        if self.state.next_usage is not None:
            self._rereading.append(entry)
        if not entry.change.is_undone:
            self.state.reset()

    def _add_usage(self, report: UsageReported) -> None:
        for entry in self._rereading:
            later = self.state.next_usage
            entry.lost_cache_tokens = max(0, report.cache_read - later.cache_read) if later is not None else 0
        self._rereading = []
        usage = usage_or_estimate(report)._replace(output_tokens=0)
        cost = compute_model_cost(usage, report.model, self._prices)
        ratio = (
            report.input_tokens / report.counted_tokens
            if is_plausible_report(report.counted_tokens, report.input_tokens)
            else 1.0
        )
        price = cost.total / usage.input_tokens if cost is not None and usage.input_tokens else math.nan
        self.state.sums = self.state.sums.plus(_RequestSums(1, ratio, ratio * price))
        self.state.next_usage = report

    def _add_note(self, note: NoteAdded) -> None:
        if is_note(note, CompactionStarted):
            self._writing = None
        elif self._writing is not None and (cost := read_note(note, SideCost)) is not None:
            self._add_side_cost(self._writing, cost)
        elif (toggle := read_note(note, EditUndone) or read_note(note, EditRedone)) is not None:
            self._note_toggle(toggle)
        elif is_note(note, ViewCleared):
            self.state.reset()

    def _note_toggle(self, toggle: EditUndone | EditRedone) -> None:
        since, seq = self.state, toggle.edit
        since.undo_state.setdefault(seq, toggle.topic)
        if isinstance(toggle, EditRedone):
            since.redone[seq] = since.sums
        else:
            sums = since.sums.plus(since.redone.pop(seq, _RequestSums()), -1)
            since.lost[seq] = since.lost.get(seq, _RequestSums()).plus(sums)

    def _add_side_cost(self, entry: TimelineEntry, side_cost: SideCost) -> None:
        entry.summary_tokens += side_cost.usage.input_tokens + side_cost.usage.output_tokens
        cost = compute_model_cost(side_cost.usage, side_cost.model, self._prices)
        if cost is not None:
            entry.summary_dollars = (entry.summary_dollars or 0.0) + cost.total
