"""The digest: a deterministic summary that needs no model and always fits its limit.

It keeps what cannot be guessed: words of the user, names of files and things, numbers, failures, outcomes. Everything
is quoted, attributed and in the past tense, as data about the conversation; it contains no instructions. Units are
chosen by weight, with a share of the tokens for each section.
"""

from collections.abc import Sequence
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
    collect_units,
    fold_line,
)
from tidegate.core.messages import SUMMARY, Message, text_of
from tidegate.core.text.clip import clip_tokens
from tidegate.core.text.facts import find_facts, find_rule_sentences
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.tokens.counting import TokenCounter

DIGEST_SECTIONS: Final = (
    INTENT_SECTION,
    USER_SECTION,
    DECISIONS_SECTION,
    ARTIFACTS_SECTION,
    COMMANDS_SECTION,
    ERRORS_SECTION,
    IDENTIFIERS_SECTION,
    NEXT_STEPS_SECTION,
)

# Shares of the tokens, in percent. Tokens that a section leaves go to the heaviest units of all sections.
_SHARES: Final = {
    INTENT_SECTION: 12,
    USER_SECTION: 18,
    DECISIONS_SECTION: 5,
    ARTIFACTS_SECTION: 27,
    COMMANDS_SECTION: 5,
    ERRORS_SECTION: 5,
    IDENTIFIERS_SECTION: 24,
    NEXT_STEPS_SECTION: 4,
}
# The section for the lines of a section that the caller does not want.
_ELSEWHERE: Final = {
    USER_SECTION: INTENT_SECTION,
    ERRORS_SECTION: COMMANDS_SECTION,
    COMMANDS_SECTION: ARTIFACTS_SECTION,
    IDENTIFIERS_SECTION: ARTIFACTS_SECTION,
    DECISIONS_SECTION: INTENT_SECTION,
}
_MISSES: Final = 64
_HEADED: Final = 96  # tokens: below this, headings would take too much
_CRUMB: Final = 12


def write_digest(
    messages: Sequence[Message],
    *,
    max_tokens: int,
    counter: TokenCounter,
    previous: str = "",
    sections: Sequence[str] = DIGEST_SECTIONS,
) -> str:
    """A digest of these messages and the `previous` summary in at most `max_tokens`. Empty only if nothing fits."""
    previous = "\n".join([previous, *(text_of(message) for message in messages if message.kind == SUMMARY)])
    old = parse_previous_summary(previous)
    units = [*old, *collect_units(messages, continued=any(unit.text.startswith(FIRST_REQUEST_PREFIX) for unit in old))]
    if not units:
        return _least(f"{len(messages)} messages without text" if messages else previous.strip(), max_tokens, counter)
    ranking = sorted(units, key=lambda unit: (-unit.weight, -unit.order, unit.text))
    units_that_fit = _choose(ranking, max_tokens, counter)
    text = _assemble(units_that_fit, sections or DIGEST_SECTIONS, max_tokens)
    while units_that_fit and (over := counter.count_text(text) - max_tokens) > 0:
        # Joining cost more tokens than estimated: drop the lightest units, at least one.
        units_that_fit = units_that_fit[: -1 - over // 40]
        text = _assemble(units_that_fit, sections or DIGEST_SECTIONS, max_tokens)
    return text or _least(ranking[0].text, max_tokens, counter)


def _least(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The beginning of the most important line, or a single character if no more fits."""
    for some in (clip_tokens(text, max_tokens, counter, mode="head", notice="").text, "…", "."):
        if some and text and counter.count_text(some) <= max_tokens:
            return some
    return ""


class _TokenAllowance:
    """Spends the tokens on units, the heaviest first."""

    def __init__(self, max_tokens: int, counter: TokenCounter) -> None:
        self.left = max_tokens
        self.counter = counter
        self.headed = max_tokens >= _HEADED
        self.chosen: list[DigestUnit] = []
        self.heads: set[str] = set()
        self.text = ""  # all that was chosen, to see what need not be said again

    def cost(self, unit: DigestUnit) -> int:
        cost = 0
        if self.headed and unit.section not in self.heads:
            cost += self.counter.count_text(f"\n## {unit.section}\n")
        if not unit.group:
            return cost + self.counter.count_text(f"- {unit.text}\n")
        if unit.group not in self.heads:
            cost += self.counter.count_text(f"- {unit.group}: \n")
        return cost + self.counter.count_text(f", {unit.text}")

    def buy(self, unit: DigestUnit, room: int) -> int:
        """The tokens spent; 0 if the unit does not fit or is not needed. The intent is clipped to fit."""
        if _mentions(self.text, unit.key):
            return 0
        cost = self.cost(unit)
        if cost > room and unit.section == INTENT_SECTION and room >= _CRUMB:
            less = room - (cost - self.counter.count_text(f"- {unit.text}\n")) - 4
            text = clip_tokens(unit.text, less, self.counter, notice=" ... ").text
            unit = unit._replace(text=" ".join(text.split()))
            cost = self.cost(unit)
        if cost > room or not unit.text:
            return 0
        self.chosen.append(unit)
        self.heads.update((unit.section, unit.group))
        self.text += f"{unit.text}\n"
        self.left -= cost
        return cost

    def return_repeated(self) -> None:
        """Remove items that a chosen line repeats, and regain their tokens."""
        lines = "\n".join(unit.text for unit in self.chosen if not unit.group)
        repeated = [unit for unit in self.chosen if unit.group and _mentions(lines, unit.key)]
        self.chosen = [unit for unit in self.chosen if unit not in repeated]
        self.left += sum(self.counter.count_text(f", {unit.text}") for unit in repeated)


def _mentions(text: str, key: str) -> bool:
    """Whether the text has the key as a whole: 8443 does not mention 443, a path mentions its file."""
    if not key:
        return True
    at = text.find(key)
    while at >= 0:
        end = at + len(key)
        if not (text[at - 1 : at].isalnum() and key[0].isalnum()) and not text[end : end + 1].isalnum():
            return True
        at = text.find(key, end)
    return False


def _choose(ranking: list[DigestUnit], max_tokens: int, counter: TokenCounter) -> list[DigestUnit]:
    """Choose lines before lists, because a line often has what a list would repeat; then by weight."""
    purse = _TokenAllowance(max_tokens, counter)
    left = {section: max_tokens * share // 100 for section, share in _SHARES.items()}
    for listed in (False, True):
        misses = dict.fromkeys(left, 0)
        for unit in ranking:
            section = unit.section
            if bool(unit.group) == listed and misses[section] < _MISSES and left[section] > 2:
                cost = purse.buy(unit, min(left[section], purse.left))
                left[section] -= cost
                misses[section] += not cost
    for _ in range(2):
        _spend(purse, ranking)
        purse.return_repeated()
    return purse.chosen


def _spend(purse: _TokenAllowance, ranking: list[DigestUnit]) -> None:
    chosen_keys = {unit.key for unit in purse.chosen}
    missed = 0
    for unit in ranking:
        if purse.left <= 2 or missed >= _MISSES * 4:
            return
        if unit.key not in chosen_keys:
            missed += not purse.buy(unit, purse.left)


def _assemble(units_that_fit: list[DigestUnit], sections: Sequence[str], max_tokens: int) -> str:
    blocks: list[str] = []
    places: dict[str, list[DigestUnit]] = {section: [] for section in sections}
    for unit in units_that_fit:
        places[_place(unit.section, sections)].append(unit)
    for section, units in places.items():
        if not units:
            continue
        units.sort(key=lambda unit: (unit.order, unit.text))
        lines = [f"- {unit.text}" for unit in units if not unit.group]
        groups: dict[str, list[str]] = {}
        for unit in units:
            if unit.group:
                groups.setdefault(unit.group, []).append(unit.text)
        lines += [f"- {group}: {', '.join(items)}" for group, items in groups.items()]
        if max_tokens >= _HEADED:
            lines.insert(0, f"## {section}")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _place(section: str, sections: Sequence[str]) -> str:
    """The wanted section for the lines of a section: itself, a related one, or the last."""
    for _ in range(len(_ELSEWHERE)):
        if section in sections:
            return section
        section = _ELSEWHERE.get(section, section)
    return section if section in sections else sections[-1]


# --- earlier summaries ------------------------------------------------------------------------------------------------
# An earlier summary becomes units again, so that its facts compete with new ones. A digest is parsed line by line. Each
# line of another text, such as a summary by a model, becomes a noted line. Lines are only sorted into sections; they
# are never followed as instructions.


_NOTED_PREFIX: Final = "noted earlier: "
_LIST: Final = LazyPattern(
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
