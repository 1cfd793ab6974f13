"""Summaries written ahead of time, so that no turn waits for one.

    ahead = BackgroundSummarizer(session, summarize)
    request = await session.prepare_async(ahead)     # a compaction uses the prepared summary
    ...
    ahead.start_if_due()                             # after an answer: start the next one if it is time

Before the policy's own threshold is reached, the same plan runs on a copy of the view with a lower threshold, and a
task writes the summaries it requests. Each text is stored with the ids of its messages. The log does not change: the
policy's own compaction uses the text when it is due, which is the cheapest time, because until then every request is
read from the provider's cache. A text is discarded if the compaction asks about other messages, or if the view was
folded again after an undo or a `forget`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Message
from tidegate.core.outcome import SummaryRequest
from tidegate.core.plan import AskSummary, CommitEdits, PlanContext, PlanStep, run_moment
from tidegate.core.policy.policy import (
    Moment,
    Policy,
    Rule,
    Trigger,
    TriggerContext,
    judge_rule,
    measure_for_triggers,
)
from tidegate.core.snapshot import freeze_view, thaw_view
from tidegate.core.view import View
from tidegate.session.session import Session
from tidegate.session.summaries.answer_check import (
    REJECTED_TOPIC,
    AnswerRejected,
    CheckedSummary,
    check_written_summary,
)
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.session.summaries.prepared import (
    MAX_NEW_SHARE,
    PREPARED_SHARE,
    change_triggers,
    fold_edits,
    join_digest,
)

_FAILED_TOPIC: Final = "ahead_failed"
_DEFAULT_MARGIN: Final = 0.1
_SIZE_METRICS: Final = frozenset({"tokens", "history", "pressure", "window_share", "history_share"})
_MAX_PREPARED: Final = 4  # summaries of one run of the plan


class HeldSummary(NamedTuple):
    """A text, the request it answers, and the view it was written for."""

    request: SummaryRequest
    text: str
    view: View


class _Match(NamedTuple):
    """A prepared text that can be used, and the messages it does not cover."""

    text: str
    rest: tuple[Message, ...]


class BackgroundSummarizer:
    """An `AsyncSummarizer` for `prepare_async`. Call `start_if_due` after each answer of the model.

    It starts at the share `mark` of the capacity; without `mark`, at `margin` below the thresholds of the policy. With
    a margin of 0 it starts when a rule's own trigger holds, which suits a policy that summarizes after a turn.

    While it writes, rules that summarize at the end of a turn do not run: the next request does not wait for it.
    """

    def __init__(
        self,
        session: Session,
        summarize: AsyncSummarizer,
        *,
        mark: float | None = None,
        margin: float = _DEFAULT_MARGIN,
        moments: Sequence[Moment] = ("turn_end", "before_call"),
    ) -> None:
        self._session = session
        self._summarize = summarize
        self._moments = tuple(moments)
        self._policy = lower_triggers(session.policy, mark, margin, self._moments)
        self._task: asyncio.Task[None] | None = None
        self._looked_seq = -1
        self._in_progress: HeldSummary | None = None
        self.prepared: list[HeldSummary] = []
        self.failures: list[str] = []
        session.call_on_close(self.cancel)
        session._runner.is_summary_running = lambda: self.is_busy

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def start_if_due(self) -> bool:
        """Start writing a summary if it is time. Return whether a task was started. Never blocks."""
        view = self._session.view
        if self.is_busy or view.unanswered or view.orphans or view.changed_seq == self._looked_seq:
            return False
        self._looked_seq = view.changed_seq
        at = self._session._runner.plan_context(self._policy)
        if not any(_is_due(rule, at) for moment in self._moments for rule in self._policy.moments.get(moment, ())):
            return False
        copy = thaw_view(freeze_view(view), self._session._meter)
        at = at._replace(view=copy, fruitless_runs=set(at.fruitless_runs))
        self._task = asyncio.get_running_loop().create_task(self._prepare(at, view))
        return True

    async def _prepare(self, at: PlanContext, view: View) -> None:
        try:
            asks = 0
            for moment in self._moments:
                plan = run_moment(moment, at)
                step: PlanStep | None = next(plan, None)
                while step is not None:
                    answer = None
                    if isinstance(step, AskSummary) and asks < _MAX_PREPARED:
                        asks += 1
                        answer = await self._write_summary(step.request, view)
                    elif isinstance(step, CommitEdits):
                        fold_edits(at, step.edited)
                    try:
                        step = plan.send(answer)
                    except StopIteration:
                        step = None
        except Exception as failure:  # noqa: BLE001 - it is not our code, and nobody waits for this task
            self.failures.append(type(failure).__name__)

    async def _write_summary(self, request: SummaryRequest, view: View) -> str | None:
        """Write the summary unless a prepared text can be used. A prepared text that is out of date is continued."""
        fit = self._find_match(request)
        if fit is not None and self._is_small(fit.rest, request):
            return fit.text
        part, whole = PREPARED_SHARE
        asked = msgspec.structs.replace(request, max_tokens=max(1, request.max_tokens * part // whole))
        if fit is not None:
            asked = msgspec.structs.replace(asked, messages=fit.rest, previous=fit.text)
        self._in_progress = HeldSummary(request, "", view)
        try:
            text = await self._ask(asked)
        finally:
            self._in_progress = None
        if text is not None:
            rest = [each for each in self.prepared if each.view is view and not _is_same_task(each.request, request)]
            self.prepared = [*rest, HeldSummary(request, text, view)][-_MAX_PREPARED:]
        return text

    # --- the compaction itself ------------------------------------------------------------------------------------

    async def __call__(self, request: SummaryRequest) -> str | None:
        """Return the prepared text for this request, or have the summarizer write one now."""
        waited = await self._settle_task(request)
        for failure in self.failures:
            self._session.history.add_note(_FAILED_TOPIC, failure)
        self.failures = []
        fit = self._find_match(request)
        if fit is None:
            return None if waited else await self._ask(request)
        self.prepared = [each for each in self.prepared if each.text != fit.text]
        if fit.rest and not self._is_small(fit.rest, request):
            more = msgspec.structs.replace(request, messages=fit.rest, previous=fit.text)
            text = await self._ask(more)
            if text is not None:
                return text
        return CheckedSummary(self._join_digest(fit, request))

    async def _ask(self, request: SummaryRequest) -> CheckedSummary | None:
        """The summarizer's text, checked. If it cannot be used, the log says why."""
        try:
            return check_written_summary(await self._summarize(request), request, self._session.counter)
        except AnswerRejected as no:
            self._session.history.add_note(REJECTED_TOPIC, str(no))
            return None

    async def _settle_task(self, request: SummaryRequest) -> bool:
        """Wait for the running task if it writes this request's summary: it started earlier than a new question would.

        Cancel any other running task: its messages are about to leave the view. Return whether it was waited for: if
        it failed, the same question would probably fail again, after as long a wait.
        """
        fit = self._find_match(request)
        if self._task is None or self._task.done() or (fit is not None and self._is_small(fit.rest, request)):
            return False
        if self._in_progress is None or self._match(self._in_progress, request) is None:
            self._task.cancel()
            return False
        await asyncio.wait([self._task])
        return True

    def _find_match(self, request: SummaryRequest) -> _Match | None:
        fits = (self._match(held, request) for held in reversed(self.prepared))
        return next((fit for fit in fits if fit is not None), None)

    def _match(self, held: HeldSummary, request: SummaryRequest) -> _Match | None:
        """Return a match if the text covers only messages of this request and nothing was undone or forgotten since."""
        told = {message.id for message in held.request.messages}
        asked = {message.id for message in request.messages}
        if held.view is not self._session.view or not _is_same_task(held.request, request) or not told <= asked:
            return None
        return _Match(held.text, tuple(each for each in request.messages if each.id not in told))

    def _is_small(self, rest: Sequence[Message], request: SummaryRequest) -> bool:
        count = self._session.budget.count
        return sum(map(count, rest)) <= MAX_NEW_SHARE * sum(map(count, request.messages))

    def _join_digest(self, fit: _Match, request: SummaryRequest) -> str:
        if not fit.rest:
            return fit.text
        return join_digest(fit.text, fit.rest, request.max_tokens, self._session.counter)

    # --- the end --------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel the running task and discard prepared texts."""
        self.prepared = []
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()

    async def close(self) -> None:
        """Cancel the running task and wait for its end."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])


def lower_triggers(policy: Policy, mark: float | None, margin: float, moments: Sequence[Moment]) -> Policy:
    """Return the policy with lower thresholds for the rules of these moments."""
    return change_triggers(policy, moments, lambda trigger: _lower_trigger(trigger, mark, margin))


def _lower_trigger(trigger: Trigger, mark: float | None, margin: float) -> Trigger:
    if trigger.metric not in _SIZE_METRICS or trigger.op not in (">", ">="):
        return trigger
    if mark is not None:
        return Trigger("pressure", ">", mark)
    return trigger._replace(value=trigger.value * (1 - margin))


def _is_due(rule: Rule, at: PlanContext) -> bool:
    """Return whether the rule's trigger holds. A rule without a trigger has no threshold to be ahead of."""
    occasion = TriggerContext(at.view, at.budget, at.policy, measure_for_triggers(at.policy, at.view, at.budget))
    return bool(rule.when) and judge_rule(rule, occasion, at.now).fires


def _is_same_task(one: SummaryRequest, other: SummaryRequest) -> bool:
    """Return whether two requests ask for the same kind of text and continue the same summary."""
    return (one.kind, one.instructions, one.previous, one.max_chars) == (
        other.kind,
        other.instructions,
        other.previous,
        other.max_chars,
    )
