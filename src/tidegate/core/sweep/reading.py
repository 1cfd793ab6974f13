"""Reading of groups: what a sweep needs to know of the texts of a group alone, whatever else is in the view.

That is about half of the work of a sweep. Each group is read once, and its reading stays with the view for as long as
its messages are the same. A host that has time between two requests calls `read_ahead`: the sweep has less to do then.
"""

from collections.abc import Mapping
from typing import Final

from tidegate.core.group_reading import GroupReading, LineNames
from tidegate.core.messages import Call, calls_of, result_of, text_of
from tidegate.core.recognition.shell_commands import only_reads
from tidegate.core.sweep.group_notes import describe_group, describe_remarks
from tidegate.core.sweep.key_lines import find_outcome_lines, is_envelope
from tidegate.core.sweep.shortening import stays_whole
from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.facts import LINE_END, LONGEST_RUN, classify_run, has_cjk, split_runs
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    CallTarget,
    call_target_of,
    find_command,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group, split_groups
from tidegate.core.view import View

_ENVELOPE_LINES: Final = 5  # at the beginning of a result: with one in them, it is the output of a command
_ARGUMENT_CHARS: Final = 1_000  # of each argument: where names are searched for
READ_AHEAD_CHARS: Final = 20_000
"""Of messages that are read ahead at a time, beside the group that exceeds it. This takes some 10 ms."""
_LEAST_FILL: Final = 0.5  # of the held room: before, a sweep is far away


# --- readings of groups -----------------------------------------------------------------------------------------------


def get_reading(view: View, unit: Group) -> GroupReading:
    """The reading of a group. It is made if the view has none of these messages."""
    return _find_known(view, unit) or _read(view, unit)


def is_sweep_near(view: View, held_room: int) -> bool:
    """Whether a sweep may come soon enough that it is worth the time to read ahead."""
    return view.tokens >= held_room * _LEAST_FILL


def read_ahead(view: View, held_room: int) -> int:
    """Read some groups that are new, the oldest first, if a sweep may come soon. Return how many were read."""
    if not is_sweep_near(view, held_room):
        return 0
    count = chars = 0
    known = view.group_readings
    for unit in split_groups(view):
        ident = unit.items[0].message.id
        if ident in view.unanswered or (ident in known and known[ident].messages[-1] is unit.items[-1].message):
            continue  # its results come later, or it is known: the sweep looks at all of its messages
        if chars < READ_AHEAD_CHARS and _find_known(view, unit) is None:
            _read(view, unit)
            count += 1
            chars += sum(len(text_of(item.message)) for item in unit.items)
            chars += sum(len(call.arguments) for call in calls_of(unit.items[0].message))
    return count


def forget_left_groups(view: View) -> None:
    """Forget the readings of groups that are no longer in the view."""
    present = {item.message.id for item in view.items}
    for ident in view.group_readings.keys() - present:
        del view.group_readings[ident]


def _find_known(view: View, unit: Group) -> GroupReading | None:
    known = view.group_readings.get(unit.items[0].message.id)
    if known is None or len(known.messages) != len(unit.items):
        return None
    for item, message in zip(unit.items, known.messages, strict=True):
        if item.message is not message:
            return None
    return known


def _read(view: View, unit: Group) -> GroupReading:
    caller = unit.items[0].message
    targets = {call.id: call_target_of(call) for item in unit.items for call in calls_of(item.message)}
    is_work = caller.role == "assistant"
    reading = view.group_readings[caller.id] = GroupReading(
        tuple(item.message for item in unit.items),
        describe_group(unit) if calls_of(caller) else "",  # that of an answer depends on the reply
        tuple(describe_remarks(unit)) if is_work else (),
        find_outcomes(unit, targets) if is_work else {},
        {item.message.id: _find_line_names(text_of(item.message)) for item in unit.items},
        tuple(
            name
            for item in unit.items
            for call in calls_of(item.message)
            for _, value in iterate_strings(parse_call_arguments(call))
            for name in {name for names in _find_line_names(value[:_ARGUMENT_CHARS]) for name, _ in names}
        ),
    )
    return reading


def find_outcomes(unit: Group, targets: Mapping[str, CallTarget]) -> dict[str, frozenset[int]]:
    """For each long result of a command the lines that say how it ended. Printing a file has no outcome."""
    found: dict[str, frozenset[int]] = {}
    reads = {call.id for item in unit.items for call in calls_of(item.message) if runs_reader(call)}
    for item in unit.items:
        result = result_of(item.message)
        target = targets.get(result.call_id) if result is not None else None
        if result is None or target is None or target.shows_file or stays_whole(item.message):
            continue
        lines = text_of(item.message).split("\n")
        if target.runs_command or any(map(is_envelope, lines[:_ENVELOPE_LINES])):
            found[item.message.id] = frozenset(find_outcome_lines(lines, only_reads=result.call_id in reads))
    return found


def runs_reader(call: Call) -> bool:
    """Whether a call runs a command that only reads, such as a search, and no other after it."""
    command = find_command(call)
    return bool(command) and only_reads(command)


# --- names ------------------------------------------------------------------------------------------------------------

_KIND_WEIGHT: Final[dict[str, float]] = {
    "path": 1.0, "file": 0.9, "url": 0.7, "email": 0.6, "uuid": 0.6, "hash": 0.5, "id": 0.4, "name": 0.35,
}  # fmt: skip


def _find_line_names(text: str) -> list[LineNames]:
    """The names in each line of a text. The text is split as a whole, which takes less time than line by line."""
    if clean_text(text) != text or has_cjk(text):  # then the runs of a line may depend on the lines around it
        return [_NAMES[line] for line in text.split("\n")]
    lines: list[LineNames] = []
    found: dict[str, tuple[str, float]] = {}
    for named in filter(None, map(_NAME_OF_RUN, split_runs(text))):
        if named is _LINE_END:
            lines.append(tuple(found.values()))
            found.clear()
        else:
            found[named[0]] = named
    lines.append(tuple(found.values()))
    return lines


def _find_names(line: str) -> LineNames:
    found = (_NAME_OF_RUN(run) for run in split_runs(clean_text(line)) if run != LINE_END)
    return tuple({named[0]: named for named in found if named is not None}.values())


def _find_name(run: str) -> tuple[str, float] | None:
    """The name that a run of a text is, with the weight of its kind."""
    if run == LINE_END:
        return _LINE_END
    fact = classify_run(run)
    if fact is None or fact.kind not in _KIND_WEIGHT:
        return None
    name = fact.value
    if fact.kind in ("path", "file"):
        name = "/".join(_LINE_NUMBER.sub(r"\1", name).rsplit("/", _PATH_PARTS)[-_PATH_PARTS:])
    return name, 0.7 if fact.kind == "name" and "." in name else _KIND_WEIGHT[fact.kind]


_LINE_END: Final = (LINE_END, 0.0)
_LINE_NUMBER: Final = LazyPattern(r":\d+.*$|(\.[A-Za-z]\w*)-\d+(?:-.*)?$")  # of a match, or of a line around one
_PATH_PARTS: Final = 3  # at the end of a path: the same file is named by a full path and by a relative one
_NAME_OF_RUN: Final = BoundedMemo(_find_name, longest=LONGEST_RUN, most=1 << 15).__getitem__
_NAMES: Final = BoundedMemo(_find_names, longest=400, most=1 << 13)
