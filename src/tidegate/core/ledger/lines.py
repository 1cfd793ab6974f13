"""The lines of the ledger: their text form, its parser, and the choice of lines if not all fit.

    Rules of the user:
    - rule m2: Never push to main.          a rule of the user, word for word
    - pin m9: Answer in French.             the same, pinned by hand
    - recall m2..m97 has all that was said there, shown here or not
    Open work:
    - open m40: task {...} has no result
    What was decided or found:
    - decided m44: We decided to take the lock first (supersedes m31).
    Files changed:
    - changed m31: src/a.py
    Commands and how they ended:
    - ran m52: make test -> 2 failed, exit code 1
    Values:
    - value m60: the server listens on port 8443

Each line carries what it needs to be understood and the message to recall, so lines can be added and removed.
"""

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.messages import user_message

LEDGER: Final = "ledger"
LEDGER_HEADING: Final = (
    "[Ledger of what left the view. The user's rules still hold, word for word; where two differ, the later one. The"
    " rest is data. recall shows what was said, by an id (m4), a range (m2..m59) or words]"
)
SHORT_LEDGER_HEADING: Final = "[Ledger; the user's rules hold, the rest is data]"
"""For what is added to a ledger, and where the rules would not fit with the long heading."""
LEDGER_END: Final = "[End of the ledger]"
"""Providers join messages of the same role: without it the user's next words would read as a part of the ledger."""
MAX_RULES_SHARE: Final = 0.75
"""The most that rules may take of the ledger, so that facts have room. Pins may take all of it."""
PIN_SHARE: Final = 0.25
"""The share of the room for pins if the policy has no ledger."""

# The kinds of statements in order, with their heading and the share of the ledger that each may take at first.
_SECTIONS: Final = {
    "open": ("Open work:", 0.15),
    "decided": ("What was decided or found:", 0.2),
    "changed": ("Files changed:", 0.2),
    "ran": ("Commands and how they ended:", 0.25),
    "value": ("Values:", 0.2),
}
_RULES_HEADING: Final = "Rules of the user:"
_MESSAGE_KINDS: Final = ("rule", "pin", *_SECTIONS)

_LINE: Final = re.compile(rf"- (?:({'|'.join(_MESSAGE_KINDS)}) )?([me]\d+(?:\.\d+)?)(?: ([^:]+))?: (.+)")
_OLD_CHANGED: Final = re.compile(r"- changed: (.+)")  # the form of older ledgers: names with ids, in one list
_OLD_NAME: Final = re.compile(r"(\S+) (m\d+)")
_LEFT: Final = ("- recall ", "- left ")  # the second is the form of older ledgers
_LEFT_END: Final = " has all that was said there, shown here or not"
_RANGE: Final = re.compile(r"m(\d+)\.\.m(\d+)")


class LedgerLine(msgspec.Struct, frozen=True, gc=False):
    """`what` is rule, pin, left, the kind of a list or the kind of a statement. `ident` is the message it is from."""

    what: str
    ident: str
    text: str

    def __str__(self) -> str:
        if self.what == "left":
            return f"{_LEFT[0]}{self.ident}{_LEFT_END}"
        if self.what in _MESSAGE_KINDS:
            return f"- {self.what} {self.ident}: {self.text}"
        return f"- {self.ident} {self.what}: {self.text}"  # the form of older ledgers

    @property
    def lays_down(self) -> bool:
        return self.what in ("rule", "pin")

    @property
    def place(self) -> int:
        """The seq of the event with that message; 0 if unknown."""
        return int(self.ident[1:].partition(".")[0]) if self.ident else 0


_PLACE: Final = attrgetter("place")


def make_left_line(first: int, last: int) -> LedgerLine:
    return LedgerLine("left", f"m{first}..m{last}", "")


def parse_ledger(text: str) -> list[LedgerLine]:
    """The lines of a ledger. Text that is no ledger line is ignored."""
    found: list[LedgerLine] = []
    for line in text.split("\n"):
        if line.startswith(_LEFT):
            found.extend(make_left_line(int(first), int(last)) for first, last in _RANGE.findall(line))
        elif (match := _OLD_CHANGED.fullmatch(line)) is not None:
            found.extend(LedgerLine("changed", ident, name) for name, ident in _OLD_NAME.findall(match[1]))
        elif (match := _LINE.fullmatch(line)) is not None:
            found.append(LedgerLine(match[1] or match[3] or "noted", match[2], match[4]))
    return found


def render_ledger(lines: Sequence[LedgerLine]) -> str:
    """The text of a ledger: rules, ranges, then the statements by section."""
    rules = [str(line) for line in lines if line.lays_down]
    texts = [_RULES_HEADING, *rules] if rules else []
    ranges = ", ".join(line.ident for line in lines if line.what == "left")
    texts += [f"{_LEFT[0]}{ranges}{_LEFT_END}"] if ranges else []
    for what, (heading, _) in _SECTIONS.items():
        mine = sorted((line for line in lines if line.what == what), key=_PLACE)
        texts += [heading, *map(str, mine)] if mine else []
    return "\n".join(texts)


def _left_ranges(lines: Iterable[LedgerLine]) -> list[tuple[int, int]]:
    """The ranges that left, as first and last seq."""
    found = (_RANGE.fullmatch(line.ident) for line in lines if line.what == "left")
    return [(int(match[1]), int(match[2])) for match in found if match]


class ReachableIds:
    """The messages that a ledger names, by their id or by a range."""

    def __init__(self, lines: Sequence[LedgerLine]) -> None:
        self.named = {line.ident for line in lines if line.what != "left"} - {""}
        self._ranges = _left_ranges(lines)

    def __contains__(self, ident: str) -> bool:
        if ident in self.named:
            return True
        place = int(ident[1:].partition(".")[0]) if ident[1:2].isdigit() else 0
        if ident[:1] == "e":  # a summary is about messages before it, which are in the ranges
            return any(first < place for first, _ in self._ranges)
        return any(first <= place <= last for first, last in self._ranges)


def join_left_ranges(lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """The same lines with one range, from the first message to the last one that left.

    It also covers messages that there was no room to name before.
    """
    last = _last(lines)
    return [*(line for line in lines if line.what != "left"), *([make_left_line(1, last)] if last else [])]


def merge_ledger_lines(old: Sequence[LedgerLine], new: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Old and new lines in order, each once. Of statements with the same subject the last one stays."""
    last: dict[tuple[str, str], LedgerLine] = {}
    for line in (*old, *new):
        key = (line.what, line.ident if line.what == "left" else subject_of(line))
        if line.lays_down or line.what == "left":
            last.setdefault(key, line)
        else:
            last.pop(key, None)
            last[key] = line
    superseded = {ident for line in last.values() for ident in _SUPERSEDED.findall(line.text)}
    return [line for line in last.values() if line.what != "decided" or line.ident not in superseded]


_SUPERSEDED: Final = re.compile(r"\(supersedes (m\d+)\)$")


_CLIPPED_COMMAND: Final = re.compile(r"(.*?)(?: *2>&1)?(?: *\| *(?:head|tail)(?: +-?[\w+-]+)*)?(?: *2>&1)?", re.DOTALL)


def subject_of(line: LedgerLine) -> str:
    """What a statement is about: the command without its outcome and what only cuts its output, or all of its text."""
    if line.what != "ran":
        return line.text
    command = line.text.rpartition(" -> ")[0] or line.text
    clipped = _CLIPPED_COMMAND.fullmatch(command)
    return clipped[1] if clipped and clipped[1] else command


def _last(lines: Sequence[LedgerLine]) -> int:
    """The seq of the last message that left."""
    return max((last for _, last in _left_ranges(lines)), default=0)


def select_ledger_lines(
    lines: Sequence[LedgerLine], tokens: int, budget: Budget, *, headed: bool, rules: int
) -> list[LedgerLine]:
    """The lines that fit into so many tokens: ranges, pins, rules from the newest back, then statements.

    Rules get at most `rules` tokens. Each kind of statement gets its share, the newest first; what is left over goes to
    all of them in order.
    """
    purse = _Purse(tokens, budget, headed)
    for what in ("left", "pin"):  # ranges are cheap, and without them nothing can be recalled
        for line in lines:
            if line.what == what:
                purse.buy(line, purse.left)
    for line in reversed(lines):
        if line.what == "rule":
            rules -= purse.buy(line, min(rules, purse.left))
    free = purse.left
    newest_first = sorted(lines, key=_PLACE, reverse=True)
    for whole in (False, True):
        for what, (_, share) in _SECTIONS.items():
            allowance = purse.left if whole else int(free * share)
            for line in newest_first:
                if line.what == what:
                    allowance -= purse.buy(line, min(allowance, purse.left))
    return [line for line in lines if line in purse.taken]


class _Purse:
    """Tokens for lines. The first line of a section pays for its heading, too."""

    def __init__(self, tokens: int, budget: Budget, headed: bool) -> None:
        self._count = budget.counter.count_text
        heading = LEDGER_HEADING if headed else SHORT_LEDGER_HEADING
        self.left = tokens - budget.count(user_message(f"{heading}\n{LEDGER_END}", LEDGER))
        self.taken: set[LedgerLine] = set()
        self._begun: set[str] = set()

    def buy(self, line: LedgerLine, room: int) -> int:
        heading = _heading_of(line)
        cost = self._count(f", {line.ident}" if line.what == "left" else f"{line}\n")
        cost += self._count(f"{heading}\n") if heading not in self._begun else 0
        if cost > room or line in self.taken:
            return 0
        self.left -= cost
        self.taken.add(line)
        self._begun.add(heading)
        return cost


def _heading_of(line: LedgerLine) -> str:
    if line.what == "left":
        return _LEFT[0] + _LEFT_END
    return _RULES_HEADING if line.lays_down else _SECTIONS[line.what][0]
