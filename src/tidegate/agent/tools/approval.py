"""Who may do what: allow, ask, deny, by the name of a tool and for the shell by how a command begins.

A decision is made from the call alone. For commands the rules are a convenience and no wall: a shell can say one thing
in a thousand ways. So an `allow` holds only where every part of the command is plainly covered, a `deny` wherever its
words stand next to each other, and everything else is asked.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

Verdict = Literal["allow", "ask", "deny"]

_DANGEROUS = re.compile(r"[`$<>(){}\\\n\r\0]")
"""Where one of these stands, a command may do more than its words say."""
_JOINTS = frozenset({";", "&", "&&", "|", "||"})
_WORDS = re.compile(r"[^\s;&|<>(){}'\"`$]+")


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tools` are names or patterns (`github__*`), the longest that fits decides. The other two are beginnings of
    commands of the shell: `git status`, `pytest *`.
    """

    tools: dict[str, Verdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    default: Verdict = "ask"


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
    fitting = [pattern for pattern in approval.tools if fnmatchcase(name, pattern)]
    rule = max(fitting, key=lambda pattern: (pattern == name, len(pattern)), default="")
    verdict = approval.tools[rule] if rule else approval.default
    why = f"the rule for {rule}" if rule else "no rule names this tool"
    command = arguments.get("command")
    if name != "shell" or not isinstance(command, str) or verdict == "deny":
        return Ruling(verdict, why)
    return _command(approval, command, Ruling(verdict, why))


def _command(approval: Approval, command: str, otherwise: Ruling) -> Ruling:
    words = _WORDS.findall(command)
    for rule in approval.deny_commands:
        if _anywhere(words, rule.split()):
            return Ruling("deny", f"the rule for commands with {rule!r}")
    parts = _parts(command)
    if parts and all(any(_begins(part, rule.split()) for rule in approval.allow_commands) for part in parts):
        return Ruling("allow", "the rules for commands")
    return otherwise


def _parts(command: str) -> list[list[str]]:
    """The simple commands of a line, each as its words; none where that cannot be said for sure."""
    if _DANGEROUS.search(command):
        return []
    reader = shlex.shlex(command, posix=True, punctuation_chars=";&|")
    reader.whitespace_split = True
    reader.commenters = ""
    parts: list[list[str]] = [[]]
    try:
        for word in reader:
            if word in _JOINTS:
                parts.append([])
            elif set(word) <= set(";&|"):
                return []
            else:
                parts[-1].append(word)
    except ValueError:
        return []
    return [part for part in parts if part]


def _begins(part: list[str], rule: list[str]) -> bool:
    return bool(rule) and len(part) >= len(rule) and all(map(fnmatchcase, part, rule))


def _anywhere(words: list[str], rule: list[str]) -> bool:
    """Also behind `sudo`, inside quotes and as the end of a path: for a refusal too much is better than too little."""
    plain = [word.rsplit("/", 1)[-1] or word for word in words]
    size = len(rule)
    starts = range(len(words) - size + 1) if rule else range(0)
    return any(
        _begins(words[at : at + size], rule) or _begins([plain[at], *words[at + 1 : at + size]], rule) for at in starts
    )
