"""The names in messages that leave a view, ranked by how likely they are needed again, relative to their cost.

In recorded sessions the names in the agent's own calls are used again most often, then names given by the user, then
paths in tool output. Frequent and recent names are likelier. The weights are round numbers: fitted weights did no
better on sessions that they were not fitted to.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.messages import Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.text.facts import (
    Fact,
    FactKind,
    add_context,
    classify_run,
    find_quotes,
    head_and_tail,
    split_runs,
)
from tidegate.core.text.tool_calls import INCIDENTAL_KEYS, classify_call, iterate_strings, parse_call_arguments

_KIND: Final[dict[FactKind, float]] = {
    "path": 1.0, "file": 0.9, "url": 0.7, "email": 0.6, "uuid": 0.6, "hash": 0.5, "id": 0.4, "name": 0.35,
    "quoted": 0.3, "number": 0.12, "version": 0.1,
}  # fmt: skip
_DOTTED: Final = 0.7
_FOLDER: Final = 0.6
_TAG: Final = 0.05  # </div> looks like a path
_PHRASE: Final = 0.2  # several words in quotes
_CALL: Final = 3.0
_USER: Final = 2.5
_AGENT: Final = 1.0
_TOOL: Final = 0.5
_AGE: Final = 0.4  # how much less a name of the first message weighs than one of the last
_ARGUMENT_CHARS: Final = 1_000  # characters read of each argument: the rest is content
_TARGET_CHARS: Final = 300
_MESSAGE_CHARS: Final = 12_000  # characters read of each message, from both ends
_TOTAL_CHARS: Final = 50_000  # characters read of all messages, oldest first: newer names are mostly still in the view
_MAX_NAMES: Final = 4_000  # more than any ledger holds
_LINE: Final = re.compile(r":\d+.*$")
_PATHS: Final = ("path", "file")
_LABELLED: Final = ("number", "id")
_IN_CODE: Final = re.compile(r"[{}$\\]|//nolint|^recall ")


class _Tally(msgspec.Struct, gc=False):
    """The counts of one name. `context` is the words before it, which a number needs."""

    kind: FactKind
    sum: float
    last: int
    context: str = ""
    what: str = "named"
    ident: str = ""


class _Counts:
    """For each run or quotation: the number of texts of each source it is in, and the last of them.

    Updates are made for all runs of a text at once, because most runs are plain words.
    """

    def __init__(self) -> None:
        self._times: dict[float, Counter[str]] = {source: Counter() for source in (_CALL, _USER, _AGENT, _TOOL)}
        self.last: dict[str, int] = {}

    def take(self, found: Iterable[str], source: float, text: int) -> None:
        distinct = dict.fromkeys(found, text)
        self.last.update(distinct)
        self._times[source].update(distinct.keys())

    def sums(self) -> dict[str, float]:
        sums: dict[str, float] = dict.fromkeys(self.last, 0.0)
        for source, times in self._times.items():
            for run, count in times.items():
                sums[run] += source * count
        return sums

    def in_tools(self, run: str) -> float:
        return _TOOL * self._times[_TOOL].get(run, 0)


class _Names:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._texts: list[list[str]] = []  # the runs of each text
        self._orders: list[int] = []  # the message of each text
        self._runs, self._quotes = _Counts(), _Counts()
        self._calls: dict[str, int] = {}  # runs of short arguments, with the last message they are in
        self._changed: set[str] = set()
        self._found: dict[str, _Tally] = {}

    def take(self, text: str, source: float, order: int, what: str = "") -> None:
        number, runs = len(self._texts), split_runs(text)
        self._texts.append(runs)
        self._orders.append(order)
        self._runs.take(filter(classify_run, runs), source, number)
        self._quotes.take(find_quotes(text), source, number)
        if what:
            self._calls.update(dict.fromkeys(runs, order))
        if what == "changed":
            self._changed.update(runs)

    def found(self) -> dict[str, _Tally]:
        for run, total in self._runs.sums().items():
            fact = classify_run(run)
            if fact is not None:
                self._add(run, fact, total)
        for value, total in self._quotes.sums().items():
            if not _IN_CODE.search(value):
                self._tally(value, "quoted", total, self._quotes.last[value])
        return self._found

    def _add(self, run: str, fact: Fact, total: float) -> None:
        kind, text, at = fact.kind, fact.value, self._runs.last[run]
        if kind == "number" and len(text) < 4:  # mostly line numbers
            return
        context = add_context(fact, self._texts[at]).context if kind in _LABELLED else ""
        if kind == "number" and not context:  # meaningful only if someone used it
            total -= self._runs.in_tools(run)
            if not total:
                return
        path = kind in _PATHS
        if path and ":" in text[2:]:  # without the line it was found at
            text = text[:2] + _LINE.sub("", text[2:]).rstrip(":")
        tally = self._tally(text, kind, total, at)
        if context:
            tally.context = context
        if path and run in self._calls:
            tally.ident = self._messages[self._calls[run]].id
            tally.what = "changed" if run in self._changed or tally.what == "changed" else "read"

    def _tally(self, text: str, kind: FactKind, total: float, at: int) -> _Tally:
        tally, order = self._found.get(text), self._orders[at]
        if tally is None:
            tally = self._found[text] = _Tally(kind, total, order)
        else:
            tally.sum += total
            tally.last = max(tally.last, order)
        return tally


def rank_names(messages: Sequence[Message], stay: Mapping[str, str] = {}) -> list[LedgerLine]:
    """Each name of these messages once, the best first.

    `stay` has the new text of shortened messages, by id. Lines in it are not read: their names are still in the view.
    """
    names, left = _Names(messages), _TOTAL_CHARS
    for order, message in enumerate(messages):
        source = _TOOL if result_of(message) is not None else _USER if is_user_request(message) else _AGENT
        if left > 0:
            text = head_and_tail(
                _remove_kept_lines(text_of(message), stay.get(message.id, "")), min(_MESSAGE_CHARS, left)
            )
            left -= len(text)
            names.take(text, source, order)
        for call in calls_of(message):
            what = "changed" if classify_call(call) == "write" else "read"
            for _, value in iterate_strings(parse_call_arguments(call), skip=INCIDENTAL_KEYS):
                names.take(value[:_ARGUMENT_CHARS], _CALL, order, what if len(value) < _TARGET_CHARS else "")
    total = max(1, len(messages))
    weighed = sorted([(-_weight(text, tally, total), text, tally) for text, tally in names.found().items()])
    lines: dict[str, LedgerLine] = {}
    for _, text, tally in weighed[:_MAX_NAMES]:
        text = f"{tally.context} {text}" if tally.context else text
        lines.setdefault(text, LedgerLine(tally.what, tally.ident, text))
    return list(lines.values())


def _remove_kept_lines(text: str, stays: str) -> str:
    if not stays:
        return text
    there = set(stays.split("\n"))
    return "\n".join([line for line in text.split("\n") if line not in there])


def _kind_weight(kind: FactKind, text: str) -> float:
    if kind == "name" and "." in text:
        return _DOTTED
    if kind == "path" and "." not in text.rpartition("/")[2]:
        return _TAG if text.rfind("/") == 0 else _FOLDER
    return _PHRASE if kind == "quoted" and " " in text else _KIND[kind]


def _weight(text: str, tally: _Tally, total: int) -> float:
    worth = _kind_weight(tally.kind, text) * math.log2(1 + tally.sum) * (1 - _AGE + _AGE * tally.last / total)
    size = len(text) + (len(tally.context) + 1 if tally.context else 0)
    return worth / (size / 4 + (2.5 if tally.ident else 1.0))
