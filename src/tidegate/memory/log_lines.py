"""The searchable text of a log: every original message, independent of what the view shows now."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidegate.core.events import Event, MessageAdded, NoteAdded
from tidegate.core.messages import Message, calls_of, text_of


class LogLine(NamedTuple):
    """The text of one event of a log; empty if the event is not a message.

    `afresh`: earlier events of this session were changed by `forget`. The session is erased from the index and read
    again.
    """

    session: str
    seq: int
    text: str
    reindex: bool = False


LogLineSource = Callable[[Callable[[str], int]], Iterable[LogLine]]
"""Called with a function that returns the last seq read of a session (0: none); yields the later lines in order."""


def extract_log_lines(session: str, events: Iterable[Event]) -> Iterator[LogLine]:
    """Yield a line for each event, so that a log is read once. Summaries and notes of the engine have no text: the
    messages that they are made of do."""
    for event in events:
        what = event.payload
        text = _message_text(what.message) if isinstance(what, MessageAdded) else ""
        yield LogLine(session, event.seq, text, isinstance(what, NoteAdded) and what.topic == "forgotten")


def _message_text(message: Message) -> str:
    """Return texts, results, and calls with their arguments, because a path may occur in any of them."""
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
