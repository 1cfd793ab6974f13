"""Appends of a session that failed and may have been stored all the same.

A connection that drops during an append leaves open whether the records were stored, and the server may still store
them later. The log itself decides: an append is accepted only after the head that its writer knew. So either the
unconfirmed append is in the log at its place, or something else is, and then it never will be stored. Until one of the
two is seen, repeating the append means sending the same events for the same place.
"""

from collections import deque
from collections.abc import Callable, Sequence

from tidegate.core.events import Event, EventPayload, ViewEdited, encode_event

MakePayloads = Callable[[int], Sequence[EventPayload]]
"""The payloads of an append, given the seq of its first event."""
_MAX_UNCONFIRMED = 64


class UnconfirmedAppend:
    """`stored` is None until the log shows what is at its place."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.stored: bool | None = None

    @property
    def first_seq(self) -> int:
        return self.events[0].seq


class UnconfirmedAppends:
    """The newest failed appends that the caller has not repeated yet."""

    def __init__(self) -> None:
        self._appends: deque[UnconfirmedAppend] = deque(maxlen=_MAX_UNCONFIRMED)

    def note_failure(self, events: Sequence[Event], repeated: UnconfirmedAppend | None) -> None:
        """Note that an append failed and may have been stored. `repeated` is the failed append that it repeated."""
        if repeated is not None:
            repeated.events, repeated.stored = events, None
        elif not isinstance(events[0].payload, ViewEdited):  # edits are planned again from what the log holds then
            self._appends.append(UnconfirmedAppend(events))

    def find_repeated(self, make: MakePayloads, kind: type[EventPayload]) -> UnconfirmedAppend | None:
        """Return the failed append with the same content, if there is one."""
        for append in self._appends:
            if not isinstance(append.events[0].payload, kind):
                continue
            if list(make(append.first_seq)) == [event.payload for event in append.events]:
                return append
        return None

    def settle(self, event: Event) -> None:
        """Learn from an event of the log whether the append for this place was stored."""
        for append in self._appends:
            if append.stored is None and append.first_seq == event.seq:
                mine = append.events[0]
                append.stored = mine.time == event.time and encode_event(mine) == encode_event(event)

    def confirm(self, kind: type[EventPayload], repeated: UnconfirmedAppend | None) -> None:
        """An append succeeded. If it repeated no failed one, the caller has gone on: what failed before is not repeated
        any more, and the same content is a new message from now on."""
        if not self._appends:
            return
        if repeated is not None:
            self._appends.remove(repeated)
            return
        rest = [append for append in self._appends if not isinstance(append.events[0].payload, kind)]
        self._appends = deque(rest, _MAX_UNCONFIRMED)
