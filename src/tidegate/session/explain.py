"""What the window holds and what was done to it, for people."""

from collections import Counter as Tally
from collections.abc import Mapping

import msgspec

from tidegate.core.budget import Budget, measure
from tidegate.core.plan import Decision
from tidegate.core.policy import Policy
from tidegate.core.view import View


class Explanation(msgspec.Struct, frozen=True):
    """`str()` prints it. `subtraction` is how the room came about, `decisions` what each rule did last time."""

    policy: str
    size: int
    window: int | None
    room: int
    subtraction: list[str]
    shares: dict[str, int]
    decisions: list[Decision]
    edits: dict[str, int]

    @classmethod
    def of(
        cls, view: View, budget: Budget, policy: Policy, decisions: list[Decision], edits: Mapping[str, int]
    ) -> "Explanation":
        shares: Tally[str] = Tally()
        shares["system"] = view.system_tokens
        shares["tools"] = view.tools_tokens
        for item in view.items:
            shares[item.message.kind or item.message.role] += item.tokens
        return cls(
            policy.name,
            measure(view, budget),
            budget.window,
            budget.room,
            budget.explain(),
            {name: tokens for name, tokens in shares.items() if tokens},
            list(decisions),
            dict(edits),
        )

    def __str__(self) -> str:
        window = f" of {self.window:,}" if self.window else ""
        lines = [f"{self.size:,}{window} tokens, policy {self.policy}", *(f"  {line}" for line in self.subtraction)]
        lines.extend(f"  {name}: {tokens:,}" for name, tokens in self.shares.items())
        for decision in self.decisions:
            mark = "did" if decision.acted else "did not"
            change = f" ({decision.before:,} -> {decision.after:,} tokens)" if decision.acted else ""
            name = decision.rule or f"{decision.moment}/{decision.stage}"
            lines.append(f"  {name} {mark} act{change}: {decision.why}")
        if self.edits:
            lines.append("  edits so far: " + ", ".join(f"{stage} {count}" for stage, count in self.edits.items()))
        return "\n".join(lines)
