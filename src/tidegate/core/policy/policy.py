"""A policy: for each moment an ordered list of rules. A rule is a stage with its settings, trigger and cooldown.

Policies are data: a preset is a shipped file, read by `policy/parser.py`. This module has the parsed form and decides
whether a rule fires.
"""

import math
import operator
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from tidegate.core.budget import Budget, measure_by_meter, measure_sizes
from tidegate.core.outcome import Outcome
from tidegate.core.policy.trigger_text import TriggerSizes, describe_trigger
from tidegate.core.sweep.cost_model import Holding
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


THREAD_PLACEHOLDER = "{thread}"
"""In a text of a rule: the name of the conversation, see `Policy.for_thread`."""


class Rule(msgspec.Struct, frozen=True):
    """One rule of a policy. `when` has alternative conditions; all triggers of a condition must hold.

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


class PolicyContext(msgspec.Struct, frozen=True):
    """The part of an agent's `context` that a policy takes over.

    `settings` are the keys that become settings of the policy. `automatic_rule` is the id of the rule that the key
    `auto_compact` switches on, or "".
    """

    settings: frozenset[str]
    automatic_rule: str = ""


class Policy(msgspec.Struct, frozen=True):
    """A parsed policy. `meter` names the estimator for its triggers; empty for the engine's own count.

    `aliases` are other names of its settings, such as those of the system that a preset describes.
    `window` overrides the model's window; `default_window` replaces it unless the model holds too little, see
    `choose_window`. If the model is not known, `unknown_window` is assumed. If that is None, triggers see no window:
    `unknown_limit` limits the request, or the guard alone (`UNKNOWN_WINDOW`).
    `max_output` is the output limit to ask for; 0 for none. `recoveries` is how often a request that was refused for
    its length is shrunk and sent again. `retention` is after how many days without use a stored session is removed; 0
    for never. `holding` are its terms for a sweep before the room is full; None if it has none.
    """

    name: str
    moments: Mapping[str, tuple[Rule, ...]]
    settings: Mapping[str, Any] = {}
    aliases: Mapping[str, str] = {}
    reserve: int = 0
    max_output: int = 0
    meter: str = ""
    window: int | None = None
    default_window: int | None = None
    unknown_window: int | None = None
    unknown_limit: int | None = None
    recoveries: int = 2
    retention: int = 0
    about: str = ""
    context: PolicyContext | None = None
    holding: Holding | None = None

    def choose_window(self, model_window: int | None) -> int | None:
        """The window to plan with. `model_window` is the model's own, None if it is not known.

        A default window may be larger than the model's only by what is reserved for the answer: requests fit both.
        """
        if self.window:
            return self.window
        if self.default_window and (model_window is None or self.default_window - self.reserve <= model_window):
            return self.default_window
        return model_window or self.unknown_window

    def for_thread(self, name: str) -> "Policy":
        """The policy of one conversation: `{thread}` in texts of its rules, as in names of files, is this name."""

        def fill(rule: Rule) -> Rule:
            values = {
                key: value.replace(THREAD_PLACEHOLDER, name) if isinstance(value, str) else value
                for key, value in rule.settings.items()
            }
            return rule if values == rule.settings else msgspec.structs.replace(rule, settings=values)

        moments = {moment: tuple(map(fill, rules)) for moment, rules in self.moments.items()}
        return self if moments == self.moments else msgspec.structs.replace(self, moments=moments)


COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


class TriggerContext:
    """The input of triggers. All sizes are measured once, because a policy asks for each of them several times.

    `tokens` is the size of the next request as the policy measures it: by its own estimator, or else as `sizes` says.
    `later_messages` came after the turn that ends: its rules may run only before the next call, and do not count them.
    """

    def __init__(
        self,
        view: View,
        budget: Budget,
        policy: Policy,
        *,
        compacted: int = 0,
        recovery: int = 0,
        later_messages: int = 0,
    ) -> None:
        self.view, self.budget, self.policy = view, budget, policy
        self.sizes = measure_sizes(view, budget)
        self.tokens = measure_by_meter(view, budget) if policy.meter else self.sizes.request
        self.compacted, self.recovery, self.later_messages = compacted, recovery, later_messages

    @cached_property
    def is_new_turn(self) -> bool:
        """Whether the user has spoken since the model's last answer: no work of this turn is cut in its middle yet."""
        return any(item.message.id == self.view.newest_request for item in self.view.items_since_reply())


def measure_fill(request: int, history: int, capacity: int, room: int) -> int:
    """How much of the room is used, by our own count or by the provider's report, whichever is more."""
    return max(history, int(request / max(1, capacity) * room))


def make_trigger_sizes(request: int, history: int, budget: Budget) -> TriggerSizes:
    """The sizes that triggers are put into words with."""
    capacity, room = budget.capacity, budget.room
    fill = measure_fill(request, history, capacity, room)
    return TriggerSizes(request, capacity, budget.window, history, room, fill, budget.held_room)


def _measure_full_request(at: TriggerContext) -> int:
    """How much of the room is used. A policy's own estimator may say less than the guard sees."""
    sizes = at.sizes
    return measure_fill(max(at.tokens, sizes.request), sizes.history, sizes.capacity, sizes.room)


METRICS: Mapping[str, Callable[[TriggerContext], float]] = {
    "tokens": lambda o: o.tokens,
    "history": lambda o: o.view.metered if o.policy.meter else o.sizes.history,
    "pressure": lambda o: o.tokens / max(1, o.sizes.capacity) if o.sizes.is_limited else 0.0,
    "window_share": lambda o: o.tokens / (o.budget.window or math.inf),
    "history_share": lambda o: o.sizes.history / max(1, o.sizes.room),
    "turns": lambda o: o.view.visible_turns,
    "messages": lambda o: o.view.message_count - o.later_messages,
    "tool_results": lambda o: o.view.tool_result_count,
    "tool_calls": lambda o: o.view.tool_call_count,
    "recovery": lambda o: o.recovery,
    "compacted": lambda o: o.compacted,
    "fill": lambda o: _measure_full_request(o) / max(1, o.sizes.held_room),
    "cold": lambda o: o.budget.prices.cold,
    "new_turn": lambda o: o.is_new_turn,
    "unlimited": lambda o: not o.sizes.is_limited,
}


def effective_threshold(trigger: Trigger, at: TriggerContext) -> float:
    """The value of a trigger, limited to what the window allows."""
    if trigger.metric == "tokens":
        return min(trigger.value, at.sizes.capacity)
    if trigger.metric == "history":
        return min(trigger.value, at.sizes.room)
    if trigger.metric == "window_share" and at.budget.window:
        return min(trigger.value, at.sizes.capacity / at.budget.window)
    return trigger.value


class TriggerReading(NamedTuple):
    """Conditions, the values of their metrics and the limits. `str()` puts it into words.

    It is made at every call and rarely shown, so it holds numbers, not text.
    """

    conditions: tuple[tuple[Trigger, ...], ...]
    values: tuple[float, ...]
    limits: tuple[float, ...]
    request: int
    history: int
    budget: Budget

    def __str__(self) -> str:
        """All triggers of a condition that holds; else, of each condition, the triggers that do not hold."""
        sizes = make_trigger_sizes(self.request, self.history, self.budget)
        numbers = iter(zip(self.values, self.limits, strict=True))
        alternatives = []
        for condition in self.conditions:
            read = [(trigger, *next(numbers)) for trigger in condition]
            failing = [each for each in read if not COMPARISONS[each[0].op](each[1], each[2])]
            clauses = [
                describe_trigger(trigger.metric, trigger.op, value, limit, not failing, sizes)
                for trigger, value, limit in failing or read
            ]
            alternatives.append(" and ".join(clauses))
        return ", and ".join(alternatives)


class Verdict(NamedTuple):
    """Whether a rule fires, and why or why not. `why` is empty for a rule without a condition."""

    fires: bool
    why: str | TriggerReading


def judge_rule(rule: Rule, occasion: TriggerContext, now: float) -> Verdict:
    """Whether a rule fires now, and why or why not."""
    why: str | TriggerReading = ""
    if rule.when:
        reading, fires = _read_triggers(rule.when, occasion)
        if not fires:
            return Verdict(False, reading)
        why = reading
    last = occasion.view.find_last_firing(rule.name)
    if last is not None:
        turns = occasion.view.total_turns - last.turn
        if rule.cooldown_turns and turns <= rule.cooldown_turns:
            return Verdict(
                False, f"it is cooling down: {turns} of {rule.cooldown_turns} turns have passed since it last acted"
            )
        if rule.cooldown_seconds and 0 <= now - last.time < rule.cooldown_seconds:  # a clock may have been set back
            seconds = f"{now - last.time:.0f} of {rule.cooldown_seconds:.0f} seconds"
            return Verdict(False, f"it is cooling down: {seconds} have passed since it last acted")
    return Verdict(True, why)


def _read_triggers(
    conditions: tuple[tuple[Trigger, ...], ...], occasion: TriggerContext
) -> tuple[TriggerReading, bool]:
    """The first condition that holds and True, else all conditions and False."""
    values: list[float] = []
    limits: list[float] = []
    metric_values: dict[str, float] = {}  # the alternatives often ask for the same
    holds = False
    for condition in conditions:
        holds, first = True, len(values)
        for trigger in condition:
            if trigger.metric not in metric_values:
                metric_values[trigger.metric] = METRICS[trigger.metric](occasion)
            value, limit = metric_values[trigger.metric], effective_threshold(trigger, occasion)
            holds = holds and COMPARISONS[trigger.op](value, limit)
            values.append(value)
            limits.append(limit)
        if holds:
            conditions, values, limits = (condition,), values[first:], limits[first:]
            break
    request, history = occasion.tokens, occasion.sizes.history
    return TriggerReading(conditions, tuple(values), tuple(limits), request, history, occasion.budget), holds
