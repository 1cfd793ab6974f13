"""A note in each gap that dropped groups leave: together they are the map of what left the view."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.edits import Insert
from tidegate.core.sweep.group_notes import make_group_note, make_range_line, tells_answer

NOTE_TOKENS: Final = 20  # of a note without its lines


class Gap(NamedTuple):
    """Dropped groups in a row: the ids before and at their end, and their lines."""

    before_id: str
    last_id: str
    lines: list[str]


def make_gap_notes(gaps: Sequence[Gap], left: int, budget: Budget) -> list[Insert]:
    """A note for each gap, in about `left` tokens. If all lines take too much, the oldest of a gap become a range.

    What was answered comes first, then the newest gaps. Ranges say which tools were called as far as the same room
    again allows. A gap without a note would read as if nothing had been done there.
    """
    count = budget.counter.count_text
    spare_for_ranges = left
    shown: dict[int, int] = {}  # how many lines of a gap are shown, from its end
    for answered in (True, False):
        for number in reversed(range(len(gaps))):
            lines = gaps[number].lines
            if answered and not tells_answer(lines[-1]):
                continue
            spare = left if number in shown else left - NOTE_TOKENS
            while shown.get(number, 0) < (1 if answered else len(lines)):
                spare -= count(lines[-1 - shown.get(number, 0)]) + 1
                if spare < 0:
                    break
                shown[number] = shown.get(number, 0) + 1
                left = spare
    made = []
    for number in reversed(range(len(gaps))):
        gap = gaps[number]
        split = len(gap.lines) - shown.get(number, 0)
        some = [make_range_line(gap.lines[:split], gap.before_id)] if split else []
        note = make_group_note([*some, *gap.lines[split:]])
        tokens = budget.count(note)
        if number not in shown:
            if tokens > spare_for_ranges:
                note = make_group_note([make_range_line(gap.lines, gap.before_id, is_brief=True)])
                tokens = budget.count(note)
            spare_for_ranges -= tokens
        made.append(Insert(note, gap.last_id, tokens))
    made.reverse()
    return made
