"""An index of one session: what the client had said and what was in the view, at each event of its log.

The log is read once; afterwards only the events that were added since. The index holds numbers of events, not
messages: a message is read from the log when it is shown. Messages that only the view has (shortened texts, summaries,
notes) are kept.

A *reference* names a message: a positive number is an event of the log, a negative one a message that the view has.
Lists of references only grow until something in them changes; then a new list begins. So the state at any event is the
beginning of one of these lists, and takes two numbers.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Literal

import msgspec

from tidegate.core.events import BranchStarted, Event, EventPayload, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.log_fold import fold_log, iterate_current_branch
from tidegate.core.messages import Message
from tidegate.core.notes import ContentForgotten, StateNote, is_note
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.core.view import Item, LogView, RefoldNeeded
from tidegate.models.catalog import ModelInfo
from tidegate.session.recall import EditStack
from tidegate.session.reports.cache_misses import CacheMiss, CacheReader
from tidegate.session.reports.changes import Change, follow_undo, is_change, measure_view, read_change
from tidegate.session.request import parse_model_note
from tidegate.session.shared_timeline import SharedTimeline
from tidegate.store.log import LogReader
from tidegate.web.category_shares import CategoryCounter, scale_counts
from tidegate.web.live.session_figures import ClientMessages, FiguresReader, FindWindow
from tidegate.web.request_history import RequestReader, RequestRecord

MAX_POINTS: Final = 400
"""Requests in the chart at most: of each stretch the fullest and the last."""
_EMPTY: Final[Sequence[int]] = ()


class ReferenceLists:
    """Lists that grow, and where each of them ended at each event."""

    def __init__(self) -> None:
        self._lists: list[list[int]] = [[]]
        self._list_at = array("I", [0])
        self._length_at = array("I", [0])

    def append(self, ref: int) -> None:
        self._lists[-1].append(ref)

    def restart(self, refs: Iterable[int]) -> None:
        self._lists.append(list(refs))

    def mark(self) -> None:
        """The next event was read."""
        self._list_at.append(len(self._lists) - 1)
        self._length_at.append(len(self._lists[-1]))

    def at(self, seq: int) -> Sequence[int]:
        if not 0 <= seq < len(self._list_at):
            return _EMPTY
        return self._lists[self._list_at[seq]][: self._length_at[seq]]


class Measured(msgspec.Struct, frozen=True, gc=False):
    """What was in the view when a request was made: from record `first`, which changed it, to record `last`.

    There is one for each request: like `RequestRecord`, it is not work for the garbage collector.
    """

    first: int
    last: int
    counts: tuple[int, ...]
    tokens: int
    messages: int
    model: str
    dialect: str
    window: int


class Stretch(msgspec.Struct, frozen=True):
    """Neighboring messages with the same fate. `pairs` are [before, after] references of changed messages."""

    state: Literal["kept", "gone", "come", "changed"]
    refs: list[int]
    pairs: list[tuple[int, int]]


class SessionIndex:
    """Reads a log. `update` reads what was added since; the other methods only look up.

    `totals` are the sums of the same session. They may have been read further than the index, for the list of sessions.
    """

    def __init__(
        self,
        totals: FiguresReader,
        find_window: FindWindow,
        prices: Mapping[str, ModelInfo] | None = None,
        name: str = "",
    ) -> None:
        self.head = 0
        self.timeline = SharedTimeline((), name)
        self.totals = totals
        self.requests = RequestReader(prices)
        self.misses: dict[int, CacheMiss] = {}
        """Of the provider's cache, by the record that the request was made from."""
        self._cache = CacheReader(prices)
        self.changes: list[Change] = []
        self.undone_edits: set[int] = set()
        self.edits = EditStack()
        self.note_before: dict[int, int] = {}
        """The state note before each one, by their events; 0 for the first one."""
        self.forgotten_at = 0
        """The event that says that content was removed from the log."""
        self._find_window = find_window
        self._view = LogView()
        self._prefix_seq = self._counted = 0
        self._client_messages = ClientMessages()
        self._said, self._shown = ReferenceLists(), ReferenceLists()
        self._fixed: list[tuple[int, int, int]] = [(0, 0, 0)]
        self._own: list[Message] = []
        self._own_place: dict[int, int] = {}
        self._measured: list[Measured] = []
        self._changed_seq = 0
        """The last record that changed what is sent: not a usage report, and not a note such as that of a turn."""
        self._categories = CategoryCounter()
        self._model_note = ""
        self._model = parse_model_note("")
        self._window = 0

    # --- reading --------------------------------------------------------------------------------------------------

    def update(self, log: LogReader, most: int) -> None:
        """Read at most `most` of the events after those that are known."""
        for event in islice(log.read(self.head + 1), most):
            self._read(event, log)

    def _read(self, event: Event, log: LogReader) -> None:
        what = event.payload
        self.head = event.seq
        if self._shows_request(what):
            self._measure(event.seq - 1)
        if event.seq > self.totals.head:
            self.totals.feed(event)
        self.requests.feed(event)
        self.timeline.feed((event,))
        cached = self._cache.feed(event)
        if cached is not None and cached.miss is not None:
            self.misses[cached.seq] = cached.miss
        if isinstance(what, UsageReported):  # neither the view nor what the client has said changes
            self._view.fold(event)
        elif is_change(what):
            self._add_change(event, log)
        elif isinstance(what, NoteAdded):
            self._fold_note(event, log)
        else:
            self._fold(event, log)
            self._changed_seq = event.seq
        self._said.mark()
        self._shown.mark()

    def _shows_request(self, what: EventPayload) -> bool:
        """Whether a request was made before this event, and what was in the view then is not measured yet."""
        if isinstance(what, UsageReported):
            return not self._measured or what.log_head > self._measured[-1].last
        return isinstance(what, MessageAdded) and what.message.role == "assistant"

    def _add_change(self, event: Event, log: LogReader) -> None:
        before, note_seq = measure_view(self._view, self._model.model), self._view.state_note_seq
        self._fold_note(event, log)
        what = event.payload
        if isinstance(what, ViewEdited):
            self._changed_seq = event.seq
        elif is_note(what, StateNote):
            self.note_before[event.seq] = note_seq
        elif is_note(what, ContentForgotten):
            self.forgotten_at = event.seq
        follow_undo(self.undone_edits, what)
        change = read_change(event, before, measure_view(self._view, self._model.model), is_brief=True)
        assert change is not None, "the caller has checked the event"
        self.changes.append(change)

    def _fold_note(self, event: Event, log: LogReader) -> None:
        """Fold an event that may leave the view as it is."""
        state = self._describe_view()
        self._fold(event, log)
        if self._describe_view() != state:
            self._changed_seq = event.seq

    def _fold(self, event: Event, log: LogReader) -> None:
        try:
            self._view.fold(event)
        except RefoldNeeded:
            self._view = fold_log(lambda: islice(log.read(), event.seq))
            self._prefix_seq = -1
        if isinstance(event.payload, BranchStarted):
            self.edits = EditStack()
            for each in iterate_current_branch(lambda: islice(log.read(), event.seq)):
                self.edits.feed(each)
        else:
            self.edits.feed(event)
        view = self._view
        if view.model_note != self._model_note:
            self._model_note, self._model = view.model_note, parse_model_note(view.model_note)
            self._window = self._find_window(self._model)
        _, system, tools = self._fixed[-1]
        if view.system_at != system or view.tools_at != tools:
            self._fixed.append((event.seq, view.system_at, view.tools_at))
        self._follow_said(event)
        self._follow_view()

    def _follow_said(self, event: Event) -> None:
        what, change = event.payload, self._client_messages.feed(event)
        if change > 0:
            self._said.append(event.seq)
        elif change < 0:
            self._said.restart(self._said.at(event.seq - 1)[:-1])
        elif isinstance(what, BranchStarted):
            self._said.restart(self._said.at(what.edit))

    def _follow_view(self) -> None:
        items = self._view.items
        if self._view.prefix_seq != self._prefix_seq or len(items) < self._counted:
            self._shown.restart(map(self._refer, items))
        else:
            for item in items[self._counted :]:
                self._shown.append(self._refer(item))
        self._prefix_seq, self._counted = self._view.prefix_seq, len(items)

    def _refer(self, item: Item) -> int:
        message = item.message
        seq = _seq_of(message.id)
        if seq and not item.edited and message.agent_visible:
            return seq
        place = self._own_place.get(id(message))
        if place is None:
            self._own.append(message)  # kept, so that its address stays its own
            place = self._own_place[id(message)] = len(self._own)
        return -place

    def _describe_view(self) -> tuple[object, ...]:
        view = self._view
        return len(view.items), view.tokens, view.prefix_seq, view.fixed_tokens, view.model_note

    def _measure(self, head: int) -> None:
        view = self._view
        self._measured.append(
            Measured(
                self._changed_seq,
                head,
                tuple(self._categories.count_view(view)),
                view.fixed_tokens + REQUEST_OVERHEAD + view.tokens,
                view.message_count,
                self._model.model,
                self._model.wire,
                self._window,
            )
        )

    # --- looking up -----------------------------------------------------------------------------------------------

    def measured(self, request: RequestRecord) -> Measured | None:
        """What was in the view for a request; None if the log does not say it."""
        place = bisect_left(self._measured, request.head, key=lambda each: each.last)
        measurement = self._measured[place] if place < len(self._measured) else None
        return measurement if measurement is not None and measurement.first <= request.head else None

    def total_of(self, request: RequestRecord) -> int:
        """The size of a request: as reported, else by our count."""
        report = request.used
        if report is not None and (reported := report.input_tokens or report.counted_tokens):
            return reported
        measurement = self.measured(request)
        return measurement.tokens if measurement else 0

    def parts_of(self, request: RequestRecord) -> list[int]:
        measurement = self.measured(request)
        return scale_counts(measurement.counts, self.total_of(request)) if measurement else []

    def fixed_at(self, seq: int) -> tuple[int, int]:
        """The events with the system prompt and the tools at an event; 0 for none."""
        _, system, tools = self._fixed[bisect_right(self._fixed, (seq, 1 << 62, 0)) - 1]
        return system, tools

    def compare_request(self, head: int) -> list[Stretch]:
        """From what the client had said to what was sent, when the log ended with `head`."""
        return self._compare(self._said.at(head), self._shown.at(head))

    def compare_change(self, seq: int) -> list[Stretch]:
        """From the view before an event to the view after it."""
        return self._compare(self._shown.at(seq - 1), self._shown.at(seq))

    def own_message(self, ref: int) -> Message | None:
        """A message that the view has, by its (negative) reference."""
        return self._own[-ref - 1] if 0 < -ref <= len(self._own) else None

    def _key(self, ref: int) -> int | str:
        """The message that one of the view stands for: the number of its event, or the id that the engine gave it."""
        ident = self._own[-ref - 1].id
        return _seq_of(ident) or ident

    def _compare(self, before: Sequence[int], after: Sequence[int]) -> list[Stretch]:
        """The fate of each message of `before`, in its order; messages that came in follow the one they come after."""
        keys = [ref if ref > 0 else self._key(ref) for ref in before]
        keys_before = set(keys)
        now: dict[int | str, int] = {}
        come: dict[int | str, list[int]] = {}
        last: int | str = ""
        for ref in after:
            key = ref if ref > 0 else self._key(ref)
            if key in keys_before:
                now[key], last = ref, key
            else:
                come.setdefault(last, []).append(ref)
        stretches: list[Stretch] = []
        _add_stretch(stretches, "come", come.get("", ()))
        for ref, key in zip(before, keys, strict=True):
            current = now.get(key)
            if current is None:
                _add_stretch(stretches, "gone", (ref,))
                continue
            if current == ref:
                _add_stretch(stretches, "kept", (ref,))
            else:
                _add_stretch(stretches, "changed", (), ((ref, current),))
            if key in come:
                _add_stretch(stretches, "come", come[key])
        return stretches


def thin_requests(index: SessionIndex, most: int = MAX_POINTS) -> list[int]:
    """The places of about `most` requests: of each stretch the fullest and the last, so that peaks and drops stay."""
    requests = index.requests.requests
    if len(requests) <= most:
        return list(range(len(requests)))
    stretch = -(-len(requests) * 2 // most)
    places: list[int] = []
    for start in range(0, len(requests), stretch):
        end = min(start + stretch, len(requests)) - 1
        top = max(range(start, end + 1), key=lambda place: index.total_of(requests[place]))
        places += [end] if top == end else [top, end]
    return places


def _add_stretch(
    stretches: list[Stretch],
    state: Literal["kept", "gone", "come", "changed"],
    refs: Sequence[int],
    pairs: Sequence[tuple[int, int]] = (),
) -> None:
    if stretches and stretches[-1].state == state:
        stretches[-1].refs.extend(refs)
        stretches[-1].pairs.extend(pairs)
    elif refs or pairs:
        stretches.append(Stretch(state, list(refs), list(pairs)))


def _seq_of(ident: str) -> int:
    """The event that a message comes from, by its id; 0 for messages of the engine."""
    number = ident[1:]
    return int(number) if ident[:1] == "m" and number.isdecimal() and len(number) < 20 else 0
