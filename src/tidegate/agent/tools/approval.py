"""Approval of tool calls: allow, ask or deny, by the name of the tool and for the shell by its command.

A decision depends on the call alone. The rules for commands are a convenience and not a sandbox: a shell has many ways
to do one thing. So an allow rule matches only a plain list of arguments (`command_rules`), a deny rule matches broadly,
and the user is asked about everything else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import msgspec

from tidegate.agent.tools.command_rules import is_command_allowed, is_command_denied

ApprovalVerdict = Literal["allow", "ask", "deny"]
VERDICTS_BY_STRICTNESS: Final = ("allow", "ask", "deny")
"""The verdicts, the loosest first."""
_NO_RULE_REASON: Final = "no rule allows or denies it"
_DEFAULT_DENIAL_REASON: Final = "the default for tools without a rule"


class ApprovalRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for tool calls.

    The keys of `verdicts` are names or patterns (`github__*`); the longest that matches decides. The rules for shell
    commands are described in `command_rules`. `default_verdict` is for every other tool; None means no verdict.

    A verdict is never looser than a verdict of any of the `bounds`.
    """

    verdicts: dict[str, ApprovalVerdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    default_verdict: ApprovalVerdict | None = "ask"
    bounds: tuple["ApprovalRules", ...] = ()


class ApprovalQuestion(msgspec.Struct, frozen=True):
    """A question to the user about a call. `reason` names the rule that requires it."""

    tool: str
    arguments: dict[str, Any]
    reason: str


class ApprovalRuling(msgspec.Struct, frozen=True):
    verdict: ApprovalVerdict
    reason: str


AskUser = Callable[[ApprovalQuestion], Awaitable[bool]]
"""Ask the user and return whether they agree."""

_SAFE_TOOLS = "read list grep memory_write memory_search recall compact skills task".split()
STANDARD_APPROVAL = ApprovalRules(verdicts=dict.fromkeys(_SAFE_TOOLS, "allow"))
"""Tools that change nothing outside the session's own folder are allowed; the user is asked about all others."""
ALLOW_ALL = ApprovalRules(default_verdict="allow")


def decide_approval(approval: ApprovalRules, name: str, arguments: Mapping[str, Any]) -> ApprovalRuling:
    rulings = [_decide_alone(each, name, arguments) for each in (approval, *approval.bounds)]
    decisions = [ruling for ruling in rulings if ruling is not None]
    return max(
        decisions,
        key=lambda ruling: VERDICTS_BY_STRICTNESS.index(ruling.verdict),
        default=ApprovalRuling("ask", _NO_RULE_REASON),
    )


def _decide_alone(approval: ApprovalRules, name: str, arguments: Mapping[str, Any]) -> ApprovalRuling | None:
    """Return the ruling of these rules without their bounds, or None if they have no verdict on this call."""
    fitting = [pattern for pattern in approval.verdicts if fnmatchcase(name, pattern)]
    rule = max(fitting, key=lambda pattern: (pattern == name, len(pattern)), default="")
    verdict = approval.verdicts[rule] if rule else approval.default_verdict
    command = arguments.get("command")
    if name == "shell" and isinstance(command, str) and verdict != "deny":
        for denied in approval.deny_commands:
            if is_command_denied(denied, command):
                return ApprovalRuling("deny", f"the rule for commands with {denied!r}")
        if is_command_allowed(approval.allow_commands, command):
            return ApprovalRuling("allow", "the rules for commands")
    if verdict is None:
        return None
    no_rule = _DEFAULT_DENIAL_REASON if verdict == "deny" else _NO_RULE_REASON
    return ApprovalRuling(verdict, f"the rule for {rule}" if rule else no_rule)


def ask_one_at_a_time(ask: AskUser) -> AskUser:
    """Return a function that asks one question after the other, also if several calls ask at the same time."""
    lock = asyncio.Lock()

    async def ask_next(question: ApprovalQuestion) -> bool:
        async with lock:
            return await ask(question)

    return ask_next
