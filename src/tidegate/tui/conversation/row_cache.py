"""The rows in memory, with their rendered lines: a part of the log, and the text being streamed after its end.

Rows are rendered when they arrive. Rows far from the screen are dropped and read again when the user scrolls there.
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
"""Rows in memory on a screen of usual height. If there are more, those furthest from the screen are dropped."""


class RowPainter(NamedTuple):
    """Renders blocks with the current width and theme."""

    draw: Callable[[TranscriptBlock], list[Strip]]
    draw_live: Callable[[TranscriptBlock], list[Strip]]


class DrawnRow:
    __slots__ = ("block", "lines", "seq")

    def __init__(self, row: TranscriptRow, lines: list[Strip]) -> None:
        self.seq = row.seq
        self.block = row.block
        self.lines = lines


class LinePosition(NamedTuple):
    """A line by its row and its index in that row."""

    row_index: int
    line_index: int


class RowCache:
    """The rows of the events `first_seq` to `last_seq`. `log_head` is the newest known event; `row_tops` are line
    numbers."""

    def __init__(self, pager: LogPager, painter: RowPainter) -> None:
        self.pager = pager
        self.painter = painter
        self.rows: list[DrawnRow] = []
        self.live_rows: list[DrawnRow] = []
        self.first_seq, self.last_seq, self.log_head = 1, 0, 0
        self.max_rows = MAX_CACHED_ROWS
        self.row_tops: list[int] = [0]

    @property
    def at_tail(self) -> bool:
        return self.last_seq >= self.log_head

    @property
    def height(self) -> int:
        return self.row_tops[-1]

    # --- pages ----------------------------------------------------------------------------------------------------

    def show_end(self, min_rows: int) -> None:
        """Load the end of the log. If it is loaded already, nothing is read: remarks, which are in no log, stay."""
        if self.rows and self.at_tail:
            return
        self.log_head = self.pager.head
        self._replace_rows(self.pager.read_before(self.log_head + 1, min_rows))

    def show_start(self, min_rows: int) -> None:
        self.log_head = self.pager.head
        self._replace_rows(self.pager.read_after(0, min_rows))

    def _replace_rows(self, page: LogPage) -> None:
        self.rows = [DrawnRow(row, self.painter.draw(row.block)) for row in page.rows]
        self.first_seq, self.last_seq = page.first_seq, page.last_seq
        self.measure_rows()

    def load_before(self, min_rows: int) -> int:
        """Load the page before and return how many lines it has. Rows at the end are dropped if there are too many."""
        if self.first_seq <= 1:
            return 0
        page, height = self.pager.read_before(self.first_seq, min_rows), self.height
        self.rows = [*(DrawnRow(row, self.painter.draw(row.block)) for row in page.rows), *self.rows]
        self.first_seq = page.first_seq
        self.measure_rows()
        growth = self.height - height
        while len(self.rows) > self.max_rows or (self.rows and self.rows[-1].seq > self.last_seq):
            self.last_seq = min(self.last_seq, self.rows.pop().seq - 1)
        self.measure_rows()
        return growth

    def load_after(self, min_rows: int) -> int:
        """Load the page after and return how many lines were dropped at the top."""
        page = self.pager.read_after(self.last_seq, min_rows)
        for row in page.rows:
            self._add_row(row)
        self.last_seq = page.last_seq
        self.log_head = max(self.log_head, page.last_seq)
        self.measure_rows()
        return self.trim_top()

    def trim_top(self) -> int:
        over = len(self.rows) - self.max_rows
        while over > 0 and self.rows[over - 1].seq == self.rows[over].seq:
            over -= 1
        return self._drop_top(over) if over > 0 else 0

    def _drop_top(self, count: int) -> int:
        top = self.row_tops[count] + self._gap(count)  # the first row has no gap
        self.first_seq = self.rows[count].seq
        self.rows = self.rows[count:]
        self.measure_rows()
        return top

    # --- what happens ---------------------------------------------------------------------------------------------

    def add_event(self, event: Event) -> None:
        """Add an event of the log. If the end is not loaded, it is read when the user scrolls there."""
        if event.seq <= self.log_head:
            return
        at_tail, self.log_head = self.at_tail, event.seq
        if not at_tail:
            return
        if event.seq != self.last_seq + 1:  # others write here, too
            self.load_after(event.seq - self.last_seq)
            return
        self.last_seq = event.seq
        for block in build_blocks(event):
            self._add_row(TranscriptRow(event.seq, block))
        self.measure_rows()

    def _add_row(self, row: TranscriptRow) -> None:
        block = row.block
        call = self._find_call(block.call_id) if block.belongs_to_call else None
        if call is None or call.block.result not in (None, block.result):
            self.rows.append(DrawnRow(row, self.painter.draw(block)))
            return
        call.block.merge(block)
        call.lines = self.painter.draw(call.block)

    def _find_call(self, ident: str) -> DrawnRow | None:
        calls = (each for each in reversed(self.rows) if each.block.kind == "call" and each.block.call_id == ident)
        return next(calls, None)

    def add_remark(self, block: TranscriptBlock) -> None:
        """Add a block that is in no log. It disappears when the rows around it are read again."""
        if self.at_tail:
            self.rows.append(DrawnRow(TranscriptRow(self.last_seq, block), self.painter.draw(block)))
            self.measure_rows()

    def set_live_blocks(self, blocks: Iterable[TranscriptBlock]) -> None:
        """Set the blocks of the text being streamed; none when all of it is in the log."""
        self.live_rows = [DrawnRow(TranscriptRow(0, block), self.painter.draw_live(block)) for block in blocks]
        self.measure_rows()

    # --- lines ----------------------------------------------------------------------------------------------------

    @property
    def visible_rows(self) -> list[DrawnRow]:
        """The rows, and at the end of the log the text being streamed."""
        return [*self.rows, *self.live_rows] if self.at_tail else self.rows

    def measure_rows(self) -> None:
        visible_rows = self.visible_rows
        heights = (len(each.lines) + self._gap(index) for index, each in enumerate(visible_rows))
        self.row_tops = list(accumulate(heights, initial=0))

    def _gap(self, index: int) -> int:
        """Return 1 for a blank line before a block; 0 at the top and between cards."""
        if not index:
            return 0
        previous, block = (self._get_row(each).block for each in (index - 1, index))
        return 0 if previous.is_card and block.is_card else 1

    def _get_row(self, index: int) -> DrawnRow:
        count = len(self.rows)
        return self.rows[index] if index < count else self.live_rows[index - count]

    def get_line(self, number: int) -> Strip | None:
        position = self.locate_line(number)
        if position is None:
            return None
        lines = self._get_row(position.row_index).lines
        return lines[position.line_index] if 0 <= position.line_index < len(lines) else None

    def locate_line(self, number: int) -> LinePosition | None:
        index = bisect_right(self.row_tops, number) - 1
        if not 0 <= index < len(self.row_tops) - 1:
            return None
        return LinePosition(index, number - self.row_tops[index] - self._gap(index))

    def line_number(self, position: LinePosition) -> int:
        if position.row_index >= len(self.row_tops) - 1:
            return self.height
        return self.row_tops[position.row_index] + self._gap(position.row_index) + position.line_index

    def block_at(self, position: LinePosition) -> TranscriptBlock:
        return self._get_row(position.row_index).block

    # --- drawing again --------------------------------------------------------------------------------------------

    def redraw(self, draw: RowPainter, keys: frozenset[str] | None = None) -> None:
        """Render again: everything, or the cards of these keys."""
        self.painter = draw
        for each in self.rows:
            if keys is None or each.block.key in keys:
                each.lines = draw.draw(each.block)
        for each in self.live_rows:
            each.lines = draw.draw_live(each.block)
        self.measure_rows()

    def drop_far_rows(self, index: int, distance: int) -> int:
        """Drop all rows further away than `distance` and return how many were dropped at the top."""
        low, high = max(0, index - distance), min(len(self.rows), index + distance + 1)
        while low and self.rows[low - 1].seq == self.rows[low].seq:
            low -= 1
        while high < len(self.rows) and self.rows[high].seq == self.rows[high - 1].seq:
            high += 1
        if high < len(self.rows):
            self.last_seq = self.rows[high].seq - 1
            self.rows = self.rows[:high]
        if low:
            self.first_seq = self.rows[low].seq
            self.rows = self.rows[low:]
        self.measure_rows()
        return low
