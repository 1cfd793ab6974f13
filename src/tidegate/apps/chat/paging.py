"""The log a piece at a time: however long a session is, only what is near the screen is read."""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from tidegate.apps.chat.blocks import Block, blocks_of, joined
from tidegate.core.events import Event
from tidegate.store.log import Log

STEP: Final = 48
"""Events that are read at once."""
REACH: Final = 256
"""How far a page may be widened to hold a result and its call both."""


class Row(NamedTuple):
    """A block and the event it is of."""

    seq: int
    block: Block


class Page(NamedTuple):
    """Rows of the events `first` to `last`, all of them."""

    first: int
    last: int
    rows: list[Row]


def rows_of(events: Iterable[Event]) -> list[Row]:
    seqs: dict[str, int] = {}
    blocks: list[Block] = []
    for event in events:
        for block in blocks_of(event):
            seqs[block.key] = event.seq
            blocks.append(block)
    return [Row(seqs[block.key], block) for block in joined(blocks)]


class Paging:
    """`log` gives the log as it is now: its end moves."""

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log

    @property
    def head(self) -> int:
        return self._log().head

    def before(self, seq: int, least: int = 1) -> Page:
        """The rows before an event, at least so many where there are; a result comes with its call."""
        log = self._log()
        first = last = min(seq, log.head + 1)
        rows: list[Row] = []
        while first > 1 and (len(rows) < least or (_begins_with_result(rows) and last - first < REACH)):
            first = max(1, first - STEP)
            rows = rows_of(_between(log, first, last - 1))
        return Page(first, last - 1, rows)

    def after(self, seq: int, least: int = 1) -> Page:
        log = self._log()
        last, rows = seq, list[Row]()
        while last < log.head and len(rows) < least:
            last = min(log.head, last + STEP)
            rows = rows_of(_between(log, seq + 1, last))
        return Page(seq + 1, last, rows)


def _begins_with_result(rows: list[Row]) -> bool:
    return bool(rows) and rows[0].block.kind == "result"


def _between(log: Log, first: int, last: int) -> Iterable[Event]:
    return takewhile(lambda event: event.seq <= last, log.read(first))
