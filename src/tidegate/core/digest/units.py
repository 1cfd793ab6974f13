"""The units of a digest: short attributed statements and facts that can be kept or left out one by one.

Each unit says who it is from: the user, the agent or a tool. White space is folded, so text from outside can never
begin a line in a digest.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.core.messages import (
    REMINDER,
    SUMMARY,
    TOOL_SUMMARY,
    Call,
    Message,
    Text,
    is_user_request,
    result_of,
    text_of,
)
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.facts import (
    Fact,
    FactKind,
    find_error_lines,
    find_facts,
    find_last_line,
    find_rule_sentences,
    split_sentences,
)
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.rule_text import rule_text
from tidegate.core.text.tool_calls import (
    INCIDENTAL_KEYS,
    ToolAccess,
    classify_call,
    iterate_strings,
    open_todos_of,
    parse_call_arguments,
)

INTENT_SECTION: Final = "Session intent"
USER_SECTION: Final = "User said"
DECISIONS_SECTION: Final = "Key decisions"
ARTIFACTS_SECTION: Final = "Artifacts"
COMMANDS_SECTION: Final = "Commands and outcomes"
ERRORS_SECTION: Final = "Errors"
IDENTIFIERS_SECTION: Final = "Identifiers"
NEXT_STEPS_SECTION: Final = "Next steps"

FIRST_REQUEST_PREFIX: Final = "user asked first: "
LAST_REQUEST_PREFIX: Final = "user asked last: "
USER_SAID_PREFIX: Final = "user said: "
HELD: Final = "user message held: "
"""The prefix for a user message that was not typed. It can give no rules."""
SYSTEM_SAID_PREFIX: Final = "system said: "

_READ: Final = 4_000_000  # characters read for one digest
_BULK: Final = 40  # more values than this with one label in tool output are a log, not facts
_ARGUMENT: Final = 1_000  # characters read of each argument: the rest is content

_KIND: Final[dict[FactKind, float]] = {
    "url": 1.0, "email": 1.0, "uuid": 1.0, "path": 1.0, "file": 0.9, "hash": 0.8, "id": 0.9,
    "version": 0.4, "name": 0.6, "number": 0.4, "quoted": 0.4,
}  # fmt: skip
_VALUES: Final = frozenset({"uuid", "hash", "id", "number", "version"})
_VERBS: Final[dict[ToolAccess, str]] = {"write": "changed", "read": "read", "other": "used"}
_SHELL: Final = frozenset({"command", "cmd", "script", "commands", "shell_command", "bash"})
_TARGET: Final = LazyPattern(r"path|file|url|uri|notebook|target|dest|source", re.I)
_DIGITS: Final = LazyPattern(r"[0-9a-fA-F]*\d[\w.:-]*")
_RECALL_RANGE: Final = LazyPattern(r"\bm\d+\.\.m\d+\b")
_DECISION: Final = LazyPattern(
    r"\b(decid|chose|choos|conclu|root cause|turns out|because|instead of|the (fix|bug|problem|issue|reason) (is|was)"
    r"|confirm|fixed|implemented|found (that|the)|so the|works now|verified|means that|will use|we use)"
    r"|决定|原因|因为|所以|決定|原因は|결정|원인|решил|причина|поэтому",
    re.I,
)


class DigestUnit(NamedTuple):
    """One unit. Units with the same `group` share a line; without a group it is a line. `key` is the bare fact."""

    section: str
    group: str
    text: str
    weight: float
    order: int
    key: str


class _Request(NamedTuple):
    """The text of a user message, its prefix (`author`), and whether its typed part has a rule."""

    order: int
    text: str
    author: str
    rules: bool


class _FactOccurrences:
    """All occurrences of a fact: its strongest source, how often and where last."""

    def __init__(self, fact: Fact, section: str, group: str) -> None:
        self.fact, self.section, self.group = fact, section, group
        self.source = 0.0
        self.times = 0
        self.last = 0


def fold_line(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    return clip_chars(" ".join(clip_chars(text, limit * 4, notice=" ").text.split()), limit, notice=" ... ").text


def _quote_line(text: str, limit: int) -> str:
    return f'"{fold_line(text, limit)}"'


def collect_units(messages: Sequence[Message], *, continued: bool = False) -> list[DigestUnit]:
    """The units of these messages, unsorted, each fact once. `continued`: the first request was earlier."""
    limit = min(max(_READ // max(len(messages), 1), 400), 8_000)
    walk = _UnitCollector(limit, len(messages), continued)
    for order, message in enumerate(messages):
        walk.take(message, order)
    return walk.finish()


class _UnitCollector:
    def __init__(self, limit: int, total: int, continued: bool) -> None:
        self.limit, self.total, self.continued = limit, max(total, 1), continued
        self.units: dict[str, DigestUnit] = {}
        self.facts: dict[str, _FactOccurrences] = {}
        self.names: dict[str, str] = {}  # call id -> tool
        self.access: dict[str, ToolAccess] = {}  # call id -> what the call does
        self.commands: dict[str, str] = {}
        self.requests: list[_Request] = []
        self.last_reply: tuple[int, str] | None = None

    def take(self, message: Message, order: int) -> None:
        result = result_of(message)
        text = text_of(message)
        if result is not None:
            self._result(text, result.call_id, result.error, order)
        elif is_user_request(message):
            self._request(message, order)
        elif message.role == "assistant":
            self._reply(text, order)
            for part in message.parts:
                if isinstance(part, Call):
                    self._call(part, order)
        elif message.kind == TOOL_SUMMARY:
            self._result(text, "", False, order)
        elif message.role == "system":
            self._add(USER_SECTION, f"{SYSTEM_SAID_PREFIX}{_quote_line(text, 400)}", 3.5 + order / self.total, order)
            self._facts(text, IDENTIFIERS_SECTION, "noted", 1.0, order)
        elif message.kind not in (SUMMARY, REMINDER):
            text = _RECALL_RANGE.sub("", text)  # the summary has a range of its own
            self._facts(text, IDENTIFIERS_SECTION, "noted", 1.0, order)

    def _add(self, section: str, text: str, weight: float, order: int) -> None:
        old = self.units.get(text)
        if old is None or old.weight <= weight:
            self.units[text] = DigestUnit(section, "", text, weight, order, text)

    def _facts(self, text: str, section: str, group: str, source: float, order: int) -> None:
        for fact in find_facts(text, self.limit):
            self._fact(fact, section, group, source, order)

    def _fact(self, fact: Fact, section: str, group: str, source: float, order: int) -> None:
        occurrences = self.facts.get(fact.value)
        if occurrences is None:
            occurrences = self.facts[fact.value] = _FactOccurrences(fact, section, group)
        if source > occurrences.source:
            occurrences.source, occurrences.section, occurrences.group = source, section, group
        occurrences.times += 1
        occurrences.last = order

    def _request(self, message: Message, order: int) -> None:
        text = text_of(message)
        if not text.strip():
            return
        parts = [part.text for part in message.parts if isinstance(part, Text) and part.typed is not False]
        own = "\n".join(parts)  # without mentioned files
        words = own if own.strip() else text
        rules = find_rule_sentences(rule_text(message), self.limit)[:20]
        self.requests.append(_Request(order, words, USER_SAID_PREFIX if own.strip() else HELD, bool(rules)))
        self._facts(text, IDENTIFIERS_SECTION, "user named", 3.0, order)
        age = order / self.total
        if len(words) > 400:
            for rule in rules:
                self._add(USER_SECTION, f"{USER_SAID_PREFIX}{_quote_line(rule, 300)}", 4.5 + age, order)

    def _reply(self, text: str, order: int) -> None:
        if not text.strip():
            return
        self.last_reply = (order, text)
        self._facts(text, IDENTIFIERS_SECTION, "agent named", 1.3, order)
        for sentence in split_sentences(text, self.limit)[:40]:
            if 20 <= len(sentence) <= 400 and _DECISION.search(sentence):
                self._add(
                    DECISIONS_SECTION,
                    f"agent concluded: {_quote_line(sentence, 220)}",
                    1 + 1.5 * order / self.total,
                    order,
                )

    def _call(self, call: Call, order: int) -> None:
        self.names[call.id] = call.name
        access = self.access[call.id] = classify_call(call)
        arguments = parse_call_arguments(call)
        todos = open_todos_of(arguments)
        if todos:
            for todo in todos:
                self._add(NEXT_STEPS_SECTION, f"agent planned: {_quote_line(todo, 160)}", 1 + order / self.total, order)
            return
        tool = fold_line(call.name, 40)
        for key, value in iterate_strings(arguments, skip=INCIDENTAL_KEYS):
            if key in _SHELL:
                self.commands[call.id] = value
            is_target = _TARGET.search(key) is not None and len(value) <= 300
            group = f"agent {_VERBS[access]} ({tool})" if is_target else f"in calls of {tool}"
            for fact in find_facts(value[:_ARGUMENT]):
                section = ARTIFACTS_SECTION if fact.kind in ("path", "file", "url") else IDENTIFIERS_SECTION
                source = 2.9 if is_target and access == "write" else 2.5 if is_target else 2.1
                self._fact(fact, section, group, source, order)

    def _result(self, text: str, call_id: str, error: bool, order: int) -> None:
        tool = fold_line(self.names.get(call_id, "a tool"), 40)
        self._facts(text, IDENTIFIERS_SECTION, "tools named", 0.8, order)
        age = order / self.total
        # Text that a reading tool shows may mention errors; only a failed call reports one.
        failures = [] if self.access.get(call_id) == "read" and not error else find_error_lines(text, self.limit)
        if error and not failures:
            failures = [find_last_line(text)] if text.strip() else []
        for line in (failures[:1] + failures[-2:])[: 3 if error else 2]:
            self._add(ERRORS_SECTION, f"tool said ({tool}): {_quote_line(line, 200)}", 0.8 + age + error, order)
        command = self.commands.get(call_id)
        if command:
            last_line = find_last_line(text)
            outcome = f", it ended with {_quote_line(last_line, 120)}" if last_line else ""
            self._add(
                COMMANDS_SECTION, f"agent ran {_quote_line(command, 160)} ({tool}){outcome}", 0.6 + 1.2 * age, order
            )

    def finish(self) -> list[DigestUnit]:
        for place, (order, text, author, rules) in enumerate(self.requests):
            age = order / self.total
            if place == 0 and not self.continued:
                self._add(INTENT_SECTION, f"{FIRST_REQUEST_PREFIX}{_quote_line(text, 500)}", 8, order)
            elif place == len(self.requests) - 1:
                self._add(
                    INTENT_SECTION,
                    f"{LAST_REQUEST_PREFIX if author == USER_SAID_PREFIX else HELD}{_quote_line(text, 500)}",
                    9,
                    order,
                )
            else:
                short = len(text) <= 400
                bonus = 1.5 if short and rules else 0.5 if short and find_facts(text) else 0
                self._add(USER_SECTION, f"{author}{_quote_line(text, 400)}", 3 + age + bonus, order)
        if self.last_reply:
            order, text = self.last_reply
            self._add(NEXT_STEPS_SECTION, f"agent said last: {_quote_line(text[-1_200:], 400)}", 4, order)
        return [*self._lines(), *self._named()]

    def _lines(self) -> Iterator[DigestUnit]:
        """The units that are lines. Failures that differ only in their numbers count as repetitions."""
        alike = Counter(_pattern(unit) for unit in self.units.values())
        for unit in self.units.values():
            rare = 1.5 / math.sqrt(alike[_pattern(unit)]) if unit.section == ERRORS_SECTION else 0
            yield unit._replace(weight=unit.weight + rare)

    def _named(self) -> Iterator[DigestUnit]:
        alike = Counter(_class(occurrences) for occurrences in self.facts.values())
        for occurrences in self.facts.values():
            fact = occurrences.fact
            many = alike[_class(occurrences)] if fact.kind in _VALUES else 1
            if many > _BULK and occurrences.source < 1:
                continue
            worth = _KIND[fact.kind]
            # A frequent fact matters. A unique value has weight, one of many alike is a log line.
            often = 0.3 * min(math.log2(occurrences.times), 4) * worth * occurrences.source
            rare = 1.2 / math.sqrt(many) if fact.kind in _VALUES else 0
            weight = worth * occurrences.source + often + rare + 0.9 * occurrences.last / self.total
            text = f"{fact.context} {fact.value}".strip()
            yield DigestUnit(occurrences.section, occurrences.group, text, weight, occurrences.last, fact.value)


def _pattern(unit: DigestUnit) -> str:
    return _DIGITS.sub("#", unit.text)[:80] if unit.section == ERRORS_SECTION else unit.text


def _class(occurrences: _FactOccurrences) -> tuple[str, str, str]:
    return occurrences.fact.kind, occurrences.fact.context, occurrences.group
