"""What a log holds for search: every message as it was said, whatever the view shows of it now."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.core.events import Event, Said
from tidegate.core.messages import Message, calls_of, text_of


class Line(NamedTuple):
    """What was said at a place of a log."""

    session: str
    seq: int
    text: str


Logs = Callable[[Callable[[str], int]], Iterable[Line]]
"""Given a function that tells how far a session was read (0: not at all), everything behind that, in order of seq."""


def lines_of(session: str, events: Iterable[Event]) -> Iterator[Line]:
    """The messages among the events. Summaries and notes of the engine are not said by anyone: their source is."""
    for event in events:
        if isinstance(event.what, Said):
            yield Line(session, event.seq, _readable(event.what.message))


def _readable(message: Message) -> str:
    """Texts and results, and calls with their arguments: a path is looked for wherever it stood."""
    calls = [f"{call.name} {call.arguments}" for call in calls_of(message)]
    return "\n".join(filter(None, (text_of(message), *calls)))
