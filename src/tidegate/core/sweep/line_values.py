"""The value of each line of old groups: how likely it is that later work needs it word for word.

The value is the worth of the line (`key_lines.py`) times the weight of its file, which depends on when the file was
last named by anybody. Lines are worth nothing if they are shown again later, were removed by an edit, or are of a file
that was rewritten or a command that was run again. They are worth less if the whole file was read again later.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from tidegate.core.messages import calls_of, result_of, text_of
from tidegate.core.sweep.key_lines import KeyLine, find_key_lines
from tidegate.core.sweep.shortening import LineSlot
from tidegate.core.text.tool_calls import CallTarget, call_target_of, find_file_names
from tidegate.core.turns import Group
from tidegate.core.view import Item, View

_NO_FILE_WEIGHT: Final = 0.3
_AGEING: Final = 1.0  # a file last named at the beginning of the view weighs 1 / (1 + this)
_SEEN_AGAIN: Final = 0.5  # factor for a file that was read whole again later: of that, too, only some lines are kept
_MESSAGE_TOKENS: Final = 24  # cost of each message of a kept group: framing, name of the tool, stub
_ARGUMENT_CHARS: Final = 200  # characters of the arguments that are kept with a call


class LineChoice(msgspec.Struct, frozen=True, gc=False):
    """A line that may be kept: its group and place, its value, its cost in tokens, and value by cost (`density`)."""

    group: int
    slot: LineSlot
    line: KeyLine
    worth: float
    cost: float
    density: float


_DENSITY: Final = attrgetter("density")


def appraise_groups(units: Sequence[Group], first: int, view: View) -> list[LineChoice]:
    """The lines that may be kept of the groups before index `first`. The later groups stay whole."""
    appraiser = _LineAppraiser(units, view)
    for unit in reversed(units[first:]):
        appraiser.lines(unit, -1)
    return [choice for number in range(first - 1, -1, -1) for choice in appraiser.lines(units[number], number)]


def select_lines(choices: Sequence[LineChoice], old: Sequence[Group], room: float) -> dict[int, list[LineChoice]]:
    """The choices with the highest value for their cost that fit into `room` tokens, by group.

    Keeping any line of a group also costs its calls. So the best lines of a group are offered together, as many as give
    the highest density with that cost; the others are offered one by one.
    """
    by_group: dict[int, list[LineChoice]] = {}
    for choice in choices:
        if choice.worth > 0:
            by_group.setdefault(choice.group, []).append(choice)
    offers: list[_Offer] = []
    for number, mine in by_group.items():
        mine.sort(key=_DENSITY, reverse=True)
        offers += _offers(number, mine, _overhead(old[number]))
    offers.sort(key=_DENSITY, reverse=True)
    taken: dict[int, list[LineChoice]] = {}
    for offer in offers:
        if offer.cost <= room and (offer.opens or offer.group in taken):
            room -= offer.cost
            taken.setdefault(offer.group, []).extend(offer.choices)
    return taken


class _Offer(msgspec.Struct, frozen=True, gc=False):
    density: float
    group: int
    cost: float
    opens: bool
    choices: Sequence[LineChoice]


def _offers(number: int, mine: Sequence[LineChoice], overhead: float) -> list[_Offer]:
    worth, cost, best, count = 0.0, overhead, 0.0, 0
    for choice in mine:
        worth, cost = worth + choice.worth, cost + choice.cost
        if worth / cost <= best:
            break
        best, count = worth / cost, count + 1
    spent = overhead + sum(choice.cost for choice in mine[:count])
    rest = [_Offer(each.density, number, each.cost, False, (each,)) for each in mine[count:]]
    return [_Offer(best, number, spent, True, mine[:count]), *rest]


def _overhead(unit: Group) -> float:
    calls = [call for item in unit.items for call in calls_of(item.message)]
    return _MESSAGE_TOKENS * len(unit.items) + sum(min(len(call.arguments), _ARGUMENT_CHARS) // 4 for call in calls)


def _last_named(units: Sequence[Group], targets: Mapping[str, CallTarget]) -> dict[str, float]:
    """For each file the share of the view, from 0 to 1, that came after it was last named by anybody."""
    total = max(1, sum(unit.tokens for unit in units))
    found: dict[str, float] = {}
    age = 0
    for unit in reversed(units):
        for item in unit.items:
            message = item.message
            if message.role != "tool" and not message.kind:
                names = find_file_names(text_of(message)).union(*(targets[call.id].files for call in calls_of(message)))
                for name in names:
                    found.setdefault(name, age / total)
        age += unit.tokens
    return found


class _Passage(msgspec.Struct, frozen=True, gc=False):
    slot: LineSlot
    text: str
    target: CallTarget | None


def _passages(item: Item, targets: Mapping[str, CallTarget]) -> list[_Passage]:
    """The texts of a message whose lines may be kept. The result of a write repeats its call, so it has none."""
    message = item.message
    result = result_of(message)
    if result is not None:
        target = targets.get(result.call_id)
        silent = target is not None and target.writes and not result.error
        return [] if silent else [_Passage(LineSlot(message.id), text_of(message), target)]
    return [
        _Passage(LineSlot(message.id, call.id, place), written.text, targets[call.id])
        for call in calls_of(message)
        for place, written in enumerate(targets[call.id].texts)
        if not written.is_replaced_text
    ]


class _LineAppraiser:
    """Values the lines of groups, from the newest to the oldest, and remembers what it has seen."""

    def __init__(self, units: Sequence[Group], view: View) -> None:
        items = [item for unit in units for item in unit.items]
        self._targets = {call.id: call_target_of(call) for item in items for call in calls_of(item.message)}
        self._age = _last_named(units, self._targets)
        chars = sum(len(text_of(item.message)) for item in items)
        chars += sum(len(call.arguments) for item in items for call in calls_of(item.message))
        self._per_token = max(1.0, chars / max(1, view.tokens))
        self._seen: set[str] = set()
        self._taken: dict[str, set[str]] = {}
        self._written: set[str] = set()
        self._seen_again: set[str] = set()
        self._made: set[tuple[str, str]] = set()

    def lines(self, unit: Group, number: int) -> list[LineChoice]:
        calls = [call for item in unit.items for call in calls_of(item.message)]
        again = {call.id for call in calls if (call.name, call.arguments) in self._made}
        found: list[LineChoice] = []
        for item in reversed(unit.items):
            result = result_of(item.message)
            if result is None or result.call_id not in again:
                for passage in _passages(item, self._targets):
                    found += self._choices(number, passage)
        results = [result for item in unit.items if (result := result_of(item.message)) is not None]
        failed = {result.call_id for result in results if result.error}
        for call in calls:
            self._made.add((call.name, call.arguments))
            if call.id not in failed:
                self._remember(self._targets[call.id])
        return found

    def _choices(self, number: int, passage: _Passage) -> list[LineChoice]:
        files = passage.target.files if passage.target else frozenset()
        if files and files <= self._written:
            return []
        weight = max((self._weight(name) for name in files), default=_NO_FILE_WEIGHT)
        if files and files <= self._seen_again:
            weight *= _SEEN_AGAIN
        taken = frozenset().union(*(self._taken.get(name, ()) for name in files))
        slot, per_token = passage.slot, self._per_token
        report = passage.target is not None and passage.target.runs_command and not slot.call
        lines = find_key_lines(passage.text, self._seen, taken, report=report)
        if number < 0:
            return []
        found: list[LineChoice] = []
        for line in lines:
            worth, cost = line.worth * weight, len(line.text) / per_token + 1.0
            found.append(LineChoice(number, slot, line, worth, cost, worth / cost))
        return found

    def _weight(self, name: str) -> float:
        return 1.0 / (1.0 + _AGEING * self._age.get(name, 2.0))

    def _remember(self, target: CallTarget) -> None:
        for written in target.texts:
            if written.is_replaced_text:
                lines = {line.strip() for line in written.text.split("\n")}
                for name in target.files:
                    self._taken.setdefault(name, set()).update(lines)
        if target.whole_file and len(target.files) == 1:
            if target.writes:
                self._written |= target.files
            else:
                self._seen_again |= target.files
