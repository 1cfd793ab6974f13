"""Recovery from a refused request: choose what to change, and prepare the next request.

The classified error decides (`models/errors`). A request refused for its size is made smaller, as often as the policy
allows. Images and signed reasoning that the provider does not accept are removed from the view, once. An
output limit is lowered to the one the provider named, once. Nothing else can be recovered from.
"""

from typing import Final, Literal

from tidegate.models.errors.classification import ProviderError
from tidegate.session.request import Request
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer

SIZE_ERROR_KINDS: Final = frozenset({"overflow", "rate_bucket", "bytes"})
"""Errors about size, after which a smaller request may be accepted."""
_NEAR_WINDOW_SHARE: Final = 0.85

RecoveryStep = Literal["shrink", "images", "unsign", "output", ""]


class RequestRecovery:
    """The recovery of one request, which may be refused several times."""

    def __init__(self, session: Session, summarizer: AsyncSummarizer | None) -> None:
        self._session = session
        self._summarizer = summarizer
        self._used_steps: set[RecoveryStep] = set()

    def choose_step(self, error: ProviderError) -> RecoveryStep:
        """Return the step that may help, or ""."""
        if error.kind == "reasoning_state":
            return self._use_once("unsign")
        if error.output_limit and self._session.recovery.lower_output(error.output_limit):
            return self._use_once("output")
        if error.kind in ("media", "bytes") and self._session.recovery.omit_images():
            return "images"
        return "shrink" if self._may_shrink(error) else ""

    async def prepare_retry(self, step: RecoveryStep, error: ProviderError) -> Request:
        if step == "unsign":
            self._session.recovery.discard_signed_reasoning()
        if step == "output":
            self._session.recovery.learn_limits(error.window)
        if step != "shrink":
            return await self._session.prepare_async(self._summarizer)
        self._learn_limits(error)
        return await self._session.overflowed_async(self._summarizer)

    def _learn_limits(self, error: ProviderError) -> None:
        session, overflowed = self._session, error.kind == "overflow"
        window = error.window or (error.limit if error.kind == "rate_bucket" else None)
        if overflowed and not (window or error.prompt_tokens):
            window = session.recovery.estimate_refused_window()
        session.recovery.learn_limits(window, error.prompt_tokens if overflowed else None)

    def _use_once(self, step: RecoveryStep) -> RecoveryStep:
        choice: RecoveryStep = "" if step in self._used_steps else step
        self._used_steps.add(step)
        return choice

    def _may_shrink(self, error: ProviderError) -> bool:
        """Return whether a smaller request may help; after an unclear error it may, if the window was nearly full."""
        if error.kind in SIZE_ERROR_KINDS:
            return True
        window = self._session.window or self._session.budget.capacity
        near = self._session.tokens > _NEAR_WINDOW_SHARE * window
        return near and error.kind == "unknown" and not error.is_certain and error.status in (400, 413)
