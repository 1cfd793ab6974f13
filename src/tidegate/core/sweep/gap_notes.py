"""A note in each gap that dropped groups leave: together they are the map of what left the view."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.edits import Insert
from tidegate.core.sweep.group_notes import (
    is_quoted,
    is_remark,
    last_id_of,
    make_group_note,
    make_range_line,
    pick_dialog,
    requote,
    tells_answer,
    tells_dialog,
    tells_question,
)

NOTE_TOKENS: Final = 20  # of a note without its lines
_MAX_NOTES: Final = 8_000
"""Tokens that the lines of all notes take, and ranges as much again: a map for recall. Search finds the rest."""


_DIALOG_SHARE: Final = 0.04  # of the room: what the user said in dialogs, and questions with a short reply
_BRIEF_DIALOG_CHARS: Final = 160  # of each that is older than those
_ALL_CHARS: Final = 100_000


def limit_note_tokens(room: int, share: float) -> int:
    """What lines or ranges may take: a share of the room, but no more in the largest rooms."""
    return min(int(room * share), _MAX_NOTES)


class Gap(NamedTuple):
    """Dropped groups in a row: the ids before and at their end, and their lines."""

    before_id: str
    last_id: str
    lines: list[str]


def make_gap_notes(
    gaps: Sequence[Gap], left: int, budget: Budget, *, ranges: int | None = None, quotes: bool = False
) -> list[Insert]:
    """A note for each gap, in about `left` tokens. If all lines take too much, the oldest of a gap become a range.

    What was answered comes first, then the newest gaps. Ranges name files, commands and answers as far as `ranges`
    tokens allow (None: as many as `left`); each gets a little before the newest get more. With `quotes`, quoted answers
    and remarks stay beyond these tokens; without, the first words of answers. A gap without a note would read as if
    nothing had been done there.
    """
    if not quotes:
        short = ((gap, [requote(line, 0) if is_quoted(line) else line for line in gap.lines]) for gap in gaps)
        gaps = [gap._replace(lines=[line for line in lines if not is_remark(line)]) for gap, lines in short]
        gaps = [gap for gap in gaps if gap.lines]
    count = budget.counter.count_text
    chosen_dialogs = _choose_dialogs(gaps, int(budget.held_room * _DIALOG_SHARE), count)
    dialogs = set(chosen_dialogs.values())
    spare_for_ranges = left if ranges is None else ranges
    line_counts: dict[int, int] = {}  # how many lines of a gap are shown, from its end
    for answered in (True, False):
        for number in reversed(range(len(gaps))):
            lines = gaps[number].lines
            if answered and not tells_answer(lines[-1]):
                continue
            spare = left if number in line_counts else left - NOTE_TOKENS
            while line_counts.get(number, 0) < (1 if answered else len(lines)):
                line = lines[-1 - line_counts.get(number, 0)]
                spare -= 0 if _is_beside(line, dialogs) else count(line) + 1
                if spare < 0:
                    break
                line_counts[number] = line_counts.get(number, 0) + 1
                left = spare
    splits = [len(gap.lines) - line_counts.get(number, 0) for number, gap in enumerate(gaps)]
    chosen = [_join_ranges(gap, split, 0, chosen_dialogs) for gap, split in zip(gaps, splits, strict=True)]
    costs = [0] * len(gaps)
    for detail in (1, 2):
        for number in reversed(range(len(gaps))):
            lines = _join_ranges(gaps[number], splits[number], detail, chosen_dialogs)
            joined = lines[: len(lines) - len(gaps[number].lines) + splits[number]]
            cost = sum(count(line) for line in joined if not _is_beside(line, dialogs))
            if cost - costs[number] <= spare_for_ranges:
                spare_for_ranges -= cost - costs[number]
                chosen[number], costs[number] = lines, cost
    notes = [make_group_note(lines) for lines in chosen]
    return [Insert(note, gap.last_id, budget.count(note)) for note, gap in zip(notes, gaps, strict=True)]


@lru_cache(maxsize=2_048)
def _make_range(lines: tuple[str, ...], before: str, detail: int) -> str:
    """A range, which a sweep makes of the same lines in each of its rounds, and the next sweep again."""
    return make_range_line(lines, before, detail=detail)


def _is_beside(line: str, dialogs: Collection[str]) -> bool:
    """Whether the tokens of a line are not among those for lines: what was said has room of its own."""
    return is_quoted(line) or is_remark(line) or line in dialogs


def _choose_dialogs(gaps: Sequence[Gap], left: int, count: Callable[[str], int]) -> dict[str, str]:
    """What stays of lines with dialogs beside the other lines: the newest whole, then older ones in brief."""
    texts: dict[str, str] = {}
    chars, spare = _ALL_CHARS, left
    for gap in reversed(gaps):
        for line in filter(tells_dialog, reversed(gap.lines)):
            text = pick_dialog(line, chars)
            if count(text) > spare and chars == _ALL_CHARS:
                chars, spare = _BRIEF_DIALOG_CHARS, left
                text = pick_dialog(line, chars)
            spare -= count(text)
            if spare < 0:
                return texts
            texts[line] = text
    return texts


def _join_ranges(gap: Gap, split: int, detail: int, dialogs: Mapping[str, str]) -> list[str]:
    """The lines of a gap, with those before `split` joined to ranges. Quoted answers stay between them, remarks and
    dialogs after the range that they belong to.
    """
    done: list[str] = []
    run: list[str] = []
    remarks: list[str] = []
    before = gap.before_id

    def end() -> None:
        done.extend([_make_range(tuple(run), before, detail)] if run else [])
        done.extend(remarks)
        run.clear()
        remarks.clear()

    for line in gap.lines[:split]:
        if is_quoted(line):
            end()
            done.append(line)
            before = last_id_of(line)
        elif is_remark(line):
            remarks.append(line)
        elif line in dialogs and tells_question(line):
            remarks.append(dialogs[line])
        else:
            run.append(line)
            remarks.extend(filter(None, (dialogs.get(line),)))
    end()
    return [*done, *gap.lines[split:]]
