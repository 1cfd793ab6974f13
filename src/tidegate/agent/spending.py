"""Spending: the sums of a session and of a day, and their caps in tokens and dollars.

    spending = SessionSpending(session, config.settings.spend, days=DailySpending(data.spending_folder))
    provider = MeteredProvider(provider, [spending], purpose="turn")     # checks before each call, counts each reply

The sum of a session is computed from its log, and from the costs that wait to be written there. The log has the usage
of the conversation as UsageReported events; other costs (summaries, subagents, interrupted replies) are notes of the
topic `spent`. The sum of a day is a small file in the data folder or the shared store, for all sessions. A cap is
checked before a call, so the last call may exceed it. All sums are estimates; only the provider's bill is exact.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from tidegate.agent.config.settings import SpendCap, SpendSettings
from tidegate.core.errors import BadInput, GiveUp, NotKept, TidegateError
from tidegate.core.events import Event, UsageReported
from tidegate.core.notes import SideCost, read_note
from tidegate.core.usage import Usage
from tidegate.disk.folder import TextFolder
from tidegate.models.catalog import ModelInfo, compute_model_cost, find_model
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.session.costs import CostQueue, usage_or_estimate
from tidegate.session.session import Session
from tidegate.wire.answers import read_compaction_usage, read_usage

CallPurpose = Literal["turn", "summary", "state_note", "subagent", "interrupted"]
"""What a call of a model is for. The log of the session has the usage of a complete reply in a turn already."""
_BYTES_PER_TOKEN: Final = 4
"""The estimate for a reply without reported usage."""


class SpendTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sum. `unpriced` tokens have no known price and are not in `dollars`."""

    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "SpendTotal") -> "SpendTotal":
        return SpendTotal(self.tokens + other.tokens, self.dollars + other.dollars, self.unpriced + other.unpriced)


class SpendMeter(Protocol):
    """A limit of spending that is checked before each call and counts each reply."""

    def check_limit(self) -> None:
        """Raise GiveUp if nothing is left to spend."""

    def record_usage(self, model: str, usage: Usage, /, *, purpose: CallPurpose, is_beside: bool = False) -> None:
        """Count a reply. `is_beside`: the session may be in use elsewhere, so nothing is written to its log now."""


class DailySpending:
    """The sums of days (UTC), in files that all processes on a data folder share.

    A sum that could not be written is kept in memory and written with the next one.
    """

    def __init__(self, folder: TextFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._unwritten: dict[str, SpendTotal] = {}

    def add(self, amount: SpendTotal) -> None:
        day = self._current_day()
        self._unwritten[day] = self._unwritten.get(day, SpendTotal()) + amount
        self._write_pending()

    def read_today(self) -> SpendTotal:
        """Return the sum of today. Raise NotKept if it cannot be read."""
        self._write_pending()
        return self._read_day(self._current_day())

    def _current_day(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).date().isoformat()

    def _write_pending(self) -> None:
        for day, amount in list(self._unwritten.items()):
            self._folder.update(f"{day}.json", partial(_add_to_day, day, amount))
            del self._unwritten[day]

    def _read_day(self, day: str) -> SpendTotal:
        try:
            return _parse_day(day, self._folder.read(f"{day}.json"))
        except BadInput as error:
            raise _make_unreadable_error(day, error) from error


def _parse_day(day: str, text: str | None) -> SpendTotal:
    if text is None:
        return SpendTotal()
    try:
        return msgspec.json.decode(text, type=SpendTotal)
    except msgspec.MsgspecError as error:
        raise _make_unreadable_error(day, error) from error


def _add_to_day(day: str, amount: SpendTotal, text: str | None) -> str:
    return msgspec.json.encode(_parse_day(day, text) + amount).decode()


def _make_unreadable_error(day: str, error: Exception) -> NotKept:
    return NotKept(
        f"What was spent on {day} cannot be read: {error}.",
        f"Repair spend/{day}.json in the data folder, or remove it: then the day starts at zero.",
    )


class SessionSpending:
    """The sums of one session and of the day, and their caps. `model_overrides` have the user's own prices.

    `problem` says why the sum of the day could not be stored, if no cap needs it. `costs` are those that wait to be
    written to the log: of calls beside the conversation.
    """

    def __init__(
        self,
        session: Session,
        caps: SpendSettings | None = None,
        *,
        days: DailySpending | None = None,
        model_overrides: Mapping[str, ModelInfo] | None = None,
    ) -> None:
        self.caps = caps or SpendSettings()
        self.problem = ""
        self._session = session
        self._days = days
        self._model_overrides = model_overrides
        self._total = SpendTotal()
        self._read_seq = 0
        self.costs = CostQueue(session.history.append_note)
        session.call_on_close(self.settle)

    def check_limit(self) -> None:
        intact = "the session is intact and nothing was lost"
        if self.caps.session != SpendCap():
            _check_cap(
                self.session_total, self.caps.session, "This session", "session", f"or start a new one; {intact}"
            )
        if self._days is not None and self.caps.day != SpendCap():
            _check_cap(
                self._days.read_today(), self.caps.day, "The day so far", "day", f"or wait for tomorrow (UTC); {intact}"
            )

    def record_usage(self, model: str, usage: Usage, *, purpose: CallPurpose, is_beside: bool = False) -> None:
        if purpose != "turn":  # the note has tokens, not dollars: prices are looked up when it is read
            self.costs.add(SideCost(model, usage, purpose))
        if not is_beside:
            self.costs.write()
        if self._days is None:
            return
        try:
            self._days.add(self.price_usage(model, usage))
            self.problem = ""
        except NotKept as error:  # a paid reply is not thrown away; a cap that needs the sum will raise this
            self.problem = str(error)

    def price_usage(self, model: str, usage: Usage) -> SpendTotal:
        tokens, cost = usage.input_tokens + usage.output_tokens, compute_model_cost(usage, model, self._model_overrides)
        return SpendTotal(tokens, cost.total) if cost is not None else SpendTotal(tokens, 0.0, tokens)

    @property
    def session_total(self) -> SpendTotal:
        """The sum of the session. New events of the log are read each time, also those of other processes."""
        if self._read_seq < self._session.log.head:
            for event in self._session.log.read(self._read_seq + 1):
                self._total += self._price_event(event)
                self._read_seq = event.seq
        waiting = (self.price_usage(cost.model, cost.usage) for cost in self.costs)
        return sum(waiting, self._total)

    def settle(self) -> None:
        """Write the costs that wait, at the end of a turn or of the session. If that fails, they are counted, too."""
        try:
            self.costs.write()
        except (TidegateError, OSError) as error:
            self.problem = str(error)

    def _price_event(self, event: Event) -> SpendTotal:
        what = event.payload
        if isinstance(what, UsageReported):
            return self.price_usage(what.model, usage_or_estimate(what))
        side_cost = read_note(what, SideCost)
        return SpendTotal() if side_cost is None else self.price_usage(side_cost.model, side_cost.usage)

    @property
    def day_total(self) -> SpendTotal:
        return self._days.read_today() if self._days is not None else SpendTotal()

    def unpriced_notice(self, model: str) -> str:
        """Return a notice if dollars are capped and the price of the model is not known, else ""."""
        if self.caps.session.dollars is None and self.caps.day.dollars is None:
            return ""
        model_info = find_model(model, self._model_overrides)
        if model_info is not None and model_info.prices:
            return ""
        return (
            f"The price of {model} is not known: it counts towards caps in tokens and not towards those in dollars."
            " Give its prices under models."
        )


class TokenAllowance:
    """A limit of tokens for one task."""

    def __init__(self, tokens: int, what: str = "This task") -> None:
        self.spent_tokens = 0
        self._max_tokens = tokens
        self._label = what

    def check_limit(self) -> None:
        if self.spent_tokens >= self._max_tokens:
            raise GiveUp(
                f"{self._label} has used {self.spent_tokens:,} of its {self._max_tokens:,} tokens.", "Ask for less."
            )

    def record_usage(self, model: str, usage: Usage, *, purpose: CallPurpose, is_beside: bool = False) -> None:
        self.spent_tokens += usage.input_tokens + usage.output_tokens


class SubagentMeter(NamedTuple):
    """A meter of the agent that asked: whatever a subagent calls a model for, there it is a call of a subagent.

    Other subagents run beside it, and what they answer is added to the session of that agent meanwhile.
    """

    meter: SpendMeter

    def check_limit(self) -> None:
        self.meter.check_limit()

    def record_usage(self, model: str, usage: Usage, *, purpose: CallPurpose, is_beside: bool = False) -> None:
        self.meter.record_usage(model, usage, purpose="subagent", is_beside=True)


class MeteredProvider:
    """A provider that checks its meters before each call and reports the usage of each reply to them.

    `purpose` is that of complete replies; of `turn`, the caller writes the usage to the log. `estimate_tokens` measures
    a request for which the provider reports no usage, for example an interrupted one, which must be paid, too.
    `is_beside`: the calls are made in the background, while the session is used.
    """

    def __init__(
        self,
        provider: Provider,
        meters: Sequence[SpendMeter],
        *,
        purpose: CallPurpose = "summary",
        estimate_tokens: Callable[[bytes], int] = lambda request: len(request) // _BYTES_PER_TOKEN,
        is_beside: bool = False,
    ) -> None:
        self._provider = provider
        self._meters = tuple(meters)
        self._purpose: CallPurpose = purpose
        self._estimate_tokens = estimate_tokens
        self._is_beside = is_beside

    @property
    def model(self) -> str:
        return self._provider.model

    @property
    def wire(self) -> str:
        return self._provider.wire

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        for meter in self._meters:
            meter.check_limit()
        text_length, left, replied = 0, False, False
        try:
            async with aclosing(self._provider.stream(request)) as answer:
                async for each in answer:
                    if isinstance(each, Reply):
                        replied = True
                        self._report_usage(self._read_usage(each, request), self._purpose)
                    else:
                        text_length += len(each.text)
                    yield each
        except (asyncio.CancelledError, GeneratorExit):
            left = True
            raise
        finally:
            if not replied and (left or text_length):
                self._report_usage(
                    Usage(self._estimate_tokens(request), text_length // _BYTES_PER_TOKEN, 0, 0), "interrupted"
                )

    def _read_usage(self, reply: Reply, request: bytes) -> Usage:
        usage = read_usage(reply.usage)
        if not usage.input_tokens:  # an answer that is nothing but a compaction
            usage = read_compaction_usage(reply.usage) or usage
        return usage if usage.input_tokens else usage._replace(input_tokens=self._estimate_tokens(request))

    def _report_usage(self, usage: Usage, purpose: CallPurpose) -> None:
        for meter in self._meters:
            meter.record_usage(self.model, usage, purpose=purpose, is_beside=self._is_beside)

    async def close(self) -> None:
        await self._provider.close()


def _check_cap(total: SpendTotal, cap: SpendCap, who: str, key: str, otherwise: str) -> None:
    if cap.tokens is not None and total.tokens >= cap.tokens:
        raise GiveUp(
            f"{who} has used {total.tokens:,} tokens; the cap is {cap.tokens:,}.",
            f"Raise spend.{key}.tokens, {otherwise}.",
        )
    if cap.dollars is not None and total.dollars >= cap.dollars:
        raise GiveUp(
            f"{who} has cost ${total.dollars:,.4f}; the cap is ${cap.dollars:,.4f}.",
            f"Raise spend.{key}.dollars, {otherwise}.",
        )
