"""The log of a session, as its user sees it: look back, go back, follow what is added."""

from collections.abc import Callable
from itertools import islice

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import Event, EventPayload, NoteAdded, encode_event
from tidegate.core.notes import RESERVED_TOPICS, EditRedone, EditUndone, Note, ViewCleared
from tidegate.session.recall import Recalled, find_edit_to_redo, find_edit_to_undo, recall_text
from tidegate.session.recall_index import RecallIndex
from tidegate.session.request import Request, SentRequest, list_sent_requests, render_past_request
from tidegate.store.log import Log, MemoryLog
from tidegate.wire.parsing import repair_unicode


class History:
    """The history of a session: `session.history`.

    Nothing is ever removed from it. `undo`, `redo` and `clear` append an event that changes the view.
    """

    def __init__(
        self,
        log: Log,
        append: Callable[[EventPayload], int],
        refresh: Callable[[], None],
        observers: list[Callable[[Event], None]],
    ) -> None:
        self._log = log
        self._append = append
        self._refresh = refresh
        self._observers = observers
        self.recall_index = RecallIndex(log)

    def undo(self) -> int | None:
        """Undo the newest edit; messages added since stay. Return the seq of the edit, or None if there is none."""
        seq = find_edit_to_undo(self._log)
        return seq if seq is None else self._toggle_edit(EditUndone(seq))

    def redo(self) -> int | None:
        """Redo the edit that was undone last. Return its seq, or None if there is none."""
        seq = find_edit_to_redo(self._log)
        return seq if seq is None else self._toggle_edit(EditRedone(seq))

    def _toggle_edit(self, toggle: EditUndone | EditRedone) -> int:
        self.append_note(toggle)
        return toggle.edit

    def clear(self) -> None:
        """Empty the view. Everything stays in the log."""
        self.append_note(ViewCleared())

    def fork(self, at: int | None = None) -> MemoryLog:
        """Return a copy of the first `at` events (default: all), to start another session from: `Session(log=...)`.

        `DataFolder.fork` does the same for stored sessions, with their files.
        """
        end = self._log.head if at is None else at
        if not 0 <= end <= self._log.head:
            raise BadInput(
                f"There is no event {end}: the log ends with event {self._log.head}.",
                f"Give a number from 0 to {self._log.head}.",
            )
        return MemoryLog(map(encode_event, islice(self._log.read(), end)))

    def requests(self) -> list[SentRequest]:
        """Return the requests whose usage was recorded, oldest first. Their `log_head` is for `request_at`."""
        return list_sent_requests(self._log)

    def request_at(self, seq: int) -> Request:
        """Render the request as it was, or would have been, sent when the log ended with event `seq`."""
        return render_past_request(self._log, seq)

    def search(self, query: str, *, max_chars: int = 8_000, offset: int = 0, whole_chars: int = 0) -> Recalled:
        """Return messages as text: an id ("m12"), a range ("m12..m20"), a list of them, a file, or words to look for.

        The answer has at most `max_chars` characters, or `whole_chars` if that is more and the answer is one message;
        its last line says how to continue. Words are ranked with an index in memory, which the first search builds.
        """
        return recall_text(
            self._log, query, max_chars=max_chars, offset=offset, whole_chars=whole_chars, index=self.recall_index
        )

    def add_note(self, topic: str, text: str = "") -> None:
        """Append a note to the log. The model never sees it."""
        if topic in RESERVED_TOPICS:
            raise BadInput(f"The topic {topic} is reserved.", "Choose another topic for the note.")
        self._append(NoteAdded(topic, repair_unicode(text)))

    def append_note(self, note: Note) -> None:
        """Append a note of the engine, or of a module of tidegate: programs use `add_note`."""
        event = note.pack()
        self._append(msgspec.structs.replace(event, text=repair_unicode(event.text)))

    def refresh(self) -> None:
        """Read what other writers appended to this session. `prepare` does this by itself."""
        self._refresh()

    def observe(self, callback: Callable[[Event], None]) -> None:
        """Call `callback` with every event from now on, no matter who wrote it. Callbacks run in the order added."""
        self._observers.append(callback)
