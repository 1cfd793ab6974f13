"""The cost of a session, read from its log a few thousand events at a time so that a caller can stay responsive.

report = CostReport(session.log)
while report.read_more(): ...    # True while there are more events
print(report.total.dollars, report.total.cached_share)
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.events import Event, HourWriteReported, NoteAdded, UsageReported, ViewEdited
from tidegate.core.notes import EditRedone, EditUndone, SideCost, read_note
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo, compute_model_cost
from tidegate.store.log import LogReader

_EVENTS_PER_STEP: Final = 2_000


class CostTotal(msgspec.Struct, frozen=True):
    """Sums over a log. `calls` are the reported requests of the conversation; `side_tokens` were spent outside it.

    `unpriced_tokens` belong to models without a known price, so `dollars` does not include them. `compactions` are
    edits that made the view smaller and were not undone.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    side_tokens: int = 0
    dollars: float = 0.0
    unpriced_tokens: int = 0
    compactions: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.side_tokens

    @property
    def cached_share(self) -> float:
        """Return the share of the conversation's input tokens that came from the provider's cache."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


def usage_or_estimate(report: UsageReported) -> Usage:
    """Return the reported usage. If the server reported no input tokens, use our own count: the call was not free."""
    read = report.input_tokens or report.counted_tokens
    long = report.cache_write_1h if isinstance(report, HourWriteReported) else 0
    return Usage(read, report.output_tokens, report.cache_read, report.cache_write, long)


class CostReport:
    """Adds up the cost of a log after event `start`, in total, for each model and for each purpose.

    The purposes are turn, and those of `SideCost`. `prices` override the catalog.
    """

    def __init__(self, log: LogReader, prices: Mapping[str, ModelInfo] | None = None, *, start: int = 0) -> None:
        self.total = CostTotal()
        self.by_model: dict[str, CostTotal] = {}
        self.by_purpose: dict[str, CostTotal] = {}
        self._log = log
        self._prices = prices
        self._read_to = start
        self._compaction_seqs: set[int] = set()

    def read_more(self, most: int = _EVENTS_PER_STEP) -> bool:
        """Read at most `most` more events. Return whether any are left."""
        if self._read_to < self._log.head:
            for event in islice(self._log.read(self._read_to + 1), most):
                self._add_event(event)
                self._read_to = event.seq
        return self._read_to < self._log.head

    def read_all(self) -> CostTotal:
        """Read the rest of the log and return the total."""
        while self.read_more():
            pass
        return self.total

    def _add_event(self, event: Event) -> None:
        what = event.payload
        if isinstance(what, UsageReported):
            self._add(what.model, usage_or_estimate(what), "turn")
        elif isinstance(what, ViewEdited):
            if what.tokens_after < what.tokens_before:
                self._compaction_seqs.add(event.seq)
                self._count_compaction(1)
        elif isinstance(what, NoteAdded):
            self._note(what)

    def _note(self, note: NoteAdded) -> None:
        if (undone := read_note(note, EditUndone)) is not None and undone.edit in self._compaction_seqs:
            self._count_compaction(-1)
        elif (redone := read_note(note, EditRedone)) is not None and redone.edit in self._compaction_seqs:
            self._count_compaction(1)
        elif (cost := read_note(note, SideCost)) is not None:
            self._add(cost.model, cost.usage, cost.purpose)

    def _count_compaction(self, step: int) -> None:
        self.total = msgspec.structs.replace(self.total, compactions=self.total.compactions + step)

    def _add(self, model: str, usage: Usage, purpose: str) -> None:
        is_turn = purpose == "turn"
        cost = compute_model_cost(usage, model, self._prices)
        tokens = usage.input_tokens + usage.output_tokens
        one = CostTotal(
            calls=int(is_turn),
            input_tokens=usage.input_tokens if is_turn else 0,
            cached_tokens=usage.cache_read if is_turn else 0,
            output_tokens=usage.output_tokens if is_turn else 0,
            side_tokens=0 if is_turn else tokens,
            dollars=cost.total if cost else 0.0,
            unpriced_tokens=0 if cost else tokens,
        )
        self.total = _add_totals(self.total, one)
        self.by_model[model] = _add_totals(self.by_model.get(model, CostTotal()), one)
        self.by_purpose[purpose] = _add_totals(self.by_purpose.get(purpose, CostTotal()), one)


class CostQueue:
    """Costs of calls beside a conversation, until the code that uses the session writes them to its log.

    Any thread may add one. Only one thread at a time may append to a session: a model that writes in the background, or
    a subagent, would append while the session is used in another thread.
    """

    def __init__(self, append_note: Callable[[SideCost], None]) -> None:
        """`append_note` is that of the session's history."""
        self._append_note = append_note
        self._costs: deque[SideCost] = deque()

    def __iter__(self) -> Iterator[SideCost]:
        """The costs that are not in the log yet."""
        return iter(list(self._costs))

    def add(self, cost: SideCost) -> None:
        self._costs.append(cost)

    def write(self) -> None:
        """Write the costs to the log. Those that cannot be written stay in the queue."""
        while self._costs:
            self._append_note(self._costs[0])
            self._costs.popleft()


def _add_totals(one: CostTotal, other: CostTotal) -> CostTotal:
    pairs = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return CostTotal(*(mine + theirs for mine, theirs in pairs))
