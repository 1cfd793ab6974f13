"""What each rule of the policy would do to the view as it is now, and how far away that is. Nothing is done.

`forecast` runs every rule through the same plan as a real request, as if its trigger held, and makes nothing of what
the plan wants done: what is told here is what would be made. Summaries are those of the digest; a model may write
shorter or longer ones within the same bounds.
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
    measure_for_triggers,
)
from tidegate.core.turns import split_turns
from tidegate.core.view import View
from tidegate.session.session import Session

AUTOMATIC_MOMENTS: Final[tuple[Moment, ...]] = ("tool_result", "turn_start", "before_call", "turn_end")
"""Moments that come by themselves as a session goes on."""
_SWEEP_STAGE: Final = "sweep"


class Threshold(msgspec.Struct, frozen=True):
    """A trigger of a rule. `at` is where it acts and `now` what its metric is; `due`: the rule would act now.

    `tokens` is how many more would set the rule off if they alone decide, `turns` about how many turns that takes.
    """

    rule: str
    moment: str
    stage: str
    metric: str
    op: str
    limit: float
    current: float
    is_due: bool
    tokens_away: int | None = None
    turns_away: float | None = None

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.limit:,.6g} (is {self.current:,.6g})"


class RuleForecast(msgspec.Struct, frozen=True):
    """One rule. `fires`: its trigger holds and it does not rest; `why` says so in numbers. What it would do, if it did:

    `removed` and `shortened` are ids, `summarised` messages a summary would be written of, `saves` what would go to
    files or memory first, `freed` the tokens that would be gained, `sum` the arithmetic of a sweep. Else `nothing` says
    why it would do nothing.
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
    """Every rule of the policy, in the order of the moments, each looked at when it is asked for."""
    for moment in MOMENTS:
        for rule in session.policy.moments.get(moment, ()):
            yield _forecast_rule(rule, moment, session._plan_context(session.policy)._replace(fruitless_runs=set()))


def _forecast_rule(rule: Rule, moment: Moment, at: PlanContext) -> RuleForecast:
    budget = priced_now(at.view, at.budget, at.now)
    verdict = judge_rule(rule, _trigger_context(at.policy, at.view, budget, moment), at.now)
    why = str(verdict.why) if verdict.fires or isinstance(verdict.why, str) else f"not {verdict.why}"
    alone = msgspec.structs.replace(rule, when=(), cooldown_turns=0, cooldown_seconds=0.0)
    policy = msgspec.structs.replace(at.policy, moments={"manual": (alone,)})
    plan = run_moment("manual", at._replace(policy=policy))
    edited, summarised, saves = None, 0, list[str]()
    decisions: list[Decision] = []
    try:
        while True:
            step = plan.send(None)
            if isinstance(step, AskSummary):
                summarised += len(step.request.messages)
            elif isinstance(step, RunEffect):
                saves.append(f"the file {step.effect.path}" if isinstance(step.effect, Spill) else "long-term memory")
            elif step.edited.rule == rule.name:  # else it is a repair, which is no rule's
                edited = step.edited
    except StopIteration as done:
        decisions = done.value
    if edited is None:
        made = decisions[-1]
        told = "" if saves and made.acted else made.why.removeprefix("always; ")
        return RuleForecast(
            moment, rule.name, rule.stage, verdict.fires, why, save_targets=tuple(saves), no_effect_reason=told
        )
    return RuleForecast(
        moment,
        rule.name,
        rule.stage,
        verdict.fires,
        why,
        _dropped_ids(edited),
        tuple(edit.id for edit in edited.edits if isinstance(edit, Replace)),
        summarised,
        tuple(saves),
        edited.tokens_before - edited.tokens_after,
        sweep_arithmetic=edited.why.removeprefix("always; ") if rule.stage == _SWEEP_STAGE else "",
    )


def _dropped_ids(edited: ViewEdited) -> tuple[str, ...]:
    return tuple(ident for edit in edited.edits if isinstance(edit, Drop) for ident in edit.ids)


def _trigger_context(policy: Policy, view: View, budget: Budget, moment: str) -> TriggerContext:
    recovery = view.recoveries + 1 if moment == "overflow" else 0
    return TriggerContext(view, budget, policy, measure_for_triggers(policy, view, budget), 0, recovery)


# --- how far away it is -----------------------------------------------------------------------------------------------


def list_thresholds(session: Session) -> list[Threshold]:
    """Every trigger of every rule, and the guard's own. Cheap: nothing is tried out."""
    policy, view = session.policy, session.view
    budget = priced_now(view, session.budget(), session._clock())
    pace = _tokens_per_turn(view, budget)
    found = [
        each
        for moment in MOMENTS
        for rule in policy.moments.get(moment, ())
        for each in _rule_thresholds(
            rule, moment, _trigger_context(policy, view, budget, moment), session._clock(), pace
        )
    ]
    if budget.window is not None or budget.fallback_limit is not None:
        size = measure_request(view, budget)
        left = max(0, budget.capacity - size)
        over = size > budget.capacity
        found.append(
            Threshold(
                "guard",
                "before_call",
                "guard",
                "tokens",
                ">",
                budget.capacity,
                size,
                over,
                left,
                _estimate_turns(left, pace),
            )
        )
    return found


def _rule_thresholds(rule: Rule, moment: Moment, at: TriggerContext, now: float, pace: float) -> Iterator[Threshold]:
    due = judge_rule(rule, at, now).fires
    for condition in rule.when:
        away = [_tokens_away(trigger, at) for trigger in condition]
        # All triggers of a condition must hold: the last of them decides.
        tokens = None if None in away else max(each or 0 for each in away)
        for trigger in condition:
            yield Threshold(
                rule.name,
                moment,
                rule.stage,
                trigger.metric,
                trigger.op,
                effective_threshold(trigger, at.budget),
                METRICS[trigger.metric](at),
                due,
                tokens,
                _turns_away(trigger, at) if tokens is None else _estimate_turns(tokens, pace),
            )


def _tokens_away(trigger: Trigger, at: TriggerContext) -> int | None:
    """How many tokens of the provider's are missing; 0 if it holds, None if tokens do not bring it about."""
    now, limit, budget = METRICS[trigger.metric](at), effective_threshold(trigger, at.budget), at.budget
    units = {
        "tokens": 1.0,
        "history": budget.scale,
        "pressure": float(budget.capacity),
        "window_share": float(budget.window or 0),
        "history_share": budget.room * budget.scale,
        "fill": budget.room * budget.scale,
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
    """What a turn takes on average, of those that are still in the view."""
    turns = split_turns(hide_ledger(view))
    return sum(turn.tokens for turn in turns) * budget.scale / len(turns) if turns else 0.0


def _estimate_turns(tokens: int, pace: float) -> float | None:
    return tokens / pace if pace else None


def find_next_threshold(found: list[Threshold]) -> Threshold | None:
    """The one that comes first as the session goes on, by turns, else by tokens."""
    coming = [
        each
        for each in found
        if each.moment in AUTOMATIC_MOMENTS and (each.tokens_away is not None or each.turns_away is not None)
    ]
    return min(coming, key=_distance, default=None)


def _distance(threshold: Threshold) -> tuple[float, float]:
    turns = math.inf if threshold.turns_away is None else threshold.turns_away
    return turns, math.inf if threshold.tokens_away is None else threshold.tokens_away


def find_removing_rules(session: Session) -> dict[str, str]:
    """For each message that a rule would take or shorten if it acted now: which rule, and what it waits for."""
    policy, view, budget = session.policy, session.view, session.budget()
    seen, takers = hide_ledger(view), dict[str, str]()
    for moment in AUTOMATIC_MOMENTS:
        for rule in policy.moments.get(moment, ()):
            outcome = rule.run(seen, budget, **rule.settings)
            reading = judge_rule(rule, _trigger_context(policy, view, budget, moment), session._clock())
            waits = str(reading.why) if rule.when else "its moment"
            for edit in outcome.edits:
                ids = edit.ids if isinstance(edit, Drop) else (edit.id,) if isinstance(edit, Replace) else ()
                for ident in ids:
                    takers.setdefault(ident, f"{rule.name}: {waits}")
    return takers
