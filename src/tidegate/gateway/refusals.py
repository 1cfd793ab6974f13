"""What follows a refusal: a smaller request, or the refusal itself for the client.

- The upstream says that the request is too long: the view is made smaller, as often as the policy allows for a
  request. A window that it names is used if it is believed; if it names none, the size of the refused request is a
  ceiling (`models/window_evidence.py`).
- It says something that is not known, or names a window that is not believed, and the request is large: above 60% of
  the window, or larger than any that was accepted before. A much smaller view is tried once. If that is accepted, the
  words are remembered for this upstream. If not, the view is restored, and the client gets the first refusal unchanged
  (`session/smaller_try.py`).
- It refuses the signed thinking of a request that carries something of ours: the request is sent again without any,
  for good (`bound_thinking.py`).
- Everything else goes to the client as it is.
"""

from collections.abc import Callable
from typing import Final

from tidegate.core.errors import GiveUp, TooSmall
from tidegate.gateway.bound_thinking import BoundThinking
from tidegate.gateway.exchange import Exchange, UpstreamFailure
from tidegate.gateway.http_messages import read_headers
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.windows import UpstreamWindows
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.window_evidence import OwnCount, hash_words
from tidegate.session.following import FollowedRequest
from tidegate.session.smaller_try import (
    CEILING_SHARE,
    TRIED_SHARE,
    SmallerTry,
    find_smaller_window,
    is_large,
    may_mean_length,
)
from tidegate.store.errors import StoreUnreachable
from tidegate.wire.splicing.units import HostUnit

_CEILING_SHARES: Final = (CEILING_SHARE, 0.5)
"""Of a request that was refused without a number, for the first try and for the next ones."""
_MAX_TOKENS_RATIO: Final = 3.0
"""An upstream counts at most this many times as many tokens as the own counter."""

_FAILURES: Final = (GiveUp, TooSmall, StoreUnreachable, OSError)


class Refusals:
    def __init__(
        self,
        windows: UpstreamWindows,
        thinking: BoundThinking,
        gate: StoreGate,
        metrics: Metrics,
        log_line: Callable[[str], None],
    ) -> None:
        self._windows = windows
        self._thinking = thinking
        self._gate = gate
        self._metrics = metrics
        self._log_line = log_line

    async def find_next(self, exchange: Exchange, failure: UpstreamFailure) -> UpstreamFailure | None:
        """None: send the request again, it is smaller now. Else what the client gets."""
        if exchange.smaller_try is not None:
            await self._take_back(exchange, exchange.smaller_try)
            return exchange.first_refusal or failure
        error = classify_response(
            failure.status, failure.body, read_headers(failure.headers), request=exchange.sent_text
        )
        if error.kind == "reasoning_state" and await self._discard_thinking(exchange):
            return None
        words = hash_words(error)
        if error.kind == "overflow" or self._windows.knows_words(exchange.window_key, words):
            if await self.shrink(exchange, error):
                return None
            if error.kind != "overflow":
                return failure
        session = exchange.conversation.following.session
        largest = self._windows.largest_accepted(exchange.window_key)
        if (
            may_mean_length(failure.status, error, session.recovery.refusals)
            and is_large(exchange.followed.tokens, session.window, largest)
            and not self._windows.is_fruitless(exchange.window_key, words)
            and await self._try_smaller(exchange, failure, words)
        ):
            return None
        return failure

    async def _discard_thinking(self, exchange: Exchange) -> bool:
        """Leave out all signed thinking; after a second refusal, the client's demand for it, too."""
        if not self._thinking.take_refusal(exchange):
            return False
        following, items = exchange.conversation.following, exchange.client.items
        try:
            call = following.session.call_async
            exchange.followed = await self._gate.wait(call, following.discard_thinking, items)
        except _FAILURES as failure:
            self._log_line(f"thinking was not left out: {type(failure).__name__}")
            return False
        return True

    async def shrink(self, exchange: Exchange, error: ProviderError) -> bool:
        """Make the view smaller after a refusal for its length. False if that is not possible."""
        session = exchange.conversation.following.session
        tokens = exchange.followed.tokens
        if error.window:
            count = OwnCount(tokens, exchange.dialect.output.read(exchange.client.body))
            window = await self._windows.take_refusal(exchange.window_key, error, count)
            if window is None:
                self._log_line("the upstream refused the request for its length, with a window that is not believed")
                return False
            exchange.conversation.own_limit = window, self._windows.now
        else:
            refused_tokens = min(error.prompt_tokens or tokens, int(tokens * _MAX_TOKENS_RATIO))
            share = _CEILING_SHARES[min(session.recovery.refusals, 1)]
            window = find_smaller_window(session.budget, refused_tokens, share)
            if window is None:
                return False
            await self._windows.take_ceiling(exchange.window_key, window)
            exchange.conversation.own_limit = window, self._windows.now
        if not await self._make_smaller(exchange, window, error.prompt_tokens):
            return False
        self._metrics.count("overflows", dialect=exchange.client.dialect)
        return True

    async def note_accepted(self, exchange: Exchange, smaller_try: SmallerTry) -> None:
        """The upstream accepted a smaller request: its first refusal was about the length."""
        exchange.smaller_try = None
        self._metrics.count("overflows", dialect=exchange.client.dialect)
        self._log_line("the upstream refused a request in unknown words and accepted a smaller one: it was too long")
        budget = exchange.conversation.following.session.budget
        ceiling = find_smaller_window(budget, smaller_try.refused_tokens, CEILING_SHARE)
        await self._windows.take_words(exchange.window_key, smaller_try.words, ceiling)

    async def _try_smaller(self, exchange: Exchange, failure: UpstreamFailure, words: str) -> bool:
        session, first_request = exchange.conversation.following.session, exchange.followed
        window = find_smaller_window(session.budget, first_request.tokens, TRIED_SHARE)
        if window is None:
            return False
        before = sum(session.edit_counts.values())
        has_made_smaller = await self._make_smaller(exchange, window, None)
        smaller_try = SmallerTry(words, first_request.tokens, sum(session.edit_counts.values()) - before)
        if has_made_smaller and exchange.followed.tokens < first_request.tokens:
            exchange.smaller_try, exchange.first_refusal = smaller_try, failure
            return True
        exchange.followed = first_request
        await self._take_back(exchange, smaller_try)
        return False

    async def _take_back(self, exchange: Exchange, attempt: SmallerTry) -> None:
        """Restore the view as it was before the smaller one. The next request sets the window again."""
        self._windows.note_fruitless(exchange.window_key, attempt.words)
        recovery = exchange.conversation.following.session.recovery
        try:
            call = exchange.conversation.following.session.call_async
            await self._gate.wait(call, recovery.take_back, attempt.edits)
        except _FAILURES as failure:
            self._log_line(f"a smaller view was not taken back: {type(failure).__name__}")

    async def _make_smaller(self, exchange: Exchange, window: int, tokens: int | None) -> bool:
        following, items = exchange.conversation.following, exchange.client.items

        def shrink() -> FollowedRequest[HostUnit]:
            following.session.recovery.learn_limits(window, tokens)
            return following.shrink(items)

        try:
            exchange.followed = await self._gate.wait(following.session.call_async, shrink)
        except _FAILURES as failure:
            self._log_line(f"the upstream refused the request for its length: {type(failure).__name__}")
            return False
        return True
