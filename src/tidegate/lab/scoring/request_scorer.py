"""Score the requests of a cell against what the session needed, one request after the other.

A cell is one recording under one policy in one window; `measures.py` defines the figures. Most messages of a request
were in the previous one, so facts about a message are cached by its content.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from tidegate.core.ledger.lines import LEDGER_HEADING
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.identifiers import chat_text_of, iterate_chat_calls, searchable_text_of
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.session_figures import (
    LostItem,
    ModelCosts,
    SessionFigures,
    UnmanagedCost,
)
from tidegate.lab.scoring.signals import ANCHOR_KIND, SessionSignals
from tidegate.lab.scoring.text_needs import Need
from tidegate.lab.scoring.text_scorer import KeptShare, TextScorer
from tidegate.lab.scoring.validity import RequestJudge

_Json = dict[str, Any]
_RecallFunction = Callable[[str], str]

_MAX_LOST_ITEMS: Final = 40
_NO_NEEDS: Final[tuple[Need, ...]] = ()


class ScoringTask(NamedTuple):
    """What the requests are scored against. `common_names` are names that say nothing about memory."""

    signals: SessionSignals
    messages: Sequence[_Json]
    unit_counter: UnitCounter
    window: int
    common_names: frozenset[str] = frozenset()

    @property
    def user_indices(self) -> list[int]:
        return [at for at, message in enumerate(self.messages) if message["role"] == "user"]


def _has_between(indices: Sequence[int], first: int, last: int) -> bool:
    """Return whether one of the sorted indices is at least `first` and below `last`."""
    place = bisect_left(indices, first)
    return place < len(indices) and indices[place] < last


class _MessageFacts(NamedTuple):
    """Facts about one message of a request: its size, its text, pieces of the user's words, recall calls."""

    units: int
    text: str
    pieces: frozenset[int]
    recall_calls: tuple[str, ...]


class _NeedsByMessage(NamedTuple):
    """Needs by the index of the assistant message."""

    references: dict[int, list[Need]]
    anchors: dict[int, list[Need]]


def _group_by_message(needs: Sequence[Need], left_out: frozenset[str] = frozenset()) -> dict[int, list[Need]]:
    groups: dict[int, list[Need]] = {}
    for need in needs:
        if need.name not in left_out:
            groups.setdefault(need.message_index, []).append(need)
    return groups


class RequestScorer:
    """Call `add_request` for every request in order, then `finish` for the figures."""

    def __init__(self, task: ScoringTask, bill: InputBill) -> None:
        signals = task.signals
        self._signals = signals
        self._unit_counter = task.unit_counter
        self._bill = bill
        self._needs = _NeedsByMessage(
            _group_by_message(signals.references, task.common_names),
            _group_by_message(signals.anchors),
        )
        self._window_units = task.unit_counter.units_per_token * task.window
        self._half_window = task.window / 2
        by_agent = {chat_text_of(message) for message in task.messages if message["role"] in ("assistant", "tool")}
        self._recorded_texts = {searchable_text_of(message) for message in task.messages}
        self._agent_texts = by_agent - {chat_text_of(message) for message in task.messages if message["role"] == "user"}
        self._facts_by_content: dict[object, _MessageFacts] = {}
        self._previous_messages: list[_Json] = []
        self._previous_facts: list[_MessageFacts] = []
        self._previous_index = -1
        self._judge = RequestJudge(task.messages)
        self._recovery = RecallRecovery()
        tokens_before = [units / task.unit_counter.units_per_token for units in signals.units_before]
        self._texts = TextScorer(
            signals.text_needs,
            signals.rules,
            answer_indices=signals.answer_indices,
            tokens_before=tokens_before,
            window=task.window,
            common_names=task.common_names,
        )
        self._user_indices = task.user_indices
        self._figures = SessionFigures(tokens_before[-1], len(signals.answer_indices), texts=self._texts.figures)

    def add_request(self, request: ContenderRequest) -> None:
        figures, at = self._figures, request.message_index
        beyond = self._signals.units_before[at] > self._window_units
        figures.requests += 1
        figures.requests_beyond_window += beyond
        figures.guarded_requests += request.was_guarded
        figures.longest_pause = max(figures.longest_pause, request.cpu_seconds)
        figures.message_indices.append(at)
        for summary in request.summaries:
            figures.summary_calls += 1
            self._bill.add_summary(summary.input_tokens, summary.output_tokens)
        if request.note is not None:
            figures.state_notes += 1
            before = self._bill.dollars
            self._bill.add_note(*request.note)
            figures.note_dollars += self._bill.dollars - before
        if beyond:
            self._count_needs(at)
        if request.error:
            figures.failed_requests += 1
            figures.failed_beyond_window += beyond
            figures.request_sizes.append(None)
            figures.cached_sizes.append(None)
            return
        units = self._measure_request(at, request.messages)
        if beyond:
            figures.held_tokens += units / self._unit_counter.units_per_token
            self._check_needs(at, request.recall)
            if self._texts.has_needs(at):
                self._texts.add_request(at, [facts.text for facts in self._previous_facts])

    def _count_needs(self, at: int) -> None:
        """Count what this request should contain, whether or not it could be made."""
        figures, needs, half = self._figures, self._needs, self._half_window
        for needs_by_message, everything, far in (
            (needs.references, figures.all_references, figures.far_references),
            (needs.anchors, figures.all_anchors, figures.far_anchors),
        ):
            here = needs_by_message.get(at, _NO_NEEDS)
            far.total += sum(need.tokens_back > half for need in here)
            everything.total += len(here)

    # --- how large, how much of it is new, is it valid --------------------------------------------------------------

    def _measure_request(self, at: int, messages: Sequence[_Json]) -> int:
        figures, before, first = self._figures, self._previous_messages, self._previous_index < 0
        same = 0
        for old, new in zip(before, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        facts_by_id = {id(old): facts for old, facts in zip(before[same:], self._previous_facts[same:], strict=True)}
        all_facts = self._previous_facts[:same] + [
            facts_by_id.get(id(new)) or self._examine_message(new) for new in messages[same:]
        ]
        shared = sum(each.units for each in all_facts[:same])
        units = sum(each.units for each in all_facts) + self._unit_counter.request_units
        edited = same < len(before)
        verdict = self._judge.check_request(at, messages, 0 if edited else same)
        figures.invalid_requests += bool(verdict.broken_rules)
        figures.broken_chat += verdict.breaks_chat_pairing
        figures.broken_turns += verdict.breaks_turn_pairing
        for rule in verdict.broken_rules:
            figures.broken_rules[rule] = figures.broken_rules.get(rule, 0) + 1
        self._add_size(units, shared)
        per = self._unit_counter.units_per_token
        figures.costs.add_request(
            units / per, shared / per, after_user=_has_between(self._user_indices, self._previous_index, at)
        )
        if not first:
            history = self._signals.units_before
            figures.requests_after_first += 1
            figures.sent_after_first += units / self._unit_counter.units_per_token
            figures.edited_requests += edited
            figures.edited_indices += [at] * edited
            new_units = history[at] - history[self._previous_index]
            figures.rewritten_tokens += max(0, units - shared - new_units) / self._unit_counter.units_per_token
        self._bill.add_request(
            at, units / self._unit_counter.units_per_token, shared / self._unit_counter.units_per_token
        )
        self._previous_messages, self._previous_facts, self._previous_index = list(messages), all_facts, at
        return units

    def _add_size(self, units: int, shared: int) -> None:
        figures, per = self._figures, self._unit_counter.units_per_token
        figures.largest_request = max(figures.largest_request, units / per)
        figures.oversized_requests += units > self._window_units
        figures.sent_tokens += units / per
        figures.cached_tokens += shared / per
        figures.request_sizes.append(round(units / per))
        figures.cached_sizes.append(round(shared / per))

    def _examine_message(self, message: _Json) -> _MessageFacts:
        content = message.get("content")
        calls = tuple((call["name"], str(call["arguments"])) for call in iterate_chat_calls(message))
        key = (content, calls) if content is None or isinstance(content, str) else None
        if key is not None and key in self._facts_by_content:
            return self._facts_by_content[key]
        text = chat_text_of(message)
        page = searchable_text_of(message) if calls else text
        pieces: frozenset[int] = frozenset()
        if text and text not in self._agent_texts:
            pieces = frozenset(number for number, piece in enumerate(self._signals.pieces) if piece in text)
        facts = _MessageFacts(
            self._unit_counter.count_message(message),
            page,
            pieces,
            () if page in self._recorded_texts else find_recall_calls(page),
        )
        if key is not None:
            self._facts_by_content[key] = facts
        return facts

    # --- what is still there ----------------------------------------------------------------------------------------

    def _check_needs(self, at: int, recall: _RecallFunction | None) -> None:
        figures = self._figures
        references, anchors = (by_message.get(at, _NO_NEEDS) for by_message in self._needs)
        if references or anchors:
            text = "\x01".join([facts.text for facts in self._previous_facts])
            missing = [*self._find_missing(references, text, figures.all_references, figures.far_references)]
            missing += self._find_missing(anchors, text, figures.all_anchors, figures.far_anchors)
            self._record_losses(missing, recall)
        self._check_user_words(at)

    def _find_missing(self, needs: Sequence[Need], text: str, everything: KeptShare, far: KeptShare) -> list[Need]:
        missing = []
        for need in needs:
            if need.text in text if need.kind == ANCHOR_KIND else contains_whole_name(text, need.text):
                everything.kept += 1
                far.kept += need.tokens_back > self._half_window
            else:
                missing.append(need)
        return missing

    def _record_losses(self, missing: Sequence[Need], recall: _RecallFunction | None) -> None:
        figures = self._figures
        calls = (
            list(dict.fromkeys(chain.from_iterable(facts.recall_calls for facts in self._previous_facts)))
            if missing
            else []
        )
        for need in missing:
            back = None if recall is None else self._recovery.can_recover(need, calls, recall)
            if back is not None:
                figures.recoverable.total += 1
                figures.recoverable.kept += back
            if need.tokens_back <= self._half_window:
                continue
            if len(figures.lost_items) < _MAX_LOST_ITEMS:
                measure = "anchors" if need.kind == ANCHOR_KIND else "far"
                figures.lost_items.append(
                    LostItem(need.message_index, measure, need.text[:200], need.last_seen_index, back)
                )
            else:
                figures.unlisted_losses += 1

    def _check_user_words(self, at: int) -> None:
        have: set[int] = set()
        for facts in self._previous_facts:
            if facts.pieces:
                have |= facts.pieces
        present = total = 0
        newest = True
        for words in self._signals.user_words:
            if words.message_index >= at:
                break
            lengths = [length for piece, length in zip(words.pieces, words.lengths, strict=True) if piece in have]
            present += sum(lengths)
            total += sum(words.lengths)
            newest = len(lengths) == len(words.lengths)
        self._figures.user_word_shares += present / total if total else 1.0
        self._figures.newest_whole += newest

    def finish(self) -> SessionFigures:
        figures = self._figures
        figures.failed_requests += figures.expected_requests - figures.requests
        figures.dollars, figures.expired_requests = self._bill.dollars, self._bill.expired_requests
        return figures


def compute_unmanaged_cost(task: ScoringTask, bill: InputBill) -> UnmanagedCost:
    """Compute what the session would have cost with its whole history in every request."""
    costs, users = ModelCosts(), task.user_indices
    tokens = before = 0.0
    previous = -1
    for at in task.signals.answer_indices:
        size = task.signals.units_before[at] / task.unit_counter.units_per_token
        costs.add_request(size, before, after_user=_has_between(users, previous, at))
        tokens += size
        bill.add_request(at, size, before)
        before, previous = size, at
    return UnmanagedCost(costs, tokens, bill.dollars)


_RECALL_IDS: Final = re.compile(r"\bm(\d+)(?:(?:\.\.| to )m(\d+))?\b|\be\d+\.\d+\b")
_LIST_PREFIX: Final = "- "


def find_recall_calls(text: str) -> tuple[str, ...]:
    """Return the recall calls that a text of the engine prints: ids (m12) and ranges (m2..m40, or m2 to m40).

    A ledger mentions recall only in its first line, so the list after it is read too. The ids in that first line are
    examples and are ignored.
    """
    if "recall" not in text and not text.startswith(_LIST_PREFIX):
        return ()
    calls = (
        f"m{call[1]}..m{call[2]}" if call[2] else call[0]
        for call in _RECALL_IDS.finditer(text.replace(LEDGER_HEADING, ""))
    )
    return tuple(dict.fromkeys(calls))


class RecallRecovery:
    """Checks whether lost text can be recalled: the request prints a recall call, and the call returns the text.

    Each printed call runs once a session.
    """

    def __init__(self) -> None:
        self._text_by_call: dict[str, str] = {}

    def can_recover(self, need: Need, calls: Iterable[str], recall: Callable[[str], str]) -> bool:
        for call in calls:
            if call not in self._text_by_call:
                self._text_by_call[call] = recall(call)
            text = self._text_by_call[call]
            if need.text in text if need.kind == ANCHOR_KIND else contains_whole_name(text, need.text):
                return True
        return False
