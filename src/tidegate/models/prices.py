"""What tokens cost, in dollars. The provider's bill is the truth; this is for caps and for the screen."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.price import ASSUMED, Prices
from tidegate.wire.usage import Usage

MILLION = 1_000_000


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Dollars for a million tokens, for prompts of more than `above` tokens.

    None: the provider has no such price, and what it reads from its cache or writes to it costs as any input. To take
    it for free would let a spend cap pass by.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    above: int = 0


def relative(rates: Sequence[Rates]) -> Prices:
    """What a policy weighs: reading from the cache and writing to it, in the price of fresh input."""
    if not rates or not rates[0].input:
        return ASSUMED
    first = rates[0]
    read, write = (first.input if each is None else each for each in (first.cached, first.written))
    return Prices(read / first.input, write / first.input, known=True)


class Price(NamedTuple):
    """Dollars. `cached` and `written` are what was read from and written to the provider's cache."""

    input: float
    cached: float
    written: float
    output: float
    total: float


def price_of(usage: Usage, rates: Sequence[Rates]) -> Price | None:
    """None without rates: the price is not known. A prompt above a step pays that step's rates for all its tokens."""
    reached = [rate for rate in rates if rate.above == 0 or usage.input_tokens > rate.above]
    if not reached:
        return None
    rate = max(reached, key=lambda each: each.above)
    plain = max(usage.input_tokens - usage.cache_read - usage.cache_write, 0)
    read = plain * rate.input / MILLION
    cached = usage.cache_read * (rate.input if rate.cached is None else rate.cached) / MILLION
    written = usage.cache_write * (rate.input if rate.written is None else rate.written) / MILLION
    output = usage.output_tokens * rate.output / MILLION
    return Price(read, cached, written, output, read + cached + written + output)
