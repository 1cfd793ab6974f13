"""The cost model of a sweep: what it costs and saves, in units of the price of one uncached input token.

A provider charges about a tenth of that price for a cached token, and a little more than one for a token that it writes
to the cache. After an edit, everything behind it is written again, once. In return each later call reads less, until
the view is full again. A view that is swept down to level L and grows by g tokens a call to the fill H has (L + H) / 2
tokens on average. It costs, for each of the n = (H - L) / g calls until the next sweep:

    (reread * (write - read) + lost * write) / n  +  read * held  -  worth(held)

`lost` is signed thinking behind the edit, which cannot be sent again. `worth` is the value of the tokens in the view:
it grows with the tokens that come with each call, because more is referred to, and each further token is worth less,
because most references are to recent messages:

    worth(held) = fidelity * g / 1,000 * UNIT * ln(1 + held / UNIT)

`fidelity` trades a low cost for a full view. While a token is worth more than it costs to read, the room is filled
before anything is swept; in a very large window a sweep pays earlier. The session is expected to make as many calls as
it has made so far, so a short session is not swept for calls that may never come. With a cold cache everything is
written again anyway, so a sweep that is nearly due is made at once: it costs nothing.
"""

import math
from typing import Final, NamedTuple

DEFAULT_FIDELITY: Final = 1.5
_HALF_VALUE_TOKENS: Final = 16_000
"""Tokens in the view at which the marginal value has halved."""
_MIN_GROWTH: Final = 400.0  # tokens a call: the least growth that the value of a token is computed with
_STEPS: Final = 40
_MIN_EXPECTED_CALLS: Final = 8  # the least number of expected calls
_COLD_SWEEP_FILL: Final = 0.5  # of the room: below this fill a cold cache causes no sweep
_TRIED_LEVELS: Final = (0.3, 0.55)  # shares of the fill that a sweep may go down to, to find out whether it pays
_MIN_FILL_FACTOR: Final = 1.25  # times the tokens that must stay: below that a sweep frees too little
_MAX_LEVEL: Final = 0.85  # of the room: a sweep that leaves more would soon be followed by another


class CachePrices(NamedTuple):
    """Prices of a cached token (`read`) and of one that is written to the cache. `lifetime` is in seconds.

    The defaults are usual prices; `known` says whether they are those of the model. `cold`: the cache has expired.
    """

    read: float = 0.1
    write: float = 1.25
    lifetime: float = 300.0
    known: bool = False
    cold: bool = False

    @property
    def again(self) -> float:
        """The extra price of a token that is written to the cache again instead of read from it."""
        return 0.0 if self.cold else self.write - self.read

    def __str__(self) -> str:
        prices = f"a cached token costs {self.read:g} and a token written to the cache {self.write:g} input tokens"
        prices += "" if self.known else " (assumed: the prices of the model are not known)"
        return f"{prices}; the provider's cache has expired" if self.cold else prices


ASSUMED_PRICES: Final = CachePrices()


class SessionPace(NamedTuple):
    """The growth of a session in tokens a call, and the number of calls that are expected."""

    growth: float
    calls: int

    @classmethod
    def of(cls, tokens: int, calls: int) -> "SessionPace":
        """The pace of a session that had so many tokens in so many calls."""
        return cls(max(1.0, tokens / max(1, calls)), max(_MIN_EXPECTED_CALLS, calls))


class SweepMarket(NamedTuple):
    """The inputs of the cost model."""

    pace: SessionPace
    prices: CachePrices
    fidelity: float = DEFAULT_FIDELITY

    @property
    def first(self) -> float:
        """The value of the first token in the view, for one call."""
        return self.fidelity * max(self.pace.growth, _MIN_GROWTH) / 1_000

    def worth(self, held: float) -> float:
        """The value of so many tokens in the view, for one call."""
        return self.first * _HALF_VALUE_TOKENS * math.log1p(held / _HALF_VALUE_TOKENS)

    def pays(self, held: float) -> bool:
        """Whether one more token is worth the price of reading it."""
        return self.first / (1 + held / _HALF_VALUE_TOKENS) >= self.prices.read

    def __str__(self) -> str:
        return (
            f"a call adds {self.pace.growth:,.0f} tokens on average, and {self.pace.calls:,} more calls are expected;"
            f" {self.prices}; fidelity {self.fidelity:g}"
        )


class SweepCost(NamedTuple):
    """The cost of one sweep down to `level` tokens, until it has `full` again after `calls`. `rate` is per call."""

    level: int
    full: int
    held: int
    reread: int
    lost: int
    calls: float
    rate: float
    market: SweepMarket

    def __str__(self) -> str:
        prices = self.market.prices
        lost = f" + {self.lost:,} tokens of signed thinking x {prices.write:g}" if self.lost else ""
        return (
            f"from {self.full:,} down to {self.level:,} tokens costs {self.rate:,.0f} input tokens per call ="
            f" ({self.reread:,} tokens cached again x {prices.again:.3g}{lost}) / {self.calls:,.0f} calls"
            f" + {self.held:,} tokens kept x {prices.read:g} - {self.market.worth(self.held):,.0f} for their value;"
            f" {self.market}"
        )


def compute_sweep_cost(level: int, full: int, market: SweepMarket, kept: int = 0, lost: int = 0) -> SweepCost:
    """The cost of a sweep down to `level` tokens. The first `kept` tokens stay cached."""
    calls = max(1.0, min((full - level) / market.pace.growth, market.pace.calls))
    reread = max(0, level - kept)
    once = reread * market.prices.again + lost * market.prices.write
    held = int(level + min(full, level + calls * market.pace.growth)) // 2
    rate = once / calls + market.prices.read * held - market.worth(held)
    return SweepCost(level, full, held, reread, lost, calls, rate, market)


def find_best_level(least: int, full: int, market: SweepMarket, kept: int = 0, lost: int = 0) -> SweepCost:
    """The sweep with the lowest cost per call, down to a level of at least `least` tokens."""
    top = max(least, int(full * _MAX_LEVEL))
    levels = (least + (top - least) * step // _STEPS for step in range(_STEPS + 1))
    return min((compute_sweep_cost(level, full, market, kept, lost) for level in levels), key=lambda each: each.rate)


def find_sweep_fill(room: int, market: SweepMarket, least: int = 0) -> int:
    """The fill, in tokens, at which a sweep costs least per call. `least` tokens of it must stay."""
    lowest = max(room // 8, int(least * _MIN_FILL_FACTOR))
    if market.pays(room) or lowest >= room:
        return room
    fills = range(room, lowest, -max(1, room // 12))
    sums = (
        compute_sweep_cost(max(least, int(fill * share)), fill, market) for fill in fills for share in _TRIED_LEVELS
    )
    return min(sums, key=lambda each: each.rate).full


def _is_sweep_cheaper(tokens: int, room: int, market: SweepMarket, least: int) -> bool:
    """Whether a sweep now costs less over the expected calls than none at all."""
    held = min(room, tokens + market.pace.calls * market.pace.growth / 2)
    rate = market.prices.read * held - market.worth(held)
    return any(compute_sweep_cost(max(least, int(tokens * share)), room, market).rate < rate for share in _TRIED_LEVELS)


def sweep_urgency(tokens: int, room: int, market: SweepMarket, least: int = 0) -> float:
    """How near a sweep is: at 1 and above it is due. `least` is the number of tokens that a sweep cannot remove.

    With a cold cache it is due as soon as it frees enough, if it would be made soon anyway: within so few calls that
    the tokens held until then are worth less than the price of writing them again.
    """
    warm = market._replace(prices=market.prices._replace(cold=False))
    # While one more token pays, no sweep does.
    full = room if market.pays(tokens) else find_sweep_fill(room, warm, least)
    if full <= tokens < room and not _is_sweep_cheaper(tokens, room, warm, least):
        full = room
    if market.prices.cold and tokens > max(room * _COLD_SWEEP_FILL, least * _MIN_FILL_FACTOR):
        calls = max(0.0, (full - tokens) / market.pace.growth)
        gain = market.first / (1 + tokens / _HALF_VALUE_TOKENS) - market.prices.read
        if calls * max(0.0, gain) < market.prices.write:
            return 1.0 + tokens / max(1, full)
    return tokens / max(1, full)
