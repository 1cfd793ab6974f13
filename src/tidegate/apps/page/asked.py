"""Which requests a session made, told from its log: those a provider reported, and those only their answer tells of."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tidegate.agent.spend import SPENT
from tidegate.core.events import Event, Noted, Said, Used
from tidegate.models.catalog import Model, price
from tidegate.store.log import Log
from tidegate.wire.usage import Usage

_NOTHING: Final = Usage(0, 0, 0, 0)


class Bill(msgspec.Struct, frozen=True):
    """Dollars of one call, by what they were paid for; `known` is False where the model's prices are not."""

    input: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    output: float = 0.0
    known: bool = False

    @property
    def total(self) -> float:
        return self.input + self.cached + self.written + self.output


class Asked(msgspec.Struct):
    """One request. `head` is the record it was made from; `answer` the record of the answer, 0 if none is known.

    Without `used` no provider said what it cost: somebody kept a conversation without recording usage.
    """

    head: int
    time: float
    answer: int = 0
    used: Used | None = None
    bill: Bill = Bill()


class Beside(msgspec.Struct):
    """What was paid for beside the conversation: summaries, subagents, answers that were interrupted."""

    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0


class Asking(msgspec.Struct, frozen=True):
    requests: list[Asked]
    beside: Beside


class _Paid(msgspec.Struct, frozen=True):
    model: str
    usage: Usage


def asking(log: Log, prices: Mapping[str, Model] | None = None) -> Asking:
    """The requests in the order they were made, with what they cost by the catalog and the user's own `prices`."""
    requests: list[Asked] = []
    beside = Beside()
    for event in log.read():
        what = event.what
        if isinstance(what, Used):
            _reported(requests, event, what)
        elif isinstance(what, Said) and what.message.role == "assistant" and not what.message.kind:
            _answered(requests, event)
        elif isinstance(what, Noted) and what.topic == SPENT:
            _add(beside, what.text, prices)
    for each in requests:
        each.bill = _bill(each.used, prices)
    return Asking(sorted(requests, key=lambda each: each.head), beside)


def _reported(requests: list[Asked], event: Event, used: Used) -> None:
    """The report comes before the answer or behind it: behind, the answer has told of the request already."""
    last = requests[-1] if requests else None
    if last is not None and last.used is None and _floor(requests) <= used.head < last.answer:
        last.head, last.time, last.used = used.head, event.time, used
    elif last is not None and last.used is None and not used.head:
        last.time, last.used = event.time, used
    else:
        requests.append(Asked(used.head, event.time, 0, used))


def _floor(requests: list[Asked]) -> int:
    return max((each.answer for each in requests[-9:-1]), default=0)


def _answered(requests: list[Asked], event: Event) -> None:
    last = requests[-1] if requests else None
    if last is not None and not last.answer and last.used is not None:
        last.answer = event.seq
    else:
        requests.append(Asked(event.seq - 1, event.time, event.seq))


def usage_of(used: Used | None) -> Usage:
    """A server that reports nothing is not free: what we counted stands for what it read."""
    if used is None:
        return _NOTHING
    return Usage(used.input_tokens or used.counted, used.output_tokens, used.cache_read, used.cache_write)


def _bill(used: Used | None, prices: Mapping[str, Model] | None) -> Bill:
    paid = price(usage_of(used), used.model, prices) if used is not None else None
    return Bill() if paid is None else Bill(paid.input, paid.cached, paid.written, paid.output, True)


def _add(beside: Beside, text: str, prices: Mapping[str, Model] | None) -> None:
    for paid in _paid(text):
        tokens = paid.usage.input_tokens + paid.usage.output_tokens
        cost = price(paid.usage, paid.model, prices)
        beside.calls += 1
        beside.tokens += tokens
        beside.dollars += cost.total if cost else 0.0
        beside.unpriced += 0 if cost else tokens


def _paid(text: str) -> Iterator[_Paid]:
    try:
        yield msgspec.json.decode(text, type=_Paid)
    except msgspec.MsgspecError:  # forgotten, or somebody else's note
        return
