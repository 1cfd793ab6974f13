"""The searchable text of a log: every message as it was added, regardless of the view."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidegate.core.events import Event, MessageAdded
from tidegate.core.messages import HANDOFF, Message, calls_of, text_of
from tidegate.core.notes import ContentForgotten, is_note


class LogLine(NamedTuple):
    """The text of one event; empty if the event is not a message.

    `reindex`: earlier lines of this session are no longer true. They are erased from the index and read again.
    """

    session: str
    seq: int
    text: str
    reindex: bool = False


LogLineSource = Callable[[Callable[[str], int]], Iterable[LogLine]]
"""A function that is given a lookup of a session's indexed head (0: none) and yields all later lines in order of
seq.
"""


def extract_log_lines(session: str, events: Iterable[Event]) -> Iterator[LogLine]:
    """Yield a line for each event. Only messages have a text; summaries and notes of the engine do not, because their
    source is in the log.
    """
    for event in events:
        what = event.payload
        message = what.message if isinstance(what, MessageAdded) and what.message.kind != HANDOFF else None
        text = extract_message_text(message) if message is not None else ""
        yield LogLine(session, event.seq, text, is_note(what, ContentForgotten))


def extract_message_text(message: Message) -> str:
    """Return texts, results, and calls with their arguments, because a path is searched wherever it occurred."""
    calls = [f"{call.name} {_argument_text(call.arguments)}" for call in calls_of(message)]
    return "\n".join(filter(None, (text_of(message), *calls)))


def _argument_text(arguments: str) -> str:
    """Return the arguments as text. In raw JSON, a word at the start of a line follows the n of an escaped newline."""
    if "\\" not in arguments:
        return arguments
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return "\n".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    """Yield keys and values in order, without recursion: arguments come from a model and may be deeply nested."""
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
