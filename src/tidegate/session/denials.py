"""Tool calls that were denied and therefore not run: a note of the log says by whom, or by which rule.

The note comes before the result of the call. A result alone does not prove a denial: its text may come from a tool.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from tidegate.core.events import EventPayload, MessageAdded, NoteAdded
from tidegate.core.messages import result_of

DENIED_TOPIC: Final = "denied"


class Denial(msgspec.Struct, frozen=True):
    """`by` completes the words "denied by"."""

    call_id: str
    tool: str
    by: str


def record_denial(add_note: Callable[[str, str], None], denial: Denial) -> None:
    """Write the note with `Session.history.add_note`."""
    add_note(DENIED_TOPIC, msgspec.json.encode(denial).decode())


def parse_denial(payload: EventPayload) -> Denial | None:
    """Return the denial that a note records; None for every other event and for a note of another form."""
    if not isinstance(payload, NoteAdded) or payload.topic != DENIED_TOPIC:
        return None
    try:
        return msgspec.json.decode(payload.text, type=Denial)
    except (msgspec.MsgspecError, RecursionError):
        return None


class DenialIndex:
    """The denials of a log by the id of their call. An id that other calls have, too, is left out: it says nothing."""

    def __init__(self) -> None:
        self._denied_by: dict[str, str] = {}
        self._ran: set[str] = set()
        self._pending: dict[str, str] = {}

    def feed(self, payload: EventPayload) -> None:
        if (denial := parse_denial(payload)) is not None:
            self._pending[denial.call_id] = denial.by
        elif isinstance(payload, MessageAdded) and (result := result_of(payload.message)) is not None:
            by = self._pending.pop(result.call_id, "")
            if by and self._denied_by.get(result.call_id, by) == by:
                self._denied_by[result.call_id] = by
            else:
                self._ran.add(result.call_id)

    def list_denials(self) -> list[tuple[str, str]]:
        """Return pairs of a call id and who or what denied the call."""
        return [(call_id, by) for call_id, by in self._denied_by.items() if call_id not in self._ran]
