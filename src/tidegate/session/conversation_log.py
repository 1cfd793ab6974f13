"""The part of a log that belongs to one conversation."""

from collections.abc import Iterable, Iterator

from tidegate.core.events import Event, MessageAdded
from tidegate.core.log_fold import BranchPoint, find_branch_points, hidden_spans
from tidegate.store.log import LogReader


class BranchPoints:
    """The branch points of a log, read once and then only from what is new in it."""

    def __init__(self) -> None:
        self._points: list[BranchPoint] = []
        self._head = 0
        self._born = 0.0

    def read(self, log: LogReader) -> list[BranchPoint]:
        born = next((event.time for event in log.read(1)), 0.0)
        if born != self._born or log.head < self._head:  # another log with this name
            self._points, self._head, self._born = [], 0, born
        for event in log.read(self._head + 1):
            self._points += find_branch_points([event])
            self._head = event.seq
        return list(self._points)


class ConversationLog:
    """The part of a log that belongs to one conversation: its branch, up to its last message.

    `last_id` is the id of that message (`FollowedRequest.last_id`), empty if there is none yet. None stands for the end
    of the current branch. `whole` is the log itself. `points` are its branch points (`BranchPoints`); without them the
    whole log is read for them.
    Answers that were kept but never shown are left out: they may answer a request of another branch.
    """

    def __init__(self, log: LogReader, last_id: str | None = None, points: Iterable[BranchPoint] | None = None) -> None:
        self.whole = log
        self._head = log.head if last_id is None else min(int(last_id[1:] or 0), log.head)
        branch_points = find_branch_points(log.read()) if points is None else points
        self._hidden = hidden_spans([point for point in branch_points if point.seq <= self._head])

    @property
    def head(self) -> int:
        return self._head

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events of the conversation from this seq on."""
        spans = [span for span in self._hidden if span.last >= start]
        for event in self.whole.read(start):
            if event.seq > self._head:
                return
            while spans and spans[0].last < event.seq:
                spans.pop(0)
            is_elsewhere = bool(spans) and event.seq >= spans[0].first
            is_unseen = isinstance(event.payload, MessageAdded) and not event.payload.message.agent_visible
            if not is_elsewhere and not is_unseen:
                yield event

    def is_on_branch(self, seq: int) -> bool:
        """Whether the event with this seq is on the branch, whether or not it was shown."""
        return seq <= self._head and not any(span.first <= seq <= span.last for span in self._hidden)
