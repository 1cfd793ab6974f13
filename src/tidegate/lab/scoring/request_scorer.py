"""Requests held against what the session needed: fed one request after the other, it ends with the figures of a cell.

A cell is one recording under one policy in one window; what the figures mean is in `measures.py`. Most messages of a
request stood in the one before, so whatever is known of a message is kept by its content.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.recovery import RecallRecovery, find_recall_calls
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.session_figures import (
    CACHE_READ_FACTOR,
    CACHE_WRITE_FACTOR,
    KeptShare,
    LostItem,
    SessionFigures,
    UnmanagedCost,
)
from tidegate.lab.scoring.signals import (
    ANCHOR_KIND,
    Need,
    SessionSignals,
    chat_text_of,
    iterate_chat_calls,
    searchable_text_of,
)
from tidegate.lab.scoring.validity import RequestJudge

_Json = dict[str, Any]
_RecallFunction = Callable[[str], str]

_MAX_LOST_ITEMS: Final = 40
_NO_NEEDS: Final[tuple[Need, ...]] = ()


class ScoringTask(NamedTuple):
    """What the requests are held against. `common` are names that say nothing of memory."""

    signals: SessionSignals
    messages: Sequence[_Json]
    ruler: UnitCounter
    window: int
    common: frozenset[str] = frozenset()


class _MessageFacts(NamedTuple):
    """What is known of one message of a request: its size, its text, pieces of the user's words, recall calls."""

    units: int
    page: str
    pieces: frozenset[int]
    calls: tuple[str, ...]


class _NeedsByMessage(NamedTuple):
    """By the place of the assistant message."""

    references: dict[int, list[Need]]
    strict_references: dict[int, list[Need]]
    anchors: dict[int, list[Need]]
    strict_anchors: dict[int, list[Need]]


def _group_by_message(needs: Sequence[Need], left_out: frozenset[str] = frozenset()) -> dict[int, list[Need]]:
    found: dict[int, list[Need]] = {}
    for need in needs:
        if need.name not in left_out:
            found.setdefault(need.at, []).append(need)
    return found


class RequestScorer:
    """`add` every request in order, then take `figures()`."""

    def __init__(self, task: ScoringTask, bill: InputBill) -> None:
        signals = task.signals
        self._signals = signals
        self._ruler = task.ruler
        self._bill = bill
        self._needs = _NeedsByMessage(
            _group_by_message(signals.references, task.common),
            _group_by_message(signals.strict_references, task.common),
            _group_by_message(signals.anchors),
            _group_by_message(signals.strict_anchors),
        )
        self._limit = task.ruler.per * task.window
        self._half = task.window / 2
        by_agent = {chat_text_of(message) for message in task.messages if message["role"] in ("assistant", "tool")}
        self._said = {searchable_text_of(message) for message in task.messages}
        self._by_agent = by_agent - {chat_text_of(message) for message in task.messages if message["role"] == "user"}
        self._known: dict[object, _MessageFacts] = {}
        self._before: list[_Json] = []
        self._seen: list[_MessageFacts] = []
        self._asked_at = -1
        self._judge = RequestJudge(task.messages)
        self._recovery = RecallRecovery()
        tokens = signals.history[-1] / task.ruler.per
        self._figures = SessionFigures(tokens, len(signals.asks))

    def add(self, asked: ContenderRequest) -> None:
        figures, at = self._figures, asked.at
        beyond = self._signals.history[at] > self._limit
        figures.requests += 1
        figures.beyond += beyond
        figures.mended += asked.mended
        figures.pause = max(figures.pause, asked.cpu)
        figures.at.append(at)
        for spent in asked.summaries:
            figures.summaries += 1
            self._bill.summary(spent.tokens_in, spent.tokens_out)
        if beyond:
            self._expect(at)
        if asked.error:
            figures.failed += 1
            figures.failed_beyond += beyond
            figures.sizes.append(None)
            figures.read.append(None)
            return
        units = self._weigh(at, asked.messages)
        if beyond:
            figures.held += units / self._ruler.per
            self._look(at, asked.recall)

    def _expect(self, at: int) -> None:
        """Count what this request ought to hold, whether it could be made or not."""
        figures, needs, half = self._figures, self._needs, self._half
        for wanted, everything, far in (
            (needs.references, figures.all_references, figures.far),
            (needs.strict_references, None, figures.far_strict),
            (needs.anchors, figures.all_anchors, figures.anchors),
            (needs.strict_anchors, None, figures.anchors_strict),
        ):
            here = wanted.get(at, _NO_NEEDS)
            far.of += sum(need.back > half for need in here)
            if everything is not None:
                everything.of += len(here)

    # --- how large, how much of it is new, is it valid --------------------------------------------------------------

    def _weigh(self, at: int, messages: Sequence[_Json]) -> int:
        figures, before, first = self._figures, self._before, self._asked_at < 0
        same = 0
        for old, new in zip(before, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        moved = {id(old): seen for old, seen in zip(before[same:], self._seen[same:], strict=True)}
        seen = self._seen[:same] + [moved.get(id(new)) or self._see(new) for new in messages[same:]]
        shared = sum(each.units for each in seen[:same])
        units = sum(each.units for each in seen) + self._ruler.once
        edited = same < len(before)
        verdict = self._judge.judge(at, messages, 0 if edited else same)
        figures.invalid += bool(verdict.rules)
        figures.broken_chat += verdict.chat
        figures.broken_turns += verdict.turns
        for rule in verdict.rules:
            figures.rules[rule] = figures.rules.get(rule, 0) + 1
        self._tally(units, shared)
        if not first:
            history = self._signals.history
            figures.later += 1
            figures.sent_later += units / self._ruler.per
            figures.edited += edited
            figures.edited_at += [at] * edited
            new_units = history[at] - history[self._asked_at]
            figures.rewritten += max(0, units - shared - new_units) / self._ruler.per
        self._bill.request(at, units / self._ruler.per, shared / self._ruler.per)
        self._before, self._seen, self._asked_at = list(messages), seen, at
        return units

    def _tally(self, units: int, shared: int) -> None:
        figures, per = self._figures, self._ruler.per
        figures.largest = max(figures.largest, units / per)
        figures.over += units > self._limit
        figures.sent += units / per
        figures.from_cache += shared / per
        figures.sizes.append(round(units / per))
        figures.read.append(round(shared / per))

    def _see(self, message: _Json) -> _MessageFacts:
        content = message.get("content")
        calls = tuple((call["name"], str(call["arguments"])) for call in iterate_chat_calls(message))
        key = (content, calls) if content is None or isinstance(content, str) else None
        if key is not None and key in self._known:
            return self._known[key]
        text = chat_text_of(message)
        page = searchable_text_of(message) if calls else text
        pieces: frozenset[int] = frozenset()
        if text and text not in self._by_agent:
            pieces = frozenset(number for number, piece in enumerate(self._signals.pieces) if piece in text)
        seen = _MessageFacts(
            self._ruler.units(message), page, pieces, () if page in self._said else find_recall_calls(page)
        )
        if key is not None:
            self._known[key] = seen
        return seen

    # --- what is still there ----------------------------------------------------------------------------------------

    def _look(self, at: int, recall: _RecallFunction | None) -> None:
        figures, half = self._figures, self._half
        references, strict, anchors, strict_anchors = (wanted.get(at, _NO_NEEDS) for wanted in self._needs)
        if references or strict or anchors or strict_anchors:
            text = "\x01".join([seen.page for seen in self._seen])
            missing = [*self._missing(references, text, figures.all_references, figures.far)]
            missing += self._missing(anchors, text, figures.all_anchors, figures.anchors)
            self._note(missing, recall)
            figures.far_strict.kept += sum(need.back > half and contains_whole_name(text, need.text) for need in strict)
            figures.anchors_strict.kept += sum(need.back > half and need.text in text for need in strict_anchors)
        self._look_for_words(at)

    def _missing(self, needs: Sequence[Need], text: str, everything: KeptShare, far: KeptShare) -> list[Need]:
        missing = []
        for need in needs:
            if need.text in text if need.kind == ANCHOR_KIND else contains_whole_name(text, need.text):
                everything.kept += 1
                far.kept += need.back > self._half
            else:
                missing.append(need)
        return missing

    def _note(self, missing: Sequence[Need], recall: _RecallFunction | None) -> None:
        figures = self._figures
        calls = list(dict.fromkeys(chain.from_iterable(seen.calls for seen in self._seen))) if missing else []
        for need in missing:
            back = None if recall is None else self._recovery.gives(need, calls, recall)
            if back is not None:
                figures.recoverable.of += 1
                figures.recoverable.kept += back
            if need.back <= self._half:
                continue
            if len(figures.lost) < _MAX_LOST_ITEMS:
                measure = "anchors" if need.kind == ANCHOR_KIND else "far"
                figures.lost.append(LostItem(need.at, measure, need.text[:200], need.seen, back))
            else:
                figures.lost_more += 1

    def _look_for_words(self, at: int) -> None:
        have: set[int] = set()
        for seen in self._seen:
            if seen.pieces:
                have |= seen.pieces
        kept = total = 0
        newest = True
        for words in self._signals.words:
            if words.at >= at:
                break
            lengths = [length for piece, length in zip(words.pieces, words.lengths, strict=True) if piece in have]
            kept += sum(lengths)
            total += sum(words.lengths)
            newest = len(lengths) == len(words.lengths)
        self._figures.user_words += kept / total if total else 1.0
        self._figures.newest_whole += newest

    def figures(self) -> SessionFigures:
        figures = self._figures
        figures.failed += figures.asks - figures.requests
        figures.dollars, figures.expired = self._bill.dollars, self._bill.expired
        return figures


def compute_unmanaged_cost(task: ScoringTask, bill: InputBill) -> UnmanagedCost:
    """What the session would have cost with its whole history in every request."""
    cost = tokens = before = 0.0
    for at in task.signals.asks:
        size = task.signals.history[at] / task.ruler.per
        cost += before * CACHE_READ_FACTOR + (size - before) * CACHE_WRITE_FACTOR
        tokens += size
        bill.request(at, size, before)
        before = size
    return UnmanagedCost(cost, tokens, bill.dollars)
