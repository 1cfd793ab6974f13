"""Prices of cached tokens, and what a sweep costs, in units of the price of one uncached input token.

A provider charges about a tenth of that price for a cached token, and a little more than one for a token that it writes
to the cache. After an edit, everything behind it is written again, once. In return each later call reads less, until
the view is full again.

When a sweep pays follows from that, whatever the window is: once reading what came since the last sweep has cost as
much as a sweep costs (`core/budget.py`). Sweeps that come earlier cost more for writing than they save for reading,
later ones the other way round. Nothing has to be known of the session's length: whenever it ends, other moments would
have saved at most half of what the sweeps and reading the text between them cost.
"""

from typing import Final, NamedTuple

from tidegate.core.text.plural import format_count


class CachePrices(NamedTuple):
    """Prices of a cached token (`read`) and of one that is written to the cache. `lifetime` is in seconds.

    The defaults are usual prices and the usual lifetime; `known` says whether the prices are those of the model.
    `cold`: the cache has expired. `output` is the price of a token that the model writes. For prompts of more than
    `step` tokens every token is dearer; 0 if there is no such step.
    """

    read: float = 0.1
    write: float = 1.25
    lifetime: float = 300.0
    known: bool = False
    cold: bool = False
    output: float = 5.0
    step: int = 0

    @property
    def again(self) -> float:
        """The extra price of a token that is written to the cache again instead of read from it."""
        return 0.0 if self.cold else self.write - self.read

    def __str__(self) -> str:
        prices = (
            f"a token costs {self.read:g} times its input price if it is read from the cache, "
            f"{self.write:g} times if it is written to it"
        )
        prices += "" if self.known else " (assumed: the prices of the model are not known)"
        return f"{prices}; the provider's cache has expired" if self.cold else prices


ASSUMED_PRICES: Final = CachePrices()


class Holding(NamedTuple):
    """A policy's terms for a sweep before the room is full.

    `least` tokens of history are held whatever they cost; `leaves` is the share that a sweep leaves.
    """

    least: int
    leaves: float


class SweepCost(NamedTuple):
    """The cost of a sweep down to `level` tokens, of which `rewritten` are written to the cache again.

    The view then grows by `growth` tokens a call until it has `full` again.
    """

    level: int
    rewritten: int
    full: int
    growth: float
    prices: CachePrices

    @property
    def calls(self) -> float:
        """The calls until the next sweep."""
        return max(1.0, (self.full - self.level) / self.growth)

    @property
    def rate(self) -> float:
        """What is written again, per call. What is held is not in it: how much that should be is for the policy."""
        return self.rewritten * self.prices.again / self.calls

    def at_level(self, level: int) -> "SweepCost":
        """The cost of the same sweep down to another level."""
        return self._replace(level=level, rewritten=self.rewritten + level - self.level)

    def __str__(self) -> str:
        return (
            f"down to {self.level:,} tokens, of which {self.rewritten:,} are written to the cache again;"
            f" {self.full:,} are reached after about {format_count(round(self.calls), 'call')}; {self.prices}"
        )
