"""Making calls and results fit: every call answered once, straight behind it, in call order, ids unique.

A recording may lack results (interrupted), have them before their call (parallel writers), twice, or without a call;
ids may be missing or used again. Each mending is counted and said.
"""

from collections import Counter, deque
from typing import NamedTuple

from tidegate.lab.importers.json_fields import list_objects
from tidegate.lab.importers.recording import JsonRecord

MISSING_RESULT_TEXT = "[no result recorded in source]"

_REPAIR_SENTENCES = {
    "missing": "{} calls had no result: a placeholder stands in",
    "orphan": "{} results without a call left out",
    "second": "{} further results of an answered call left out",
    "moved": "{} results moved behind their call",
    "placed": "{} results without an id joined to a call by position",
    "renamed": "{} call ids missing or used again: renamed",
    "empty": "{} empty messages left out",
}


class RepairedMessages(NamedTuple):
    """`origin` tells for each message where it stood before, `said` what was done, in words."""

    messages: list[JsonRecord]
    origin: list[int]
    said: list[str]


class _CallPosition(NamedTuple):
    owner: int
    ordinal: int
    id: str


class _CallResultPairs:
    """Which result belongs to which call, found in one walk."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}  # ordinal of a call -> place of its result
        self.by_owner: dict[int, list[_CallPosition]] = {}
        self.runs_to: dict[int, int] = {}  # place of a message with calls -> last result straight behind it
        self.counts: Counter[str] = Counter()
        self._waiting: dict[str, list[deque[_CallPosition]]] = {}  # by id, the calls of each message that made some
        self._early: dict[str, list[int]] = {}
        self._seen: set[str] = set()
        self._calls = 0
        self._speaker = -1
        self._last: deque[_CallPosition] = deque()

    def call(self, owner: int, ident: str) -> None:
        self._calls += 1
        call = _CallPosition(owner, self._calls, ident)
        self.by_owner.setdefault(owner, []).append(call)
        if self._speaker != owner:
            self._speaker, self._last = owner, deque()
        self._last.append(call)
        self._seen.add(ident)
        early = self._early.get(ident)
        if early:
            self.of[call.ordinal] = early.pop(0)
        else:
            groups = self._waiting.setdefault(ident, [])
            if not groups or groups[-1][0].owner != owner:
                groups.append(deque())
            groups[-1].append(call)

    def result(self, place: int, ident: str) -> None:
        if not ident:
            self._by_position(place)
            return
        call = self._newest(ident)
        if call is not None:
            self.of[call.ordinal] = place
        elif ident in self._seen:
            self.counts["second"] += 1
        else:
            self._early.setdefault(ident, []).append(place)

    def _newest(self, ident: str) -> _CallPosition | None:
        """Of the calls of this id that wait, those of the newest message; of these the first."""
        groups = self._waiting.get(ident, [])
        while groups:
            call = groups[-1].popleft()
            if not groups[-1]:
                groups.pop()
            if call.ordinal not in self.of:
                return call
        return None

    def _by_position(self, place: int) -> None:
        while self._last:
            call = self._last.popleft()
            if call.ordinal not in self.of:
                self.of[call.ordinal] = place
                self.counts["placed"] += 1
                return
        self.counts["orphan"] += 1

    def end(self) -> None:
        self.counts["orphan"] += sum(map(len, self._early.values()))


def repair_messages(messages: list[JsonRecord]) -> RepairedMessages:
    pairs = _CallResultPairs()
    speaker = -1
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            pairs.result(place, str(message.get("tool_call_id") or ""))
        else:
            speaker = place
        pairs.runs_to[speaker] = place
        for call in list_objects(message.get("tool_calls")):
            pairs.call(place, str(call.get("id") or ""))
    pairs.end()
    done = RepairedMessages([], [], [])
    used: set[str] = set()
    for place, message in enumerate(messages):
        calls = pairs.by_owner.get(place, [])
        if message.get("role") == "tool":
            continue
        if not calls and not message.get("content"):
            pairs.counts["empty"] += 1
            continue
        done.messages.append(message)
        done.origin.append(place)
        for made, each in zip(list_objects(message.get("tool_calls")), calls, strict=True):
            made["id"] = _assign_unique_id(each, used, pairs.counts)
            _append_result(done, pairs, each, str(made["id"]), messages)
    done.said.extend(text.format(pairs.counts[key]) for key, text in _REPAIR_SENTENCES.items() if pairs.counts[key])
    return done


def _assign_unique_id(call: _CallPosition, used: set[str], counts: Counter[str]) -> str:
    ident = call.id
    if not ident or ident in used:
        counts["renamed"] += 1
        stem = f"{ident}_" if ident else "call_"
        number = call.ordinal
        while (ident := f"{stem}{number}") in used:
            number += 1
    used.add(ident)
    return ident


def _append_result(
    done: RepairedMessages, pairs: _CallResultPairs, call: _CallPosition, ident: str, messages: list[JsonRecord]
) -> None:
    place = pairs.of.get(call.ordinal)
    if place is None:
        pairs.counts["missing"] += 1
        done.messages.append({"role": "tool", "tool_call_id": ident, "content": MISSING_RESULT_TEXT})
        done.origin.append(call.owner)
        return
    if place > pairs.runs_to[call.owner]:
        pairs.counts["moved"] += 1
    done.messages.append({"role": "tool", "tool_call_id": ident, "content": messages[place].get("content") or ""})
    done.origin.append(place)
