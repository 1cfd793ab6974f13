"""The choice of what stays of old groups: which calls, and of their results which lines, or all of them.

Every offer (open a group, one more line, a whole result) has a worth and a cost in tokens. Offers are taken in the
order of worth by cost until the room is used. A call stays verbatim or not at all, so opening a group costs all of its
arguments. These are worth keeping for their own sake: agents edit again what they wrote, and repeat commands.

The worth of a line is the worth of its kind (`key_lines.py`) times the heat of its file: how lately and how often the
file was named, and whether it was edited. A whole result is worth more than the sum of its lines: only from a
contiguous text can an agent edit without reading again. Near the end of the view a line is worth more. A name that no
later message has adds to the worth of its line, regardless of its age: agents come back to old names. A result is
needed about once, whatever its length, so a name in a short one is worth more than in a long one; so is every line of a
short output of a command. Words that the newest messages share with few old lines add to the worth of these
(`focus.py`). Lines are worth nothing if they are shown again later, were removed by an edit, or are of a
file that was rewritten or a call that was made again. The lines that say how a command ended come with its call.
"""

import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from tidegate.core.group_reading import GroupReading
from tidegate.core.messages import Call, calls_of, result_of, text_of
from tidegate.core.recognition.shell_commands import effect_of
from tidegate.core.sweep.focus import Focus
from tidegate.core.sweep.key_lines import SHORTEST_LINE, clip_line, find_key_lines
from tidegate.core.sweep.reading import find_outcomes, get_reading, runs_reader
from tidegate.core.sweep.shortening import stays_whole
from tidegate.core.text.facts import begins_with_failure
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import (
    INCIDENTAL_KEYS,
    CallTarget,
    call_target_of,
    classify_call,
    find_command,
    find_file_names,
    is_content_argument,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group
from tidegate.core.view import Item, View

_NO_FILE_HEAT: Final = 0.5
_AGEING: Final = 2.0  # a file last named at the beginning of the view has 1 / (1 + this) of its heat
_EDITED: Final = 0.7  # added to the heat of a file that was edited
_TOUCHED: Final = 0.2  # added for each further call that names the file, up to six
_SEEN_AGAIN: Final = 0.5  # factor for a file that was read whole again later
_REGION_WORTH: Final = 1.3  # factor for lines that stay together with those around them
_WRITTEN_WORTH: Final = 10.0  # factor for what a call wrote
_SAID_WORTH: Final = 2.0  # factor for the other arguments of a call
_SENTENCE_WORTH: Final = 0.2  # of a character that a command writes for people, as of a written file that is still hot
_NEAR: Final = 0.8  # of the view: what is nearer to its end than that is worth more
_NEAR_WORTH: Final = 8.0  # added to the factor at the end of the view, less further back
_SMALL: Final = 2_000  # characters: a result up to this length is offered whole, and is worth more for its size
_LARGEST_SIZE_WORTH: Final = 6.0
_LEAST_SIZE_WORTH: Final = 0.15
_NAME_WORTH: Final = 15.0  # of a path that no later message names
_FOCUS_WORTH: Final = 6.0  # of a word in which a line is about what the work is about now
_RESULT_TOKENS: Final = 20  # cost of a result of which no line stays
_LEAST_LINES: Final = 4  # of a result: with fewer, and no three in a row, they are scraps
_SHORTEST_RUN: Final = 3  # lines of a file that stand together: of fewer a reader does not see what they belong to
_LEAST_SHARE: Final = 0.05  # of the lines of a result: with more than that they are none
_SHORTEST_REGION: Final = 8
_LONGEST_REGION: Final = 60


class Offer(msgspec.Struct, frozen=True, gc=False):
    """Lines of results that may stay together. An offer that `opens` a group also keeps the calls of the group."""

    density: float
    group: int
    lines: Sequence["_Valued"]
    opens: bool = False


_DENSITY: Final = attrgetter("density")

Kept = dict[str, set[int]]
"""What stays of a group: for each result the places of its lines."""


class Choice(NamedTuple):
    """What stays, and its worth. Groups that are not in `groups` are dropped; `missed` is the worth of the best of
    those that were too large for the room.
    """

    groups: dict[int, Kept]
    worth: float
    missed: float


class Appraisal:
    """The offers of the groups from `start` up to `first`. `note_cost` is what each costs if it is dropped."""

    def __init__(
        self, units: Sequence[Group], start: int, first: int, view: View, note_cost: Mapping[int, float]
    ) -> None:
        appraiser = _Appraiser(units, view, Focus(units, first))
        age = 0
        for unit in reversed(units[first:]):
            appraiser.offers(unit, -1, 0.0, 1.0)
            age += unit.tokens
        self._units = units
        self._sizes: dict[str, int] = {}  # of what calls that change nothing have shown: its lines, if not all stay
        self._files: set[str] = set()  # those that are readings of files
        for unit in units[start:first]:
            calls = {call.id: call for call in calls_of(unit.items[0].message)}
            for item in unit.items[1:]:
                call = calls.get(result.call_id) if (result := result_of(item.message)) is not None else None
                if call is not None and _changes_nothing(call) and not stays_whole(item.message):
                    self._sizes[item.message.id] = text_of(item.message).count("\n") + 1
                    self._files |= {item.message.id} if _shows_file(call) else set()
        self._offers: list[Offer] = []
        self._overhead: dict[int, float] = {}
        self._outcomes: dict[int, Kept] = {}
        for number in range(first - 1, start - 1, -1):
            unit = units[number]
            if unit.items[0].message.role == "assistant":
                self._outcomes[number] = appraiser.find_outcomes(unit)
                opening = count_opening(unit, appraiser.per_token, self._outcomes[number])
                self._overhead[number] = opening - note_cost.get(number, 0.0)
                youth = 1.0 + _NEAR_WORTH * max(0.0, 1.0 - age / (_NEAR * max(1, view.tokens)))
                self._offers += appraiser.offers(unit, number, self._overhead[number], youth)
            age += unit.tokens
        self._offers.sort(key=_DENSITY, reverse=True)

    def choose(self, room: float) -> Choice:
        """What stays in `room` tokens, without scraps: what they would take goes to something of use."""
        first = self._choose(room, frozenset())
        scraps = {number for number, kept in first.groups.items() if self._is_scrap(number, kept)}
        chosen = self._choose(room, scraps) if scraps else first
        for number, kept in chosen.groups.items():
            for ident, places in kept.items():
                kept[ident] = self._without_scraps(ident, places) | self._outcomes[number].get(ident, set())
        return chosen

    def _is_scrap(self, number: int, kept: Kept) -> bool:
        """Whether of a group that changed nothing no more would stay than a few lines here and there."""
        idents = [item.message.id for item in self._units[number].items[1:]]
        return bool(idents) and all(
            ident in self._sizes and not self._without_scraps(ident, kept.get(ident, set())) for ident in idents
        )

    def _without_scraps(self, ident: str, places: set[int]) -> set[int]:
        """The places of a result that say something to a reader: of a file only lines that stand together."""
        size = self._sizes.get(ident, 0)
        if ident in self._files:
            places = {place for place in places if any(set(run) <= places for run in _runs_around(place))}
            return places if len(places) >= _least_lines(size) else set()
        return set() if _is_scattered(places, size) else places

    def _choose(self, room: float, without: Container[int]) -> Choice:
        choices: dict[int, Kept] = {}
        too_large: dict[int, float] = {}
        worth = 0.0
        for offer in self._offers:
            kept = choices.get(offer.group)
            if (kept is None and not offer.opens) or offer.group in without:
                continue
            cost = self._overhead[offer.group] if kept is None else 0.0
            visible_lines = self._outcomes[offer.group] if kept is None else kept
            if len(offer.lines) == 1 and kept is not None:  # most offers
                new = offer.lines
                if new[0].place in kept.get(new[0].ident, ()):
                    continue
                cost = new[0].cost
            else:
                new = [line for line in offer.lines if line.place not in visible_lines.get(line.ident, ())]
                cost += sum([line.cost for line in new])
                if kept is not None and not new:
                    continue
            if cost > room:
                too_large.setdefault(offer.group, offer.density * cost)
                continue
            room -= cost
            worth += offer.density * cost
            if kept is None:
                kept = choices[offer.group] = {ident: set(places) for ident, places in visible_lines.items()}
            for line in new:
                kept.setdefault(line.ident, set()).add(line.place)
        missed = max((loss for group, loss in too_large.items() if group not in choices), default=0.0)
        return Choice(choices, worth, missed)


def _runs_around(place: int) -> Iterator[range]:
    return (range(begin, begin + _SHORTEST_RUN) for begin in range(place - _SHORTEST_RUN + 1, place + 1))


def _least_lines(size: int) -> float:
    return max(_LEAST_LINES, size * _LEAST_SHARE)


def _is_scattered(places: Collection[int], size: int) -> bool:
    """Whether so few lines of a long result, with hardly one beside another, say nothing to a reader."""
    if len(places) >= _least_lines(size):
        return False
    return size > 0 and not any(set(range(place, place + _SHORTEST_RUN)) <= set(places) for place in places)


def _shows_file(call: Call) -> bool:
    """Whether a call reads a file, by a tool or by a command; a search is something else: its lines are matches."""
    if find_command(call):
        return call_target_of(call).shows_file
    arguments = parse_call_arguments(call)
    return classify_call(call) == "read" and not (isinstance(arguments, dict) and "pattern" in arguments)


def _changes_nothing(call: Call) -> bool:
    """Whether a call only reads or searches, by a tool or by a command."""
    return runs_reader(call) if find_command(call) else classify_call(call) == "read"


def count_opening(unit: Group, per_token: float, outcomes: Kept) -> float:
    """Tokens of the calls of a group without thinking, and of each result: a stub and its outcome, or a short one."""
    message = unit.items[0].message
    chars = len(text_of(message)) + sum(len(call.name) + len(call.arguments) for call in calls_of(message))
    results = sum(
        len(text_of(item.message)) / per_token if stays_whole(item.message) else _RESULT_TOKENS
        for item in unit.items[1:]
    )
    for item in unit.items[1:]:
        texts = text_of(item.message).split("\n") if item.message.id in outcomes else []
        results += sum(len(clip_line(texts[place])) / per_token + 1.0 for place in outcomes.get(item.message.id, ()))
    return chars / per_token + 6 * len(unit.items) + results


def _last_named(units: Sequence[Group], targets: Mapping[str, CallTarget]) -> dict[str, int]:
    """For each file the tokens of the view that came after it was last named by anybody."""
    found: dict[str, int] = {}
    age = 0
    for unit in reversed(units):
        for item in unit.items:
            message = item.message
            if message.role != "tool" and not message.kind:
                names = find_file_names(text_of(message)).union(*(targets[call.id].files for call in calls_of(message)))
                for name in names:
                    found.setdefault(name, age)
        age += unit.tokens
    return found


class _Appraiser:
    """Values the content of groups, from the newest to the oldest, and remembers what it has seen."""

    def __init__(self, units: Sequence[Group], view: View, focus: Focus) -> None:
        self._focus = focus
        items = [item for unit in units for item in unit.items]
        self._targets = {call.id: call_target_of(call) for item in items for call in calls_of(item.message)}
        self._total = max(1, view.tokens)
        self._age = _last_named(units, self._targets)
        self._touched: dict[str, int] = {}
        self._edited: set[str] = set()
        for target in self._targets.values():
            for name in target.files:
                self._touched[name] = self._touched.get(name, 0) + 1
            if target.writes:
                self._edited |= target.files
        chars = sum(len(text_of(item.message)) for item in items)
        chars += sum(len(call.arguments) for item in items for call in calls_of(item.message))
        self.per_token = max(1.0, chars / self._total)
        self._seen: set[str] = set()
        self._named: set[str] = set()
        self._readings = {unit.items[0].message.id: get_reading(view, unit) for unit in units}
        self._names = {ident: lines for reading in self._readings.values() for ident, lines in reading.names.items()}
        self._frequency = _count_names(self._readings.values())
        self._taken: dict[str, set[str]] = {}
        self._written: set[str] = set()
        self._seen_again: set[str] = set()
        self._made: set[tuple[str, str]] = set()
        self._outdated: set[str] = set()  # calls whose text is hardly in the file any more, or is shown again later

    def offers(self, unit: Group, number: int, overhead: float, youth: float) -> list[Offer]:
        calls = [call for item in unit.items for call in calls_of(item.message)]
        again = {call.id for call in calls if (call.name, call.arguments) in self._made}
        arguments_worth = sum(self._said_worth(call) for call in calls if call.id not in again) * youth
        is_outdated = bool(calls) and all(call.id in self._outdated for call in calls)
        lines: list[_Valued] = []
        blocks: list[Offer] = []
        for item in reversed(unit.items):
            result = result_of(item.message)
            if result is None or result.call_id in again:
                continue
            target = self._targets.get(result.call_id)
            mine = self._lines(item, target, youth)
            if number < 0:
                continue
            if stays_whole(item.message):
                arguments_worth += sum(line.worth for line in mine)
                continue
            lines += mine
            if mine and (len(text_of(item.message)) <= _SMALL or self._is_latest_reading(target)):
                blocks += self._blocks(item, number, mine, overhead)
        failed = {
            result.call_id
            for item in unit.items
            if (result := result_of(item.message)) is not None
            and (result.error or begins_with_failure(text_of(item.message)))
        }
        for call in calls:
            self._made.add((call.name, call.arguments))
            if call.id not in failed:
                self._remember(self._targets[call.id])
        if number < 0 or is_outdated:
            return []
        return [*_line_offers(number, lines, overhead, arguments_worth), *blocks]

    def find_outcomes(self, unit: Group) -> Kept:
        """For each long result of a command the lines that say how it ended."""
        calls = {call.id: call for item in unit.items for call in calls_of(item.message)}
        results = [result.call_id for item in unit.items if (result := result_of(item.message)) is not None]
        if all(ident in calls and self._targets[ident] == call_target_of(calls[ident]) for ident in results):
            outcomes = self._readings[unit.items[0].message.id].outcomes
        else:  # another call of the view has the same id
            outcomes = find_outcomes(unit, self._targets)
        return {ident: set(places) for ident, places in outcomes.items()}

    def _is_latest_reading(self, target: CallTarget | None) -> bool:
        return target is not None and bool(target.files) and not target.files <= self._seen_again

    def _blocks(self, item: Item, number: int, mine: Sequence["_Valued"], overhead: float) -> list[Offer]:
        """Contiguous regions of a result, offered whole."""
        texts = text_of(item.message).split("\n")
        worth = {line.place: line for line in mine}
        blocks = []
        whole = len(text_of(item.message)) <= _SMALL
        for begin, end in [(0, len(texts))] if whole else split_regions(texts):
            lines = [
                worth.get(place) or _Valued(place, item.message.id, 0.0, len(texts[place]) / self.per_token + 0.3)
                for place in range(begin, end)
            ]
            value = sum(line.worth for line in lines) * _REGION_WORTH
            if value:
                cost = sum(line.cost for line in lines)
                blocks.append(Offer(value / (cost + overhead), number, lines, True))
        return blocks

    def _lines(self, item: Item, target: CallTarget | None, youth: float) -> list["_Valued"]:
        files = target.files if target else frozenset()
        if files and files <= self._written:
            return []
        heat = max((self._heat(name) for name in files), default=_NO_FILE_HEAT)
        if files and files <= self._seen_again:
            heat *= _SEEN_AGAIN
        listed_names = frozenset().union(*(self._taken.get(name, ()) for name in files))
        report = target is not None and target.runs_command
        text = text_of(item.message)
        heat *= youth
        size = min(max(_SMALL / max(1, len(text)), _LEAST_SIZE_WORTH), _LARGEST_SIZE_WORTH)
        if not files or report:
            heat *= size
        lines = find_key_lines(
            text, self._seen, listed_names, report=report and target is not None and not target.shows_file
        )
        valued = [
            _Valued(line.place, item.message.id, line.worth * heat, len(line.text) / self.per_token + 1.0)
            for line in lines
        ]
        return self._with_names(text, item.message.id, valued, size)

    def _with_names(self, text: str, ident: str, valued: list["_Valued"], factor: float) -> list["_Valued"]:
        """Lines are worth more for each name that no later message has."""
        texts, names = text.split("\n"), self._names[ident]
        lines = []
        for line in valued:
            worth = line.worth + self._focus.rate(texts[line.place]) * _FOCUS_WORTH
            for name, weight in names[line.place]:
                if name not in self._named:
                    self._named.add(name)
                    worth += factor * weight * _NAME_WORTH * math.log2(1 + self._frequency.get(name, 1))
            lines.append(line if worth == line.worth else _Valued(line.place, line.ident, worth, line.cost))
        return lines

    def _said_worth(self, call: Call) -> float:
        """The worth of the arguments of a call: agents repeat commands, and edit again what they wrote."""
        target = self._targets[call.id]
        short = "\n".join(
            value
            for _, value in iterate_strings(parse_call_arguments(call), skip=INCIDENTAL_KEYS)
            if target.runs_command or not is_content_argument(value)
        )
        worth = sum(line.worth for line in find_key_lines(short, self._seen)) * _SAID_WORTH
        if not target.runs_command:
            return worth + self._written_worth(call, target)
        return worth + sum(map(len, effect_of(find_command(call)).sentences)) * _SENTENCE_WORTH

    def _written_worth(self, call: Call, target: CallTarget) -> float:
        """The worth of what a call wrote, unless the file was written anew since; or of a long text, such as the task
        of a subagent. Lines that a later edit replaced are worth nothing.
        """
        if target.files and target.files <= self._written:
            self._outdated |= {call.id} if target.writes else set()
            return 0.0
        worth = 0.0
        line_count = new_count = 0
        old_lines = frozenset().union(*(self._taken.get(name, ()) for name in target.files))
        heat = max((self._heat(name) for name in target.files), default=_NO_FILE_HEAT)
        for text in target.texts:
            if not text.is_replaced_text:
                key_lines = find_key_lines(text.text, self._seen, old_lines)
                worth += sum(line.worth for line in key_lines) * heat
                new_count += len(key_lines)
                line_count += sum(len(line.strip()) >= SHORTEST_LINE for line in text.text.split("\n"))
        if target.writes and line_count and new_count <= line_count * _LEAST_SHARE:
            self._outdated.add(call.id)
        return worth * (_WRITTEN_WORTH if target.writes else _SAID_WORTH)

    def _heat(self, name: str) -> float:
        base = 1.0 + _EDITED * (name in self._edited) + _TOUCHED * min(self._touched.get(name, 1) - 1, 6)
        return base / (1.0 + _AGEING * self._age.get(name, self._total) / self._total)

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


class _Valued(msgspec.Struct, frozen=True, gc=False):
    place: int
    ident: str
    worth: float
    cost: float


def _count_names(readings: Iterable[GroupReading]) -> dict[str, int]:
    """How often each name is said: once for each message that has it, three times for one of the agent's calls."""
    found: dict[str, int] = {}
    for reading in readings:
        for lines in reading.names.values():
            for name in {name for names in lines for name, _ in names}:
                found[name] = found.get(name, 0) + 1
        for name in reading.argument_names:
            found[name] = found.get(name, 0) + 3
    return found


def split_regions(texts: Sequence[str]) -> list[tuple[int, int]]:
    """The regions of a text: from one line without indentation after a blank line to the next, 8 to 60 lines long."""
    cuts, begin = [], 0
    blank = False
    for place, line in enumerate(texts):
        bare = _NUMBER.sub("", line)
        size = place - begin
        if (size >= _SHORTEST_REGION and blank and bare[:1] not in (" ", "\t", "")) or size >= _LONGEST_REGION:
            cuts.append((begin, place))
            begin = place
        blank = not bare.strip()
    cuts.append((begin, len(texts)))
    return cuts


_NUMBER: Final = LazyPattern(r"^\s*\d+(?:→|\t|: ?|\| ?)")


def _line_offers(number: int, lines: list[_Valued], overhead: float, written: float) -> list[Offer]:
    """The best lines of a group together with its opening; the others one by one."""
    lines = sorted((each for each in lines if each.worth > 0), key=lambda each: each.worth / each.cost, reverse=True)
    worth, cost = written, max(1.0, overhead)
    best, count = worth / cost, 0
    for each in lines:
        worth, cost = worth + each.worth, cost + each.cost
        if worth / cost <= best:
            break
        best, count = worth / cost, count + 1
    rest = [Offer(each.worth / each.cost, number, (each,)) for each in lines[count:]]
    return [Offer(best, number, lines[:count], True), *rest] if best > 0 else rest
