"""What a log holds for search: every message as it was said, whatever the view shows of it now."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidegate.core.events import Event, MessageAdded, NoteAdded
from tidegate.core.messages import Message, calls_of, text_of


class LogLine(NamedTuple):
    """What was said at a place of a log; nothing, for an event that is no message.

    `afresh`: what was read of this session before is no longer so. It is taken out, without a trace, and read again.
    """

    session: str
    seq: int
    text: str
    reindex: bool = False


LogLineSource = Callable[[Callable[[str], int]], Iterable[LogLine]]
"""Given a function that tells how far a session was read (0: not at all), everything behind that, in order of seq."""


def extract_log_lines(session: str, events: Iterable[Event]) -> Iterator[LogLine]:
    """A line for each event, so that a log is read once. Only messages have a text: summaries and notes of the engine
    are not said by anyone, their source is."""
    for event in events:
        what = event.payload
        text = _message_text(what.message) if isinstance(what, MessageAdded) else ""
        yield LogLine(session, event.seq, text, isinstance(what, NoteAdded) and what.topic == "forgotten")


def _message_text(message: Message) -> str:
    """Texts and results, and calls with their arguments: a path is looked for wherever it stood."""
    calls = [f"{call.name} {_argument_text(call.arguments)}" for call in calls_of(message)]
    return "\n".join(filter(None, (text_of(message), *calls)))


def _argument_text(arguments: str) -> str:
    """The arguments as text. In JSON a word at the beginning of a line is written together with the n of its \\n."""
    if "\\" not in arguments:
        return arguments
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return "\n".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    """Keys and values in order, without recursion: arguments come from a model and may be nested deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [part for pair in reversed(item.items()) for part in reversed(pair)]
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, str):
            yield item
        else:
            yield msgspec.json.encode(item).decode()
