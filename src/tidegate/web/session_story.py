"""Reads the log of a session for its page: how full the window was, each request, each change of the view.

The log is folded once and rendered on the way, so each request is exactly what was sent, at the cost of what changed.
Sizes are the provider's tokens if it reported them; the categories are scaled to that sum.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.events import Event, EventPayload, MessageAdded
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import result_of
from tidegate.core.notes import (
    Denial,
    EventLeftOut,
    ModelNote,
    StateNote,
    is_note,
    read_note,
)
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.view import LogView, RefoldNeeded
from tidegate.models.catalog import ModelInfo, find_window
from tidegate.session.reports.changes import Change, follow_undo, is_change, measure_view, read_change
from tidegate.session.reports.state_note_report import NoteParts, split_note
from tidegate.session.request import parse_model_note
from tidegate.session.shared_timeline import SharedTimeline
from tidegate.store.log import Log
from tidegate.web.category_shares import CategoryCounter, scale_counts
from tidegate.web.live.message_json import describe_event
from tidegate.web.request_history import RequestHistory, RequestRecord, SideSpending, read_request_history
from tidegate.web.text_pool import TextPool
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.request import RequestRenderer

_MAX_REQUESTS: Final = 10_000
MAX_LISTED_CHANGES: Final = 4_000
MAX_CHART_POINTS: Final = 1_500
_MAX_SOURCES: Final = 100
"""Messages that a state note cites, whose texts the page has for it."""


class RequestState(msgspec.Struct, frozen=True, array_like=True):
    """A request by its parts in the pool: `key` is what precedes the messages, the rest a change of the state before.

    The first `kept` messages of the state before stay, then come the `added`, then its last `tail`. In the page it is
    an array.
    """

    head: int
    key: str
    kept: int
    added: list[int]
    tail: int


class RequestRow(msgspec.Struct, frozen=True):
    """A request with its figures. `total` is its size as reported, else as measured; `window` 0: not known; `state` -1:
    its text is left out. `client` made it, if the session has several."""

    request: RequestRecord
    model: str
    dialect_name: str
    total: int
    category_tokens: list[int]
    message_count: int
    window: int
    state: int
    client: str


class ChangeComparison(msgspec.Struct, frozen=True):
    """What was sent `before` and `after` a change, as indexes of states; -1: the texts are left out.

    Of a state note, `note` are the parts, and `sources` the indexes of the texts of messages that it cites.
    """

    before: int
    after: int
    note: NoteParts | None = None
    sources: dict[str, int] = {}


class SessionStory(msgspec.Struct, frozen=True):
    """`comparisons` are those of the `changes`, in the same order."""

    head: int
    rows: list[RequestRow]
    changes: list[Change]
    comparisons: list[ChangeComparison]
    states: list[RequestState]
    pool: TextPool
    side_spending: SideSpending
    omissions: list[str]
    denials: list[tuple[str, str]]


def read_session_story(
    log: Log,
    mask: Callable[[str], str],
    *,
    name: str = "",
    window: int = 0,
    model_overrides: Mapping[str, ModelInfo] | None = None,
    max_requests: int = _MAX_REQUESTS,
) -> SessionStory:
    """Read the story. `window` overrides the log and the catalog; the newest `max_requests` keep their texts."""
    history, timeline = read_request_history(log, model_overrides), SharedTimeline(log.read(), name)
    return _StoryReader(log, mask, history, timeline, window, model_overrides, max_requests).read()


class _ModelWindow(msgspec.Struct, frozen=True):
    """The part of the note `model` that holds the window, if it was recorded."""

    window: int = 0


class _StoryReader:
    def __init__(
        self,
        log: Log,
        mask: Callable[[str], str],
        history: RequestHistory,
        timeline: SharedTimeline,
        window: int,
        model_overrides: Mapping[str, ModelInfo] | None,
        max_requests: int,
    ) -> None:
        self._log = log
        self._mask = mask
        self._history = history
        self._timeline = timeline
        self._window_override = window
        self._model_overrides = model_overrides
        self._view = LogView()
        self._category_counter = CategoryCounter()
        self._renderer: RequestRenderer | None = None
        self._model = ModelNote()
        self._window = 0
        self._model_note: str | None = None
        self._pool = TextPool(mask)
        self._states: list[RequestState] = []
        self._last_indexes: list[int] = []
        self._rows: list[RequestRow] = []
        self._changes: list[Change] = []
        self._comparisons: list[ChangeComparison] = []
        self._unlisted_count = 0
        self._requests_by_head: dict[int, list[RequestRecord]] = defaultdict(list)
        for each in history.requests:
            self._requests_by_head[each.head].append(each)
        recent = history.requests[-max_requests:]
        self._first_open_head = recent[0].head if len(recent) < len(history.requests) else 0

    def read(self) -> SessionStory:
        undone_edits: set[int] = set()
        denials = DenialIndex()
        changes = 0
        for event in self._log.read():
            payload = event.payload
            denials.feed(payload)
            changes += is_change(payload)
            follow_undo(undone_edits, payload)
        self._unlisted_count = max(0, changes - MAX_LISTED_CHANGES)
        self._add_requests_at(Event(0, 0.0, EventLeftOut().pack()))
        for event in self._log.read():
            self._process_event(event, undone_edits)
        return SessionStory(
            self._log.head,
            self._rows,
            self._changes,
            self._comparisons,
            self._states,
            self._pool,
            self._history.side_spending,
            self._list_omissions(),
            [(call_id, self._mask(by)) for call_id, by in denials.list_denials()],
        )

    def _process_event(self, event: Event, undone_edits: set[int]) -> None:
        if is_change(event.payload):
            self._add_change(event, is_undone=event.seq in undone_edits)
        else:
            self._fold(event)
        self._add_requests_at(event)

    def _add_change(self, event: Event, *, is_undone: bool) -> None:
        is_listed = event.seq >= self._first_open_head and len(self._changes) >= self._unlisted_count
        state_before = self._add_state() if is_listed else -1
        before, note = measure_view(self._view, self._model.model), self._view.state_note
        self._fold(event)
        after = measure_view(self._view, self._model.model)
        change = read_change(event, before, after, is_undone=is_undone, is_brief=True)
        assert change is not None, "the caller has checked the event"
        self._changes.append(change.mask_texts(self._mask))
        state_after = self._add_state() if is_listed else -1
        parts = self._split_note(event, note) if is_listed else None
        sources = self._add_sources(parts.list_sources()[:_MAX_SOURCES]) if parts is not None else {}
        self._comparisons.append(ChangeComparison(state_before, state_after, parts, sources))

    def _split_note(self, event: Event, previous: str) -> NoteParts | None:
        what = event.payload
        return split_note(what.text, previous, self._mask) if is_note(what, StateNote) else None

    def _add_sources(self, ids: Sequence[str]) -> dict[str, int]:
        """Keep the texts of these messages for the page."""
        sources: dict[str, int] = {}
        for ident in ids:
            event = next(iter(self._log.read(seq_of_id(ident))), None) if ident[:1] == "m" else None
            described = describe_event(event) if event is not None else None
            if described is not None:
                sources[ident] = self._pool.add(msgspec.json.encode(described))
        return sources

    def _fold(self, event: Event) -> None:
        try:
            self._view.fold(event)
        except RefoldNeeded:
            self._view = fold_log(lambda: islice(self._log.read(), event.seq))
        self._follow_model()

    def _follow_model(self) -> None:
        if self._view.model_note == self._model_note:
            return
        self._model_note = self._view.model_note
        self._model, self._renderer = parse_model_note(self._model_note), None
        try:
            window = msgspec.json.decode(self._model_note, type=_ModelWindow).window
        except (msgspec.DecodeError, UnicodeError):
            window = 0
        self._window = self._window_override or window or find_window(self._model.model, self._model_overrides) or 0

    def _add_requests_at(self, event: Event) -> None:
        """Process the requests that were made when the log ended here."""
        for request in self._requests_by_head.get(event.seq, ()):
            report, counts = request.used, self._category_counter.count_view(self._view)
            reported = report.input_tokens if report is not None else 0
            total = reported or measure_view(self._view, self._model.model).request
            model = report.model if report is not None else self._model.model
            state = self._add_state() if event.seq >= self._first_open_head else -1
            parts, messages = scale_counts(counts, total), self._view.message_count
            window = self._window or find_window(model, self._model_overrides) or 0
            dialect, client = self._get_dialect_name(), self._mask(self._timeline.name_speaker(request.head))
            self._rows.append(RequestRow(request, model, dialect, total, parts, messages, window, state, client))

    # --- requests -------------------------------------------------------------------------------------------------

    def _get_dialect_name(self) -> str:
        return resolve_dialect(self._model.wire, self._model.model).name

    def _add_state(self) -> int:
        if self._renderer is None:
            model = self._model
            self._renderer = RequestRenderer(
                resolve_dialect(model.wire, model.model),
                model=model.model,
                max_tokens=model.max_tokens,
                temperature=model.temperature,
                top_p=model.top_p,
                extra=model.extra,
            )
        self._renderer.update(self._view)
        parts = self._renderer.freeze()
        places = self._pool.add_all(chunk[1:] for chunk in parts.chunks)
        head = self._pool.add(parts.head_bytes)
        self._states.append(_encode_state(head, parts.key, self._last_indexes, places))
        self._last_indexes = places
        return len(self._states) - 1

    def _list_omissions(self) -> list[str]:
        lines = []
        visible_count = sum(row.state >= 0 for row in self._rows)
        if visible_count < len(self._rows):
            lines.append(
                f"Only the newest {visible_count:,} of {len(self._rows):,} requests can be opened here;"
                " the figures are those of all."
            )
        return lines


def _encode_state(head: int, key: str, before: list[int], after: list[int]) -> RequestState:
    least = min(len(before), len(after))
    common = next((place for place in range(least) if before[place] != after[place]), least)
    tail = 0
    while tail < least - common and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return RequestState(head, key, common, after[common : len(after) - tail], tail)


def thin_rows(rows: list[RequestRow], most: int) -> list[RequestRow]:
    """Return about `most` rows: of each stretch the fullest and the last, so that peaks and drops stay."""
    if len(rows) <= most:
        return rows
    stretch = math.ceil(len(rows) / (most / 2))
    request_rows: list[RequestRow] = []
    for start in range(0, len(rows), stretch):
        part = rows[start : start + stretch]
        top = max(part, key=lambda row: row.total)
        request_rows += [part[-1]] if top is part[-1] else [top, part[-1]]
    return request_rows


class DenialIndex:
    """Tool calls of a log that were denied and therefore not run, by their ids, and by whom or by which rule.

    A note before the result of the call says so. A result alone does not prove a denial: its text may come from a tool.
    An id that other calls have, too, is left out: it says nothing.
    """

    def __init__(self) -> None:
        self._denied_by: dict[str, str] = {}
        self._ran: set[str] = set()
        self._pending: dict[str, str] = {}

    def feed(self, payload: EventPayload) -> None:
        if (denial := read_note(payload, Denial)) is not None:
            self._pending[denial.call_id] = denial.by
        elif isinstance(payload, MessageAdded) and (result := result_of(payload.message)) is not None:
            by = self._pending.pop(result.call_id, "")
            if by and self._denied_by.get(result.call_id, by) == by:
                self._denied_by[result.call_id] = by
            else:
                self._ran.add(result.call_id)

    def list_denials(self) -> list[tuple[str, str]]:
        """Return pairs of a call id and who or what denied the call."""
        return [(call_id, by) for call_id, by in self._denied_by.items() if call_id not in self._ran]
