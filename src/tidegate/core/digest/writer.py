"""The digest: a deterministic summary that needs no model and always fits its limit.

It keeps what cannot be guessed: words of the user, names of files and things, numbers, failures, outcomes. Everything
is quoted, attributed and in the past tense, as data about the conversation; it contains no instructions. Units are
chosen by weight, with a share of the tokens for each section.
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
    ranked = sorted(units, key=lambda unit: (-unit.weight, -unit.order, unit.text))
    chosen = _choose(ranked, max_tokens, counter)
    text = _assemble(chosen, sections or DIGEST_SECTIONS, max_tokens)
    while chosen and (over := counter.count_text(text) - max_tokens) > 0:
        # Joining cost more tokens than estimated: drop the lightest units, at least one.
        chosen = chosen[: -1 - over // 40]
        text = _assemble(chosen, sections or DIGEST_SECTIONS, max_tokens)
    return text or _least(ranked[0].text, max_tokens, counter)


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


def _choose(ranked: list[DigestUnit], max_tokens: int, counter: TokenCounter) -> list[DigestUnit]:
    """Choose lines before lists, because a line often has what a list would repeat; then by weight."""
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
    chosen_keys = {unit.key for unit in purse.chosen}
    missed = 0
    for unit in ranked:
        if purse.left <= 2 or missed >= _MISSES * 4:
            return
        if unit.key not in chosen_keys:
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
    """The wanted section for the lines of a section: itself, a related one, or the last."""
    for _ in range(len(_ELSEWHERE)):
        if section in sections:
            return section
        section = _ELSEWHERE.get(section, section)
    return section if section in sections else sections[-1]
