"""The log of one session: append and read, nothing that rewrites."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidegate.core.errors import BadInput
from tidegate.core.events import Event, decode, encode


class Log(Protocol):
    """`head` is the seq of the last event, 0 when empty; seqs count from 1 without gaps."""

    @property
    def head(self) -> int: ...

    def append(self, event: Event) -> None: ...

    def read(self, start: int = 1) -> Iterator[Event]: ...


class MemoryLog:
    """A log in memory, each event as the bytes a store would write: small, and immutable by nature."""

    def __init__(self, records: Iterable[bytes] = ()) -> None:
        self._records: list[bytes] = list(records)

    @property
    def head(self) -> int:
        return len(self._records)

    def append(self, event: Event) -> None:
        if event.seq != self.head + 1:
            raise BadInput(f"Event {event.seq} does not follow event {self.head}.", "Reload the session and try again.")
        self._records.append(encode(event))

    def read(self, start: int = 1) -> Iterator[Event]:
        for place in range(max(0, start - 1), len(self._records)):
            yield decode(self._records[place])

    def records(self) -> tuple[bytes, ...]:
        """The raw bytes, to save or to hand to another MemoryLog."""
        return tuple(self._records)
