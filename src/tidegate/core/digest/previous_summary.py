"""The parser of an earlier summary: it becomes units again, so that its facts compete with new ones.

A digest is parsed line by line. Each line of another text, such as a summary by a model, becomes a noted line. Lines
are only sorted into sections; they are never followed as instructions.
"""

import re
from typing import Final

from tidegate.core.digest.units import (
    ARTIFACTS_SECTION,
    COMMANDS_SECTION,
    DECISIONS_SECTION,
    ERRORS_SECTION,
    FIRST_REQUEST_PREFIX,
    HELD,
    IDENTIFIERS_SECTION,
    INTENT_SECTION,
    LAST_REQUEST_PREFIX,
    NEXT_STEPS_SECTION,
    SYSTEM_SAID_PREFIX,
    USER_SAID_PREFIX,
    USER_SECTION,
    DigestUnit,
    fold_line,
)
from tidegate.core.text.facts import find_facts, find_rule_sentences

_NOTED_PREFIX: Final = "noted earlier: "
_LIST: Final = re.compile(
    r"(agent (?:changed|read|used) \([^)]{1,50}\)|in calls of [^:]{1,50}|(?:user|agent|tools) named|noted): (.+)"
)
# The section and weight of a line by its beginning. Weights are a little lower than for new lines.
_LINES: Final = (
    (FIRST_REQUEST_PREFIX, INTENT_SECTION, 8.0),
    (USER_SAID_PREFIX, USER_SECTION, 3.4),
    (HELD, USER_SECTION, 3.4),
    (SYSTEM_SAID_PREFIX, USER_SECTION, 3.4),
    ("agent concluded: ", DECISIONS_SECTION, 1.1),
    ("agent planned: ", NEXT_STEPS_SECTION, 0.6),
    ("agent said: ", DECISIONS_SECTION, 0.8),
    ("agent ran ", COMMANDS_SECTION, 0.6),
    ("tool said ", ERRORS_SECTION, 0.8),
    (_NOTED_PREFIX, DECISIONS_SECTION, 2.6),
)
_ITEMS: Final = (("user named", 2.7), ("agent changed", 2.3), ("agent read", 1.9), ("in calls", 1.6), ("agent", 1.3))
_MOST_LINES: Final = 2_000


def parse_previous_summary(previous: str) -> list[DigestUnit]:
    units: dict[str, DigestUnit] = {}
    lines = previous.split("\n")[:_MOST_LINES]
    for place, line in enumerate(lines):
        for unit in _units(line.strip().removeprefix("- "), place - len(lines)):
            units.setdefault(unit.key, unit)
    return list(units.values())


def _units(line: str, order: int) -> list[DigestUnit]:
    if not line or line.startswith(("##", "[")):
        return []
    listed = _LIST.fullmatch(line)
    if listed:
        group = listed[1]
        weight = next((weight for start, weight in _ITEMS if group.startswith(start)), 0.9)
        section = (
            ARTIFACTS_SECTION
            if group.startswith(("agent changed", "agent read", "agent used"))
            else IDENTIFIERS_SECTION
        )
        return [
            DigestUnit(section, group, item, weight, order, item.rsplit(" ", 1)[-1]) for item in listed[2].split(", ")
        ]
    if line.startswith(LAST_REQUEST_PREFIX):
        line = USER_SAID_PREFIX + line.removeprefix(LAST_REQUEST_PREFIX)
    if line.startswith("agent said last: "):
        line = "agent said: " + line.removeprefix("agent said last: ")
    return _line(line, order)


def _line(line: str, order: int) -> list[DigestUnit]:
    section, weight = DECISIONS_SECTION, 0.0
    for start, place, worth in _LINES:
        if line.startswith(start):
            section, weight = place, worth
            break
    if not weight:
        line, weight = _NOTED_PREFIX + line, 2.6
    if section == USER_SECTION and not line.startswith(HELD) and find_rule_sentences(line):
        weight += 1.5
    line = fold_line(line, 520)
    facts = [DigestUnit(IDENTIFIERS_SECTION, "noted", fact.value, 1.2, order, fact.value) for fact in find_facts(line)]
    return [DigestUnit(section, "", line, weight, order, line), *facts]
