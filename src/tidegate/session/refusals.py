"""Refusals for length or for signed thinking: what a host learns from them, for all its sessions.

A host is an adapter or a client of `tidegate.managed`. Before a request, `apply` applies what is known of its upstream
and model. After a refusal, `answer` learns from it, and returns another request if that may be accepted: a shorter one,
or one without signed thinking.
`models/window_evidence.py` decides which windows are believed, and for how long. A refusal without a number counts as
one that names somewhat less than what was refused.
"""

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from tidegate.core.errors import GiveUp, TooSmall
from tidegate.models.errors.classification import ProviderError
from tidegate.models.window_evidence import OwnCount, WindowEvidence, WindowKey
from tidegate.session.following import FollowedRequest, FollowingSession, HostObject
from tidegate.session.refused_thinking import RefusedThinking, has_thinking_behind_edits
from tidegate.session.session import Session

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
        _limit_window(following.session, window)

    def answer(
        self,
        following: FollowingSession[HostObject],
        refused: FollowedRequest[HostObject],
        error: ProviderError,
        key: WindowKey,
        max_output: int,
    ) -> FollowedRequest[HostObject] | None:
        """The request to send instead; None if none may be accepted, or after the last attempt."""
        try:
            if error.kind == "reasoning_state":
                return self._discard_thinking(following, refused, key)
            may_pass = self._take_refusal(following.session, key, error, OwnCount(refused.tokens, max_output))
            return following.shrink(refused.items) if may_pass else None
        except (GiveUp, TooSmall, OSError):
            return None

    def _discard_thinking(
        self, following: FollowingSession[HostObject], refused: FollowedRequest[HostObject], key: WindowKey
    ) -> FollowedRequest[HostObject] | None:
        """The request without signed thinking; None if it had none, or carried nothing of ours."""
        if not has_thinking_behind_edits(refused):
            return None
        with self._lock:
            self._refused_thinking.note(following, key.upstream, key.model)
        _LOG.warning(
            "%s refused the thinking of %s after an edit: it is left out from now on, here and after every later edit",
            key.upstream or "The provider",
            key.model,
        )
        return following.discard_thinking(refused.items)

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
        if window is not None and not _limit_window(session, window):
            return False
        if window is not None and not is_known:
            session.recovery.learn_limits(window)  # for this conversation only
        if error.window and count.prompt <= error.window < count.prompt + count.output:
            session.recovery.keep_output()
        session.recovery.learn_limits(None, error.prompt_tokens)
        return True

    def take_accepted(self, key: WindowKey, tokens: int) -> None:
        """Take note of a request that was answered, with the input tokens that the provider reported."""
        with self._lock:
            self._evidence.take_accepted(key, tokens, self._clock())


def _limit_window(session: Session, tokens: int | None) -> bool:
    """Whether the session can work within this limit. Else it has none: the provider shall say so itself."""
    session.recovery.limit_window(tokens)
    try:
        session.budget  # noqa: B018 - it is computed
    except TooSmall:
        session.recovery.limit_window(None)
        return False
    return True
