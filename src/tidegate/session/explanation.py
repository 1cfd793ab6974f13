"""An explanation for people: what the window holds, what each rule did to it, and when the next sweep is due."""

import math
from collections import Counter as Tally
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from tidegate.core.budget import Budget, measure_request, priced_now
from tidegate.core.events import ViewEdited
from tidegate.core.plan import Decision
from tidegate.core.policy.policy import (
    Policy,
    TriggerContext,
    judge_rule,
    measure_fill,
)
from tidegate.core.policy.trigger_text import make_sentence
from tidegate.core.sweep.cost_model import CachePrices
from tidegate.core.view import View
from tidegate.store.log import LogReader

FILL_METRIC: Final = "fill"
"""The metric that a sweep waits for."""


class Explanation(msgspec.Struct, frozen=True):
    """The state of a session's window; `str()` prints it. `budget_lines` show how the room is computed, `decisions`
    what each rule did when it last ran.

    `next_sweep` is None if the policy has no sweep that waits for the fill of the room.
    """

    policy: str
    tokens: int
    window: int | None
    room: int
    budget_lines: list[str]
    tokens_by_kind: dict[str, int]
    decisions: list[Decision]
    edit_counts: dict[str, int]
    next_sweep: "SweepOutlook | None" = None

    @classmethod
    def build(
        cls,
        view: View,
        budget: Budget,
        policy: Policy,
        decisions: list[Decision],
        edits: Mapping[str, int],
        now: float | None = None,
    ) -> "Explanation":
        """Explain a view under its policy and budget."""
        shares: Tally[str] = Tally()
        shares["system"] = view.system_tokens
        shares["tools"] = view.tools_tokens
        for item in view.items:
            shares[item.message.kind or item.message.role] += item.tokens
        return cls(
            policy.name,
            measure_request(view, budget),
            budget.window,
            budget.room,
            budget.explain(),
            {name: tokens for name, tokens in shares.items() if tokens},
            list(decisions),
            dict(edits),
            forecast_sweep(policy, view, budget, now),
        )

    def __str__(self) -> str:
        window = f" of {self.window:,}" if self.window else ""
        lines = [f"{self.tokens:,}{window} tokens, policy {self.policy}", *(f"  {line}" for line in self.budget_lines)]
        lines.extend(f"  {name}: {tokens:,}" for name, tokens in self.tokens_by_kind.items())
        for decision in self.decisions:
            mark = "acted" if decision.acted else "did not act"
            change = f" ({decision.tokens_before:,} -> {decision.tokens_after:,} tokens)" if decision.acted else ""
            name = decision.rule or f"{decision.moment}/{decision.stage}"
            lines.append(f"  {name} {mark}{change}: {decision.reason}")
        if self.next_sweep is not None:
            lines.append(f"  {self.next_sweep}")
        if self.edit_counts:
            lines.append(
                "  edits so far: " + ", ".join(f"{stage} {count}" for stage, count in self.edit_counts.items())
            )
        return "\n".join(lines)


# --- the next sweep ---------------------------------------------------------------------------------------------------


class SweepOutlook(msgspec.Struct, frozen=True):
    """When the next sweep is due: at `threshold_tokens`, while the view has `current_tokens` by the count that decides.
    `seconds_since_reply` is None if there was no reply yet or no clock was given.
    """

    current_tokens: int
    threshold_tokens: int
    is_due: bool
    growth: float
    prices: CachePrices
    seconds_since_reply: float | None = None

    @property
    def calls_away(self) -> int:
        """About how many calls away it is."""
        return 0 if self.is_due else max(1, math.ceil((self.threshold_tokens - self.current_tokens) / self.growth))

    def __str__(self) -> str:
        if self.is_due:
            away = (
                "it is due"
                if self.current_tokens >= self.threshold_tokens
                else "it is due now, because the provider's cache has expired and a sweep costs nothing extra"
                if self.prices.cold
                else "it is due now, before the work of a new turn"
            )
        else:
            calls = f"{self.calls_away:,} call{'s' * (self.calls_away > 1)}"
            away = f"{self.threshold_tokens - self.current_tokens:,} tokens to go, about {calls}"
        cache = ""
        if self.seconds_since_reply is not None and not self.prices.cold:
            age = f"{self.seconds_since_reply:,.0f} of its {self.prices.lifetime:,.0f} seconds have passed"
            cache = f"; the provider's cache is warm ({age})"
        next_sweep = (
            f"the next sweep comes at {self.threshold_tokens:,} tokens; the history has {self.current_tokens:,}"
        )
        return make_sentence(f"{next_sweep} ({away})", f"{self.prices}{cache}")


def forecast_sweep(policy: Policy, view: View, budget: Budget, now: float | None = None) -> SweepOutlook | None:
    """Return how far away the next sweep of this policy is; None if it has none that waits for the fill."""
    if now is not None:
        budget = priced_now(view, budget, now)
    occasion = TriggerContext(view, budget, policy)
    for rule in policy.moments.get("before_call", ()):
        fills = [trigger.value for condition in rule.when for trigger in condition if trigger.metric == FILL_METRIC]
        if fills:
            since = now - view.last_reply_time if now is not None and view.reply_count else None
            growth = max(1.0, view.total_tokens_said / max(1, view.reply_count))
            due = judge_rule(rule, occasion, now or 0.0).fires
            return SweepOutlook(
                measure_fill(occasion.tokens, view.tokens, occasion.sizes.capacity, occasion.sizes.room),
                math.ceil(max(fills) * budget.held_room),
                due,
                growth,
                budget.prices,
                since,
            )
    return None


class ExplainableSession(Protocol):
    """The part of a session that `describe_edits` needs."""

    @property
    def log(self) -> LogReader: ...

    def explain(self) -> Explanation: ...


def describe_edits(session: ExplainableSession) -> list[str]:
    """Describe every transaction of a session with its arithmetic, and when the next sweep is due."""
    lines = [
        _describe_edit(event.seq, event.payload)
        for event in session.log.read()
        if isinstance(event.payload, ViewEdited)
    ]
    coming = session.explain().next_sweep
    return [*lines, f"now: {coming}"] if coming is not None else lines


def _describe_edit(seq: int, what: ViewEdited) -> str:
    freed = what.tokens_before - what.tokens_after
    change = f"{freed:,} freed" if freed >= 0 else f"{-freed:,} added"
    return f"{seq} {what.stage}: {what.tokens_before:,} -> {what.tokens_after:,} tokens, {change}; {what.why}"
