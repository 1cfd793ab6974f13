"""A policy with everything in it, and stages with every kind of signature. They do nothing: the parser runs none."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.errors import BadPolicy
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.policy.parser import parse_policy
from tidegate.core.policy.policy import Policy, Stage
from tidegate.core.view import View


def drop_turns(view: View, budget: Budget, *, keep: int, notice: str = "") -> Outcome:
    return NO_OUTCOME


def clear(
    view: View,
    budget: Budget,
    *,
    share: float = 0.5,
    spare: tuple[str, ...] = (),
    mode: Literal["head", "head_tail"] = "head",
    limit: int | None = None,
    loud: bool = False,
    least: Annotated[int, msgspec.Meta(ge=1)] = 1,
) -> Outcome:
    return NO_OUTCOME


def bare(view: View, budget: Budget) -> Outcome:
    return NO_OUTCOME


STAGES: dict[str, Stage] = {"drop_turns": drop_turns, "clear": clear, "bare": bare}

GOOD = """\
name: cowagent
about: >
  Two words
settings:
  max_context_turns: 20
  max_tokens: 32768
  strategy: summarize
  auto: true
  ratio: 0.75
  brain: null
aliases:
  agent_max_context_turns: max_context_turns
reserve: $max_tokens
meter: chars/4
unknown_window: 131072
unknown_limit: $max_tokens
moments:
  before_call:
    - stage: drop_turns
      id: trim
      if: {strategy: [summarize, truncate], auto: true}
      when: {turns: "> $max_context_turns", pressure: ">= 0.6"}
      cooldown: {turns: 2, seconds: 30}
      floor: 500
      keep: "max(3, $max_context_turns // 6)"
    - stage: clear
      when: [{messages: 40}, {unlimited: true, tokens: "$max_tokens * 2"}]
      share: $ratio
      spare: [read, "${strategy}"]
      mode: head_tail
      limit: null
      loud: $auto
      least: 2
    - stage: clear
  overflow: []
  manual:
"""


def rule(lines: str) -> str:
    """A policy with four settings and one rule, whose first line is line 5."""
    indented = lines.replace("\n", "\n      ")
    return f"settings: {{n: 6, zero: 0, word: hi, on: true}}\nname: x\nmoments:\n  before_call:\n    - {indented}\n"


def parse(text: str, given: Mapping[str, object] | None = None, *, ignore_unknown: bool = False) -> Policy:
    return parse_policy(text, source="my.yaml", stages=STAGES, settings=given, ignore_unknown=ignore_unknown)


def parsed_or_refused(text: str, given: Mapping[str, object] | None = None) -> Policy | BadPolicy:
    try:
        return parse(text, given)
    except BadPolicy as bad:
        return bad


def complaint(text: str, given: Mapping[str, object] | None = None) -> str:
    found = parsed_or_refused(text, given)
    assert isinstance(found, BadPolicy), "nothing was found wrong"
    return str(found)
