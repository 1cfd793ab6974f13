"""An earlier summary as units again, so that its facts compete on equal terms and nothing is ever nested.

A digest of ours is taken apart line by line; any other text, a model's summary for one, is kept line by line as what
was noted. Lines are only sorted into sections: nothing in them is obeyed.
"""

import re
from typing import Final

from tidegate.core.facts import facts_in, rules_in
from tidegate.core.harvest import (
    ARTIFACTS,
    COMMANDS,
    DECISIONS,
    ERRORS,
    FIRST,
    HELD,
    IDENTIFIERS,
    INTENT,
    LAST,
    NEXT,
    SAID,
    SYSTEM,
    USER,
    Unit,
    fold,
)

NOTED: Final = "noted earlier: "
_LIST: Final = re.compile(
    r"(agent (?:changed|read|used) \([^)]{1,50}\)|in calls of [^:]{1,50}|(?:user|agent|tools) named|noted): (.+)"
)
# What a line is worth and where it belongs, by how it begins. A little less than the same thing said anew.
_LINES: Final = (
    (FIRST, INTENT, 8.0),
    (SAID, USER, 3.4),
    (HELD, USER, 3.4),
    (SYSTEM, USER, 3.4),
    ("agent concluded: ", DECISIONS, 1.1),
    ("agent planned: ", NEXT, 0.6),
    ("agent said: ", DECISIONS, 0.8),
    ("agent ran ", COMMANDS, 0.6),
    ("tool said ", ERRORS, 0.8),
    (NOTED, DECISIONS, 2.6),
)
_ITEMS: Final = (("user named", 2.7), ("agent changed", 2.3), ("agent read", 1.9), ("in calls", 1.6), ("agent", 1.3))
_MOST_LINES: Final = 2_000


def earlier(previous: str) -> list[Unit]:
    units: dict[str, Unit] = {}
    lines = previous.split("\n")[:_MOST_LINES]
    for place, line in enumerate(lines):
        for unit in _units(line.strip().removeprefix("- "), place - len(lines)):
            units.setdefault(unit.key, unit)
    return list(units.values())


def _units(line: str, order: int) -> list[Unit]:
    if not line or line.startswith(("##", "[")):
        return []
    listed = _LIST.fullmatch(line)
    if listed:
        group = listed[1]
        weight = next((weight for start, weight in _ITEMS if group.startswith(start)), 0.9)
        section = ARTIFACTS if group.startswith(("agent changed", "agent read", "agent used")) else IDENTIFIERS
        return [Unit(section, group, item, weight, order, item.rsplit(" ", 1)[-1]) for item in listed[2].split(", ")]
    if line.startswith(LAST):
        line = SAID + line.removeprefix(LAST)
    if line.startswith("agent said last: "):
        line = "agent said: " + line.removeprefix("agent said last: ")
    return _line(line, order)


def _line(line: str, order: int) -> list[Unit]:
    section, weight = DECISIONS, 0.0
    for start, place, worth in _LINES:
        if line.startswith(start):
            section, weight = place, worth
            break
    if not weight:
        line, weight = NOTED + line, 2.6
    if section == USER and not line.startswith(HELD) and rules_in(line):
        weight += 1.5
    line = fold(line, 520)
    facts = [Unit(IDENTIFIERS, "noted", fact.value, 1.2, order, fact.value) for fact in facts_in(line)]
    return [Unit(section, "", line, weight, order, line), *facts]
