"""What may be done about a request that was refused, so that the next one is not.

Each provider's own words decide (`models/faults`). What was refused for its size is made smaller, as often as the
session allows in a turn; what is refused whatever its size (pictures, reasoning that is no longer taken back) leaves
the view, once; of too much output the named limit is asked for, once. All else no change of ours can step.
"""

from typing import Final, Literal

from tidegate.models.errors.classification import ProviderError
from tidegate.session.recovery import lower_output, omit_images
from tidegate.session.request import Request
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer

SIZE_ERROR_KINDS: Final = frozenset({"overflow", "rate_bucket", "bytes"})
"""Refused for its size: a smaller request may pass. Whatever else a provider refuses, less of it does not help."""
_NEAR_WINDOW_SHARE: Final = 0.85

RecoveryStep = Literal["shrink", "images", "unsign", "output", ""]


class RequestRecovery:
    """For one request and what becomes of it."""

    def __init__(self, session: Session, summarizer: AsyncSummarizer | None) -> None:
        self._session = session
        self._summarizer = summarizer
        self._used_steps: set[RecoveryStep] = set()

    def choose_step(self, error: ProviderError) -> RecoveryStep:
        """What would help, if anything: empty if nothing does."""
        if error.kind == "reasoning_state":
            return self._use_once("unsign")
        if error.output_limit and lower_output(self._session, error.output_limit):
            return self._use_once("output")
        if error.kind in ("media", "bytes") and omit_images(self._session):
            return "images"
        return "shrink" if self._may_shrink(error) else ""

    async def prepare_retry(self, step: RecoveryStep, error: ProviderError) -> Request:
        if step == "unsign":
            self._session.discard_signed_reasoning()
        if step == "output":
            self._session.learn_limits(error.window)
        if step != "shrink":
            return await self._session.prepare_async(self._summarizer)
        limit = error.limit if error.kind == "rate_bucket" else None
        self._session.learn_limits(error.window or limit, error.prompt_tokens if error.kind == "overflow" else None)
        return await self._session.shrink_after_overflow_async(self._summarizer)

    def _use_once(self, step: RecoveryStep) -> RecoveryStep:
        found: RecoveryStep = "" if step in self._used_steps else step
        self._used_steps.add(step)
        return found

    def _may_shrink(self, error: ProviderError) -> bool:
        """A refusal without words may be about length, if the request was near the window."""
        if error.kind in SIZE_ERROR_KINDS:
            return True
        near = (
            self._session.window is not None
            and self._session.count_tokens() > _NEAR_WINDOW_SHARE * self._session.window
        )
        return near and error.kind == "unknown" and not error.is_certain and error.status in (400, 413)
