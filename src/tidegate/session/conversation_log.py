"""The part of a log that belongs to one conversation."""

from collections.abc import Iterator
from itertools import takewhile

from tidegate.core.events import Event, MessageAdded
from tidegate.core.log_fold import find_branch_points, hidden_spans
from tidegate.store.log import LogReader


class ConversationLog:
    """The part of a log that belongs to one conversation: its branch, up to its last message.

    `last_id` is the id of that message (`FollowedRequest.last_id`), empty if there is none yet. None stands for the end
    of the current branch. `whole` is the log itself.
    Answers that were kept but never shown are left out: they may answer a request of another branch.
    """

    def __init__(self, log: LogReader, last_id: str | None = None) -> None:
        self.whole = log
        self._head = log.head if last_id is None else min(int(last_id[1:] or 0), log.head)
        events = takewhile(lambda event: event.seq <= self._head, log.read())
        self._hidden = hidden_spans(find_branch_points(events))

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
