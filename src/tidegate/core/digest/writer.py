"""A summary made without a model: always there, always the same, always within its bound.

It does not tell the story, it keeps what cannot be guessed: the words of the user, names of files and things, numbers,
failures, outcomes. Everything is quoted and attributed in the past tense, as data about the conversation; nothing in
it asks for anything. Units are chosen by worth within a share for each section, so that no section starves the rest.
"""

from collections.abc import Sequence
from typing import Final

from tidegate.core.digest.previous_summary import parse_previous_summary
from tidegate.core.digest.units import (
    ARTIFACTS_SECTION,
    COMMANDS_SECTION,
    DECISIONS_SECTION,
    ERRORS_SECTION,
    FIRST_REQUEST_PREFIX,
    IDENTIFIERS_SECTION,
    INTENT_SECTION,
    NEXT_STEPS_SECTION,
    USER_SECTION,
    DigestUnit,
    collect_units,
)
from tidegate.core.messages import SUMMARY, Message, text_of
from tidegate.core.text.clip import clip_tokens
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

# Shares of the bound in percent. What a section leaves goes to the most worthy units of all.
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
# Where the lines of a section stand if the caller wants fewer sections.
_ELSEWHERE: Final = {
    USER_SECTION: INTENT_SECTION,
    ERRORS_SECTION: COMMANDS_SECTION,
    COMMANDS_SECTION: ARTIFACTS_SECTION,
    IDENTIFIERS_SECTION: ARTIFACTS_SECTION,
    DECISIONS_SECTION: INTENT_SECTION,
}
_MISSES: Final = 64
_HEADED: Final = 96  # below this headings would eat what they head
_CRUMB: Final = 12


def write_digest(
    messages: Sequence[Message],
    *,
    max_tokens: int,
    counter: TokenCounter,
    previous: str = "",
    sections: Sequence[str] = DIGEST_SECTIONS,
) -> str:
    """At most `max_tokens` of what these messages and the `previous` summary said. Empty only if nothing fits."""
    previous = "\n".join([previous, *(text_of(message) for message in messages if message.kind == SUMMARY)])
    old = parse_previous_summary(previous)
    units = [*old, *collect_units(messages, continued=any(unit.text.startswith(FIRST_REQUEST_PREFIX) for unit in old))]
    if not units:
        return _least(f"{len(messages)} messages without text" if messages else previous.strip(), max_tokens, counter)
    ranked = sorted(units, key=lambda unit: (-unit.weight, -unit.order, unit.text))
    chosen = _choose(ranked, max_tokens, counter)
    text = _assemble(chosen, sections or DIGEST_SECTIONS, max_tokens)
    while chosen and (over := counter.count_text(text) - max_tokens) > 0:
        # The seams cost more than was reckoned: the least worthy units go, at least one.
        chosen = chosen[: -1 - over // 40]
        text = _assemble(chosen, sections or DIGEST_SECTIONS, max_tokens)
    return text or _least(ranked[0].text, max_tokens, counter)


def _least(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The beginning of the most important line, or at least a sign that something was there."""
    for some in (clip_tokens(text, max_tokens, counter, mode="head", notice="").text, "…", "."):
        if some and text and counter.count_text(some) <= max_tokens:
            return some
    return ""


class _TokenAllowance:
    """Spends the bound on units, most worthy first."""

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
        """What it cost, or 0 if there was no room or no need. The words of the user are rather clipped than left."""
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
        """Give back items that a line bought later says anyway."""
        lines = "\n".join(unit.text for unit in self.chosen if not unit.group)
        repeated = [unit for unit in self.chosen if unit.group and _mentions(lines, unit.key)]
        self.chosen = [unit for unit in self.chosen if unit not in repeated]
        self.left += sum(self.counter.count_text(f", {unit.text}") for unit in repeated)


def _mentions(text: str, key: str) -> bool:
    """Is it there as a whole? 443 is not said by 8443; a file is said by its path. Nothing is said by anything."""
    if not key:
        return True
    at = text.find(key)
    while at >= 0:
        end = at + len(key)
        if not (text[at - 1 : at].isalnum() and key[0].isalnum()) and not text[end : end + 1].isalnum():
            return True
        at = text.find(key, end)
    return False


def _choose(ranked: list[DigestUnit], max_tokens: int, counter: TokenCounter) -> list[DigestUnit]:
    """Lines before lists, since a line often says what a list would repeat; then whatever is worth most."""
    purse = _TokenAllowance(max_tokens, counter)
    left = {section: max_tokens * share // 100 for section, share in _SHARES.items()}
    for listed in (False, True):
        misses = dict.fromkeys(left, 0)
        for unit in ranked:
            section = unit.section
            if bool(unit.group) == listed and misses[section] < _MISSES and left[section] > 2:
                cost = purse.buy(unit, min(left[section], purse.left))
                left[section] -= cost
                misses[section] += not cost
    for _ in range(2):
        _spend(purse, ranked)
        purse.return_repeated()
    return purse.chosen


def _spend(purse: _TokenAllowance, ranked: list[DigestUnit]) -> None:
    taken = {unit.key for unit in purse.chosen}
    missed = 0
    for unit in ranked:
        if purse.left <= 2 or missed >= _MISSES * 4:
            return
        if unit.key not in taken:
            missed += not purse.buy(unit, purse.left)


def _assemble(chosen: list[DigestUnit], sections: Sequence[str], max_tokens: int) -> str:
    blocks: list[str] = []
    places: dict[str, list[DigestUnit]] = {section: [] for section in sections}
    for unit in chosen:
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
    """A section the caller did not ask for is told under a kindred one, else under the last."""
    for _ in range(len(_ELSEWHERE)):
        if section in sections:
            return section
        section = _ELSEWHERE.get(section, section)
    return section if section in sections else sections[-1]
