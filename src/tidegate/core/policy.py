"""A policy: for each moment an ordered list of rules. A rule is a stage with its settings, trigger and cooldown.

Policies are data. A preset is a shipped file; no stage knows a preset's name. The file form is read by
`policy_file`; here is what it becomes, and how a trigger is judged.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from tidegate.core.budget import Budget, measure, metered
from tidegate.core.outcome import Outcome
from tidegate.core.view import View

Moment = Literal["tool_result", "turn_start", "before_call", "turn_end", "overflow", "manual", "restore"]
MOMENTS: tuple[Moment, ...] = (
    "tool_result",
    "turn_start",
    "before_call",
    "turn_end",
    "overflow",
    "manual",
    "restore",
)

Stage = Callable[..., Outcome]


class Trigger(NamedTuple):
    """`metric op value`, for instance pressure > 0.75."""

    metric: str
    op: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value:,.10g}"


class Rule(msgspec.Struct, frozen=True):
    """One line of a policy. `when` is a choice of conditions, each a list of triggers that must all hold.

    `floor`: an edit that frees fewer tokens than this is not made. Cooldowns count user turns and seconds since the
    rule last acted.
    """

    name: str
    stage: str
    run: Stage
    settings: Mapping[str, Any]
    when: tuple[tuple[Trigger, ...], ...] = ()
    cooldown_turns: int = 0
    cooldown_seconds: float = 0.0
    floor: int = 0


class Policy(msgspec.Struct, frozen=True):
    """`meter` names the estimator its document uses for triggers ('' = the engine's own count).

    `window` is the one the policy sets, before what is known of the model; `unknown_window` and `unknown_limit` are
    what holds where nothing is known. `recoveries`: how often in a
    turn a request that the provider refused for its length is shrunk and sent again.
    """

    name: str
    moments: Mapping[str, tuple[Rule, ...]]
    settings: Mapping[str, Any] = {}
    reserve: int = 0
    meter: str = ""
    window: int | None = None
    unknown_window: int | None = None
    unknown_limit: int | None = None
    recoveries: int = 2
    about: str = ""


OPS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


class Occasion(NamedTuple):
    """What a trigger may ask about."""

    view: View
    budget: Budget
    policy: Policy
    compacted: int = 0
    recovery: int = 0

    @property
    def tokens(self) -> int:
        return metered(self.view, self.budget) if self.policy.meter else measure(self.view, self.budget)


METRICS: Mapping[str, Callable[[Occasion], float]] = {
    "tokens": lambda o: o.tokens,
    "history": lambda o: o.view.metered if o.policy.meter else o.view.tokens,
    "pressure": lambda o: o.tokens / max(1, o.budget.capacity),
    "window_share": lambda o: o.tokens / (o.budget.window or math.inf),
    "history_share": lambda o: o.view.tokens / max(1, o.budget.room),
    "turns": lambda o: o.view.turns,
    "messages": lambda o: o.view.messages,
    "tool_results": lambda o: o.view.tool_results,
    "tool_calls": lambda o: o.view.tool_calls,
    "recovery": lambda o: o.recovery,
    "compacted": lambda o: o.compacted,
    "unlimited": lambda o: o.budget.window is None and o.budget.cap is None,
}


def holds(trigger: Trigger, occasion: Occasion) -> bool:
    """A budget in tokens that is larger than what the window leaves is what the window leaves."""
    value = trigger.value
    if trigger.metric == "tokens":
        value = min(value, occasion.budget.capacity)
    elif trigger.metric == "history":
        value = min(value, occasion.budget.room)
    elif trigger.metric == "window_share" and occasion.budget.window:
        value = min(value, occasion.budget.capacity / occasion.budget.window)
    return OPS[trigger.op](METRICS[trigger.metric](occasion), value)


class Verdict(NamedTuple):
    fires: bool
    why: str


def judge(rule: Rule, occasion: Occasion, now: float) -> Verdict:
    """Does this rule act now? The reason is for people."""
    chosen: tuple[Trigger, ...] = ()
    if rule.when:
        met = [all(holds(trigger, occasion) for trigger in condition) for condition in rule.when]
        if not any(met):
            return Verdict(False, "not " + " or ".join(describe(c, occasion) for c in rule.when))
        chosen = rule.when[met.index(True)]
    last = occasion.view.fired.get(rule.name)
    if last is not None:
        turns = occasion.view.turn_count - last.turn
        if rule.cooldown_turns and turns <= rule.cooldown_turns:
            return Verdict(False, f"cooling down: {turns} of {rule.cooldown_turns} turns passed")
        if rule.cooldown_seconds and now - last.time < rule.cooldown_seconds:
            return Verdict(False, f"cooling down: {now - last.time:.0f} of {rule.cooldown_seconds:.0f} seconds passed")
    return Verdict(True, describe(chosen, occasion) if chosen else "always")


def describe(condition: tuple[Trigger, ...], occasion: Occasion) -> str:
    return " and ".join(f"{trigger} (is {METRICS[trigger.metric](occasion):,.6g})" for trigger in condition)
