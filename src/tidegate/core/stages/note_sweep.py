"""The stage `note_sweep`: the sweep when a model has written a state note that was not shown yet.

What stays: the user's words, instructions, pins; the note with its passages in one message directly before the tail; a
note in each gap, the map of what can be recalled; and the newest messages whole. The tail takes what is left below the
level, and begins no later than the first message after the note's horizon. Passages beyond their share take what the
tail leaves. If room is short, passages leave first, the least important before the others, then the lines of the gap
notes.

A note that the provider wrote as a block comes first instead, if the view is still the one that it stands for
(`block_sweep.py`).

Without a new note nothing is done: the stage `sweep` then acts, and leaves an earlier note where it is.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Insert
from tidegate.core.ledger.lines import parse_ledger
from tidegate.core.ledger.recall_pointers import recall_range_of
from tidegate.core.ledger.writer import MAX_LEDGER_TOKENS
from tidegate.core.messages import NOTE, REMINDER, STATE_NOTE, SUMMARY, text_of
from tidegate.core.notes import NotePassage, StateNote
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.stages.block_sweep import BlockSweep, find_covered_groups, find_length_cap, is_of_client
from tidegate.core.stages.view_draft import ViewDraft
from tidegate.core.state_note.note import choose_note_limits, is_new_state_note, newest_state_note
from tidegate.core.state_note.originals import LoggedFileChange, changes_of, is_after, list_sources
from tidegate.core.state_note.passages import is_newer_text, refresh_changes
from tidegate.core.state_note.rendering import render_passage, render_state_note
from tidegate.core.sweep.gap_notes import Gap, limit_note_tokens, make_gap_notes
from tidegate.core.sweep.group_notes import (
    EARLIER,
    describe_group,
    groups_of_note,
    is_group_note,
    lines_of_note,
    make_group_note,
    strip_older_passages,
)
from tidegate.core.sweep.shortening import clip_message
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.turns import Group, split_groups
from tidegate.core.view import View

_NOTE_SHARE: Final = 0.045  # of the room: the most that the notes of the gaps take
_BRIEF_SHARE: Final = 0.01  # the same if room is short
_MAX_LEVEL: Final = 0.7  # of the room: the most that a sweep leaves while passages can still leave
_MAX_TRIES: Final = 4
_MAX_FILL: Final = 0.85  # of the room: the most that it leaves if the tail needs it


def note_sweep(
    view: View,
    budget: Budget,
    *,
    fidelity: float = 0.63,
    tail: Share = 0.07,
    ledger: Share = 0.0,
    most: Share = 1.0,
) -> Outcome:
    """Put a new state note in the place of everything old, down to `fidelity`, a share of the room, and at most `most`.

    `tail` is the least share for the newest groups, `ledger` the most that is kept free for rules of the user.
    """
    note = newest_state_note(view) if is_new_state_note(view) else None
    if note is None:
        return NO_OUTCOME
    units, room = split_groups(view), budget.held_room
    latest = _find_first_after(units, view, note.horizon_seq)
    if not any(unit.items[0].message.role == "assistant" for unit in units[:latest]):
        return NO_OUTCOME
    ledger_tokens = min(int(room * ledger), MAX_LEDGER_TOKENS, _count_rules(view, budget))
    level = int(room * min(fidelity, most, _MAX_LEVEL)) - ledger_tokens
    large, largest = (int(room * min(most, share)) - ledger_tokens for share in (_MAX_LEVEL, _MAX_FILL))
    plan = _NoteSweep(view, budget, units, note)
    outcome = (
        plan.fit_block(level, largest)
        or plan.fit(latest, level, large, int(room * tail))
        or plan.fit(latest, level, largest, 0, shrink=True)
    )
    return outcome or NO_OUTCOME


def _count_rules(view: View, budget: Budget) -> int:
    """What the ledger will take: beside a note it has only rules and pins."""
    lines = (line for item in view.ledger_items for line in parse_ledger(text_of(item.message)))
    return sum(budget.counter.count_text(str(line)) for line in lines if line.lays_down)


def _find_first_after(units: Sequence[Group], view: View, horizon: int) -> int:
    """The index of the first group after the horizon, or of the first that the model has not seen yet."""
    new = {item.message.id for item in view.items_since_reply()}
    for number, unit in enumerate(units):
        ident = unit.items[0].message.id
        if (ident[:1] == "m" and seq_of_id(ident) > horizon) or not new.isdisjoint(unit.ids):
            return number
    return len(units)


class _Fitted(NamedTuple):
    draft: ViewDraft
    notes: list[Insert]
    tokens: int


class _NoteSweep:
    """Sweeps of a view that show this note."""

    def __init__(self, view: View, budget: Budget, units: Sequence[Group], note: StateNote) -> None:
        self._view, self._budget, self._units, self._note = view, budget, units, note
        self._kept = [_stays(unit, view) for unit in units]
        self._sizes = [budget.counter.count_text(render_passage(passage)) for passage in note.passages]
        self._share_count = _count_within(choose_note_limits(budget).passages, self._sizes)

    def fit_block(self, level: int, largest: int) -> Outcome | None:
        """The sweep to the block that the provider wrote; None if there is none, or it does not fit."""
        groups = find_covered_groups(self._view, self._units, self._note)
        if not groups:
            return None
        repeat_groups = [unit for unit, stays in zip(groups, self._kept, strict=False) if stays]
        left = [unit for unit, stays in zip(groups, self._kept, strict=False) if not stays]
        lines = [line for unit in left for line in _lines_of(unit)]
        map_tokens = limit_note_tokens(self._budget.held_room, _NOTE_SHARE)
        maps = make_gap_notes([Gap("", groups[-1].last_id, lines)], map_tokens, self._budget) if lines else []
        plan = BlockSweep(
            self._view, self._budget, self._note, groups, repeat_groups, [insert.message for insert in maps]
        )
        return plan.fit(self._share_count, level, largest)

    def fit(self, latest: int, level: int, largest: int, least_tail: int, *, shrink: bool = False) -> Outcome | None:
        """The sweep with the largest tail below `level`; None if even the smallest tail leaves more than `largest`.

        Half of the passages may leave for that; with `shrink` all of them, and lines of the notes.
        """
        passages = list(self._note.passages[: self._share_count])
        note_tokens = limit_note_tokens(self._budget.held_room, _NOTE_SHARE)
        while True:
            first = self._find_tail(latest, level, least_tail, passages, note_tokens)
            candidate = self._make(first, passages, note_tokens)
            for _ in range(_MAX_TRIES):
                start = self._move_tail(first, latest, candidate.tokens - level, least_tail)
                if start == first:
                    break
                first, candidate = start, self._make(start, passages, note_tokens)
            if candidate.tokens <= largest:
                first, candidate = self._grow_tail(first, candidate, level, passages, note_tokens)
                if len(passages) == self._share_count:
                    passages += self._choose_more(level - candidate.tokens)
                    candidate = self._make(first, passages, note_tokens)
                return self._finish(candidate, first, passages)
            brief = int(self._budget.held_room * _BRIEF_SHARE)
            if passages and (shrink or len(passages) * 2 > self._share_count):
                passages.pop()
            elif shrink and note_tokens > brief:
                note_tokens = brief
            else:
                return None

    def _find_oldest(self, most: int) -> int:
        """The first group that the tail may have, at most this one: what is before an earlier note is not whole."""
        places = [number for number, unit in enumerate(self._units[:most]) if unit.items[0].message.kind == STATE_NOTE]
        return places[-1] + 1 if places else 0

    def _grow_tail(
        self, first: int, candidate: _Fitted, level: int, passages: Sequence[NotePassage], note_tokens: int
    ) -> tuple[int, _Fitted]:
        """A larger tail, if the notes and passages take less than was kept free for them."""
        start, tokens, oldest = first, candidate.tokens, self._find_oldest(first)
        while start > oldest:
            tokens += 0 if self._kept[start - 1] else self._units[start - 1].tokens
            if tokens > level:
                break
            start -= 1
        larger = self._make(start, passages, note_tokens) if start < first else candidate
        return (start, larger) if larger.tokens <= level else (first, candidate)

    def _choose_more(self, left: int) -> list[NotePassage]:
        """Passages beyond their share that fit into what the tail leaves."""
        passages: list[NotePassage] = []
        for passage, size in list(zip(self._note.passages, self._sizes, strict=True))[self._share_count :]:
            if size <= left:
                passages.append(passage)
                left -= size
        return passages

    def _find_tail(self, latest: int, level: int, least: int, passages: Sequence[NotePassage], note_tokens: int) -> int:
        """The first group of the tail: as many as fit below the level, and those from `latest` on."""
        tokens = sum(unit.tokens for unit, stays in zip(self._units, self._kept, strict=True) if stays)
        user_tokens = sum(unit.tokens for unit in self._units[:latest] if is_of_client(unit.items[0].message))
        tokens -= max(0, user_tokens - self._budget.user_room)
        tokens += self._count_note(passages) + note_tokens
        first, oldest = len(self._units), self._find_oldest(latest)
        tokens_so_far = 0
        while first > oldest:
            cost = 0 if self._kept[first - 1] else self._units[first - 1].tokens
            if first <= latest and tokens + cost > level and tokens_so_far >= least:
                break
            tokens += cost
            tokens_so_far += cost
            first -= 1
        return first

    def _move_tail(self, first: int, latest: int, excess: int, least: int) -> int:
        """The first group of a tail that is smaller by about `excess` tokens, and has at least `least`.

        What the notes and the user's shortened messages take is known only when the sweep has been made.
        """
        left = sum(unit.tokens for unit in self._units[first:])
        while first < latest and excess > 0 and left - self._units[first].tokens >= least:
            excess -= self._units[first].tokens
            left -= self._units[first].tokens
            first += 1
        return first

    def _count_note(self, passages: Sequence[NotePassage]) -> int:
        return self._budget.count(render_state_note(self._note, passages))

    def _make(self, first: int, passages: Sequence[NotePassage], note_tokens: int) -> _Fitted:
        draft = ViewDraft(self._view, self._budget)
        self._shorten_user_messages(draft, first)
        gaps: list[Gap] = []
        in_gap, shown_id = False, ""
        for number, unit in enumerate(self._units[:first]):
            if self._kept[number]:
                in_gap, shown_id = False, unit.last_id
                continue
            draft.drop(unit)
            lines = _lines_of(unit, self._units[number + 1] if number + 1 < len(self._units) else None)
            if in_gap:
                gaps[-1] = gaps[-1]._replace(last_id=unit.last_id, lines=gaps[-1].lines + lines)
            else:
                gaps.append(Gap(shown_id, unit.last_id, lines))
            in_gap = True
        self._strip_notes(draft, self._units[first:])
        notes = make_gap_notes([gap for gap in gaps if gap.lines], note_tokens, self._budget)
        message = render_state_note(self._note, self._choose_passages(first, passages))
        after = self._units[first - 1].last_id if first else ""
        notes.append(Insert(message, after, self._budget.count(message)))
        return _Fitted(draft, notes, draft.tokens + sum(note.tokens for note in notes))

    def _strip_notes(self, draft: ViewDraft, tail: Sequence[Group]) -> None:
        """Take out of notes in the tail what they say about passages of the state note before this one."""
        for item in (unit.items[0] for unit in tail if is_group_note(unit.items[0].message)):
            lines = lines_of_note(item.message)
            stripped = [strip_older_passages(line) for line in lines]
            if stripped != lines:
                draft.replace(item, make_group_note(stripped).parts)

    def _choose_passages(self, first: int, passages: Sequence[NotePassage]) -> list[NotePassage]:
        """The passages that the tail does not show whole, or newer, with the edits in it that changed their text."""
        tail = [item for unit in self._units[first:] for item in unit.items]
        whole = {item.message.id for item in tail if not item.edited}
        texts = [text_of(item.message) for item in tail if not item.edited]
        sources = list_sources([item.message for item in tail if not item.edited])
        changes: list[LoggedFileChange] = [change for item in tail for change in changes_of(item.message)]
        return [
            refresh_changes(passage, [change for change in changes if is_after(change.id, self._note.horizon)])
            for passage in passages
            if passage.id not in whole and not any(passage.text in text for text in texts)
            if not any(is_newer_text(source, passage) for source in sources)
        ]

    def _shorten_user_messages(self, draft: ViewDraft, first: int) -> None:
        """Shorten the longest old messages of the user, all to the same length, until all together fit."""
        user_groups = [
            unit.items[0]
            for unit in self._units[:first]
            if is_of_client(unit.items[0].message) and self._view.newest_request not in unit.ids
        ]
        cap = find_length_cap([item.tokens for item in user_groups], self._budget.user_room)
        if cap is None:
            return
        for item in user_groups:
            if item.tokens > cap:
                chars = int(len(text_of(item.message)) * cap / item.tokens) - 60
                draft.replace(item, clip_message(item.message, max(chars, 100)))

    def _finish(self, candidate: _Fitted, first: int, passages: Sequence[NotePassage]) -> Outcome:
        passage_count = len(self._choose_passages(first, passages))
        counts = (
            f"with {passage_count} of {len(self._note.passages)} passages"
            if self._note.passages
            else "without passages"
        )
        whole = sum(len(unit.items) for unit in self._units[first:])
        why = (
            f"sweep to the state note of {self._note.horizon} {counts}; the newest {whole} messages stay whole; of the"
            f" note's lines {self._note.held} held, {self._note.marked} were marked and"
            f" {len(self._note.dropped)} dropped by the check"
        )
        return Outcome((*candidate.draft.edits(), *candidate.notes), why=why)


def _count_within(tokens: int, sizes: Sequence[int]) -> int:
    """How many of these begin within the first `tokens` tokens of all."""
    return sum(begin < tokens for begin in list(accumulate(sizes, initial=0))[:-1])


def _stays(unit: Group, view: View) -> bool:
    """Whether a group stays wherever it is: what was said or pinned, but no work and no notes about work."""
    message = unit.items[0].message
    if view.loop_start and view.loop_start in unit.ids:
        return True
    return message.role != "assistant" and message.kind not in (STATE_NOTE, NOTE, REMINDER, SUMMARY)


def _lines_of(unit: Group, following: Group | None = None) -> list[str]:
    """The lines of a dropped group for the note of its gap. `following` may be the reply to it."""
    message = unit.items[0].message
    if is_group_note(message):
        return [strip_older_passages(line) for line in groups_of_note(message)]  # of an earlier state note
    if message.kind == SUMMARY:
        span = recall_range_of([message])
        return [f"- {span} {EARLIER}"] if span else []
    line = describe_group(unit, following.items[0].message if following else None)
    return [line] if line else []
