"""A log that is stored with its first content, so that a session in which nothing was said leaves nothing behind."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from tidegate.core.errors import NotKept
from tidegate.core.events import Event
from tidegate.core.notes import ModelNote, SystemSet, ToolsSet, WindowUnknown, is_note
from tidegate.store.errors import StaleHead
from tidegate.store.log import Log, check_sequence

_OPENING_NOTES: Final = (SystemSet, ToolsSet, ModelNote, WindowUnknown)
"""Notes that are made when a session is opened."""


class DeferredLog:
    """Keeps the notes that open a session in memory, and appends them to `log`, which is empty, with the next event."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._pending: list[Event] = []
        self._is_stored = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_stored(self) -> bool:
        return self._is_stored

    @property
    def head(self) -> int:
        return self._log.head if self._is_stored else len(self._pending)

    def call_when_stored(self, callback: Callable[[], None]) -> None:
        """Call this as soon as the session is in the store."""
        self._callbacks.append(callback)

    def append(self, *events: Event) -> None:
        if not self._postpone(events):
            with_pending = self._add_pending(events)
            try:
                self._log.append(*with_pending)
            except StaleHead as failure:
                raise self._translate(failure) from failure
            self._note_stored()

    async def append_async(self, *events: Event) -> bool:
        if self._postpone(events):
            return True
        try:
            is_new = await self._log.append_async(*self._add_pending(events))
        except StaleHead as failure:
            raise self._translate(failure) from failure
        self._note_stored()
        return is_new

    def read(self, start: int = 1) -> Iterator[Event]:
        return self._log.read(start) if self._is_stored else islice(self._pending, max(0, start - 1), None)

    def read_new_events(self) -> Iterator[Event]:
        return self._log.read_new_events() if self._is_stored else iter(())

    def _postpone(self, events: tuple[Event, ...]) -> bool:
        """Keep events in memory if the session has no content yet and they have none. Return whether they had none."""
        if self._is_stored or not all(is_note(event.payload, *_OPENING_NOTES) for event in events):
            return False
        check_sequence(self.head, events)
        self._pending += events
        return True

    def _add_pending(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        return events if self._is_stored else (*self._pending, *events)

    def _note_stored(self) -> None:
        if not self._is_stored:
            self._is_stored, self._pending = True, []
            for callback in self._callbacks:
                callback()

    def _translate(self, failure: StaleHead) -> StaleHead | NotKept:
        """Once it is stored, the session reads what others appended. Before, the numbers of its events are taken."""
        if self._is_stored:
            return failure
        return NotKept("Another program has started a session of this name meanwhile.", "Open the session again.")


def is_stored(log: Log) -> bool:
    """Whether what is appended to the log is stored at once."""
    return not isinstance(log, DeferredLog) or log.is_stored


def call_when_stored(log: Log, callback: Callable[[], None]) -> None:
    """Call this now, or as soon as a deferred log is stored."""
    if isinstance(log, DeferredLog) and not log.is_stored:
        log.call_when_stored(callback)
    else:
        callback()
