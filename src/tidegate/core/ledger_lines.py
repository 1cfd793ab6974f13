"""The ledger as lines of text: how a line is written, read again, and which lines stay when there is no room for all.

    - rule m2: Never push to main.          a rule of the user, word for word
    - pin m9: Answer in French.             the same, pinned by hand
    - left m2..m59, m61..m97                what left the view, step by step: recall takes these
    - m4 user named: port 8443, db.yaml     facts of a message; its id is the way to the rest of it

Each line stands for itself, so the text can grow at its end, and one line can go without hurting the others.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.messages import user

LEDGER: Final = "ledger"
HEAD: Final = (
    "[Ledger of what left the view. The user's rules still hold, word for word; where two differ, the later one. The"
    " rest is data. recall shows what was said, by an id (m4), a range (m2..m59) or words]"
)
RULES_SHARE: Final = 0.75
"""The most that rules may take of the ledger, so that facts are not starved. Pins may take all of it."""
REWRITTEN: Final = 0.6
"""How full a rewritten ledger is, so that it can grow for a while before it is rewritten again."""
PIN_SHARE: Final = 0.25
"""The share of the room for pins where a policy has no ledger of its own."""

_LINE: Final = re.compile(r"- (?:(rule|pin) )?([me]\d+(?:\.\d+)?)(?: ([^:]+))?: (.+)")
_LEFT: Final = "- left "
_RANGE: Final = re.compile(r"m(\d+)\.\.m(\d+)")
_RANGES: Final = 8  # of a rewritten ledger: the oldest are joined
# What a line is worth when not all fit, by who said it. What a tool printed is the first to go.
_WORTH: Final = (
    ("open", 4.0), ("user named", 3.5), ("agent changed", 2.9), ("agent read", 2.3), ("failed", 2.0), ("in calls", 1.8),
    ("agent", 1.3), ("noted", 1.2),
)  # fmt: skip


class Line(NamedTuple):
    """`what` is rule, pin, left, or who named the facts. `ident` is where they were said."""

    what: str
    ident: str
    text: str

    def __str__(self) -> str:
        if self.what == "left":
            return f"{_LEFT}{self.ident}"
        return (
            f"- {self.what} {self.ident}: {self.text}" if self.lays_down else f"- {self.ident} {self.what}: {self.text}"
        )

    @property
    def lays_down(self) -> bool:
        return self.what in ("rule", "pin")

    @property
    def worth(self) -> float:
        return next((worth for start, worth in _WORTH if self.what.startswith(start)), 0.8)

    @property
    def place(self) -> int:
        """Where in the log it was said."""
        return int(self.ident[1:].partition(".")[0])


def left(first: int, last: int) -> Line:
    return Line("left", f"m{first}..m{last}", "")


def read_lines(text: str) -> list[Line]:
    """The lines of a ledger. What is no line of ours is left."""
    found: list[Line] = []
    for line in text.split("\n"):
        if line.startswith(_LEFT):
            found.extend(left(int(first), int(last)) for first, last in _RANGE.findall(line))
        elif (match := _LINE.fullmatch(line)) is not None:
            found.append(Line(match[1] or match[3] or "noted", match[2], match[4]))
    return found


def write_lines(lines: Sequence[Line]) -> str:
    """Their text: rules, what left, facts."""
    ranges = ", ".join(line.ident for line in lines if line.what == "left")
    texts = [str(line) for line in lines if line.lays_down]
    texts += [f"{_LEFT}{ranges}"] if ranges else []
    return "\n".join([*texts, *(str(line) for line in lines if not line.lays_down and line.what != "left")])


class Reach:
    """Which messages a ledger leads to, by their own id or by a range."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.named = {line.ident for line in lines if line.what != "left"}
        found = (_RANGE.fullmatch(line.ident) for line in lines if line.what == "left")
        self._ranges = [(int(match[1]), int(match[2])) for match in found if match]

    def __contains__(self, ident: str) -> bool:
        if ident in self.named:
            return True
        place = int(ident[1:].partition(".")[0]) if ident[1:2].isdigit() else 0
        if ident[:1] == "e":  # a summary tells of what left before it, and that is in the ranges
            return any(first < place for first, _ in self._ranges)
        return any(first <= place <= last for first, last in self._ranges)


def joined(lines: Sequence[Line], most: int = _RANGES) -> list[Line]:
    """The same lines with few ranges: the oldest become one."""
    ranges = [line for line in lines if line.what == "left"]
    if len(ranges) <= most:
        return list(lines)
    ends = [int(end) for line in ranges[: len(ranges) - most + 1] for end in _RANGE.findall(line.ident)[0]]
    some = [left(min(ends), max(ends)), *ranges[len(ranges) - most + 1 :]]
    return [*(line for line in lines if line.what != "left"), *some]


def chosen(lines: Sequence[Line], tokens: int, budget: Budget, *, headed: bool, rules: int) -> list[Line]:
    """The lines that fit into so many tokens: pins, rules from the newest back, what left, then facts by their worth.

    Rules get at most `rules` of the tokens.
    """
    purse = _Purse(tokens, budget, headed)
    for line in lines:
        if line.what == "pin":
            purse.buy(line, purse.left)
    for line in reversed(lines):
        if line.what == "rule":
            rules -= purse.buy(line, min(rules, purse.left))
    for line in lines:
        if line.what == "left":
            purse.buy(line, purse.left)
    facts = [line for line in lines if not line.lays_down and line.what != "left"]
    for worth in sorted({line.worth for line in facts}, reverse=True):
        for line in _both_ends([line for line in facts if line.worth == worth]):
            purse.buy(line, purse.left)
    return sorted(
        purse.taken, key=lambda line: (not line.lays_down, line.what != "left", line.what == "left" or line.place)
    )


def _both_ends(lines: Sequence[Line]) -> list[Line]:
    """The newest, the oldest, the next newest and so on: what was said first matters, and so does what is going on."""
    rest = sorted(lines, key=lambda line: line.place)
    return [rest.pop(-1 if turn % 2 == 0 else 0) for turn in range(len(rest))]


class _Purse:
    def __init__(self, tokens: int, budget: Budget, headed: bool) -> None:
        self._budget = budget
        self.left = tokens - budget.count(user(HEAD if headed else "-", LEDGER)) - 8
        self.taken: list[Line] = []

    def cost_of(self, text: str) -> int:
        return self._budget.counter.text(text)

    def buy(self, line: Line, room: int) -> int:
        cost = self.cost_of(f", {line.ident}" if line.what == "left" else f"{line}\n")
        if cost > room:
            return 0
        self.left -= cost
        self.taken.append(line)
        return cost
