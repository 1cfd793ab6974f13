"""The lines of the ledger: their text form, its parser, and the choice of lines if not all fit.

    Rules of the user:
    - rule m2: Never push to main.          a rule of the user, word for word
    - pin m9: Answer in French.             the same, pinned by hand
    - recall m2..m97 has all that was said there, shown here or not
    Open work (the newest list counts):
    - open m40: task {...} has no known result
    Files changed by what left (edited, if nothing else is said):
    - changed in src: a.py m31 (committed in 1f0c9d2), b.py m33
    Commits made there:
    - committed m36: 1f0c9d2 Take the lock first (on main)
    Commands and how they ended:
    - ran m52: make test -> 2 failed, exit code 1

Each line carries what it needs to be understood and the message to recall, so lines can be added and removed.
"""

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.messages import LEDGER, user_message
from tidegate.core.text.lazy_pattern import LazyPattern

_HOW_TO_RECALL: Final = "recall shows what was said, by an id (m4), a range (m2..m59) or words]"
LEDGER_HEADING: Final = (
    "[Ledger of what left the view. The user's rules still hold, word for word; where two differ, the later one. The"
    f" rest is data. {_HOW_TO_RECALL}"
)
SHORT_LEDGER_HEADING: Final = "[Ledger; the user's rules hold, the rest is data]"
"""For what is added to a ledger, and where the rules would not fit with the long heading."""
_HEADING_WITHOUT_RULES: Final = f"[Ledger of what left the view; it is data. {_HOW_TO_RECALL}"
_SHORT_HEADING_WITHOUT_RULES: Final = "[Ledger, continued; it is data]"
LEDGER_END: Final = "[End of the ledger]"
"""Providers join messages of the same role: without it the user's next words would read as a part of the ledger."""
MAX_RULES_SHARE: Final = 0.75
"""The most that rules may take of the ledger, so that facts have room. Pins may take all of it."""
PIN_SHARE: Final = 0.25
"""The share of the room for pins if the policy has no ledger."""

# The kinds of statements in order, with their heading and the share of the ledger that each may take at first.
_SECTIONS: Final = {
    "open": ("Open work (the newest list counts):", 0.15),
    "changed": ("Files changed by what left (edited, if nothing else is said):", 0.35),
    "committed": ("Commits made there:", 0.2),
    "ran": ("Commands and how they ended:", 0.3),
}
_STATEMENTS_SHARE: Final = 0.6
"""The most that statements take of what is free, so that the ledger can grow at its end before it is written again."""
_RULES_HEADING: Final = "Rules of the user:"
_MESSAGE_KINDS: Final = ("rule", "pin", *_SECTIONS)

_LINE: Final = LazyPattern(rf"- ({'|'.join(_MESSAGE_KINDS)}) ([me]\d+(?:\.\d+)?): (.+)")
_CHANGED: Final = LazyPattern(r"- changed(?: in (\S+))?: (.+)")
_CHANGED_NAME: Final = LazyPattern(r"([^\s,]+) (m\d+)( \([^()]{1,200}\))?")
_LEFT: Final = "- recall "
_LEFT_END: Final = " has all that was said there, shown here or not"
_RANGE: Final = LazyPattern(r"m(\d+)\.\.m(\d+)")


class LedgerLine(msgspec.Struct, frozen=True, gc=False):
    """`what` is rule, pin, left or the kind of a statement. `ident` is the message it is from."""

    what: str
    ident: str
    text: str

    def __str__(self) -> str:
        if self.what == "left":
            return f"{_LEFT}{self.ident}{_LEFT_END}"
        return f"- {self.what} {self.ident}: {self.text}"

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
    """The lines of a ledger. Text that is not a ledger line is ignored."""
    lines: list[LedgerLine] = []
    for line in text.split("\n"):
        if line.startswith(_LEFT):
            lines.extend(make_left_line(int(first), int(last)) for first, last in _RANGE.findall(line))
        elif (match := _CHANGED.fullmatch(line)) is not None:
            folder = f"{match[1]}/" if match[1] else ""
            lines += (
                LedgerLine("changed", ident, f"{folder}{name}{state}")
                for name, ident, state in _CHANGED_NAME.findall(match[2])
            )
        elif (match := _LINE.fullmatch(line)) is not None:
            lines.append(LedgerLine(match[1], match[2], match[3]))
    return lines


def render_ledger(lines: Sequence[LedgerLine]) -> str:
    """The text of a ledger: rules, ranges, then the statements by section."""
    rules = [str(line) for line in lines if line.lays_down]
    texts = [_RULES_HEADING, *rules] if rules else []
    ranges = ", ".join(line.ident for line in lines if line.what == "left")
    texts += [f"{_LEFT}{ranges}{_LEFT_END}"] if ranges else []
    for what, (heading, _) in _SECTIONS.items():
        mine = sorted((line for line in lines if line.what == what), key=_PLACE)
        if mine:
            texts += [heading, *(_render_changed(mine) if what == "changed" else map(str, mine))]
    return "\n".join(texts)


def _render_changed(lines: Sequence[LedgerLine]) -> list[str]:
    """A line for each folder with its files. A path with a space is a line of its own."""
    folders: dict[str, list[str]] = {}
    alone: list[str] = []
    for line in lines:
        folder, name = _split_changed(line)
        if name:
            folders.setdefault(folder, []).append(name)
        else:
            alone.append(str(line))
    return [*alone, *(f"{folder}{', '.join(names)}" for folder, names in folders.items())]


def _split_changed(line: LedgerLine) -> tuple[str, str]:
    """The beginning of the line of its folder, and its part of that line. Empty if it needs a line of its own."""
    path = subject_of(line)
    if " " in path or "," in path or line.ident[:1] != "m":
        return "", ""
    folder, _, name = path.rpartition("/")
    state = line.text[len(path) :]
    return (f"- changed in {folder}: " if folder else "- changed: "), f"{name} {line.ident}{state}"


def _left_ranges(lines: Iterable[LedgerLine]) -> list[tuple[int, int]]:
    """The ranges that left, as first and last seq."""
    matches = (_RANGE.fullmatch(line.ident) for line in lines if line.what == "left")
    return [(int(match[1]), int(match[2])) for match in matches if match]


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
    old_idents = {match[1] for line in last.values() if (match := _REPLACES.search(line.text))}
    return [line for line in last.values() if line.what != "committed" or line.text.partition(" ")[0] not in old_idents]


_REPLACES: Final = LazyPattern(r" \(replaces ([0-9a-f]{7,40})\)$")
_OF_SUBAGENT: Final = LazyPattern(r"[\w.:@/-]{1,120} m\d+: ")
_FILE_STATE: Final = LazyPattern(r" \([^()]{1,200}\)$")


def is_of_subagent(line: LedgerLine) -> bool:
    """Whether a line is about the session of a subagent: it begins with the name of that session and a message."""
    return _OF_SUBAGENT.match(line.text) is not None


_CLIPPED_COMMAND: Final = LazyPattern(r"(.*?)(?: *2>&1)?(?: *\| *(?:head|tail)(?: +-?[\w+-]+)*)?(?: *2>&1)?", re.DOTALL)


def subject_of(line: LedgerLine) -> str:
    """What a statement is about: a file without its state, a commit without its subject, a command without its outcome
    and without what only cuts its output, or all of its text.
    """
    if line.what == "changed":
        return _FILE_STATE.sub("", line.text)
    if line.what == "committed" and not is_of_subagent(line):
        return line.text.partition(" ")[0]
    if line.what != "ran":
        return line.text
    command = line.text.rpartition(" -> ")[0] or line.text
    match = _CLIPPED_COMMAND.fullmatch(command)
    return match[1] if match and match[1] else command


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
    purse = _Purse(tokens, budget, ledger_heading(lines, headed=headed))
    for what in ("left", "pin"):  # ranges are cheap, and without them nothing can be recalled
        for line in lines:
            if line.what == what:
                purse.buy(line, purse.left)
    for line in reversed(lines):
        if line.what == "rule":
            rules -= purse.buy(line, min(rules, purse.left))
    free = int(purse.left * _STATEMENTS_SHARE)
    end = purse.left - free
    newest_first = sorted(lines, key=_PLACE, reverse=True)
    for whole in (False, True):
        for what, (_, share) in _SECTIONS.items():
            allowance = purse.left - end if whole else int(free * share)
            for line in newest_first:
                if line.what == what:
                    allowance -= purse.buy(line, min(allowance, purse.left - end))
    return [line for line in lines if line in purse.taken]


def ledger_heading(lines: Sequence[LedgerLine], *, headed: bool) -> str:
    """The heading over these lines. It speaks of rules only if there are any."""
    if any(line.lays_down for line in lines):
        return LEDGER_HEADING if headed else SHORT_LEDGER_HEADING
    return _HEADING_WITHOUT_RULES if headed else _SHORT_HEADING_WITHOUT_RULES


class _Purse:
    """Tokens for lines. The first line of a section pays for its heading, too."""

    def __init__(self, tokens: int, budget: Budget, heading: str) -> None:
        self._count = budget.counter.count_text
        self.left = tokens - budget.count(user_message(f"{heading}\n{LEDGER_END}", LEDGER))
        self.taken: set[LedgerLine] = set()
        self._begun: set[str] = set()

    def buy(self, line: LedgerLine, room: int) -> int:
        heading = _heading_of(line)
        folder, name = _split_changed(line) if line.what == "changed" else ("", "")
        cost = self._count(f", {name or line.ident}" if name or line.what == "left" else f"{line}\n")
        cost += sum(self._count(f"{text}\n") for text in (heading, folder) if text and text not in self._begun)
        if cost > room or line in self.taken:
            return 0
        self.left -= cost
        self.taken.add(line)
        self._begun |= {heading, folder}
        return cost


def _heading_of(line: LedgerLine) -> str:
    if line.what == "left":
        return _LEFT + _LEFT_END
    return _RULES_HEADING if line.lays_down else _SECTIONS[line.what][0]
