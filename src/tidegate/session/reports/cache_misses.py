"""What the requests of a session read from the provider's cache, and why they missed the rest.

It is derived from the log: the reported usage says how much was read, and the events since the request before say what
changed in front of it. No bodies of requests are needed.

reader = CacheReader()
for event in log.read():
    request = reader.feed(event)   # a CachedRequest for each usage report
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.events import (
    BranchStarted,
    Event,
    HostMessageAdded,
    HostNote,
    HourWriteReported,
    MessageAdded,
    NoteAdded,
    UsageReported,
    ViewEdited,
)
from tidegate.core.notes import (
    CacheMissReason,
    EditRedone,
    EditUndone,
    SentUnmanaged,
    SignaturesRefused,
    SystemSet,
    ThinkingLeftOut,
    ToolsSet,
    ViewCleared,
    is_note,
    read_note,
)
from tidegate.core.sweep.cost_model import ASSUMED_PRICES
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo, compute_model_cost, find_model
from tidegate.session.costs import usage_or_estimate

MissOrigin = Literal["client", "tidegate", "user", "lifetime", "provider"]
_MIN_MISSED: Final = 1_024
"""Tokens. Providers cache nothing shorter, and round what they read down to blocks."""
_MIN_MISSED_SHARE: Final = 0.05
"""Of what could be read. Marks for the cache need not stand at the very end of a request."""
_FULL_MISS_SHARE: Final = 0.1
"""A request that reads less than this share of what it could has missed the whole cache."""
_HOUR: Final = 3_600.0
_MAX_CAUSE: Final = 60  # characters
_SYSTEM, _TOOLS, _START = -3, -2, -1  # places before the first message

ADVICE: Final[Mapping[MissOrigin, str]] = {
    "client": "Keep the model, the system prompt, the tools and older messages the same while a task runs.",
    "tidegate": (
        "An edit of the view pays back over later requests; `tidegate show` has the reasons. A larger window makes"
        " edits rarer."
    ),
    "user": "An undo, a redo or a clear changes what was sent before. No action is needed.",
    "lifetime": "The cache expired during a pause. Shorter pauses or a longer lifetime of the cache avoid it.",
    "provider": (
        "Nothing changed in front of the request. The provider dropped the cache, or another of its servers answered;"
        " with OpenAI a `prompt_cache_key` helps."
    ),
}
"""What to do about misses, by who caused them."""


class CacheMiss(msgspec.Struct, frozen=True):
    """Tokens that the request before had left in the cache and that were not read from it, by cause.

    `first_difference` is the part of the request that differs first, such as `m12`; empty if nothing changed. `dollars`
    is what the miss cost; None if the price is not known. `reported` is the provider's own reason, where it gives one.
    """

    origin: MissOrigin
    cause: str
    first_difference: str
    missed_tokens: int
    dollars: float | None = None
    reported: str = ""

    def describe(self) -> str:
        """Return who caused it and how, as one line."""
        place = f", from {self.first_difference} on" if self.first_difference[:1] == "m" else ""
        reported = f" (the provider says: {clean_line(self.reported)})" if self.reported else ""
        return f"{self.origin}: {clip_chars(clean_line(self.cause), _MAX_CAUSE, notice='…').text}{place}{reported}"


class CachedRequest(msgspec.Struct, frozen=True):
    """A request: the record that it was made at, its size, and what it read. `pause` is the seconds since the answer
    before it."""

    seq: int
    time: float
    model: str
    input_tokens: int
    cached_tokens: int
    pause: float = 0.0
    miss: CacheMiss | None = None

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


class MissSums(NamedTuple):
    """Sums over the misses of one origin. `dollars` are those of models with a known price."""

    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def plus(self, miss: CacheMiss) -> "MissSums":
        return MissSums(self.requests + 1, self.tokens + miss.missed_tokens, self.dollars + (miss.dollars or 0.0))


class _Difference(NamedTuple):
    """Something that changed in front of a request. `place` orders differences: the smallest comes first."""

    place: float
    origin: MissOrigin
    cause: str
    label: str


class CacheReader:
    """Reads events in the order of the log.

    `overrides` are the user's own values for models: their prices, and how long the provider's cache lasts. `sums` are
    the misses by origin. `reports_cache`: some report named tokens of the cache. Without that nothing is a miss: the
    provider has no cache, does not report it, or is not asked for it.
    """

    def __init__(self, overrides: Mapping[str, ModelInfo] | None = None) -> None:
        self.calls = self.input_tokens = self.cached_tokens = 0
        self.sums: dict[MissOrigin, MissSums] = {}
        self.reports_cache = False
        self._overrides = overrides
        self._last: UsageReported | None = None
        self._last_time = self._sent_time = 0.0
        self._last_place = self._sent_place = 0  # of the last message, now and when the last request was sent
        self._differences: list[_Difference] = []
        self._places: dict[str, float] = {}  # of messages that an edit inserted
        self._edit_places: dict[int, float] = {}
        self._has_host = False
        self._reported = ""
        self._saved = self._extra = 0.0
        self._pauses = 0
        self._paid_from = 0  # the number of the pause

    def feed(self, event: Event) -> CachedRequest | None:
        """Read an event. Return the request if it is a usage report."""
        what = event.payload
        if isinstance(what, UsageReported):
            return self._read_report(event, what)
        if isinstance(what, MessageAdded):
            self._has_host = self._has_host or isinstance(what, HostMessageAdded)
            if what.message.role != "assistant":  # an answer is not part of the request that it answers
                self._last_place, self._sent_time = event.seq, event.time
        elif isinstance(what, ViewEdited):
            self._read_edit(event.seq, what)
        else:
            self._read_note(what)
        return None

    def describe_hour(self) -> str:
        """A sentence on whether writes that last an hour would have cost less; empty if not, or if it is not known."""
        number = self._paid_from
        if not number or self._saved <= self._extra:
            return ""
        return (
            f"Cache writes that last an hour would have saved about ${self._saved - self._extra:,.2f}: they pay from"
            f" the {_ORDINALS.get(number, f'{number}th')} pause on."
        )

    # --- what changed ---------------------------------------------------------------------------------------------

    def _note_difference(self, place: float, origin: MissOrigin, cause: str, label: str = "") -> None:
        if self._last is not None and place <= self._sent_place:
            self._differences.append(_Difference(place, origin, cause, label or f"m{int(place)}"))

    def _read_edit(self, seq: int, edited: ViewEdited) -> None:
        place = min((self._find_place(edit) for edit in edited.edits), default=float(self._last_place + 1))
        for edit in edited.edits:
            if isinstance(edit, Insert):
                self._places[edit.message.id] = self._place_of(edit.after_id) + 0.5
        self._edit_places[seq] = place
        self._note_difference(place, "tidegate", f"{edited.stage} ({edited.rule})" if edited.rule else edited.stage)

    def _find_place(self, edit: Edit) -> float:
        if isinstance(edit, Replace):
            return self._place_of(edit.id)
        if isinstance(edit, Drop):
            return min(map(self._place_of, edit.ids), default=float(self._last_place + 1))
        if isinstance(edit, Insert):
            return self._place_of(edit.after_id) + 0.5
        return float(self._last_place + 1)

    def _place_of(self, ident: str) -> float:
        if ident in self._places:
            return self._places[ident]
        return float(ident[1:]) if ident[:1] == "m" and ident[1:].isdecimal() else 0.0

    def _read_note(self, note: NoteAdded) -> None:
        if isinstance(note, BranchStarted):
            self._note_difference(note.edit + 1, "client", "another branch of the history")
        elif is_note(note, SystemSet, ToolsSet):
            self._read_fixed_part(note)
        elif (toggle := read_note(note, EditUndone) or read_note(note, EditRedone)) is not None:
            self._note_difference(self._edit_places.get(toggle.edit, 0.0), "user", toggle.topic)
        elif is_note(note, ViewCleared):
            self._note_difference(0, "user", "clear", "first message")
        elif is_note(note, SignaturesRefused, ThinkingLeftOut):
            self._note_difference(self._sent_place, "tidegate", "thinking was left out")
        elif is_note(note, SentUnmanaged):
            self._note_difference(_START, "tidegate", "the client's own request was sent", "first message")
        elif (reason := read_note(note, CacheMissReason)) is not None:
            self._reported = reason.text

    def _read_fixed_part(self, note: NoteAdded) -> None:
        """The client changes them itself, unless it keeps its own messages and the note is not one of its own."""
        is_system = is_note(note, SystemSet)
        part, place = ("system prompt", _SYSTEM) if is_system else ("tools", _TOOLS)
        is_own = isinstance(note, HostNote) or not self._has_host
        self._note_difference(place, "client" if is_own else "tidegate", f"the {part} changed", part)

    # --- requests -------------------------------------------------------------------------------------------------

    def _read_report(self, event: Event, report: UsageReported) -> CachedRequest | None:
        usage = usage_or_estimate(report)
        pause = max(0.0, self._sent_time - self._last_time) if self._last is not None else 0.0
        self.reports_cache = self.reports_cache or bool(usage.cache_read or usage.cache_write)
        miss = self._find_miss(report, usage, pause)
        self.calls += 1
        self.input_tokens += usage.input_tokens
        self.cached_tokens += usage.cache_read
        if miss is not None:
            self.sums[miss.origin] = self.sums.get(miss.origin, MissSums()).plus(miss)
        self._add_hour_sums(report.model, usage, miss, pause)
        self._last, self._last_time = report, event.time
        self._sent_place = self._last_place
        self._differences, self._reported = [], ""
        return CachedRequest(
            report.log_head, event.time, report.model, usage.input_tokens, usage.cache_read, pause, miss
        )

    def _find_miss(self, report: UsageReported, usage: Usage, pause: float) -> CacheMiss | None:
        last = self._last
        if last is None or not self.reports_cache:
            return None
        left = last.cache_read + last.cache_write if last.cache_write else last.input_tokens
        missed = min(left, usage.input_tokens) - usage.cache_read
        if missed < max(_MIN_MISSED, _MIN_MISSED_SHARE * left):
            return None
        first = self._find_difference(report, last, pause, is_full=usage.cache_read < _FULL_MISS_SHARE * left)
        dollars = self._compute_loss(report.model, usage, missed)
        return CacheMiss(first.origin, first.cause, first.label, missed, dollars, self._reported)

    def _find_difference(
        self, report: UsageReported, last: UsageReported, pause: float, *, is_full: bool
    ) -> _Difference:
        if report.model != last.model:
            return _Difference(_SYSTEM, "client", f"the model changed from {last.model} to {report.model}", "")
        lifetime = self._find_lifetime(last)
        expired = _Difference(0, "lifetime", f"a pause of {_format_pause(pause)}", "")
        if is_full and pause > lifetime:
            return expired
        if self._differences:
            return min(self._differences)
        return expired if pause > lifetime else _Difference(0, "provider", "nothing changed", "")

    def _find_lifetime(self, last: UsageReported) -> float:
        model = find_model(last.model, self._overrides)
        if model is not None and model.cache_lifetime is not None:
            return model.cache_lifetime
        return _HOUR if isinstance(last, HourWriteReported) else ASSUMED_PRICES.lifetime

    def _compute_loss(self, model: str, usage: Usage, missed: int) -> float | None:
        """The dollars that a request would have cost less if it had read the missed tokens from the cache."""
        cost = compute_model_cost(usage, model, self._overrides)
        cache_write = max(0, usage.cache_write - missed)
        ideal = usage._replace(
            cache_read=usage.cache_read + missed,
            cache_write=cache_write,
            cache_write_1h=min(usage.cache_write_1h, cache_write),
        )
        best = compute_model_cost(ideal, model, self._overrides)
        return cost.total - best.total if cost is not None and best is not None else None

    def _add_hour_sums(self, model: str, usage: Usage, miss: CacheMiss | None, pause: float) -> None:
        """Add up what writes that last an hour would have cost more, and what they would have saved."""
        if not usage.cache_write or usage.cache_write_1h:
            return
        cost = compute_model_cost(usage, model, self._overrides)
        dear = compute_model_cost(usage._replace(cache_write_1h=usage.cache_write), model, self._overrides)
        if cost is None or dear is None:
            return
        if miss is None or miss.origin != "lifetime" or pause > _HOUR:
            self._extra += dear.total - cost.total
            return
        self._pauses += 1
        self._saved += miss.dollars or 0.0
        if not self._paid_from and self._saved > self._extra:
            self._paid_from = self._pauses


_ORDINALS: Final = {1: "first", 2: "second", 3: "third"}


def _format_pause(seconds: float) -> str:
    minutes = seconds / 60
    return format_count(round(minutes), "minute") if minutes < 120 else format_count(round(minutes / 60), "hour")
