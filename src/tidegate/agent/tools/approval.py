"""Who may do what: allow, ask or deny, by the name of a tool and for the shell by its command.

A decision is made from the call alone. For commands the rules are a convenience and not a sandbox: a shell can say one
thing in many ways. So an allow rule matches only a plain list of arguments (`command_rules`), a deny rule matches
broadly, and everything else is asked.
"""

from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import msgspec

from tidegate.agent.tools.command_rules import allows, denies

Verdict = Literal["allow", "ask", "deny"]
STRICTNESS: Final = ("allow", "ask", "deny")
"""The verdicts, the loosest first."""
_UNNAMED: Final = "no rule names this tool"


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tools` are names or patterns (`github__*`), the longest that fits decides. The next two are rules for commands
    of the shell, see `command_rules`. `default` is for every other tool; None: these rules say nothing about it.

    A verdict is never looser than that of any of the `bounds`, where they have one.
    """

    tools: dict[str, Verdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    default: Verdict | None = "ask"
    bounds: tuple["Approval", ...] = ()


class Question(msgspec.Struct, frozen=True):
    """What a person is asked. `why` says which rule made it a question."""

    tool: str
    arguments: dict[str, Any]
    why: str


class Ruling(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str


Ask = Callable[[Question], Awaitable[bool]]

SAFE = "read list grep memory_write memory_search recall compact skills task".split()
STANDARD = Approval(tools=dict.fromkeys(SAFE, "allow"))
"""What changes nothing outside the session's own folder is allowed, all else is asked."""
OPEN = Approval(default="allow")


def decide(approval: Approval, name: str, arguments: Mapping[str, Any]) -> Ruling:
    rulings = [_ruling(each, name, arguments) for each in (approval, *approval.bounds)]
    found = [ruling for ruling in rulings if ruling is not None]
    return max(found, key=lambda ruling: STRICTNESS.index(ruling.verdict), default=Ruling("ask", _UNNAMED))


def _ruling(approval: Approval, name: str, arguments: Mapping[str, Any]) -> Ruling | None:
    """The ruling of these rules without their bounds, or None if they say nothing about this call."""
    fitting = [pattern for pattern in approval.tools if fnmatchcase(name, pattern)]
    rule = max(fitting, key=lambda pattern: (pattern == name, len(pattern)), default="")
    verdict = approval.tools[rule] if rule else approval.default
    command = arguments.get("command")
    if name == "shell" and isinstance(command, str) and verdict != "deny":
        for denied in approval.deny_commands:
            if denies(denied, command):
                return Ruling("deny", f"the rule for commands with {denied!r}")
        if allows(approval.allow_commands, command):
            return Ruling("allow", "the rules for commands")
    if verdict is None:
        return None
    return Ruling(verdict, f"the rule for {rule}" if rule else _UNNAMED)
