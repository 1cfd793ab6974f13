"""The lines of the ledger: their text form, its parser, and the choice of lines if not all fit.

    - rule m2: Never push to main.          a rule of the user, word for word
    - pin m9: Answer in French.             the same, pinned by hand
    - left m2..m59, m61..m97                ranges of messages that left the view, for recall
    - open m40: task {...} has no result    a statement about one message; decided and ran have the same form
    - changed: src/a.py m31, src/b.py m8    files the agent changed, and the message of the call; read: files it read
    - named: port 8443, db.yaml             other names

No line depends on another, so lines can be added at the end and removed. Each name is a LedgerLine of its own; in the
text the names of one kind are a list, the likeliest to be needed first.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.messages import user_message

LEDGER: Final = "ledger"
LEDGER_HEADING: Final = (
    "[Ledger of what left the view. The user's rules still hold, word for word; where two differ, the later one. The"
    " rest is data. recall shows what was said, by an id (m4), a range (m2..m59) or words]"
)
MAX_RULES_SHARE: Final = 0.75
"""The most that rules may take of the ledger, so that facts have room. Pins may take all of it."""
PIN_SHARE: Final = 0.25
"""The share of the room for pins if the policy has no ledger."""
_LIST_KINDS: Final = ("changed", "read", "named")

_LINE: Final = re.compile(r"- (?:(rule|pin|open|decided|ran) )?([me]\d+(?:\.\d+)?)(?: ([^:]+))?: (.+)")
_MESSAGE_KINDS: Final = ("rule", "pin", "open", "decided", "ran")
_LIST: Final = re.compile(r"- (changed|read|named): (.+)")
_IDENT: Final = re.compile(r"[me]\d+(?:\.\d+)?")
_LEFT: Final = "- left "
_RANGE: Final = re.compile(r"m(\d+)\.\.m(\d+)")
_MAX_OLD_PER_NEW: Final = 6  # old names before each new one when a ledger is rewritten, so that new ones have room
_MAX_MISSES: Final = 40  # stop after so many names in a row that do not fit


class LedgerLine(msgspec.Struct, frozen=True, gc=False):
    """`what` is rule, pin, left, the kind of a list or the kind of a statement. `ident` is the message it is from."""

    what: str
    ident: str
    text: str

    def __str__(self) -> str:
        if self.what == "left":
            return f"{_LEFT}{self.ident}"
        if self.what in _LIST_KINDS:
            return f"{self.text} {self.ident}" if self.ident else self.text
        if self.what in _MESSAGE_KINDS:
            return f"- {self.what} {self.ident}: {self.text}"
        return f"- {self.ident} {self.what}: {self.text}"  # the form of older ledgers

    @property
    def lays_down(self) -> bool:
        return self.what in ("rule", "pin")

    @property
    def listed(self) -> bool:
        return self.what in _LIST_KINDS

    @property
    def place(self) -> int:
        """The seq of the event with that message; 0 if unknown."""
        return int(self.ident[1:].partition(".")[0]) if self.ident else 0


def make_left_line(first: int, last: int) -> LedgerLine:
    return LedgerLine("left", f"m{first}..m{last}", "")


def parse_ledger(text: str) -> list[LedgerLine]:
    """The lines of a ledger. Text that is no ledger line is ignored."""
    found: list[LedgerLine] = []
    for line in text.split("\n"):
        if line.startswith(_LEFT):
            found.extend(make_left_line(int(first), int(last)) for first, last in _RANGE.findall(line))
        elif (match := _LIST.fullmatch(line)) is not None:
            found.extend(_listed(match[1], name) for name in match[2].split(", ") if name)
        elif (match := _LINE.fullmatch(line)) is not None:
            found.append(LedgerLine(match[1] or match[3] or "noted", match[2], match[4]))
    return found


def _listed(what: str, name: str) -> LedgerLine:
    text, _, ident = name.rpartition(" ")
    return LedgerLine(what, ident, text) if text and _IDENT.fullmatch(ident) else LedgerLine(what, "", name)


def render_ledger(lines: Sequence[LedgerLine]) -> str:
    """The text of a ledger: rules, ranges, statements, names."""
    lists: dict[str, list[str]] = {what: [] for what in _LIST_KINDS}
    others: list[LedgerLine] = []
    for line in lines:
        if line.what in lists:
            lists[line.what].append(f"{line.text} {line.ident}" if line.ident else line.text)
        else:
            others.append(line)
    ranges = ", ".join(line.ident for line in others if line.what == "left")
    texts = [str(line) for line in others if line.lays_down]
    texts += [f"{_LEFT}{ranges}"] if ranges else []
    texts += [str(line) for line in others if not line.lays_down and line.what != "left"]
    texts += [f"- {what}: {', '.join(names)}" for what, names in lists.items() if names]
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
    """Old and new lines, each once. Old and new names alternate, in proportion to the messages they are from."""
    fresh = {line.text for line in new}
    names = [line for line in old if line.what in _LIST_KINDS and line.text not in fresh]
    later = [line for line in new if line.what in _LIST_KINDS]
    told = [line for line in (*new, *old) if not line.listed and not line.lays_down and line.what != "left"]
    done = [line for line in (*old, *new) if line.lays_down or line.what == "left"]
    done += told
    before = _last(old)
    turn = min(_MAX_OLD_PER_NEW, max(1, round(before / max(1, _last(new) - before))))
    for step in range(max(len(later), -(-len(names) // turn))):
        done += [*names[step * turn : (step + 1) * turn], *later[step : step + 1]]
    return list(dict.fromkeys(done))


def _last(lines: Sequence[LedgerLine]) -> int:
    """The seq of the last message that left."""
    return max((last for _, last in _left_ranges(lines)), default=0)


def select_ledger_lines(
    lines: Sequence[LedgerLine], tokens: int, budget: Budget, *, headed: bool, rules: int, statements: int
) -> list[LedgerLine]:
    """The lines that fit into so many tokens: ranges, pins, rules from the newest back, statements, names.

    Rules get at most `rules` tokens, statements at most `statements`.
    """
    purse = _Purse(tokens, budget, headed)
    names = [line for line in lines if line.what in _LIST_KINDS]
    others = [line for line in lines if line.what not in _LIST_KINDS]
    for what in ("left", "pin"):  # ranges are cheap, and without them nothing can be recalled
        for line in others:
            if line.what == what:
                purse.buy(line, purse.left)
    for line in reversed(others):
        if line.what == "rule":
            rules -= purse.buy(line, min(rules, purse.left))
    for line in others:
        if not line.lays_down and line.what != "left":
            statements -= purse.buy(line, min(statements, purse.left))
    purse.buy_names(names)
    rules_taken = [line for line in others if line.lays_down and line in purse.taken]
    return [*rules_taken, *(line for line in purse.taken if not line.lays_down)]


class _Purse:
    def __init__(self, tokens: int, budget: Budget, headed: bool) -> None:
        self._budget = budget
        self.left = tokens - budget.count(user_message(LEDGER_HEADING if headed else "-", LEDGER)) - 16
        self.taken: dict[LedgerLine, None] = {}

    def buy(self, line: LedgerLine, room: int) -> int:
        cost = self._budget.counter.count_text(f", {line.ident}" if line.what == "left" else f"{line}\n")
        if cost > room or line in self.taken:
            return 0
        self.left -= cost
        self.taken[line] = None
        return cost

    def buy_names(self, lines: Iterable[LedgerLine]) -> None:
        """The same as `buy` for each, but faster: there are thousands."""
        missed, left, count = 0, self.left, self._budget.counter.count_text
        for line in lines:
            cost = count(f", {line.text} {line.ident}" if line.ident else f", {line.text}")
            if cost <= left:
                missed = 0
                left -= cost
                self.taken[line] = None
            elif (missed := missed + 1) > _MAX_MISSES:
                break
        self.left = left
