"""Branches: which events of a log belong to the conversation as it is now.

A log is a line of events. `BranchStarted` at event B with the number S says: from here on the conversation continues
after event S, so the events between S and B are on another branch. S may itself be on a branch that was left before;
that branch is then continued. Nothing is ever removed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.core.events import BranchStarted, Event


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
    hidden: list[EventSpan] = []
    end: int | None = None  # the last event still to be classified; None: the end of the log
    for point in reversed(points):
        if end is not None and point.seq > end:
            continue  # this branch point is itself on a branch that was left
        if point.after + 1 < point.seq:
            hidden.append(EventSpan(point.after + 1, point.seq - 1))
        end = point.after
    return hidden[::-1]


def iterate_current_branch(read: Callable[[], Iterable[Event]]) -> Iterator[Event]:
    """The events of a log that are on its current branch, with the branch events themselves."""
    spans = hidden_spans(find_branch_points(read()))
    for event in read():
        while spans and spans[0].last < event.seq:
            spans.pop(0)
        if not spans or event.seq < spans[0].first:
            yield event
