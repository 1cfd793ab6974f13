"""Refusals for length or for signed thinking: what a host learns from them, for all its sessions.

A host is an adapter or a client of `tidegate.managed`. Before a request, `apply` applies what is known of its upstream
and model. After a refusal, `answer` learns from it, and returns another request if that may be accepted: a shorter one,
or one without signed thinking. After a large request was refused with unknown words it returns a much smaller one, once
(`smaller_try.py`); if that is refused, too, the host raises the first error. After an answer, `take_accepted` learns.
`models/window_evidence.py` decides which windows are believed, and for how long. A refusal without a number counts as
one that names somewhat less than what was refused.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from tidegate.core.errors import GiveUp, TooSmall
from tidegate.models.errors.classification import ERROR_CAUSES, ProviderError
from tidegate.models.window_evidence import OwnCount, WindowEvidence, WindowKey, estimate_accepted, hash_words
from tidegate.session.following import FollowedRequest, FollowingSession, HostObject
from tidegate.session.session import Session
from tidegate.session.signed_thinking import RefusedThinking, has_thinking_behind_edits
from tidegate.session.smaller_try import (
    CEILING_SHARE,
    TRIED_SHARE,
    SmallerTry,
    find_smaller_window,
    is_large,
    may_mean_length,
)

_LOG: Final = logging.getLogger(__name__)


class RefusalMemory:
    """What the refusals of a host's upstreams say. Several threads may use it, each for a session of its own."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._evidence = WindowEvidence()
        self._refused_thinking = RefusedThinking()
        self._clock = clock
        self._lock = Lock()

    def apply(self, following: FollowingSession[HostObject], key: WindowKey) -> None:
        """Keep the next request of a session within what refusals say about its model, as long as they are believed."""
        with self._lock:
            window = self._evidence.find_window(key, self._clock())
            self._refused_thinking.apply(following, key.upstream, key.model)
        with suppress(TooSmall):
            _limit_window(following.session, window)

    def answer(
        self,
        following: FollowingSession[HostObject],
        request: FollowedRequest[HostObject],
        error: ProviderError,
        key: WindowKey,
        max_output: int,
    ) -> FollowedRequest[HostObject] | None:
        """The request to send instead; None if none may be accepted, or after the last attempt."""
        if request.tried is not None:
            self._take_back(following, request.tried, key)
            return None
        try:
            if error.kind == "reasoning_state":
                return self._discard_thinking(following, request, key)
            words = hash_words(error)
            with self._lock:
                is_known = self._evidence.knows_words(key, words)
            if is_known and error.kind != "overflow":
                error = ProviderError("overflow", ERROR_CAUSES["overflow"])
            if self._take_refusal(following.session, key, error, OwnCount(request.tokens, max_output)):
                return following.shrink(request.items)
            return self._try_smaller(following, request, error, key, words)
        except (GiveUp, TooSmall, OSError):
            return None

    def _discard_thinking(
        self, following: FollowingSession[HostObject], request: FollowedRequest[HostObject], key: WindowKey
    ) -> FollowedRequest[HostObject] | None:
        """The request without signed thinking; None if it had none, or carried nothing of ours."""
        if not has_thinking_behind_edits(request):
            return None
        with self._lock:
            self._refused_thinking.note(following, key.upstream, key.model)
        _LOG.warning(
            "%s refused the thinking of %s after an edit: it is left out from now on, here and after every later edit",
            key.upstream or "The provider",
            key.model,
        )
        return following.discard_thinking(request.items)

    def _take_refusal(self, session: Session, key: WindowKey, error: ProviderError, count: OwnCount) -> bool:
        """Learn from a refusal. Return whether a shorter request may be accepted."""
        if error.kind != "overflow" and not (error.kind == "output_cap" and error.window):
            return False
        now, ceiling = self._clock(), None
        if not (error.window or error.prompt_tokens):
            ceiling = session.recovery.estimate_refused_window()
            count = count._replace(output=max(count.output, session.budget.reserve))
        with self._lock:
            window = self._evidence.take_refusal(key, error, count, now, ceiling)
            is_known = self._evidence.find_window(key, now) is not None
        if error.window and window is None:
            return False
        if window is not None:
            _limit_window(session, window)
        if window is not None and not is_known:
            session.recovery.learn_limits(window)  # for this conversation only
        if error.window and count.prompt <= error.window < count.prompt + count.output:
            session.recovery.keep_output()
        session.recovery.learn_limits(None, error.prompt_tokens)
        return True

    def _try_smaller(
        self,
        following: FollowingSession[HostObject],
        request: FollowedRequest[HostObject],
        error: ProviderError,
        key: WindowKey,
        words: str,
    ) -> FollowedRequest[HostObject] | None:
        """A much smaller request, if the refusal may be about the length."""
        session = following.session
        with self._lock:
            largest = self._evidence.largest_accepted(key, self._clock())
            is_fruitless = self._evidence.is_fruitless(key, words)
        may_be_length = may_mean_length(error.status, error, session.recovery.refusals)
        if is_fruitless or not (may_be_length and is_large(request.tokens, session.window, largest)):
            return None
        window = find_smaller_window(session.budget, request.tokens, TRIED_SHARE)
        if window is None:
            return None
        before, smaller = sum(session.edit_counts.values()), None
        with suppress(GiveUp, TooSmall):
            _limit_window(session, window)
            smaller = following.shrink(request.items)
        attempt = SmallerTry(words, request.tokens, sum(session.edit_counts.values()) - before)
        if smaller is None or smaller.tokens >= request.tokens:
            self._take_back(following, attempt, key)
            return None
        return smaller._replace(tried=attempt)

    def _take_back(self, following: FollowingSession[HostObject], attempt: SmallerTry, key: WindowKey) -> None:
        """Restore the view as it was before the smaller one, and the window."""
        with self._lock:
            self._evidence.note_fruitless(key, attempt.words)
        self.apply(following, key)
        try:
            following.session.recovery.take_back(attempt.edits)
        except (GiveUp, TooSmall, OSError) as failure:
            _LOG.warning("A smaller view was not taken back: %s", type(failure).__name__)

    def take_accepted(
        self, following: FollowingSession[Any], request: FollowedRequest[Any], key: WindowKey, tokens: int
    ) -> None:
        """Take note of a request that was answered, with the input tokens that the provider reported, if it did."""
        attempt = request.tried
        with self._lock:
            now = self._clock()
            self._evidence.take_accepted(key, estimate_accepted(tokens, request.tokens), now)
            if attempt is None:
                return
            self._evidence.take_words(key, attempt.words, now)
            ceiling = find_smaller_window(following.session.budget, attempt.refused_tokens, CEILING_SHARE)
            if ceiling is not None:
                self._evidence.take_ceiling(key, ceiling, now)
        _LOG.warning("A request was refused in unknown words, and a smaller one accepted: it was too long.")


def _limit_window(session: Session, tokens: int | None) -> None:
    """Use at most this much of the window. TooSmall: the session has no limit, the provider shall say so itself."""
    session.recovery.limit_window(tokens)
    try:
        session.budget  # noqa: B018 - it is computed
    except TooSmall:
        session.recovery.limit_window(None)
        raise
