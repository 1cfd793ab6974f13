"""Tool calls that were denied and therefore not run: a note of the log says by whom, or by which rule.

The note comes before the result of the call. A result alone does not prove a denial: its text may come from a tool.
"""

from tidegate.core.events import EventPayload, MessageAdded
from tidegate.core.messages import result_of
from tidegate.core.notes import Denial, read_note


class DenialIndex:
    """The denials of a log by the id of their call. An id that other calls have, too, is left out: it says nothing."""

    def __init__(self) -> None:
        self._denied_by: dict[str, str] = {}
        self._ran: set[str] = set()
        self._pending: dict[str, str] = {}

    def feed(self, payload: EventPayload) -> None:
        if (denial := read_note(payload, Denial)) is not None:
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
