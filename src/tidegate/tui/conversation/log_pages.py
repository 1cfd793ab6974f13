"""Reads the log page by page: only the part near the screen is read, however long the session is."""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from tidegate.core.events import Event
from tidegate.store.log import Log
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock, build_blocks, merge_results

_BATCH_EVENTS: Final = 48
"""Events that are read at once."""
_MAX_PAGE_EVENTS: Final = 256
"""Events by which a page may grow so that it holds both a call and its result."""


class TranscriptRow(NamedTuple):
    """A block and the sequence number of its event."""

    seq: int
    block: TranscriptBlock


class LogPage(NamedTuple):
    """All rows of the events `first_seq` to `last_seq`."""

    first_seq: int
    last_seq: int
    rows: list[TranscriptRow]


def build_rows(events: Iterable[Event]) -> list[TranscriptRow]:
    seqs: dict[str, int] = {}
    blocks: list[TranscriptBlock] = []
    for event in events:
        for block in build_blocks(event):
            seqs[block.key] = event.seq
            blocks.append(block)
    return [TranscriptRow(seqs[block.key], block) for block in merge_results(blocks)]


class LogPager:
    """`log` returns the log as it is now: it grows."""

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log

    @property
    def head(self) -> int:
        return self._log().head

    def read_before(self, seq: int, min_rows: int = 1) -> LogPage:
        """Return at least `min_rows` rows before an event, or all if there are fewer. A result comes with its call."""
        log = self._log()
        first = last = min(seq, log.head + 1)
        rows: list[TranscriptRow] = []
        while first > 1 and (len(rows) < min_rows or (_begins_inside_call(rows) and last - first < _MAX_PAGE_EVENTS)):
            first = max(1, first - _BATCH_EVENTS)
            rows = build_rows(_read_range(log, first, last - 1))
        return LogPage(first, last - 1, rows)

    def read_after(self, seq: int, min_rows: int = 1) -> LogPage:
        log = self._log()
        last, rows = seq, list[TranscriptRow]()
        while last < log.head and len(rows) < min_rows:
            last = min(log.head, last + _BATCH_EVENTS)
            rows = build_rows(_read_range(log, seq + 1, last))
        return LogPage(seq + 1, last, rows)


def _begins_inside_call(rows: list[TranscriptRow]) -> bool:
    """Return whether the call that the first row belongs to is before it."""
    return bool(rows) and rows[0].block.belongs_to_call


def _read_range(log: Log, first: int, last: int) -> Iterable[Event]:
    return takewhile(lambda event: event.seq <= last, log.read(first))
