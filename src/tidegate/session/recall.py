"""Reading back from the log what the view no longer shows."""

from itertools import islice

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.events import Edited, Event, Noted, Said
from tidegate.core.messages import Message
from tidegate.store.log import Log


def recall(log: Log, ident: str) -> Message:
    """The message of this id, as it was said. The id names its place in the log, so this costs one read."""
    remedy = "Ids look like m12, or e30.1 for what an edit added; the stub or note in the view names them."
    kind, number, place = ident[:1], *(ident[1:].partition(".")[::2])
    if kind not in ("m", "e") or not number.isascii() or not number.isdigit():
        raise BadInput(f"{ident!r} is not the id of a message.", remedy)
    event = _at(log, int(number))
    if event is not None and kind == "m" and isinstance(event.what, Said) and not place:
        return event.what.message
    if event is not None and kind == "e" and isinstance(event.what, Edited):
        for edit in event.what.edits:
            if isinstance(edit, Insert) and edit.message.id == ident:
                return edit.message
    raise BadInput(f"There is no message {ident!r} in this log.", remedy)


def _at(log: Log, seq: int) -> Event | None:
    if not 1 <= seq <= log.head:
        return None
    return next(islice(log.read(seq), 1), None)


def newest_to(topic: str, log: Log) -> int | None:
    """The edit that the next undo takes back, or that the next redo makes again."""
    made: list[int] = []
    undone: list[int] = []
    for event in log.read():
        what = event.what
        if isinstance(what, Edited):
            made.append(event.seq)
            undone.clear()
        elif isinstance(what, Noted) and what.topic == "undo":
            made.remove(int(what.text))
            undone.append(int(what.text))
        elif isinstance(what, Noted) and what.topic == "redo":
            undone.remove(int(what.text))
            made.append(int(what.text))
    stack = made if topic == "undo" else undone
    return stack[-1] if stack else None
