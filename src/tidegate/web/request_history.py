"""The requests of a session, read from its log: those with a usage report, and those known by their answer only."""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported
from tidegate.core.notes import SideCost, is_note, read_note
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo, compute_model_cost, find_model
from tidegate.session.costs import usage_or_estimate
from tidegate.store.log import Log
from tidegate.web.category_shares import CHART_CATEGORIES

_NO_USAGE: Final = Usage(0, 0, 0, 0)
_LOOKBACK: Final = 8
"""Requests before the last one whose answers bound where a late usage report may belong."""


class RequestBill(msgspec.Struct, frozen=True):
    """Dollars of one call, by kind of token. `is_priced` is False if the model's prices are not known."""

    input: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    output: float = 0.0
    is_priced: bool = False

    @property
    def total(self) -> float:
        return self.input + self.cached + self.written + self.output


class RequestRecord(msgspec.Struct, gc=False):
    """One request. `head` is the record it was made from; `answer_seq` the record of its answer, 0 if none is known.

    `used` is None if no usage was recorded. `model_info` has the prices of the model, None if it is not known.
    """

    head: int
    time: float
    answer_seq: int = 0
    used: UsageReported | None = None
    model_info: ModelInfo | None = None

    @property
    def cost(self) -> RequestBill:
        """Computed when it is asked for: a session has thousands of requests, and a page shows a few of them."""
        cost = compute_model_cost(request_usage(self.used), self.model_info)
        return RequestBill() if cost is None else RequestBill(cost.input, cost.cached, cost.written, cost.output, True)


class RequestFigures(msgspec.Struct, frozen=True):
    """A request as charts and tables show it. The scripts in assets/ read these keys.

    `paid` is dollars for input, cached, written and output tokens. `client` made the request, if the session has
    several. `wire`, `parts`, `messages` and `window` are those of the view, which a record of a request does not have.
    """

    head: int
    time: float
    model: str
    wire: str
    reported: bool
    counted: int
    total: int
    parts: list[int]
    messages: int
    window: int
    input: int
    output: int
    read: int
    written: int
    paid: list[float]
    priced: bool
    client: str = ""

    @classmethod
    def of_record(cls, request: RequestRecord) -> Self:
        """What the record of the request says."""
        usage, cost = request_usage(request.used), request.cost
        return cls(
            head=request.head,
            time=request.time,
            model=request.used.model if request.used is not None else "",
            wire="",
            reported=request.used is not None and request.used.input_tokens > 0,
            counted=request.used.counted_tokens if request.used is not None else 0,
            total=usage.input_tokens,
            parts=[0] * len(CHART_CATEGORIES),
            messages=0,
            window=0,
            input=usage.input_tokens,
            output=usage.output_tokens,
            read=usage.cache_read,
            written=usage.cache_write,
            paid=[cost.input, cost.cached, cost.written, cost.output],
            priced=cost.is_priced,
        )


class SideSpending(msgspec.Struct):
    """Costs outside the conversation: summaries, subagents, interrupted answers."""

    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0


class RequestHistory(msgspec.Struct, frozen=True):
    requests: list[RequestRecord]
    side_spending: SideSpending


class RequestReader:
    """Collects the requests of a log as its events are read; more events may be fed at any time."""

    def __init__(self, prices: Mapping[str, ModelInfo] | None = None) -> None:
        self.requests: list[RequestRecord] = []
        self.side_spending = SideSpending()
        self._prices = prices
        self._models: dict[str, ModelInfo | None] = {}

    def feed(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, UsageReported):
            _add_report(self.requests, event, payload, self._find_model(payload.model))
        elif isinstance(payload, MessageAdded) and payload.message.role == "assistant" and not payload.message.kind:
            _add_answer(self.requests, event)
        elif is_note(payload, SideCost):
            _add_side_cost(self.side_spending, payload, self._prices)

    def _find_model(self, name: str) -> ModelInfo | None:
        if name not in self._models:
            self._models[name] = find_model(name, self._prices)
        return self._models[name]


def read_request_history(log: Log, prices: Mapping[str, ModelInfo] | None = None) -> RequestHistory:
    """Return the requests in order, with their costs by the catalog and the user's own `prices`."""
    reader = RequestReader(prices)
    for event in log.read():
        reader.feed(event)
    return RequestHistory(sorted(reader.requests, key=lambda each: each.head), reader.side_spending)


def _add_report(requests: list[RequestRecord], event: Event, report: UsageReported, info: ModelInfo | None) -> None:
    """Add a usage report. It may come before the answer or after it; then the request is known already."""
    last = requests[-1] if requests else None
    if last is not None and last.used is None and _find_earliest_head(requests) <= report.log_head < last.answer_seq:
        last.head, last.time, last.used, last.model_info = report.log_head, event.time, report, info
    elif last is not None and last.used is None and not report.log_head:
        last.time, last.used, last.model_info = event.time, report, info
    else:
        requests.append(RequestRecord(report.log_head, event.time, 0, report, info))


def _find_earliest_head(requests: list[RequestRecord]) -> int:
    return max([each.answer_seq for each in requests[-1 - _LOOKBACK : -1]], default=0)


def _add_answer(requests: list[RequestRecord], event: Event) -> None:
    last = requests[-1] if requests else None
    if last is not None and not last.answer_seq and last.used is not None:
        last.answer_seq = event.seq
    else:
        requests.append(RequestRecord(event.seq - 1, event.time, event.seq))


def request_usage(report: UsageReported | None) -> Usage:
    """Return the usage of a request; nothing if none was reported yet."""
    return _NO_USAGE if report is None else usage_or_estimate(report)


def _add_side_cost(spending: SideSpending, note: NoteAdded, prices: Mapping[str, ModelInfo] | None) -> None:
    side_cost = read_note(note, SideCost)
    if side_cost is None:
        return
    tokens = side_cost.usage.input_tokens + side_cost.usage.output_tokens
    cost = compute_model_cost(side_cost.usage, side_cost.model, prices)
    spending.calls += 1
    spending.tokens += tokens
    spending.dollars += cost.total if cost else 0.0
    spending.unpriced += 0 if cost else tokens
