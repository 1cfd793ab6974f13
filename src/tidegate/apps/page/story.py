"""The story of a session, read from its log in one go: how full the window was, what was asked, what was taken out.

The log is folded once and rendered as it goes, so each request is what was sent then, at the price of what changed.
Sizes are the provider's tokens wherever it reported them; the shares of the categories are scaled to that sum.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import msgspec

from tidegate.apps.page.asked import Asked, Asking, Beside, asking
from tidegate.apps.page.pool import Pool
from tidegate.apps.page.shares import Shares, scaled
from tidegate.core.budget import make_budget, measure
from tidegate.core.edits import Changes
from tidegate.core.estimate import Estimate
from tidegate.core.events import Edited, Event, Noted, What
from tidegate.core.view import Undone, View, project
from tidegate.models.catalog import Model, window_of
from tidegate.session.past import SentAs, sent_as
from tidegate.store.log import Log
from tidegate.wire.rendering import Rendering
from tidegate.wire.tools import dialect_for

MOST_REQUESTS: Final = 10_000
MOST_CHANGES: Final = 4_000
MOST_POINTS: Final = 1_500
_TOLD: Final = ("undo", "redo", "clear", "forgotten", "overflow")


class State(msgspec.Struct, frozen=True):
    """A request by its parts in the pool: what goes before the messages, and these, told from the state before it.

    The first `kept` messages of the state before stay, then come the `added`, then its last `tail`.
    """

    head: int
    key: str
    kept: int
    added: list[int]
    tail: int


class Row(msgspec.Struct, frozen=True):
    """A request with its figures. `total` is what it weighed: as reported, else as measured. `window` 0: not known.
    `state` -1: its text is left out."""

    asked: Asked
    model: str
    wire: str
    total: int
    parts: list[int]
    messages: int
    window: int
    state: int


class Change(msgspec.Struct, frozen=True):
    """An edit of the view, or a note that moved it.

    `before` and `after` are our own count of the history, as the log has it; `full` and `left` what a request would
    have weighed, in the provider's tokens.
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


class Story(msgspec.Struct, frozen=True):
    head: int
    rows: list[Row]
    changes: list[Change]
    states: list[State]
    pool: Pool
    beside: Beside
    left_out: list[str]


def tell(
    log: Log,
    mask: Callable[[str], str],
    *,
    window: int = 0,
    prices: Mapping[str, Model] | None = None,
    most: int = MOST_REQUESTS,
) -> Story:
    """`window` stands above what the log and the catalog say; `most` requests, the newest, can be looked at."""
    return _Telling(log, mask, asking(log, prices), window, prices, most).tell()


class _Noted(msgspec.Struct, frozen=True):
    """Of the note `model`: the window that held, where it was written down."""

    window: int = 0


class _Telling:
    def __init__(
        self,
        log: Log,
        mask: Callable[[str], str],
        asked: Asking,
        window: int,
        prices: Mapping[str, Model] | None,
        most: int,
    ) -> None:
        self._log = log
        self._mask = mask
        self._asked = asked
        self._given = window
        self._prices = prices
        self._view = View()
        self._shares = Shares()
        self._rendering: Rendering | None = None
        self._sent = SentAs()
        self._window = 0
        self._note: str | None = None
        self._pool = Pool(mask)
        self._states: list[State] = []
        self._last: list[int] = []
        self._rows: list[Row] = []
        self._changes: list[Change] = []
        self._older = 0
        self._by_head: dict[int, list[Asked]] = defaultdict(list)
        for each in asked.requests:
            self._by_head[each.head].append(each)
        recent = asked.requests[-most:]
        self._from = recent[0].head if len(recent) < len(asked.requests) else 0

    def tell(self) -> Story:
        undone: set[int] = set()
        changes = 0
        for event in self._log.read():
            what = event.what
            changes += _is_change(what)
            if isinstance(what, Noted) and what.topic in ("undo", "redo"):
                (undone.add if what.topic == "undo" else undone.discard)(what.edit)
        self._older = max(0, changes - MOST_CHANGES)
        self._at_head(Event(0, 0.0, Noted("")))
        for event in self._log.read():
            self._take(event, undone)
        return Story(
            self._log.head,
            self._rows,
            self._changes,
            self._states,
            self._pool,
            self._asked.beside,
            self._left_out(),
        )

    def _take(self, event: Event, undone: set[int]) -> None:
        what = event.what
        told = _is_change(what)
        shown = told and event.seq >= self._from and len(self._changes) >= self._older
        was, full = (self._state() if shown else -1), (self._measure() if told else 0)
        before = self._view.tokens
        self._fold(event)
        self._follow_model()
        now = self._state() if shown else -1
        if isinstance(what, Edited):
            self._edited(event, what, full, event.seq in undone, was, now)
        elif isinstance(what, Noted) and told:
            edited = Edited(what.topic, "", "", what.text, before, self._view.tokens, ())
            self._edited(event, edited, full, False, was, now)
        self._at_head(event)

    def _fold(self, event: Event) -> None:
        try:
            self._view.fold(event)
        except Undone:
            self._view = project(lambda: islice(self._log.read(), event.seq))

    def _follow_model(self) -> None:
        if self._view.model_note == self._note:
            return
        self._note = self._view.model_note
        self._sent, self._rendering = sent_as(self._note), None
        try:
            noted = msgspec.json.decode(self._note, type=_Noted).window
        except (msgspec.DecodeError, UnicodeError):
            noted = 0
        self._window = self._given or noted or window_of(self._sent.model, self._prices) or 0

    def _edited(self, event: Event, what: Edited, full: int, undone: bool, was: int, now: int) -> None:
        changes = Changes(what.edits)
        self._changes.append(
            Change(
                event.seq,
                event.time,
                what.stage,
                what.moment,
                self._mask(what.rule),
                self._mask(what.why),
                what.before,
                what.after,
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
        budget = make_budget(self._view, window=None, reserve=0, counter=Estimate(), model=self._sent.model)
        return measure(self._view, budget)

    def _at_head(self, event: Event) -> None:
        """The requests that were made when the log ended here."""
        for asked in self._by_head.get(event.seq, ()):
            used, counts = asked.used, self._shares.follow(self._view)
            reported = used.input_tokens if used is not None else 0
            total = reported or self._measure()
            model = used.model if used is not None else self._sent.model
            state = self._state() if event.seq >= self._from else -1
            parts, messages = scaled(counts, total), self._view.messages
            window = self._window or window_of(model, self._prices) or 0
            self._rows.append(Row(asked, model, self._wire(), total, parts, messages, window, state))

    # --- requests -------------------------------------------------------------------------------------------------

    def _wire(self) -> str:
        return dialect_for(self._sent.wire, self._sent.model).name

    def _state(self) -> int:
        if self._rendering is None:
            sent = self._sent
            self._rendering = Rendering(
                dialect_for(sent.wire, sent.model),
                model=sent.model,
                max_tokens=sent.max_tokens,
                temperature=sent.temperature,
                top_p=sent.top_p,
            )
        self._rendering.update(self._view)
        rendered = self._rendering.rendered()
        places = self._pool.add_all(chunk[1:] for chunk in rendered.chunks)
        head = self._pool.add(rendered.head_bytes)
        self._states.append(_delta(head, rendered.key, self._last, places))
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


def _is_change(what: What) -> bool:
    return isinstance(what, Edited) or (isinstance(what, Noted) and what.topic in _TOLD)


def _delta(head: int, key: str, before: list[int], after: list[int]) -> State:
    least = min(len(before), len(after))
    kept = next((place for place in range(least) if before[place] != after[place]), least)
    tail = 0
    while tail < least - kept and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return State(head, key, kept, after[kept : len(after) - tail], tail)


def thinned(rows: list[Row], most: int) -> list[Row]:
    """At most about so many; of each stretch the fullest and the last, so that peaks and drops stay."""
    if len(rows) <= most:
        return rows
    stretch = math.ceil(len(rows) / (most / 2))
    kept: list[Row] = []
    for start in range(0, len(rows), stretch):
        part = rows[start : start + stretch]
        top = max(part, key=lambda row: row.total)
        kept += [part[-1]] if top is part[-1] else [top, part[-1]]
    return kept
