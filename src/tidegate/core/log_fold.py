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


def fold_log(read: Callable[[], Iterable[Event]], meter: Meter | None = None) -> LogView:
    """Fold a whole log. When an undo is read, the fold starts over without the edit that it undoes.

    Forgotten content is gone from the log itself. The note about it only means that nothing before it is signed.
    With the first branch that is read, the fold starts over and passes over the events of the other branches.
    """
    skip: frozenset[int] = frozenset()
    last_toggle = 0
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
                        raise RefoldNeeded
                    view.start_branch(event)
                elif is_note(what, *REFOLD_NOTES):
                    view.pass_over(event)
                    undone, redone = read_note(what, EditUndone), read_note(what, EditRedone)
                    if event.seq > last_toggle and (toggle := undone or redone) is not None:
                        last_toggle, seq = event.seq, toggle.edit
                        if not seq:
                            raise fold_error(last_toggle, "it names no edit")
                        skip = skip | {seq} if undone is not None else skip - {seq}
                        raise RefoldNeeded
                else:
                    view.fold(event)
            return view
        except RefoldNeeded:
            continue
