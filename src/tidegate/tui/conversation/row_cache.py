"""The rows that are held in memory, with their lines: a window on the log, and what is being said behind its end.

Rows are drawn when they come in. What is far from the screen is let go and read anew when someone scrolls there.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final, NamedTuple

from textual.strip import Strip

from tidegate.core.events import Event
from tidegate.tui.conversation.log_pages import LogPage, LogPager, TranscriptRow
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock, build_blocks

MAX_CACHED_ROWS: Final = 240
"""Rows that are held, on a screen of usual height. Beyond it those furthest from the screen are let go."""


class RowPainter(NamedTuple):
    """How a block becomes lines, now."""

    lines: Callable[[TranscriptBlock], list[Strip]]
    growing: Callable[[TranscriptBlock], list[Strip]]


class DrawnRow:
    __slots__ = ("block", "lines", "seq")

    def __init__(self, row: TranscriptRow, lines: list[Strip]) -> None:
        self.seq = row.seq
        self.block = row.block
        self.lines = lines


class LinePosition(NamedTuple):
    """A line by what stands there: the row's place, and the line inside it."""

    place: int
    inside: int


class RowCache:
    """Events `first` to `last` are here, `head` is the newest we know of. `tops` are where rows begin, in lines."""

    def __init__(self, paging: LogPager, draw: RowPainter) -> None:
        self.paging = paging
        self.draw = draw
        self.rows: list[DrawnRow] = []
        self.live: list[DrawnRow] = []
        self.first, self.last, self.head = 1, 0, 0
        self.most = MAX_CACHED_ROWS
        self.tops: list[int] = [0]

    @property
    def at_tail(self) -> bool:
        return self.last >= self.head

    @property
    def height(self) -> int:
        return self.tops[-1]

    # --- pages ----------------------------------------------------------------------------------------------------

    def show_end(self, least: int) -> None:
        """Where the end is here already nothing is read: what stands between the rows and in no log stays."""
        if self.rows and self.at_tail:
            return
        self.head = self.paging.head
        self._anew(self.paging.before(self.head + 1, least))

    def show_start(self, least: int) -> None:
        self.head = self.paging.head
        self._anew(self.paging.after(0, least))

    def _anew(self, page: LogPage) -> None:
        self.rows = [DrawnRow(row, self.draw.lines(row.block)) for row in page.rows]
        self.first, self.last = page.first, page.last
        self.measure()

    def reach_back(self, least: int) -> int:
        """The page before; how many lines it has. Rows at the end leave if there are too many."""
        if self.first <= 1:
            return 0
        page, height = self.paging.before(self.first, least), self.height
        self.rows = [*(DrawnRow(row, self.draw.lines(row.block)) for row in page.rows), *self.rows]
        self.first = page.first
        self.measure()
        grown = self.height - height
        while len(self.rows) > self.most or (self.rows and self.rows[-1].seq > self.last):
            self.last = min(self.last, self.rows.pop().seq - 1)
        self.measure()
        return grown

    def reach_on(self, least: int) -> int:
        """The page behind; how many lines left at the top for it."""
        page = self.paging.after(self.last, least)
        for row in page.rows:
            self._add(row)
        self.last = page.last
        self.head = max(self.head, page.last)
        self.measure()
        return self.trim_top()

    def trim_top(self) -> int:
        over = len(self.rows) - self.most
        while over > 0 and self.rows[over - 1].seq == self.rows[over].seq:
            over -= 1
        return self._drop_top(over) if over > 0 else 0

    def _drop_top(self, count: int) -> int:
        lost = self.tops[count] + self._gap(count)  # what stands first has no gap
        self.first = self.rows[count].seq
        self.rows = self.rows[count:]
        self.measure()
        return lost

    # --- what happens ---------------------------------------------------------------------------------------------

    def say(self, event: Event) -> None:
        """An event came to the log. Where the end is not held it is read when someone scrolls there."""
        if event.seq <= self.head:
            return
        at_tail, self.head = self.at_tail, event.seq
        if not at_tail:
            return
        if event.seq != self.last + 1:  # others write here, too
            self.reach_on(event.seq - self.last)
            return
        self.last = event.seq
        for block in build_blocks(event):
            self._add(TranscriptRow(event.seq, block))
        self.measure()

    def _add(self, row: TranscriptRow) -> None:
        block = row.block
        call = self._call(block.call_id) if block.kind == "result" else None
        if call is None or call.block.result not in (None, block.result):
            self.rows.append(DrawnRow(row, self.draw.lines(block)))
            return
        call.block.result, call.block.error = block.result, block.error
        call.lines = self.draw.lines(call.block)

    def _call(self, ident: str) -> DrawnRow | None:
        calls = (each for each in reversed(self.rows) if each.block.kind == "call" and each.block.call_id == ident)
        return next(calls, None)

    def remark(self, block: TranscriptBlock) -> None:
        """Something that is in no log, shown where it came; it is gone when the rows around it are read anew."""
        if self.at_tail:
            self.rows.append(DrawnRow(TranscriptRow(self.last, block), self.draw.lines(block)))
            self.measure()

    def grow(self, blocks: Iterable[TranscriptBlock]) -> None:
        """What is being said now; with nothing, all of it is in the log."""
        self.live = [DrawnRow(TranscriptRow(0, block), self.draw.growing(block)) for block in blocks]
        self.measure()

    # --- lines ----------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> list[DrawnRow]:
        """The rows, and at the end of the log what is being said."""
        return [*self.rows, *self.live] if self.at_tail else self.rows

    def measure(self) -> None:
        shown = self.shown
        heights = (len(each.lines) + self._gap(place) for place, each in enumerate(shown))
        self.tops = list(accumulate(heights, initial=0))

    def _gap(self, place: int) -> int:
        """A blank line before a block, but not between cards."""
        if not place:
            return 0
        before, here = (self._at(each).block for each in (place - 1, place))
        return 0 if before.is_card and here.is_card else 1

    def _at(self, place: int) -> DrawnRow:
        count = len(self.rows)
        return self.rows[place] if place < count else self.live[place - count]

    def line(self, number: int) -> Strip | None:
        spot = self.spot(number)
        if spot is None:
            return None
        lines = self._at(spot.place).lines
        return lines[spot.inside] if 0 <= spot.inside < len(lines) else None

    def spot(self, number: int) -> LinePosition | None:
        place = bisect_right(self.tops, number) - 1
        if not 0 <= place < len(self.tops) - 1:
            return None
        return LinePosition(place, number - self.tops[place] - self._gap(place))

    def number(self, spot: LinePosition) -> int:
        if spot.place >= len(self.tops) - 1:
            return self.height
        return self.tops[spot.place] + self._gap(spot.place) + spot.inside

    def block_at(self, spot: LinePosition) -> TranscriptBlock:
        return self._at(spot.place).block

    # --- drawing again --------------------------------------------------------------------------------------------

    def redraw(self, draw: RowPainter, keys: frozenset[str] | None = None) -> None:
        """Draw again: everything, or the cards of these keys."""
        self.draw = draw
        for each in self.rows:
            if keys is None or each.block.key in keys:
                each.lines = draw.lines(each.block)
        for each in self.live:
            each.lines = draw.growing(each.block)
        self.measure()

    def keep_around(self, place: int, reach: int) -> int:
        """Let go of all rows further away than this; how many left at the top."""
        low, high = max(0, place - reach), min(len(self.rows), place + reach + 1)
        while low and self.rows[low - 1].seq == self.rows[low].seq:
            low -= 1
        while high < len(self.rows) and self.rows[high].seq == self.rows[high - 1].seq:
            high += 1
        if high < len(self.rows):
            self.last = self.rows[high].seq - 1
            self.rows = self.rows[:high]
        if low:
            self.first = self.rows[low].seq
            self.rows = self.rows[low:]
        self.measure()
        return low
