"""The log of one session: append and read, nothing that rewrites."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from tidegate.core.errors import BadInput
from tidegate.core.events import Event, decode_event, encode_event

_SEGMENT_EVENTS = 64
"""Events in a segment. Many small objects take far more memory than one block of bytes."""


class LogReader(Protocol):
    """A log that can be read. `head` is the seq of the last event, 0 if it is empty; seqs count from 1 without gaps."""

    @property
    def head(self) -> int:
        """The seq of the last event; 0 if the log is empty."""

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events from this seq on."""


class Log(LogReader, Protocol):
    """The events of one session. If others write, too, `append` may raise StaleHead; then call `read_new_events`."""

    def append(self, *events: Event) -> None:
        """Append events, all or none."""

    async def append_async(self, *events: Event) -> bool:
        """`append` without blocking the event loop. False if `read_new_events` returned the events before this did."""

    def read_new_events(self) -> Iterator[Event]:
        """Yield the events that others appended. The head moves with each of them."""


def check_sequence(head: int, events: Sequence[Event]) -> None:
    """BadInput unless the events continue a log with this head."""
    for due, event in enumerate(events, head + 1):
        if event.seq != due:
            raise BadInput(f"Event {event.seq} does not follow event {due - 1}.", "Reload the session and try again.")


class _Segment(NamedTuple):
    data: bytes
    ends: "array[int]"

    def record(self, place: int) -> bytes:
        return self.data[self.ends[place - 1] if place else 0 : self.ends[place]]


class MemoryLog:
    """A log in memory, each event as the bytes a store would write: small, and immutable by nature."""

    def __init__(self, records: Iterable[bytes] = ()) -> None:
        self._sealed: list[_Segment] = []
        self._open: list[bytes] = []
        for record in records:
            self._keep(record)

    @property
    def head(self) -> int:
        """The seq of the last event; 0 if the log is empty."""
        return len(self._sealed) * _SEGMENT_EVENTS + len(self._open)

    def append(self, *events: Event) -> None:
        """Append events whose seqs follow the head."""
        check_sequence(self.head, events)
        for record in [encode_event(event) for event in events]:  # all or nothing
            self._keep(record)

    async def append_async(self, *events: Event) -> bool:
        """`append`; nothing waits here."""
        self.append(*events)
        return True

    def _keep(self, record: bytes) -> None:
        self._open.append(record)
        if len(self._open) == _SEGMENT_EVENTS:
            self._sealed.append(_Segment(b"".join(self._open), array("Q", accumulate(map(len, self._open)))))
            self._open = []

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events from this seq on."""
        for record in self._records(start):
            yield decode_event(record)

    def read_new_events(self) -> Iterator[Event]:
        """Yield nothing: no other process can write to a log in memory."""
        return iter(())

    def records(self) -> tuple[bytes, ...]:
        """Return the raw bytes, to save them or to pass them to another MemoryLog."""
        return tuple(self._records(1))

    def _records(self, start: int) -> Iterator[bytes]:
        for place in range(max(0, start - 1), self.head):
            segment, inside = divmod(place, _SEGMENT_EVENTS)
            yield self._sealed[segment].record(inside) if segment < len(self._sealed) else self._open[inside]
