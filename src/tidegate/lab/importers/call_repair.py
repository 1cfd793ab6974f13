"""Repair calls and results: every call answered once, directly after it, in call order, with unique ids.

A recording may lack results (interrupted), have them before their call (parallel writers), twice, or without a call;
ids may be missing or used again. Each repair is counted and reported.
"""

from collections import Counter, deque
from typing import NamedTuple

from tidegate.core.text.plural import format_count
from tidegate.lab.importers.json_fields import list_objects
from tidegate.lab.importers.recording import JsonRecord

MISSING_RESULT_TEXT = "[no result recorded in source]"

_REPAIR_SENTENCES = {
    "missing": ("call", "without a result: got a placeholder"),
    "orphan": ("result", "without a call left out"),
    "second": ("further result", "of an answered call left out"),
    "moved": ("result", "moved after its call"),
    "placed": ("result", "without an id joined to a call by position"),
    "renamed": ("call id", "missing or used again: renamed"),
    "empty": ("empty message", "left out"),
}


class RepairedMessages(NamedTuple):
    """Messages with every call answered; `original_indices` says where each was, `repairs` what was changed, in
    words.
    """

    messages: list[JsonRecord]
    original_indices: list[int]
    repairs: list[str]


class _CallPosition(NamedTuple):
    message_index: int
    ordinal: int
    id: str


class _CallResultPairs:
    """Which result belongs to which call, found in one pass."""

    def __init__(self) -> None:
        self.result_indices: dict[int, int] = {}  # ordinal of a call -> place of its result
        self.calls_by_message: dict[int, list[_CallPosition]] = {}
        self.last_adjacent_results: dict[
            int, int
        ] = {}  # place of a message with calls -> last result straight behind it
        self.counts: Counter[str] = Counter()
        self._waiting: dict[str, list[deque[_CallPosition]]] = {}  # by id, the calls of each message that made some
        self._early_results: dict[str, list[int]] = {}
        self._known_ids: set[str] = set()
        self._calls = 0
        self._newest_caller = -1
        self._newest_calls: deque[_CallPosition] = deque()

    def add_call(self, owner: int, ident: str) -> None:
        self._calls += 1
        call = _CallPosition(owner, self._calls, ident)
        self.calls_by_message.setdefault(owner, []).append(call)
        if self._newest_caller != owner:
            self._newest_caller, self._newest_calls = owner, deque()
        self._newest_calls.append(call)
        self._known_ids.add(ident)
        early = self._early_results.get(ident)
        if early:
            self.result_indices[call.ordinal] = early.pop(0)
        else:
            groups = self._waiting.setdefault(ident, [])
            if not groups or groups[-1][0].message_index != owner:
                groups.append(deque())
            groups[-1].append(call)

    def add_result(self, place: int, ident: str) -> None:
        if not ident:
            self._match_by_position(place)
            return
        call = self._take_newest_waiting(ident)
        if call is not None:
            self.result_indices[call.ordinal] = place
        elif ident in self._known_ids:
            self.counts["second"] += 1
        else:
            self._early_results.setdefault(ident, []).append(place)

    def _take_newest_waiting(self, ident: str) -> _CallPosition | None:
        """Take, of the unanswered calls with this id, the first one of the newest message."""
        groups = self._waiting.get(ident, [])
        while groups:
            call = groups[-1].popleft()
            if not groups[-1]:
                groups.pop()
            if call.ordinal not in self.result_indices:
                return call
        return None

    def _match_by_position(self, place: int) -> None:
        while self._newest_calls:
            call = self._newest_calls.popleft()
            if call.ordinal not in self.result_indices:
                self.result_indices[call.ordinal] = place
                self.counts["placed"] += 1
                return
        self.counts["orphan"] += 1

    def count_orphans(self) -> None:
        self.counts["orphan"] += sum(map(len, self._early_results.values()))


def repair_messages(messages: list[JsonRecord]) -> RepairedMessages:
    pairs = _CallResultPairs()
    speaker = -1
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            pairs.add_result(place, str(message.get("tool_call_id") or ""))
        else:
            speaker = place
        pairs.last_adjacent_results[speaker] = place
        for call in list_objects(message.get("tool_calls")):
            pairs.add_call(place, str(call.get("id") or ""))
    pairs.count_orphans()
    repaired_messages = RepairedMessages([], [], [])
    ids: set[str] = set()
    for place, message in enumerate(messages):
        calls = pairs.calls_by_message.get(place, [])
        if message.get("role") == "tool":
            continue
        if not calls and not message.get("content"):
            pairs.counts["empty"] += 1
            continue
        repaired_messages.messages.append(message)
        repaired_messages.original_indices.append(place)
        for json_call, each in zip(list_objects(message.get("tool_calls")), calls, strict=True):
            json_call["id"] = _assign_unique_id(each, ids, pairs.counts)
            _append_result(repaired_messages, pairs, each, str(json_call["id"]), messages)
    repaired_messages.repairs.extend(
        f"{format_count(pairs.counts[key], noun)} {what}"
        for key, (noun, what) in _REPAIR_SENTENCES.items()
        if pairs.counts[key]
    )
    return repaired_messages


def _assign_unique_id(call: _CallPosition, ids: set[str], counts: Counter[str]) -> str:
    ident = call.id
    if not ident or ident in ids:
        counts["renamed"] += 1
        stem = f"{ident}_" if ident else "call_"
        number = call.ordinal
        while (ident := f"{stem}{number}") in ids:
            number += 1
    ids.add(ident)
    return ident


def _append_result(
    result: RepairedMessages, pairs: _CallResultPairs, call: _CallPosition, ident: str, messages: list[JsonRecord]
) -> None:
    place = pairs.result_indices.get(call.ordinal)
    if place is None:
        pairs.counts["missing"] += 1
        result.messages.append({"role": "tool", "tool_call_id": ident, "content": MISSING_RESULT_TEXT})
        result.original_indices.append(call.message_index)
        return
    if place > pairs.last_adjacent_results[call.message_index]:
        pairs.counts["moved"] += 1
    result.messages.append({"role": "tool", "tool_call_id": ident, "content": messages[place].get("content") or ""})
    result.original_indices.append(place)
