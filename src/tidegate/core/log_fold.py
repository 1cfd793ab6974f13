"""The fold of a whole log, and its branches: which events belong to the conversation as it is now.

A log is a line of events. `BranchStarted` at event B with the number S says: from here on the conversation continues
after event S, so the events between S and B are on another branch. S may itself be on a branch that was left before;
that branch is then continued. Nothing is ever removed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.core.events import BranchStarted, Event
from tidegate.core.notes import REFOLD_NOTES, EditRedone, EditUndone, is_note, read_note
from tidegate.core.view import LogView, Meter, RefoldNeeded, fold_error


class BranchPoint(NamedTuple):
    """The event `seq` continues the conversation after the event `after`."""

    seq: int
    after: int


class EventSpan(NamedTuple):
    first: int
    last: int


def find_branch_points(events: Iterable[Event]) -> list[BranchPoint]:
    return [BranchPoint(event.seq, event.payload.edit) for event in events if isinstance(event.payload, BranchStarted)]


def hidden_spans(points: list[BranchPoint]) -> list[EventSpan]:
    """The events that are not on the current branch, as spans in ascending order."""
    spans: list[EventSpan] = []
    end: int | None = None  # the last event still to be classified; None: the end of the log
    for point in reversed(points):
        if end is not None and point.seq > end:
            continue  # this branch point is itself on a branch that was left
        if point.after + 1 < point.seq:
            spans.append(EventSpan(point.after + 1, point.seq - 1))
        end = point.after
    return spans[::-1]


def iterate_current_branch(read: Callable[[], Iterable[Event]]) -> Iterator[Event]:
    """The events of a log that are on its current branch, with the branch events themselves."""
    spans = hidden_spans(find_branch_points(read()))
    for event in read():
        while spans and spans[0].last < event.seq:
            spans.pop(0)
        if not spans or event.seq < spans[0].first:
            yield event


def _check_branch_points(points: list[BranchPoint]) -> list[BranchPoint]:
    for point in points:
        if not 0 <= point.after < point.seq:
            raise fold_error(point.seq, "it names no event before it")
    return points


def _find_undone_edits(events: Iterable[Event], other_branches: list[EventSpan]) -> tuple[frozenset[int], int]:
    """Return which edits are undone at the end of the log, and the seq of the last undo or redo.

    It stops before an undo that names no edit: the fold says so when it comes to it.
    """
    undone: set[int] = set()
    last = 0
    spans = iter(other_branches)
    span = next(spans, None)
    for event in events:
        while span is not None and span.last < event.seq:
            span = next(spans, None)
        if span is None or event.seq < span.first:
            toggle = read_note(event.payload, EditUndone) or read_note(event.payload, EditRedone)
            if toggle is not None and not toggle.edit:
                break
            if toggle is not None:
                last = event.seq
                (undone.add if isinstance(toggle, EditUndone) else undone.discard)(toggle.edit)
    return frozenset(undone), last


def fold_log(read: Callable[[], Iterable[Event]], meter: Meter | None = None) -> LogView:
    """Fold a whole log. When an undo is read, the fold starts over without all edits that are undone in the end.

    Forgotten content is gone from the log itself. The note about it only means that nothing before it is signed.
    With the first branch that is read, the fold starts over and passes over the events of the other branches.
    """
    skip: frozenset[int] = frozenset()
    seen = 0
    other_branches: list[EventSpan] | None = None
    while True:
        view = LogView(meter, skip)
        spans = iter(other_branches or ())
        span = next(spans, None)
        try:
            for event in read():
                what = event.payload
                while span is not None and span.last < event.seq:
                    span = next(spans, None)
                if span is not None and event.seq >= span.first:
                    continue  # on another branch: also its reports, so that a repeated request has the same bytes
                if isinstance(what, BranchStarted):
                    if other_branches is None:
                        other_branches = hidden_spans(_check_branch_points(find_branch_points(read())))
                        skip, seen = _find_undone_edits(read(), other_branches)
                        raise RefoldNeeded
                    view.start_branch(event)
                elif is_note(what, *REFOLD_NOTES):
                    view.pass_over(event)
                    toggle = read_note(what, EditUndone) or read_note(what, EditRedone)
                    if toggle is not None and event.seq > seen:
                        if not toggle.edit:
                            raise fold_error(event.seq, "it names no edit")
                        skip, seen = _find_undone_edits(read(), other_branches or [])
                        raise RefoldNeeded
                else:
                    view.fold(event)
            return view
        except RefoldNeeded:
            continue
