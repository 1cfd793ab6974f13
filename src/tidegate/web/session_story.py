"""Reads the log of a session for its page: how full the window was, each request, each change of the view.

The log is folded once and rendered on the way, so each request is exactly what was sent, at the cost of what changed.
Sizes are the provider's tokens if it reported them; the categories are scaled to that sum.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.budget import make_budget, measure_request
from tidegate.core.edits import EditIndex
from tidegate.core.events import Event, EventPayload, NoteAdded, ViewEdited
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.core.view import RefoldNeeded, View, fold_log
from tidegate.models.catalog import ModelInfo, find_window
from tidegate.session.request import ModelNote, parse_model_note
from tidegate.store.log import Log
from tidegate.web.category_shares import CategoryCounter, scale_counts
from tidegate.web.request_history import RequestHistory, RequestRecord, SideSpending, read_request_history
from tidegate.web.text_pool import TextPool
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.rendering.request import RequestRenderer

_MAX_REQUESTS: Final = 10_000
MAX_LISTED_CHANGES: Final = 4_000
MAX_CHART_POINTS: Final = 1_500
_LISTED_TOPICS: Final = ("undo", "redo", "clear", "forgotten", "overflow")


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
    its text is left out."""

    request: RequestRecord
    model: str
    dialect_name: str
    total: int
    category_tokens: list[int]
    message_count: int
    window: int
    state: int


class ViewChange(msgspec.Struct, frozen=True):
    """An edit of the view, or a note that changed it.

    `before` and `after` are our own token counts of the history, from the log; `full` and `left` are the size of a
    request in the provider's tokens. `was` and `now` are indexes of states.
    """

    seq: int
    time: float
    what: str
    moment: str
    rule: str
    why: str
    before: int
    after: int
    full: int
    left: int
    dropped: int
    replaced: int
    inserted: int
    undone: bool
    was: int
    now: int


class SessionStory(msgspec.Struct, frozen=True):
    head: int
    rows: list[RequestRow]
    changes: list[ViewChange]
    states: list[RequestState]
    pool: TextPool
    side_spending: SideSpending
    omissions: list[str]


def read_session_story(
    log: Log,
    mask: Callable[[str], str],
    *,
    window: int = 0,
    model_overrides: Mapping[str, ModelInfo] | None = None,
    max_requests: int = _MAX_REQUESTS,
) -> SessionStory:
    """Read the story. `window` overrides the log and the catalog; the newest `max_requests` keep their texts."""
    return _StoryReader(
        log, mask, read_request_history(log, model_overrides), window, model_overrides, max_requests
    ).tell()


class _ModelWindow(msgspec.Struct, frozen=True):
    """The part of the note `model` that holds the window, if it was recorded."""

    window: int = 0


class _StoryReader:
    def __init__(
        self,
        log: Log,
        mask: Callable[[str], str],
        asked: RequestHistory,
        window: int,
        prices: Mapping[str, ModelInfo] | None,
        most: int,
    ) -> None:
        self._log = log
        self._mask = mask
        self._asked = asked
        self._given = window
        self._prices = prices
        self._view = View()
        self._shares = CategoryCounter()
        self._rendering: RequestRenderer | None = None
        self._sent = ModelNote()
        self._window = 0
        self._note: str | None = None
        self._pool = TextPool(mask)
        self._states: list[RequestState] = []
        self._last: list[int] = []
        self._rows: list[RequestRow] = []
        self._changes: list[ViewChange] = []
        self._older = 0
        self._by_head: dict[int, list[RequestRecord]] = defaultdict(list)
        for each in asked.requests:
            self._by_head[each.head].append(each)
        recent = asked.requests[-most:]
        self._from = recent[0].head if len(recent) < len(asked.requests) else 0

    def tell(self) -> SessionStory:
        undone: set[int] = set()
        changes = 0
        for event in self._log.read():
            what = event.payload
            changes += _is_change(what)
            if isinstance(what, NoteAdded) and what.topic in ("undo", "redo"):
                (undone.add if what.topic == "undo" else undone.discard)(what.edit)
        self._older = max(0, changes - MAX_LISTED_CHANGES)
        self._at_head(Event(0, 0.0, NoteAdded("")))
        for event in self._log.read():
            self._take(event, undone)
        return SessionStory(
            self._log.head,
            self._rows,
            self._changes,
            self._states,
            self._pool,
            self._asked.side_spending,
            self._left_out(),
        )

    def _take(self, event: Event, undone: set[int]) -> None:
        what = event.payload
        told = _is_change(what)
        shown = told and event.seq >= self._from and len(self._changes) >= self._older
        was, full = (self._state() if shown else -1), (self._measure() if told else 0)
        before = self._view.tokens
        self._fold(event)
        self._follow_model()
        now = self._state() if shown else -1
        if isinstance(what, ViewEdited):
            self._edited(event, what, full, event.seq in undone, was, now)
        elif isinstance(what, NoteAdded) and told:
            edited = ViewEdited(what.topic, "", "", what.text, before, self._view.tokens, ())
            self._edited(event, edited, full, False, was, now)
        self._at_head(event)

    def _fold(self, event: Event) -> None:
        try:
            self._view.fold(event)
        except RefoldNeeded:
            self._view = fold_log(lambda: islice(self._log.read(), event.seq))

    def _follow_model(self) -> None:
        if self._view.model_note == self._note:
            return
        self._note = self._view.model_note
        self._sent, self._rendering = parse_model_note(self._note), None
        try:
            noted = msgspec.json.decode(self._note, type=_ModelWindow).window
        except (msgspec.DecodeError, UnicodeError):
            noted = 0
        self._window = self._given or noted or find_window(self._sent.model, self._prices) or 0

    def _edited(self, event: Event, what: ViewEdited, full: int, undone: bool, was: int, now: int) -> None:
        changes = EditIndex(what.edits)
        self._changes.append(
            ViewChange(
                event.seq,
                event.time,
                what.stage,
                what.moment,
                self._mask(what.rule),
                self._mask(what.why),
                what.tokens_before,
                what.tokens_after,
                full,
                self._measure(),
                len(changes.dropped),
                len(changes.replaced),
                len(changes.inserts),
                undone,
                was,
                now,
            )
        )

    # --- sizes ----------------------------------------------------------------------------------------------------

    def _measure(self) -> int:
        budget = make_budget(self._view, window=None, reserve=0, counter=TokenEstimator(), model=self._sent.model)
        return measure_request(self._view, budget)

    def _at_head(self, event: Event) -> None:
        """Process the requests that were made when the log ended here."""
        for asked in self._by_head.get(event.seq, ()):
            used, counts = asked.used, self._shares.count_view(self._view)
            reported = used.input_tokens if used is not None else 0
            total = reported or self._measure()
            model = used.model if used is not None else self._sent.model
            state = self._state() if event.seq >= self._from else -1
            parts, messages = scale_counts(counts, total), self._view.message_count
            window = self._window or find_window(model, self._prices) or 0
            self._rows.append(RequestRow(asked, model, self._wire(), total, parts, messages, window, state))

    # --- requests -------------------------------------------------------------------------------------------------

    def _wire(self) -> str:
        return resolve_dialect(self._sent.wire, self._sent.model).name

    def _state(self) -> int:
        if self._rendering is None:
            sent = self._sent
            self._rendering = RequestRenderer(
                resolve_dialect(sent.wire, sent.model),
                model=sent.model,
                max_tokens=sent.max_tokens,
                temperature=sent.temperature,
                top_p=sent.top_p,
            )
        self._rendering.update(self._view)
        rendered = self._rendering.freeze()
        places = self._pool.add_all(chunk[1:] for chunk in rendered.chunks)
        head = self._pool.add(rendered.head_bytes)
        self._states.append(_encode_state(head, rendered.key, self._last, places))
        self._last = places
        return len(self._states) - 1

    def _left_out(self) -> list[str]:
        lines = []
        shown = sum(row.state >= 0 for row in self._rows)
        if shown < len(self._rows):
            lines.append(
                f"Only the newest {shown:,} of {len(self._rows):,} requests can be opened here;"
                " the figures are those of all."
            )
        return lines


def _is_change(what: EventPayload) -> bool:
    return isinstance(what, ViewEdited) or (isinstance(what, NoteAdded) and what.topic in _LISTED_TOPICS)


def _encode_state(head: int, key: str, before: list[int], after: list[int]) -> RequestState:
    least = min(len(before), len(after))
    kept = next((place for place in range(least) if before[place] != after[place]), least)
    tail = 0
    while tail < least - kept and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return RequestState(head, key, kept, after[kept : len(after) - tail], tail)


def thin_rows(rows: list[RequestRow], most: int) -> list[RequestRow]:
    """Return about `most` rows: of each stretch the fullest and the last, so that peaks and drops stay."""
    if len(rows) <= most:
        return rows
    stretch = math.ceil(len(rows) / (most / 2))
    kept: list[RequestRow] = []
    for start in range(0, len(rows), stretch):
        part = rows[start : start + stretch]
        top = max(part, key=lambda row: row.total)
        kept += [part[-1]] if top is part[-1] else [top, part[-1]]
    return kept
