"""Compute what requests would have cost at a model's real prices.

A provider's prompt cache returns the beginning of a prompt that it read recently. Here that is the longest run of whole
leading messages shared with the previous request, if it is long enough to be cached and not older than the cache keeps
it. In recordings without times nothing expires.

The model's answers cost the same under every policy and are left out. Summaries that a policy requests are included,
and so are state notes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.core.usage import Usage
from tidegate.models.pricing import TokenRates, compute_cost


class _CacheRules(msgspec.Struct, frozen=True):
    """A provider's cache: a prefix of at least `min_tokens` is kept, in whole steps of `token_step`, until it was not
    used for `lifetime_seconds`.
    """

    min_tokens: int
    token_step: int
    lifetime_seconds: float


_EXPLICIT_CACHE: Final = _CacheRules(1_024, 1, 300.0)  # asked for by a mark, and writing it has its price
_AUTOMATIC_CACHE: Final = _CacheRules(
    1_024, 128, 300.0
)  # the provider keeps what it likes, and only reading has a price


def _choose_cache_rules(rates: Sequence[TokenRates]) -> _CacheRules | None:
    """Return how the cache of a model with these prices works; None if it has none."""
    if not rates or rates[0].cached is None:
        return None
    return _AUTOMATIC_CACHE if rates[0].written is None else _EXPLICIT_CACHE


class InputBill:
    """The bill of one session. Add requests in order. `times` are the seconds of each message, if recorded."""

    def __init__(self, rates: Sequence[TokenRates], times: Sequence[float | None] = ()) -> None:
        self._rates = rates
        self._rules = _choose_cache_rules(rates)
        self._times = times
        self._previous_index: int | None = None
        self.dollars = 0.0
        self.expired_requests = 0
        """Requests that found the cache empty because too much time had passed."""

    def add_request(self, at: int, tokens: float, shared: float) -> None:
        rules = self._rules
        read = 0
        if rules and shared >= rules.min_tokens:
            read = int(shared) // rules.token_step * rules.token_step
            if self._is_expired(at, rules.lifetime_seconds):
                read = 0
                self.expired_requests += 1
        whole = max(round(tokens), read)
        cache_write = whole - read if rules is _EXPLICIT_CACHE and whole >= rules.min_tokens else 0
        self._charge(Usage(whole, 0, read, cache_write))
        self._previous_index = at

    def add_summary(self, tokens_in: float, tokens_out: float) -> None:
        """Add a summary: a call of its own, with nothing of it in the cache."""
        self._charge(Usage(round(tokens_in), round(tokens_out), 0, 0))

    def add_note(self, cached: float, new: float, tokens_out: float) -> None:
        """Add a state note: the request before, which the cache has as a whole, with an instruction at its end."""
        rules = self._rules
        read = int(cached) // rules.token_step * rules.token_step if rules and cached >= rules.min_tokens else 0
        self._charge(Usage(max(round(cached + new), read), round(tokens_out), read, 0))

    def _charge(self, usage: Usage) -> None:
        price = compute_cost(usage, self._rates)
        self.dollars += price.total if price else 0.0

    def _is_expired(self, at: int, seconds: float) -> bool:
        if self._previous_index is None or not self._times:
            return False
        then, now = self._times[self._previous_index], self._times[at]
        return then is not None and now is not None and now - then > seconds
