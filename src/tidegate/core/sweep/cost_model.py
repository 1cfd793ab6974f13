"""What an edit costs and what it saves, in the price of one token of fresh input.

A provider reads what it has in its cache for a tenth, and asks a little more than one for what it must write into it.
An edit moves the prefix: whatever stands behind it is written again, once. In return every call that follows reads
less, until the view is full again. A view that is swept down to the level L and grows by g tokens a call to the fill H,
so that it holds (L + H) / 2 of them on average, costs for each of the n = (H - L) / g calls until the next sweep

    (reread * (write - read) + lost * write) / n  +  read * held  -  worth(held)

`lost` is signed thinking behind the edit: it cannot be sent again. What is held is worth the more, the more comes with
each call, for the more is referred to; and each further token is worth less, since most that is referred to is near:

    worth(held) = fidelity * g / 1,000 * UNIT * ln(1 + held / UNIT)

`fidelity` is the knob between a low bill and a full view. While a token is worth more than it costs to read, the room
is filled before anything is swept; in a very large window a sweep pays before it is full. No more calls are expected
than there were, so a short session is not swept for a future it may not have. With a cold cache everything is written
again anyway: a sweep that is near is then made at once, for it costs nothing.
"""

import math
from typing import Final, NamedTuple

DEFAULT_FIDELITY: Final = 1.5
_HALF_VALUE_TOKENS: Final = 16_000
"""Tokens that are held: one more is then worth half of what the first was."""
_SLOW: Final = 400.0  # tokens a call: in a session of short messages each is worth as much as if it were this pace
_STEPS: Final = 40
_FEW: Final = 8  # calls that are expected of the shortest session
_ENOUGH: Final = 0.5  # of the room: what must be there for a sweep that nothing forces
_LEVELS: Final = (0.3, 0.55)  # of the fill, down to which a sweep may go: to find out when it pays
_ABOVE: Final = 1.25  # times what must stay: a sweep that nothing forces would free too little below that
_FULLEST: Final = 0.85  # of the room: a sweep that leaves more would soon be followed by the next


class CachePrices(NamedTuple):
    """Of a token that the cache has, and of one it gets. `lifetime`: seconds after which it has forgotten.

    The defaults are what most providers ask; `known` says whether they are the model's own.
    """

    read: float = 0.1
    write: float = 1.25
    lifetime: float = 300.0
    known: bool = False
    cold: bool = False

    @property
    def again(self) -> float:
        """What it costs that a token must be written again, which else would have been read."""
        return 0.0 if self.cold else self.write - self.read

    def __str__(self) -> str:
        told = f"read {self.read:g}, write {self.write:g}" + ("" if self.known else " assumed, for they are not known")
        return f"{told}; the cache is cold" if self.cold else told


ASSUMED_PRICES: Final = CachePrices()


class SessionPace(NamedTuple):
    """What the session taught: tokens that come with each call, and how many calls are still to come."""

    growth: float
    calls: int

    @classmethod
    def of(cls, tokens: int, calls: int) -> "SessionPace":
        """From all that was said so far, in so many calls."""
        return cls(max(1.0, tokens / max(1, calls)), max(_FEW, calls))


class SweepMarket(NamedTuple):
    """What a decision goes by."""

    pace: SessionPace
    prices: CachePrices
    fidelity: float = DEFAULT_FIDELITY

    @property
    def first(self) -> float:
        """What holding the first token is worth for one call."""
        return self.fidelity * max(self.pace.growth, _SLOW) / 1_000

    def worth(self, held: float) -> float:
        """What holding so many tokens is worth for one call."""
        return self.first * _HALF_VALUE_TOKENS * math.log1p(held / _HALF_VALUE_TOKENS)

    def pays(self, held: float) -> bool:
        """Is one more token worth what reading it costs?"""
        return self.first / (1 + held / _HALF_VALUE_TOKENS) >= self.prices.read

    def __str__(self) -> str:
        return (
            f"{self.pace.growth:,.0f} tokens come with a call, {self.pace.calls:,} calls expected;"
            f" prices {self.prices}; fidelity {self.fidelity:g}"
        )


class SweepCost(NamedTuple):
    """The arithmetic of one sweep: down to `level`, until `full`, in `calls`. `rate` is its sum per call."""

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
        lost = f" + {self.lost:,} signed x {prices.write:g}" if self.lost else ""
        return (
            f"to {self.level:,} of {self.full:,} tokens: ({self.reread:,} read again x {prices.again:.3g}{lost})"
            f" / {self.calls:,.0f} calls + {self.held:,} held x {prices.read:g} - {self.market.worth(self.held):,.0f}"
            f" they are worth = {self.rate:,.0f} a call; {self.market}"
        )


def compute_sweep_cost(level: int, full: int, market: SweepMarket, kept: int = 0, lost: int = 0) -> SweepCost:
    """The sum per call of a sweep down to `level`. The first `kept` tokens stay in the cache."""
    calls = max(1.0, min((full - level) / market.pace.growth, market.pace.calls))
    reread = max(0, level - kept)
    once = reread * market.prices.again + lost * market.prices.write
    held = int(level + min(full, level + calls * market.pace.growth)) // 2
    rate = once / calls + market.prices.read * held - market.worth(held)
    return SweepCost(level, full, held, reread, lost, calls, rate, market)


def find_best_level(least: int, full: int, market: SweepMarket, kept: int = 0, lost: int = 0) -> SweepCost:
    """The level at which the sum is the least. It is at least `least`, which must stay."""
    top = max(least, int(full * _FULLEST))
    levels = (least + (top - least) * step // _STEPS for step in range(_STEPS + 1))
    return min((compute_sweep_cost(level, full, market, kept, lost) for level in levels), key=lambda each: each.rate)


def find_sweep_fill(room: int, market: SweepMarket, least: int = 0) -> int:
    """How full a view may be before a sweep pays: the fill for which the sum is least. So much of it must stay."""
    lowest = max(room // 8, int(least * _ABOVE))
    if market.pays(room) or lowest >= room:
        return room
    fills = range(room, lowest, -max(1, room // 12))
    sums = (compute_sweep_cost(max(least, int(fill * share)), fill, market) for fill in fills for share in _LEVELS)
    return min(sums, key=lambda each: each.rate).full


def _gains(tokens: int, room: int, market: SweepMarket, least: int) -> bool:
    """Is a sweep now better, over the calls that are expected, than none at all?"""
    held = min(room, tokens + market.pace.calls * market.pace.growth / 2)
    rate = market.prices.read * held - market.worth(held)
    return any(compute_sweep_cost(max(least, int(tokens * share)), room, market).rate < rate for share in _LEVELS)


def sweep_urgency(tokens: int, room: int, market: SweepMarket, least: int = 0) -> float:
    """How near a sweep is: from 1 on it is time. `least` is what a sweep cannot take.

    With a cold cache it is time as soon as a sweep frees enough, if it would be made within so few calls that what is
    held until then is worth less than writing it once more.
    """
    warm = market._replace(prices=market.prices._replace(cold=False))
    full = (
        room if market.pays(tokens) else find_sweep_fill(room, warm, least)
    )  # while one more token pays, no sweep does
    if full <= tokens < room and not _gains(tokens, room, warm, least):
        full = room
    if market.prices.cold and tokens > max(room * _ENOUGH, least * _ABOVE):
        calls = max(0.0, (full - tokens) / market.pace.growth)
        gain = market.first / (1 + tokens / _HALF_VALUE_TOKENS) - market.prices.read
        if calls * max(0.0, gain) < market.prices.write:
            return 1.0 + tokens / max(1, full)
    return tokens / max(1, full)
