"""The log of one session in a store."""

from collections.abc import Iterator

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import Event, decode, encode
from tidegate.store.store import Broken, Missing, Store


class KeptLog:
    """A log as this process knows it: `head` and `read` end where it has read or written so far.

    What others append meanwhile is seen only through `catch_up`, so that a view folded from this log never skips an
    event. An append behind their back is refused with Stale; catch up, and decide again.
    """

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self.session = session
        self._head = store.head(session)

    @property
    def head(self) -> int:
        return self._head

    def append(self, event: Event) -> None:
        if event.seq != self._head + 1:
            raise BadInput(
                f"Event {event.seq} does not follow event {self._head}.", "Reload the session and try again."
            )
        self._head = self._store.append(self.session, self._head, [encode(event)])

    def read(self, start: int = 1) -> Iterator[Event]:
        head = self._head
        if start > head:
            return
        for event in self._events(max(1, start)):
            yield event
            if event.seq >= head:
                return

    def catch_up(self) -> Iterator[Event]:
        """The events that others appended, to be folded in order; the head moves with each one given."""
        there = self._store.head(self.session)
        if there < self._head:
            raise Missing(
                f"Session {self.session!r} was removed meanwhile: it ends with record {there}, not {self._head}.",
                "Open it anew.",
            )
        if there == self._head:
            return
        for event in self._events(self._head + 1):
            self._head = event.seq
            yield event

    def _events(self, start: int) -> Iterator[Event]:
        for seq, record in enumerate(self._store.read(self.session, start), start):
            try:
                event = decode(record)
            except msgspec.DecodeError as fault:
                raise self._broken(seq, str(fault)) from fault
            if event.seq != seq:
                raise self._broken(seq, f"it calls itself event {event.seq}")
            yield event

    def _broken(self, seq: int, fault: str) -> Broken:
        return Broken(
            f"Record {seq} of session {self.session!r} is whole but not an event: {fault}.",
            "It may be of a newer tidegate, or not of tidegate at all. The other records can be read.",
        )
