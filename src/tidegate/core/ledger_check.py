"""One transaction on the view, held against the hard facts of what it takes away. The ledger acts on what is found."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.earlier import earlier
from tidegate.core.edits import Changes, Edit
from tidegate.core.harvest import ERRORS, Unit, fold, harvest
from tidegate.core.ledger_lines import LEDGER, Line, Reach, left
from tidegate.core.messages import (
    INTERRUPTED,
    REMINDER,
    SUMMARY,
    Message,
    calls_of,
    is_request,
    result_of,
    text_of,
)
from tidegate.core.rules_said import rules_said
from tidegate.core.view import View

PIN: Final = "pin"
"""The kind of a message that the user pinned: all of it is a rule."""

CLEARED: Final = "[cleared: "
"""How a stub begins: what it says is about the result, not of it."""

_UNITS: Final = 2_000
_PER_LINE: Final = 6
_LINE_CHARS: Final = 240
_RECALL: Final = re.compile(r"\brecall ([me]\d+(?:\.\d+)?)")
_WORD: Final = re.compile(r"[^\s\"'`<>()\[\]{},;|*!^]+")
_INNER: Final = re.compile(r"[=:/\\]")


class Tally(NamedTuple):
    """What the check of one transaction found. `shortened` messages are still there and name the id of the whole."""

    checked: int = 0
    present: int = 0
    recoverable: int = 0
    kept: int = 0
    left_out: int = 0
    shortened: int = 0

    def __str__(self) -> str:
        facts = (
            f"ledger: {self.checked:,} facts checked, {self.present:,} present, {self.recoverable:,} recoverable,"
            f" {self.kept:,} kept, {self.left_out:,} left out"
        )
        return f"{facts}; {self.shortened:,} shortened messages name their id" if self.shortened else facts


def readable(message: Message) -> str:
    return "\n".join([text_of(message), *(call.arguments for call in calls_of(message))])


def words(text: str) -> set[str]:
    """What is said in a text, as facts are told apart: whole runs, and what stands between their = and : and /."""
    found: set[str] = set()
    for run in set(_WORD.findall(text)):
        word = run.strip(".,:;!?=-…。、&")
        found.add(word)
        if _INNER.search(word):
            found.update(_INNER.split(word))
    return found


class _Fact(NamedTuple):
    unit: Unit
    ident: str


class Check:
    """One transaction against the facts of what it takes away."""

    def __init__(self, view: View, edits: Sequence[Edit], lines: Sequence[Line], *, facts: bool = True) -> None:
        """Without `facts` only what was pinned is looked after."""
        self.lines = list(lines)
        self._whole = facts
        self._rules: list[Line] = []
        self._facts: list[_Fact] = []
        self._known: set[str] = set()
        self._told = ""
        self._pointed = Reach(lines).named
        changes = Changes(edits)
        messages = [item.message for item in view.items if item.message.kind != LEDGER]
        self._gone = [m for m in messages if m.id in changes.dropped and m.kind != REMINDER]
        cut = [m for m in messages if m.id in changes.replaced and is_request(m)]
        shown = [_after(m, changes) for m in messages if m.id not in changes.dropped] if self._gone or cut else []
        if facts and self._gone:
            self._facts = _facts_of(self._gone)
            self._read([*shown, *(insert.message for insert in changes.inserts)])
        every = [line for message in (*self._gone, *cut) for line in _rules(message) if facts or line.what == "pin"]
        self._rules = list({line.text: line for line in every}.values())
        said = "\n".join(text_of(message) for message in shown if is_request(message) or message.kind == PIN)
        said += "\n".join(line.text for line in lines if line.lays_down)
        self._laid_down = [line for line in self._rules if line.text not in said]
        self._missing = [fact for fact in self._facts if not self._present(fact.unit)]

    def _read(self, stay: Sequence[Message]) -> None:
        text = "\n".join(map(readable, stay))
        listed = "\n".join(line.text for line in self.lines)
        self._known = words(text) | words(listed)
        self._told = "\n".join([listed, *(text_of(message) for message in stay if message.kind == SUMMARY)])
        self._pointed |= set(_RECALL.findall(text))

    def _present(self, unit: Unit) -> bool:
        return unit.key in self._known or (" " in unit.key and unit.key in self._told)

    def wanted(self) -> list[Line]:
        """What should go into the ledger: rules, what leaves, and for each message the facts that are nowhere else."""
        by_message: dict[tuple[str, str], list[Unit]] = {}
        for fact in self._missing:
            if fact.ident not in self._pointed:
                what = fact.unit.group or ("open" if fact.unit.section == "" else "failed")
                by_message.setdefault((fact.ident, what), []).append(fact.unit)
        lines = [Line(what, ident, _listed(units)) for (ident, what), units in by_message.items()]
        places = [int(message.id[1:]) for message in self._gone if message.id[:1] == "m"] if self._whole else []
        ranges = [left(min(places), max(places))] if places else []
        return [*self._laid_down, *ranges, *sorted(lines, key=lambda line: line.place)]

    def reaches(self, lines: Sequence[Line] | None) -> bool:
        """With these lines, does the ledger lead to every message that leaves?"""
        reach = Reach(self.lines if lines is None else lines)
        return bool(self._gone) and all(message.id in reach for message in self._gone)

    def loses_rules(self, lines: Sequence[Line] | None) -> bool:
        texts = {line.text for line in (self.lines if lines is None else lines) if line.lays_down}
        return any(line.lays_down and line.text not in texts for line in (*self.lines, *self._laid_down))

    def tally(self, lines: Sequence[Line] | None, shortened: int) -> Tally:
        """The counts, with these lines in the ledger; None: it is as it was."""
        after = self.lines if lines is None else list(lines)
        texts = "\n".join(line.text for line in after)
        reach = Reach(after)
        rest = [fact.ident for fact in self._missing if fact.unit.text not in texts]
        rest += [rule.ident for rule in self._laid_down if rule.text not in texts]
        reached = sum(ident in self._pointed or ident in reach for ident in rest)
        checked = len(self._facts) + len(self._rules)
        missing = len(self._missing) + len(self._laid_down)
        return Tally(checked, checked - missing, reached, missing - len(rest), len(rest) - reached, shortened)


def _after(message: Message, changes: Changes) -> Message:
    new = changes.replaced.get(message.id)
    return message if new is None else msgspec.structs.replace(message, parts=new.parts)


def _rules(message: Message) -> list[Line]:
    if message.kind == PIN:
        return [Line("pin", message.id, " ".join(text_of(message).split()))]
    return [Line("rule", message.id, rule) for rule in rules_said(text_of(message))] if is_request(message) else []


def _listed(units: Sequence[Unit]) -> str:
    text = ""
    for unit in units[:_PER_LINE]:
        more = f"{text}, {unit.text}" if text else unit.text
        if len(more) > _LINE_CHARS and text:
            break
        text = more
    return fold(text, _LINE_CHARS)


def _facts_of(gone: Sequence[Message]) -> list[_Fact]:
    """The hard facts of these messages, the most worthy first. Words that a tool put in quotes are not facts."""
    told = [message for message in gone if message.role != "tool" or not text_of(message).startswith(CLEARED)]
    facts = [_Fact(unit, told[unit.order].id) for unit in harvest(told) if unit.group or unit.section == ERRORS]
    for message in gone:
        if message.kind == SUMMARY:
            facts += [_Fact(unit, message.id) for unit in earlier(text_of(message)) if unit.group]
    facts = [fact for fact in facts if " " not in fact.unit.key or not fact.unit.group or "user" in fact.unit.group]
    facts = [*_open(gone), *sorted(facts, key=lambda fact: -fact.unit.weight)]
    return list({fact.unit.key: fact for fact in reversed(facts[:_UNITS])}.values())[::-1]


def _open(gone: Sequence[Message]) -> list[_Fact]:
    """Calls of which nobody knows what became: a tool, or a subagent, that was running when it was interrupted."""
    calls = {call.id: call for message in gone for call in calls_of(message)}
    found: list[_Fact] = []
    for message in gone:
        result = result_of(message) if message.kind == INTERRUPTED else None
        call = calls.get(result.call_id) if result else None
        if call is not None:
            text = f"{fold(call.name, 40)} {fold(call.arguments, 120)} has no known result"
            found.append(_Fact(Unit("", "", text, 9.0, 0, text), message.id))
    return found
