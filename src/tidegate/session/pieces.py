"""What fills the window, message by message: how old each is, and why it is still there."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tidegate.core.edits import Drop
from tidegate.core.events import Edited, Event, Said
from tidegate.core.items import Item
from tidegate.core.ledger import LEDGER, PIN
from tidegate.core.view import View
from tidegate.session.forecast import next_takers
from tidegate.session.session import Session
from tidegate.store.log import Log

_NEAR: Final = 64


class Cell(msgspec.Struct):
    """The smallest thing that is weighed: a part of the fixed beginning, or a message."""

    category: str
    weight: int
    tool: str = ""
    item: Item | None = None
    place: int = 0
    turns: int = 0
    later: bool = False
    tokens: int = 0
    price: float | None = None


class Piece(msgspec.Struct, frozen=True):
    """A message of the view. `turns` and `seconds` are its age; `price` is in dollars for one call, None if not known:
    what the provider had in its cache at the last call costs less than what came behind that.

    `said` is what it weighed when it was said, on the same scale as `tokens`, where less is shown now. `why` tells
    why it is still there, or what was taken of it.
    """

    id: str
    category: str
    tool: str
    role: str
    tokens: int
    turns: int
    seconds: float | None
    price: float | None
    why: str
    said: int = 0


def pieces_of(cells: Sequence[Cell], session: Session) -> Iterator[Piece]:
    takers, now = next_takers(session), session._clock()
    events = {event.seq: event for event in events_at(session.log, [_seq(cell.item) for cell in cells if cell.item])}
    for cell in cells:
        assert cell.item is not None
        message, event = cell.item.message, events.get(_seq(cell.item))
        said = 0
        if event is not None and isinstance(event.what, Said) and cell.item.edited:
            said = round(event.what.tokens * cell.tokens / cell.weight) if cell.weight else event.what.tokens
        yield Piece(
            message.id,
            cell.category,
            cell.tool,
            message.role,
            cell.tokens,
            cell.turns,
            max(0.0, now - event.time) if event is not None else None,
            cell.price,
            _why(cell.item, session.view, event, takers, said),
            said,
        )


def _why(item: Item, view: View, event: Event | None, takers: Mapping[str, str], said: int) -> str:
    ident = item.message.id
    if ident == view.newest_request:
        return "the newest request: it never leaves"
    if item.message.kind == PIN:
        return "pinned: its words never leave"
    if item.message.kind == LEDGER:
        return "the ledger: rules and facts of what left"
    told: list[str] = []
    if event is not None and isinstance(event.what, Edited):
        gone = sum(len(edit.ids) for edit in event.what.edits if isinstance(edit, Drop))
        told.append(f"stands for {gone} messages that left at {event.seq}" if gone else f"added at {event.seq}")
    elif said:
        told.append(f"shortened from {said:,} tokens; recall {ident} shows all of it")
    told.append(f"stays until {takers[ident]}" if ident in takers else "recent: no rule takes it yet")
    return "; ".join(told)


def _seq(item: Item | None) -> int:
    """The event that an id names."""
    number = item.message.id[1:].partition(".")[0] if item is not None else ""
    return int(number) if number.isdecimal() else 0


def events_at(log: Log, seqs: Iterable[int]) -> Iterator[Event]:
    """These events, each run of neighbours read in one go: the work grows with how many are asked for."""
    wanted = deque(sorted({seq for seq in seqs if 1 <= seq <= log.head}))
    while wanted:
        for event in log.read(wanted[0]):
            if event.seq == wanted[0]:
                wanted.popleft()
                yield event
            if not wanted or wanted[0] > event.seq + _NEAR:
                break
