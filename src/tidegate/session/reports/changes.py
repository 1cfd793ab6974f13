"""What happened to the view of a session, as rows: every edit, and the notes that people should see.

`tidegate view`, the live page, the timeline and `tidegate show` read their rows here.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from tidegate.core.budget import MAX_MEASURED_WINDOW, make_budget, measure_request
from tidegate.core.edits import EditIndex
from tidegate.core.events import Event, EventPayload, ViewEdited
from tidegate.core.notes import (
    LISTED_NOTES,
    EditRedone,
    EditUndone,
    RequestOverflowed,
    SentUnmanaged,
    SentWhole,
    SignaturesRefused,
    ThinkingDropped,
    is_note,
    read_note,
)
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.core.view import View
from tidegate.session.reports.state_note_report import describe_listed_note

_GUARD: Final = "guard"
_WARNINGS: Final = (RequestOverflowed, SignaturesRefused, ThinkingDropped, SentUnmanaged, SentWhole)
"""The notes that mean, as the stage of the guard: the provider had to step in, or the policy was bypassed."""


class Change(msgspec.Struct, frozen=True):
    """An edit of the view, or a note about what was sent. The scripts of the pages read these keys.

    `name` is the stage of an edit or the topic of a note, and `title` is the same in words. `tokens_before` and
    `tokens_after` are our own counts of the history; `request_before` and `request_after` are the sizes of a request in
    the provider's tokens. All four are 0 if they are not known.
    """

    seq: int
    time: float
    name: str
    title: str
    rule: str = ""
    moment: str = ""
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    request_before: int = 0
    request_after: int = 0
    drops: int = 0
    replacements: int = 0
    inserts: int = 0
    is_edit: bool = False
    is_warning: bool = False
    is_undone: bool = False

    def mask_texts(self, mask: Callable[[str], str]) -> "Change":
        return msgspec.structs.replace(self, rule=mask(self.rule), reason=mask(self.reason))


class ViewSize(NamedTuple):
    """The size of the history by our own count, and of a request with it in the provider's tokens."""

    history: int
    request: int


_UNKNOWN_SIZE: Final = ViewSize(0, 0)


def measure_view(view: View, model: str) -> ViewSize:
    budget = make_budget(view, window=MAX_MEASURED_WINDOW, reserve=0, counter=TokenEstimator(), model=model)
    return ViewSize(view.tokens, measure_request(view, budget))


def is_change(payload: EventPayload) -> bool:
    """Whether `read_change` returns a row for it."""
    return isinstance(payload, ViewEdited) or is_note(payload, *LISTED_NOTES)


def read_change(
    event: Event,
    before: ViewSize = _UNKNOWN_SIZE,
    after: ViewSize = _UNKNOWN_SIZE,
    *,
    is_undone: bool = False,
    is_brief: bool = False,
) -> Change | None:
    """Return the row of an event; None if nothing happened to the view.

    `before` and `after` are the sizes of the view around the event. `is_brief`: the reason of a state note is one line,
    for lists that show the parts of the note as well.
    """
    what = event.payload
    if isinstance(what, ViewEdited):
        edits = EditIndex(what.edits)
        return Change(
            event.seq,
            event.time,
            what.stage,
            _make_title(what.stage),
            what.rule,
            what.moment,
            what.why,
            what.tokens_before,
            what.tokens_after,
            before.request,
            after.request,
            len(edits.dropped),
            len(edits.replaced),
            len(edits.inserts),
            is_edit=True,
            is_warning=what.stage == _GUARD,
            is_undone=is_undone,
        )
    if is_note(what, *LISTED_NOTES):
        return Change(
            event.seq,
            event.time,
            what.topic,
            _make_title(what.topic),
            reason=describe_listed_note(what, is_brief=is_brief),
            tokens_before=before.history,
            tokens_after=after.history,
            request_before=before.request,
            request_after=after.request,
            is_warning=is_note(what, *_WARNINGS),
        )
    return None


def follow_undo(undone_edits: set[int], payload: EventPayload) -> None:
    """Update the set of the edits that are not in effect. Feed it every event of a log in order."""
    if (undone := read_note(payload, EditUndone)) is not None:
        undone_edits.add(undone.edit)
    elif (redone := read_note(payload, EditRedone)) is not None:
        undone_edits.discard(redone.edit)


def _make_title(name: str) -> str:
    return name.replace("_", " ")
