"""A policy at work on a conversation: the budget, the runs of its rules, and what providers and users change.

`PolicyRunner` runs the policy. `Recovery` adapts it to what a provider refuses; `SessionRules` are the rules that the
user gave in the conversation, which no stage removes.

The plan (`core/plan.py`) says what to do as data. Here it is done: effects are run; appends and summary requests
are yielded to the driver, which waits for the store, and asks a model or takes the deterministic summary.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from tidegate.core.budget import (
    UNKNOWN_WINDOW,
    Budget,
    count_excess,
    describe_unknown_window,
    limit_held,
    make_budget,
    measure_request,
    note_assumed_window,
)
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Insert, Replace
from tidegate.core.errors import BadEdit, BadInput, GiveUp, IgnoredResultWarning, UnknownWindowWarning
from tidegate.core.events import EventPayload, HourWriteReported, NoteAdded, ViewEdited
from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.ledger.writer import PIN, held_rules, without_rule
from tidegate.core.messages import SUMMARY, Image, Message, Part, Result, Text, user_message
from tidegate.core.notes import (
    CompactionEnded,
    CompactionStarted,
    RequestOverflowed,
    RequestWeighed,
    RuleFruitless,
    SignaturesRefused,
    SummaryFailed,
    SummaryRejected,
    TurnStarted,
    WindowUnknown,
)
from tidegate.core.outcome import Effect, Spill, SummaryRequest, make_spill
from tidegate.core.plan import AskSummary, CommitEdits, Decision, PlanContext, count_token_change, run_moment
from tidegate.core.policy.policy import Moment, Policy, Rule
from tidegate.core.stages.repair import describe_ignored_results
from tidegate.core.stages.summary import render_transcript
from tidegate.core.sweep.cost_model import CachePrices
from tidegate.core.view import View
from tidegate.session.conversation import LiveLog, warn_caller
from tidegate.session.recall import recall_message
from tidegate.session.storage import SessionStorage
from tidegate.session.summaries.answer_check import AnswerRejected, check_written_summary
from tidegate.session.summaries.drivers import PendingAppend, SummarySteps, run_steps
from tidegate.wire.parsing import repair_unicode

_MAX_RECOVERIES = 2
_HOUR = 3600.0  # seconds; the longer of the two lifetimes that a usage report tells apart
_MARGIN = 50
"""One part in so many of the window stays free beside the output that is asked for, for errors of our own count."""
_REFUSED_SHARES: Final = (0.95, 0.6)
"""A refusal without a number: the window holds at most this share of the refused request. The second is for the last
retry.
"""
_OMITTED_IMAGE: Final = Text("[image left out: the provider did not take it]")
_MAX_PIN_CHARS: Final = 1_000


class PolicyRunner:
    """Runs the rules of a policy on a conversation, within a window.

    `window` is the model's; if it is None, `assumed_window` takes its place until the provider names its own.
    `refusals` is how often the request that was prepared last was refused for its length. `learned_window` is what
    refusals say, as long as they are believed. `max_output` is the answer that a host asks for with the next request;
    `keeps_output`: the provider counts it as a part of the window. `cache_lifetime` is what the next request asks of
    the provider's cache, in seconds; `set_lifetime` is the user's own value.
    """

    def __init__(
        self,
        live: LiveLog,
        storage: SessionStorage,
        *,
        policy: Policy,
        window: int | None,
        assumed_window: int | None,
        reserve: int,
        prices: CachePrices,
        set_lifetime: float | None = None,
    ) -> None:
        self.live = live
        self.policy = policy
        self._model_window = window
        self.learned_window: int | None = None
        self.max_output = 0
        self.keeps_output = False
        self._assumed_window = assumed_window
        self._window_reported = False
        self.reserve = reserve
        self._prices = prices
        self._set_lifetime = set_lifetime
        self.cache_lifetime = 0.0
        self._effects = storage.effects
        self._mask = storage.mask
        self.last_decisions: list[Decision] = []
        self.edit_counts: Tally[str] = Tally()
        self._fruitless_rules: set[tuple[str, int]] = set()
        self._compaction_start = self._summary_failure = ""
        self._budget: Budget | None = None
        self._budget_state: tuple[object, ...] = ()
        self._divided: Budget | None = None  # without what is worth holding, which each event changes
        self._divided_key: tuple[int | None, tuple[int, ...], float, int, float] = (0, (), 0.0, 0, 0.0)
        self.holds_turn_note = False
        self.is_summary_running: Callable[[], bool] = lambda: False
        self.writes_ahead: Callable[[Moment], bool] = lambda _: False
        self.find_summary: Callable[[SummaryRequest, bool], str | None] = lambda *_: None
        self._begun_turn = (0, "")
        self.refusals = 0

    @property
    def known_window(self) -> int | None:
        return min(filter(None, (self._model_window, self.learned_window)), default=None)

    @known_window.setter
    def known_window(self, tokens: int | None) -> None:
        self._model_window = tokens

    @property
    def window(self) -> int | None:
        return self.known_window or self._assumed_window

    @property
    def kept_output(self) -> int:
        """The part of `max_output` that is kept free: at most half of the window, unless the provider wants all of it.

        A program may ask for more than the window: the longest answer of a model of which it uses only a part.
        """
        window = self.window or UNKNOWN_WINDOW
        if not self.max_output or (self.max_output >= window and not self.keeps_output):
            return 0
        output = self.max_output if self.keeps_output else min(self.max_output, window // 2)
        return output + window // _MARGIN

    @property
    def budget(self) -> Budget:
        """The token budget. It changes with the system prompt, the tools, the calibration and what a host asks.

        What is worth holding at the model's prices also follows how fast the history grows.
        """
        return self.find_budget(self.live.view)

    def find_budget(self, view: View) -> Budget:
        """The budget for the view, which the caller has read already."""
        fixed = (view.system_tokens, view.tools_tokens, view.compaction_tokens)
        limits = (self._model_window, self.learned_window, self.max_output, self.keeps_output, self.cache_lifetime)
        state = (view, view.head, view.usage, fixed, limits)  # one request asks several times in the same state
        if self._budget is None or self._budget_state != state:
            self._budget, self._budget_state = self._update_budget(view, fixed), state
        return self._budget

    def _update_budget(self, view: View, fixed: tuple[int, ...]) -> Budget:
        output, lifetime = self.kept_output, self._find_cache_lifetime(view)
        scale = view.scale_by_model.get(self.live.model, 1.0)
        key = (self.known_window, fixed, scale, output, lifetime)
        if self._divided is None or self._divided_key != key:
            self._divided, self._divided_key = self._make_budget(view, lifetime), key
        return limit_held(view, self._divided, self.policy.holding)

    def _find_cache_lifetime(self, view: View) -> float:
        """The seconds for which the provider's cache lasts: as set by the user, else as asked for, else as reported."""
        if self._set_lifetime is not None:
            return self._set_lifetime
        reported = _HOUR if isinstance(view.usage, HourWriteReported) else 0.0
        return max(self.cache_lifetime, reported) or self._prices.lifetime

    def _make_budget(self, view: View, lifetime: float) -> Budget:
        known_window = self.known_window
        budget = make_budget(
            view,
            window=known_window or self._assumed_window,
            reserve=self.reserve,
            counter=self.live.counter,
            model=self.live.model,
            thinking=self.live.dialect.capabilities.plain_thinking,
            cap=self.policy.unknown_limit or None,
            max_output=self.kept_output,
            prices=self._prices._replace(lifetime=lifetime),
        )
        return budget if known_window else note_assumed_window(budget)

    def _report_assumed_window(self) -> None:
        """Warn once that the window is a guess: a Python warning and a note in the log."""
        if self.known_window is None and not self._window_reported:
            self._window_reported = True
            text = describe_unknown_window(self.live.model, self.budget)
            self.live.history.append_note(WindowUnknown(text))
            warn_caller(text, UnknownWindowWarning)

    @property
    def tokens(self) -> int:
        """The size of the next request in the provider's tokens."""
        view = self.live.view
        return measure_request(view, self.find_budget(view))

    def fit_steps(self) -> SummarySteps[list[Decision]]:
        """Make the next request fit. The events of other writers were just read."""
        self.last_decisions = []
        self.refusals = 0
        self._report_assumed_window()
        view = self.live.view
        for text in describe_ignored_results(view) if view.orphans else ():
            warn_caller(text, IgnoredResultWarning)
        for moment in self._list_due_moments(view):
            yield from self._run_moment(moment, self._list_rules_without_summary() if moment == "turn_end" else None)
        for _ in range(_MAX_RECOVERIES):
            # If others write, too, the last edit may have been too late: run the guard again.
            view = self.live.view
            if not count_excess(view, self.find_budget(view)):
                break
            run_steps(self._run_moment("before_call"), None, self.note_summary_failure)
        self.live.remember_request()
        return self.last_decisions

    def shrink_steps(self) -> SummarySteps[list[Decision]]:
        tries = min(self.policy.recoveries, _MAX_RECOVERIES)
        if self.refusals >= tries:
            raise GiveUp(
                f"The provider refused this request {tries + 1} times for its length, the last time at"
                f" {self.tokens:,} tokens by our count, window {self.window}.",
                "Set the model's true window, or start a new session; this one is whole and nothing was lost.",
            )
        self.refusals += 1
        self.last_decisions = []
        yield self._pend(RequestOverflowed().pack())
        return (yield from self._run_moment("overflow"))

    def rule_steps(self, rules: Moment | Sequence[Rule]) -> SummarySteps[list[Decision]]:
        return self._run_moment(rules) if isinstance(rules, str) else self._run_moment("manual", tuple(rules))

    def _list_due_moments(self, view: View) -> list[Moment]:
        """The moments that are due before the next call, derived from the log alone."""
        due: list[Moment] = []
        if view.unanswered or any(item.message.role == "tool" for item in view.items_since_reply()):
            due.append("tool_result")
        if view.started_turns < view.total_turns and self._begun_turn != _identify_turn(view):
            if view.total_turns > 1:
                due.append("turn_end")
            due.append("turn_start")
        return [*due, "before_call"]

    def _list_rules_without_summary(self) -> tuple[Rule, ...] | None:
        """The rules for the end of a turn while a summary is written in the background: the next turn will use it.

        None for all of them.
        """
        rules = self.policy.moments.get("turn_end", ())
        others = tuple(rule for rule in rules if rule.stage != "summarize")
        return others if len(others) < len(rules) and self.is_summary_running() else None

    def _run_moment(self, moment: Moment, rules: tuple[Rule, ...] | None = None) -> SummarySteps[list[Decision]]:
        """Run the rules of a moment. Edits and effects are made here; summary requests are yielded to the caller."""
        decisions: list[Decision] = []
        policy, view = self.policy, self.live.view
        if rules is not None:
            policy = msgspec.structs.replace(policy, moments={moment: rules})
        if not _is_idle(moment, policy, view):
            steps = run_moment(moment, self._make_plan_context(policy, view))
            answer: str | None = None
            try:
                while True:
                    step = steps.send(answer)
                    if isinstance(step, AskSummary):
                        yield from self._note_compaction_start(step.request)
                        is_ahead = self._is_written_ahead(step.request, moment)
                        answer = self.find_summary(step.request, is_ahead)
                        if answer is None and not is_ahead:
                            answer = yield from self._check_summary((yield step.request), step.request)
                    elif isinstance(step, CommitEdits):
                        answer = yield from self.edit_steps(step.edited)
                    else:
                        answer = self._run_effect(step.effect)
            except StopIteration as done:
                decisions = done.value
        self.last_decisions.extend(decisions)
        if self._compaction_start:
            yield from self._note_compaction_end()
        if moment == "turn_start" and self.holds_turn_note:
            self._begun_turn = _identify_turn(self.live.view)
        elif moment == "turn_start":
            yield self._pend(TurnStarted().pack())
        return decisions

    def _is_written_ahead(self, request: SummaryRequest, moment: Moment) -> bool:
        """Whether a model writes such texts before they are asked for, so that no call waits for one.

        The summary of a single result has a text of its own to fall back on; it cannot be written ahead.
        """
        return self.writes_ahead(moment) and not request.fallback

    def plan_context(self, policy: Policy) -> PlanContext:
        return self._make_plan_context(policy, self.live.view)

    def _make_plan_context(self, policy: Policy, view: View) -> PlanContext:
        if self._fruitless_rules or view.fruitless_rules:
            rules = self._fruitless_rules | view.fruitless_rules.items()
            self._fruitless_rules = {key for key in rules if key[1] == view.changed_seq}
        dialect, model = self.live.dialect, self.live.model
        return PlanContext(
            policy,
            view,
            self.find_budget(view),
            self.live.clock(),
            self._fruitless_rules,
            self._mask,
            dialect.binds_prefix(model),
            dialect.keeps_loop_start(model),
        )

    def _note_compaction_end(self) -> SummarySteps[None]:
        text = f"{self._compaction_start} -> {_describe_size(self.live.view)}{self._summary_failure}"
        yield self._pend(CompactionEnded(text).pack())
        self._compaction_start = self._summary_failure = ""
        view = self.live.view
        for rule, at in sorted(self._fruitless_rules - view.fruitless_rules.items()):
            if at == self.live.view.changed_seq:  # so that a session that is opened again does not ask again
                yield self._pend(RuleFruitless(rule).pack())

    def _pend(self, what: EventPayload | Callable[[int], EventPayload]) -> PendingAppend:
        return PendingAppend(partial(self.live.append, what), partial(self.live.append_async, what))

    def list_held_notes(self, view: View) -> list[NoteAdded]:
        """With `holds_turn_note`: the note that a turn has begun, to be stored with the next event.

        It then takes no commit of its own. If it is lost, the rules for the start of this turn run once more.
        """
        is_held = view.started_turns < view.total_turns and self._begun_turn == _identify_turn(view)
        return [TurnStarted().pack()] if is_held else []

    def _note_compaction_start(self, request: SummaryRequest) -> SummarySteps[None]:
        """Note in the log that a summary of old messages is requested: it may take a while or fail."""
        if request.kind == SUMMARY and not self._compaction_start:
            self._compaction_start = _describe_size(self.live.view)
            yield self._pend(CompactionStarted(self._compaction_start).pack())

    def note_summary_failure(self, failure: Exception) -> None:
        """Note that the summarizer failed. The deterministic summary is used instead."""
        self._summary_failure = f"; {type(failure).__name__}"
        self.live.history.append_note(SummaryFailed(type(failure).__name__))

    def _check_summary(self, answer: object, request: SummaryRequest) -> SummarySteps[str | None]:
        """The text of a summarizer, if it can be used. Else the log says why, and the deterministic summary is used."""
        try:
            text = check_written_summary(answer, request, self.live.counter)
        except AnswerRejected as no:
            yield self._pend(SummaryRejected(repair_unicode(str(no))).pack())
            return None
        return None if text is None else str(text)

    def _run_effect(self, effect: Effect) -> str | None:
        if isinstance(effect, Spill) and effect.ids:
            whole = [recall_message(self.live.log, ident) for ident in effect.ids]
            effect = make_spill(effect.path, render_transcript(whole), append=effect.append)
        try:
            self._effects(effect)
        except Exception as failure:  # noqa: BLE001 - it is not our code
            return f"{type(failure).__name__}: {failure}"
        return None

    def append_edits(self, edited: ViewEdited) -> str | None:
        """`edit_steps` in one call."""
        return run_steps(self.edit_steps(edited), None, self.note_summary_failure)

    def edit_steps(self, edited: ViewEdited) -> SummarySteps[str | None]:
        """Append a transaction of edits. Inserted messages get ids from its seq. Return why it was refused, or None.

        If others appended meanwhile, the edits must still be valid for the new view; else they are not made.
        """
        planned_seq = self.live.log.head + 1

        def placed(seq: int) -> ViewEdited:
            if seq != planned_seq:
                check_edits(self.live.view, edited.edits, may_touch_newest=edited.stage == "guard")
            edits = tuple(
                msgspec.structs.replace(edit, message=msgspec.structs.replace(edit.message, id=f"e{seq}.{place}"))
                if isinstance(edit, Insert)
                else edit
                for place, edit in enumerate(edited.edits)
            )
            return msgspec.structs.replace(edited, edits=edits)

        try:
            yield self._pend(placed)
        except BadEdit as moved:
            return f"the log moved meanwhile: {moved.args[0]}"
        self.edit_counts[edited.stage] += 1
        return None


def _identify_turn(view: View) -> tuple[int, str]:
    return view.total_turns, view.newest_request


def _describe_size(view: View) -> str:
    return f"{view.tokens} tokens in {view.message_count} messages"


def _is_idle(moment: Moment, policy: Policy, view: View) -> bool:
    """Whether this moment does nothing: no rules, nothing to repair, and the guard does not run."""
    guarded = moment in ("before_call", "overflow")
    return not (guarded or policy.moments.get(moment) or view.orphans or view.unanswered)


# --- adapting to the provider ---------------------------------------------------------------------------------------


class Recovery:
    """Adapts a session to what its provider reports or refuses: `session.recovery`."""

    def __init__(self, runner: PolicyRunner, lower_output: Callable[[int], bool]) -> None:
        self._runner = runner
        self._live = runner.live
        self._lower_output = lower_output

    def set_window(self, tokens: int | None) -> None:
        """Set the context window, for example after asking the server for it. None: it is not known any more."""
        if tokens is not None and tokens <= 0:
            raise BadInput(f"The window is {tokens} tokens.", "Give a positive number.")
        self._runner.known_window = tokens

    @property
    def refusals(self) -> int:
        """How often the request that was prepared last was refused for its length, and made smaller."""
        return self._runner.refusals

    def learn_limits(self, window: int | None, tokens: int | None = None) -> None:
        """Take over the window and the request's token count from a provider's refusal, as far as it states them."""
        if window and (self._runner.known_window is None or window < self._runner.known_window):
            self._runner.known_window = window
        if tokens:
            head, own_count = self._live.last_request
            self._live.append(RequestWeighed(head, own_count, self._live.model, tokens).pack())

    def limit_window(self, tokens: int | None) -> None:
        """Use at most this much of the window, as long as refusals say so. None lifts the limit."""
        self._runner.learned_window = tokens

    def estimate_refused_window(self) -> int:
        """The window to assume after the last request was refused for its length by a provider that names no number."""
        share = _REFUSED_SHARES[min(self.refusals, len(_REFUSED_SHARES) - 1)]
        request = int(self._runner.tokens * share)
        reserve = min(self._runner.budget.reserve, request // 3)  # in a smaller window it is a quarter at most
        return request + max(reserve, self._runner.kept_output)

    def keep_output(self) -> None:
        """Keep room for all of the output that a host asks for: the provider counts it as a part of the window."""
        self._runner.keeps_output = True

    def shrink(self) -> list[Decision]:
        """Everything `overflowed` does except rendering the request."""
        decisions = run_steps(self._runner.shrink_steps(), None, self._runner.note_summary_failure)
        self._live.remember_request()
        return decisions

    def take_back(self, edits: int) -> None:
        """Undo the newest edits, after a smaller request was refused as well."""
        for _ in range(edits):
            self._live.history.undo()

    def lower_output(self, most: int) -> bool:
        """Ask for at most `most` tokens of output from now on. False if no more than that was asked for."""
        return self._lower_output(most)

    def omit_images(self) -> int:
        """Replace the images in the view with a short text. Return how many. `history.undo` restores them."""
        view = self._live.view
        removal = _plan_image_removal(view, self._runner.budget.count)
        if removal.edits:
            before, why = view.tokens, f"the provider did not take {removal.images} images"
            self._runner.append_edits(
                ViewEdited("media", "overflow", "", why, before, before + removal.token_change, removal.edits)
            )
        return removal.images

    def discard_signed_reasoning(self) -> None:
        """Stop sending the reasoning signed so far, because the provider no longer accepts it."""
        why = "signed thinking so far is left out from now on, because the provider refused or would refuse it"
        self._live.append(SignaturesRefused(why).pack())


class _ImageRemoval(NamedTuple):
    """The edits that replace every image of a view with a short text, and how many tokens they add (usually < 0)."""

    edits: tuple[Replace, ...]
    images: int
    token_change: int


def _plan_image_removal(view: View, count: Callable[[Message], int]) -> _ImageRemoval:
    """Replace the images of a view. The log keeps them, and undo restores them."""
    edits: list[Replace] = []
    images = change = 0
    for item in view.items:
        image_count = _count_images(item.message.parts)
        if image_count:
            parts = tuple(map(_replace_images, item.message.parts))
            tokens = count(Message(item.message.role, parts))
            edits.append(Replace(item.message.id, parts, tokens))
            images, change = images + image_count, change + tokens - item.tokens
    return _ImageRemoval(tuple(edits), images, change)


def _count_images(parts: tuple[Part, ...]) -> int:
    return sum(_count_images(part.parts) if isinstance(part, Result) else isinstance(part, Image) for part in parts)


def _replace_images(part: Part) -> Part:
    if isinstance(part, Result):
        inner = tuple(_OMITTED_IMAGE if isinstance(each, Image) else each for each in part.parts)
        return Result(part.call_id, inner, part.error)
    return _OMITTED_IMAGE if isinstance(part, Image) else part


# --- rules of the user ----------------------------------------------------------------------------------------------


class SessionRules:
    """The user's rules that apply in a session: `session.rules`. Iterating yields each with the id of its message."""

    def __init__(self, runner: PolicyRunner, add_message: Callable[[Message], list[str]]) -> None:
        self._runner = runner
        self._add_message = add_message

    def __iter__(self) -> Iterator[LedgerLine]:
        return iter(held_rules(self._runner.live.view))

    def add(self, text: str) -> str:
        """Pin a rule: it stays in the view and is never summarized. Return its message id."""
        text = " ".join(repair_unicode(text).split())
        if not 0 < len(text) <= _MAX_PIN_CHARS:
            raise BadInput(
                f"The rule has {len(text):,} characters.", f"Pin a sentence or two, at most {_MAX_PIN_CHARS:,}."
            )
        return self._add_message(user_message(text, PIN))[0]

    def remove(self, text: str) -> bool:
        """Remove the rule with this text. False if no such rule applies. `history.undo` restores it.

        It is removed from the ledger and the pins, and messages added so far do not establish it again.
        """
        self._runner.live.history.refresh()
        view = self._runner.live.view
        rule = next((rule for rule in self if rule.text == text), None)
        if rule is None:
            return False
        edits = without_rule(view, rule, self._runner.budget)
        before, why = view.tokens, f"the user removed a rule of {rule.ident}"
        failed = self._runner.append_edits(
            ViewEdited("remove_rule", "manual", "", why, before, before + count_token_change(view, edits), edits)
        )
        if failed is not None:
            raise GiveUp(f"The rule was not removed: {failed}.", "Try again; nothing was changed.")
        return True
