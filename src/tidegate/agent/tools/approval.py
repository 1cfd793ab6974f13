"""Who may do what: allow, ask or deny, by the name of a tool and for the shell by its command.

A decision is made from the call alone. For commands the rules are a convenience and not a sandbox: a shell can say one
thing in many ways. So an allow rule matches only a plain list of arguments (`command_rules`), a deny rule matches
broadly, and everything else is asked.
"""

from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import msgspec

from tidegate.agent.tools.command_rules import is_command_allowed, is_command_denied

ApprovalVerdict = Literal["allow", "ask", "deny"]
VERDICTS_BY_STRICTNESS: Final = ("allow", "ask", "deny")
"""The verdicts, the loosest first."""
_NO_RULE_REASON: Final = "no rule names this tool"


class ApprovalRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tools` are names or patterns (`github__*`), the longest that fits decides. The next two are rules for commands
    of the shell, see `command_rules`. `default` is for every other tool; None: these rules say nothing about it.

    A verdict is never looser than that of any of the `bounds`, where they have one.
    """

    verdicts: dict[str, ApprovalVerdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    default_verdict: ApprovalVerdict | None = "ask"
    bounds: tuple["ApprovalRules", ...] = ()


class ApprovalQuestion(msgspec.Struct, frozen=True):
    """What a person is asked. `why` says which rule made it a question."""

    tool: str
    arguments: dict[str, Any]
    reason: str


class ApprovalRuling(msgspec.Struct, frozen=True):
    verdict: ApprovalVerdict
    reason: str


AskUser = Callable[[ApprovalQuestion], Awaitable[bool]]

_SAFE_TOOLS = "read list grep memory_write memory_search recall compact skills task".split()
STANDARD_APPROVAL = ApprovalRules(verdicts=dict.fromkeys(_SAFE_TOOLS, "allow"))
"""What changes nothing outside the session's own folder is allowed, all else is asked."""
ALLOW_ALL = ApprovalRules(default_verdict="allow")


def decide_approval(approval: ApprovalRules, name: str, arguments: Mapping[str, Any]) -> ApprovalRuling:
    rulings = [_decide_alone(each, name, arguments) for each in (approval, *approval.bounds)]
    found = [ruling for ruling in rulings if ruling is not None]
    return max(
        found,
        key=lambda ruling: VERDICTS_BY_STRICTNESS.index(ruling.verdict),
        default=ApprovalRuling("ask", _NO_RULE_REASON),
    )


def _decide_alone(approval: ApprovalRules, name: str, arguments: Mapping[str, Any]) -> ApprovalRuling | None:
    """The ruling of these rules without their bounds, or None if they say nothing about this call."""
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
    return ApprovalRuling(verdict, f"the rule for {rule}" if rule else _NO_RULE_REASON)
