"""The cost of tokens, in dollars. An estimate for spending limits and display; the provider's bill decides."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.sweep.cost_model import ASSUMED_PRICES, CachePrices
from tidegate.core.usage import Usage

_MILLION = 1_000_000
# Only Anthropic charges for keeping input for an hour: https://platform.claude.com/docs/en/about-claude/pricing
_HOUR_WRITE = 2.0  # times the price of fresh input


class TokenRates(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Dollars per million tokens, for prompts of more than `above` tokens.

    None: the provider has no such price, and tokens read from or written to its cache cost as much as other input.
    Treating them as free would let spending limits be exceeded.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    above: int = 0


def compute_relative_prices(rates: Sequence[TokenRates]) -> CachePrices:
    """The prices that a policy compares: of reading from the cache, writing to it and of answers, relative to fresh
    input, and where long prompts begin to cost more.
    """
    if not rates or not rates[0].input:
        return ASSUMED_PRICES
    first = rates[0]
    read, write = (first.input if each is None else each for each in (first.cached, first.written))
    step = next((rate.above for rate in rates[1:] if rate.input > first.input), 0)
    output = first.output / first.input
    return CachePrices(read / first.input, write / first.input, known=True, output=output, step=step)


def take_dearer(one: Sequence[TokenRates], other: Sequence[TokenRates]) -> tuple[TokenRates, ...]:
    """Return rates by which every request costs at least what it costs by either."""
    if not one or not other:
        return tuple(one or other)
    steps = sorted({rate.above for rate in (*one, *other)})
    pairs = [(_rates_at(one, above), _rates_at(other, above), above) for above in steps]
    return tuple(
        TokenRates(
            max(a.input, b.input),
            max(a.output, b.output),
            max(_or_input(a.cached, a), _or_input(b.cached, b)),
            max(_or_input(a.written, a), _or_input(b.written, b)),
            above,
        )
        for a, b, above in pairs
    )


def _rates_at(rates: Sequence[TokenRates], above: int) -> TokenRates:
    return max((rate for rate in rates if rate.above <= above), key=lambda rate: rate.above)


def _or_input(price: float | None, rates: TokenRates) -> float:
    return rates.input if price is None else price


class RequestCost(NamedTuple):
    """Dollars. `cached` and `written` are for tokens read from and written to the provider's cache."""

    input: float
    cached: float
    written: float
    output: float
    total: float


def compute_cost(usage: Usage, rates: Sequence[TokenRates]) -> RequestCost | None:
    """Compute the cost; None without rates. A prompt above a step pays that step's rates for all its tokens."""
    brackets = [rate for rate in rates if rate.above == 0 or usage.input_tokens > rate.above]
    if not brackets:
        return None
    rate = max(brackets, key=lambda each: each.above)
    plain = max(usage.input_tokens - usage.cache_read - usage.cache_write, 0)
    read = plain * rate.input / _MILLION
    cached = usage.cache_read * (rate.input if rate.cached is None else rate.cached) / _MILLION
    write = rate.input if rate.written is None else rate.written
    long_write = max(write, _HOUR_WRITE * rate.input)
    cache_write = ((usage.cache_write - usage.cache_write_1h) * write + usage.cache_write_1h * long_write) / _MILLION
    output = usage.output_tokens * rate.output / _MILLION
    return RequestCost(read, cached, cache_write, output, read + cached + cache_write + output)
