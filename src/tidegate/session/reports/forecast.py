"""What each rule of the policy would do to the view now, and how far away its trigger is.

`forecast_rules` runs every rule through the same plan as a real request, as if its trigger held, and discards the
result, so the forecast equals what would happen. Summaries are those of the digest; a model may write shorter or longer
ones within the same limits.
"""

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from tidegate.core.budget import Budget, measure_request, priced_now
from tidegate.core.edits import Drop, Replace
from tidegate.core.events import ViewEdited
from tidegate.core.ledger.writer import hide_ledger
from tidegate.core.outcome import Spill
from tidegate.core.plan import AskSummary, Decision, PlanContext, RunEffect, run_moment
from tidegate.core.policy.external_stage import StageFailed
from tidegate.core.policy.policy import (
    COMPARISONS,
    METRICS,
    MOMENTS,
    Moment,
    Policy,
    Rule,
    Trigger,
    TriggerContext,
    effective_threshold,
    judge_rule,
    make_trigger_sizes,
)
from tidegate.core.policy.trigger_text import TriggerSizes, describe_trigger, make_sentence
from tidegate.core.state_note.note import is_new_state_note
from tidegate.core.turns import split_turns
from tidegate.core.view import View
from tidegate.session.session import Session

AUTOMATIC_MOMENTS: Final[tuple[Moment, ...]] = ("tool_result", "turn_start", "before_call", "turn_end")
"""Moments that occur by themselves in the course of a session."""
_SWEEP_STAGE: Final = "sweep"
_NOTE_SWEEP_STAGE: Final = "note_sweep"


class Threshold(msgspec.Struct, frozen=True):
    """A trigger of a rule: it fires when its metric, `current` now, passes `limit`. `is_due`: the rule would act now,
    by itself; rules for an overflow or for a command never are.

    `tokens_away` is the number of tokens that are missing, if tokens alone decide, and `turns_away` the estimated
    number of turns until then.
    """

    rule: str
    moment: str
    stage: str
    metric: str
    op: str
    limit: float
    current: float
    is_due: bool
    sizes: TriggerSizes
    tokens_away: int | None = None
    turns_away: float | None = None

    def __str__(self) -> str:
        holds = COMPARISONS[self.op](self.current, self.limit)
        return describe_trigger(self.metric, self.op, self.current, self.limit, holds, self.sizes)


class RuleForecast(msgspec.Struct, frozen=True):
    """What one rule would do. `fires`: its trigger holds and its cooldown is over; `reason` says so in numbers.

    `summarized_messages` is how many messages a summary would replace, `save_targets` are the files or notes written
    before, and `sweep_arithmetic` is the calculation of a sweep. If the rule would change nothing, `no_effect_reason`
    says why.
    """

    moment: str
    rule: str
    stage: str
    fires: bool
    reason: str
    removed_ids: tuple[str, ...] = ()
    shortened_ids: tuple[str, ...] = ()
    summarized_messages: int = 0
    save_targets: tuple[str, ...] = ()
    freed_tokens: int = 0
    no_effect_reason: str = ""
    sweep_arithmetic: str = ""


def forecast_rules(session: Session) -> Iterator[RuleForecast]:
    """Yield a forecast for every rule, in the order of the moments. Each is computed when it is asked for."""
    for moment in MOMENTS:
        for rule in session.policy.moments.get(moment, ()):
            yield _forecast_rule(
                rule, moment, session.parts.runner.plan_context(session.policy)._replace(fruitless_runs=set())
            )


def _forecast_rule(rule: Rule, moment: Moment, at: PlanContext) -> RuleForecast:
    budget = priced_now(at.view, at.budget, at.now)
    verdict = judge_rule(rule, _trigger_context(at.policy, at.view, budget, moment), at.now)
    why = make_sentence(str(verdict.why)) or "It has no condition."
    alone = msgspec.structs.replace(rule, when=(), cooldown_turns=0, cooldown_seconds=0.0)
    policy = msgspec.structs.replace(at.policy, moments={"manual": (alone,)})
    plan = run_moment("manual", at._replace(policy=policy))
    edited, summarized, saves = None, 0, list[str]()
    decisions: list[Decision] = []
    try:
        while True:
            step = plan.send(None)
            if isinstance(step, AskSummary):
                summarized += len(step.request.messages)
            elif isinstance(step, RunEffect):
                saves.append(f"the file {step.effect.path}" if isinstance(step.effect, Spill) else "long-term memory")
            elif step.edited.rule == rule.name:  # other edits are repairs, which belong to no rule
                edited = step.edited
    except StopIteration as done:
        decisions = done.value
    if edited is None:
        decision = decisions[-1]
        reason = "" if saves and decision.acted else decision.reason
        return RuleForecast(
            moment, rule.name, rule.stage, verdict.fires, why, save_targets=tuple(saves), no_effect_reason=reason
        )
    return RuleForecast(
        moment,
        rule.name,
        rule.stage,
        verdict.fires,
        why,
        _dropped_ids(edited),
        tuple(edit.id for edit in edited.edits if isinstance(edit, Replace)),
        summarized,
        tuple(saves),
        edited.tokens_before - edited.tokens_after,
        sweep_arithmetic=edited.why if rule.stage == _SWEEP_STAGE else "",
    )


def _dropped_ids(edited: ViewEdited) -> tuple[str, ...]:
    return tuple(ident for edit in edited.edits if isinstance(edit, Drop) for ident in edit.ids)


def _trigger_context(policy: Policy, view: View, budget: Budget, moment: str) -> TriggerContext:
    recovery = view.recoveries + 1 if moment == "overflow" else 0
    return TriggerContext(view, budget, policy, recovery=recovery)


# --- how far away it is -----------------------------------------------------------------------------------------------


def list_thresholds(session: Session) -> list[Threshold]:
    """List every trigger of every rule and of the guard. Cheap: no stage runs.

    A sweep to a state note is listed only while there is a note to sweep to.
    """
    policy, view = session.policy, session.view
    budget = priced_now(view, session.budget, session.parts.live.clock())
    pace = _tokens_per_turn(view, budget)
    thresholds = [
        each
        for moment in MOMENTS
        for rule in policy.moments.get(moment, ())
        if rule.stage != _NOTE_SWEEP_STAGE or is_new_state_note(view)
        for each in _rule_thresholds(
            rule, moment, _trigger_context(policy, view, budget, moment), session.parts.live.clock(), pace
        )
    ]
    size = measure_request(view, budget)
    left = max(0, budget.capacity - size)
    over = size > budget.capacity
    thresholds.append(
        Threshold(
            "guard",
            "before_call",
            "guard",
            "tokens",
            ">",
            budget.capacity,
            size,
            over,
            make_trigger_sizes(size, view.tokens, budget),
            left,
            _estimate_turns(left, pace),
        )
    )
    return thresholds


def _rule_thresholds(rule: Rule, moment: Moment, at: TriggerContext, now: float, pace: float) -> Iterator[Threshold]:
    due = moment in AUTOMATIC_MOMENTS and judge_rule(rule, at, now).fires
    for condition in rule.when:
        away = [_tokens_away(trigger, at) for trigger in condition]
        # All triggers of a condition must hold, so the farthest one decides.
        tokens = None if None in away else max(each or 0 for each in away)
        for trigger in condition:
            yield Threshold(
                rule.name,
                moment,
                rule.stage,
                trigger.metric,
                trigger.op,
                effective_threshold(trigger, at),
                METRICS[trigger.metric](at),
                due,
                make_trigger_sizes(at.tokens, at.view.tokens, at.budget),
                tokens,
                _turns_away(trigger, at) if tokens is None else _estimate_turns(tokens, pace),
            )


def _tokens_away(trigger: Trigger, at: TriggerContext) -> int | None:
    """Return how many provider tokens are missing; 0 if the trigger holds, None if tokens do not decide it."""
    now, limit, budget = METRICS[trigger.metric](at), effective_threshold(trigger, at), at.budget
    units = {
        "tokens": 1.0,
        "history": budget.scale,
        "pressure": float(budget.capacity),
        "window_share": float(budget.window or 0),
        "history_share": budget.room * budget.scale,
        "fill": budget.held_room * budget.scale,
    }
    if COMPARISONS[trigger.op](now, limit):
        return 0
    if trigger.metric not in units or trigger.op not in (">", ">="):
        return None
    return max(1, math.ceil((limit - now) * units[trigger.metric]))


def _turns_away(trigger: Trigger, at: TriggerContext) -> float | None:
    if trigger.metric != "turns" or trigger.op not in (">", ">="):
        return None
    return max(0.0, trigger.value - at.view.visible_turns + (trigger.op == ">"))


def _tokens_per_turn(view: View, budget: Budget) -> float:
    """Return the average tokens of a turn, over the turns in the view."""
    turns = split_turns(hide_ledger(view))
    return sum(turn.tokens for turn in turns) * budget.scale / len(turns) if turns else 0.0


def _estimate_turns(tokens: int, pace: float) -> float | None:
    return tokens / pace if pace else None


def find_next_threshold(thresholds: list[Threshold]) -> Threshold | None:
    """Return the threshold that will be reached first: by turns if known, otherwise by tokens."""
    coming = [
        each
        for each in thresholds
        if each.moment in AUTOMATIC_MOMENTS and (each.tokens_away is not None or each.turns_away is not None)
    ]
    return min(coming, key=_distance, default=None)


def _distance(threshold: Threshold) -> tuple[float, float]:
    turns = math.inf if threshold.turns_away is None else threshold.turns_away
    return turns, math.inf if threshold.tokens_away is None else threshold.tokens_away


def find_removing_rules(session: Session) -> dict[str, str]:
    """Map each message that some rule would remove or shorten now to the rule and its trigger."""
    policy, view, budget = session.policy, session.view, session.budget
    view_without_ledger, takers = hide_ledger(view), dict[str, str]()
    for moment in AUTOMATIC_MOMENTS:
        for rule in policy.moments.get(moment, ()):
            try:
                outcome = rule.run(view_without_ledger, budget, **rule.settings)
            except StageFailed:  # a plugin: `explain` shows the error
                continue
            reading = judge_rule(rule, _trigger_context(policy, view, budget, moment), session.parts.live.clock())
            waits = str(reading.why) if rule.when else "at its moment"
            for edit in outcome.edits:
                ids = edit.ids if isinstance(edit, Drop) else (edit.id,) if isinstance(edit, Replace) else ()
                for ident in ids:
                    takers.setdefault(ident, f"{rule.name} acts ({waits})")
    return takers
