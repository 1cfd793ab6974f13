"""What a session cost so far, read from its log piece by piece, so that nobody waits for a long one.

bill = Bill(session.log)
while bill.advance(): ...        # a few thousand events at a time; True while there is more
print(bill.total.dollars, bill.total.cached_share)
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.events import Event, NoteAdded, UsageReported, ViewEdited
from tidegate.models.catalog import ModelInfo, compute_model_cost
from tidegate.store.log import LogReader
from tidegate.wire.usage import Usage

SPENT_TOPIC: Final = "spent"
"""The topic under which is noted what was paid for beside the conversation: summaries, subagents, cut answers."""
_EVENTS_PER_STEP: Final = 2_000


class SideCost(msgspec.Struct, frozen=True):
    """The text of such a note."""

    model: str
    usage: Usage


class CostTotal(msgspec.Struct, frozen=True):
    """`calls` are the reported requests of the conversation; `besides` the tokens that were paid for beside it.

    `unpriced` are tokens of models whose price is not known: the dollars are without them. `compactions` are edits
    that made the view smaller and were not undone.
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
        """Of what the conversation's requests held, how much came from the provider's cache."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


class CostReport:
    """`by_model` has the sums of each model asked. `prices` are the user's own, over the catalog's. Only the events after
    `start` are read."""

    def __init__(self, log: LogReader, prices: Mapping[str, ModelInfo] | None = None, *, start: int = 0) -> None:
        self.total = CostTotal()
        self.by_model: dict[str, CostTotal] = {}
        self._log = log
        self._prices = prices
        self._read_to = start
        self._compaction_seqs: set[int] = set()

    def read_more(self, most: int = _EVENTS_PER_STEP) -> bool:
        """Read on, at most so many events. True if that was not all."""
        if self._read_to < self._log.head:
            for event in islice(self._log.read(self._read_to + 1), most):
                self._add_event(event)
                self._read_to = event.seq
        return self._read_to < self._log.head

    def read_all(self) -> CostTotal:
        """All of it, however long that takes."""
        while self.read_more():
            pass
        return self.total

    def _add_event(self, event: Event) -> None:
        what = event.payload
        if isinstance(what, UsageReported):
            read = what.input_tokens or what.counted_tokens  # a server that reports nothing is not free
            self._add(what.model, Usage(read, what.output_tokens, what.cache_read, what.cache_write), called=True)
        elif isinstance(what, ViewEdited):
            if what.tokens_after < what.tokens_before:
                self._compaction_seqs.add(event.seq)
                self._count_compaction(1)
        elif isinstance(what, NoteAdded):
            self._note(what)

    def _note(self, noted: NoteAdded) -> None:
        if noted.topic in ("undo", "redo"):
            if noted.edit in self._compaction_seqs:
                self._count_compaction(-1 if noted.topic == "undo" else 1)
        elif noted.topic == SPENT_TOPIC and (paid := parse_side_cost(noted)) is not None:
            self._add(paid.model, paid.usage, called=False)

    def _count_compaction(self, step: int) -> None:
        self.total = msgspec.structs.replace(self.total, compactions=self.total.compactions + step)

    def _add(self, model: str, usage: Usage, *, called: bool) -> None:
        paid = compute_model_cost(usage, model, self._prices)
        tokens = usage.input_tokens + usage.output_tokens
        one = CostTotal(
            calls=int(called),
            input_tokens=usage.input_tokens if called else 0,
            cached_tokens=usage.cache_read if called else 0,
            output_tokens=usage.output_tokens if called else 0,
            side_tokens=0 if called else tokens,
            dollars=paid.total if paid else 0.0,
            unpriced_tokens=0 if paid else tokens,
        )
        self.total = _add_totals(self.total, one)
        self.by_model[model] = _add_totals(self.by_model.get(model, CostTotal()), one)


def parse_side_cost(noted: NoteAdded) -> SideCost | None:
    try:
        return msgspec.json.decode(noted.text, type=SideCost)
    except msgspec.MsgspecError:  # forgotten, or somebody else's note
        return None


def _add_totals(one: CostTotal, other: CostTotal) -> CostTotal:
    pairs = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return CostTotal(*(mine + theirs for mine, theirs in pairs))
