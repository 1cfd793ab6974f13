"""What fills the window: by category and by message, in the provider's tokens, and what will make room next.

The categories add up: what the last request held adds up to what the provider reported of it, and with what came since
to the size that the policy's rules go by. All of it costs what the view costs, however long the log is.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from tidegate.core.ledger import LEDGER, PIN
from tidegate.core.messages import SUMMARY, TOOL_SUMMARY, Message, calls_of, is_request, result_of, texts
from tidegate.core.tokens import REQUEST
from tidegate.core.view import View
from tidegate.models.catalog import Model, model_of
from tidegate.models.prices import price_of
from tidegate.session.forecast import Threshold, soonest, thresholds
from tidegate.session.pieces import Cell, Piece, pieces_of
from tidegate.session.session import Session
from tidegate.wire.usage import Usage

MOST: Final = 200
"""Messages that are told of one by one."""
PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"skills": "skills", "memory": "memory", "project": "rules", "pinned": "rules"}
)
"""Where a part of the system prompt belongs; any other is `system`."""
CATEGORIES: Final = "system tools skills memory rules user assistant results summaries ledger notes framing".split()
"""In the order they are shown. `framing` is what the wire format itself adds."""


class Share(msgspec.Struct, frozen=True):
    """A category; for results there is one for each tool, whose name is `tool`.

    `sent` are its tokens in the last request, `later` those that came since; where no report tells of this view, all of
    it is `later`. `price` is in dollars for one call, None if not known.
    """

    category: str
    tool: str = ""
    messages: int = 0
    sent: int = 0
    later: int = 0
    price: float | None = None

    @property
    def tokens(self) -> int:
        return self.sent + self.later

    @property
    def name(self) -> str:
        return f"{self.category}: {self.tool}" if self.tool else self.category


class Roles(msgspec.Struct, frozen=True):
    """Messages in the view by role: results of tools are `tool`. `characters` are those of all of them."""

    messages: int
    system: int
    user: int
    assistant: int
    tool: int
    characters: int


class Filling(msgspec.Struct, frozen=True):
    """`size` is the next request, `reported` what the provider said of the last one, 0 where that no longer holds.

    `capacity` is what a request may weigh: the window less the reserve for the answer; both are None if the window is
    not known. `pieces` are the largest messages, in their order; `left_out` is how many there are beside them. `next`
    is the threshold that comes first.
    """

    size: int
    reported: int
    window: int | None
    capacity: int | None
    roles: Roles
    shares: tuple[Share, ...]
    pieces: tuple[Piece, ...]
    thresholds: tuple[Threshold, ...]
    next: Threshold | None = None
    left_out: int = 0

    @property
    def used(self) -> float | None:
        """The share of the capacity that is used; None if the window is not known."""
        return self.size / self.capacity if self.capacity else None


def category_of(message: Message) -> str:
    """One of CATEGORIES, for one message of a view."""
    if message.kind in (SUMMARY, TOOL_SUMMARY):
        return "summaries"
    if message.kind == LEDGER:
        return "ledger"
    if message.kind == PIN:
        return "rules"
    if message.role == "tool":
        return "results"
    if message.kind or message.role == "system":
        return "notes"
    return message.role


def filling(
    session: Session,
    *,
    parts: Mapping[str, int] | None = None,
    prices: Mapping[str, Model] | None = None,
    most: int = MOST,
) -> Filling:
    """`parts` are the tokens of the parts of the system prompt, by name; of `most` messages each is told of."""
    view, budget = session.view, session.budget()
    cells = list(_cells(view, parts or {}))
    size = session.size()
    _weigh(cells, view, size)
    _price(cells, session, size, prices)
    told = sorted(sorted((cell for cell in cells if cell.item), key=lambda cell: -cell.tokens)[:most], key=_place)
    found = thresholds(session)
    return Filling(
        size,
        view.usage.input_tokens if view.usage is not None else 0,
        budget.window,
        None if budget.window is None and budget.cap is None else budget.capacity,
        roles_of(view),
        tuple(_shares(cells)),
        tuple(pieces_of(told, session)),
        tuple(found),
        soonest(found),
        view.messages - len(told),
    )


def roles_of(view: View) -> Roles:
    count = Tally(item.message.role for item in view.items)
    chars = sum(characters(item.message) for item in view.items)
    return Roles(view.messages, count["system"], count["user"], count["assistant"], count["tool"], chars)


def characters(message: Message) -> int:
    """What a person would read of it: texts, results, and what tools were called with."""
    return sum(map(len, texts(message))) + sum(len(call.name) + len(call.arguments) for call in calls_of(message))


# --- weighing ---------------------------------------------------------------------------------------------------------


def _place(cell: Cell) -> int:
    return cell.place


def _cells(view: View, parts: Mapping[str, int]) -> Iterator[Cell]:
    """In the order in which a provider reads them: what stands first is what its cache holds."""
    yield Cell("framing", REQUEST)
    yield Cell("tools", view.tools_tokens)
    named = {name: tokens for name, tokens in parts.items() if tokens > 0} or {"system": 1}
    split = shared(view.system_tokens, list(named.values()))
    yield from (Cell(PARTS.get(name, "system"), tokens) for name, tokens in zip(named, split, strict=True))
    later = {item.message.id for item in view.since(view.usage.head)} if view.usage is not None else set()
    names: dict[str, str] = {}
    turns = view.turns
    for place, item in enumerate(view.items):
        message = item.message
        names.update((call.id, call.name) for call in calls_of(message))
        turns -= is_request(message)
        result = result_of(message)
        tool = names.get(result.call_id, "") if result is not None else ""
        yield Cell(category_of(message), item.tokens, tool, item, place, turns, message.id in later)


def _weigh(cells: list[Cell], view: View, size: int) -> None:
    """Give each cell its tokens, so that they add up to what was reported and to the size."""
    reported = view.usage.input_tokens if view.usage is not None else 0
    for cell in cells if view.usage is None else ():
        cell.later = True
    for later, total in ((False, reported), (True, size - reported)):
        some = [cell for cell in cells if cell.later == later]
        for cell, tokens in zip(some, shared(total, [cell.weight for cell in some]), strict=True):
            cell.tokens = tokens


def shared(total: int, weights: Sequence[int]) -> list[int]:
    """A number in whole parts by weight: the parts add up, and none is off by one or more."""
    whole = sum(weights)
    if not whole:
        return [total, *([0] * (len(weights) - 1))] if weights else []
    parts = [total * weight // whole for weight in weights]
    rest = sorted(range(len(weights)), key=lambda place: -(total * weights[place] % whole))
    for place in rest[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _price(cells: list[Cell], session: Session, size: int, prices: Mapping[str, Model] | None) -> None:
    known = model_of(session.model, prices)
    steps = [rate for rate in known.prices if not rate.above or size > rate.above] if known is not None else []
    if not steps:
        return
    rate = msgspec.structs.replace(max(steps, key=lambda each: each.above), above=0)
    cached = session.view.usage.cache_read if session.view.usage is not None else 0
    for cell in cells:
        read = min(cell.tokens, cached)
        cached -= read
        paid = price_of(Usage(cell.tokens, 0, read, 0), [rate])
        cell.price = paid.total if paid is not None else None


def _shares(cells: Iterable[Cell]) -> Iterator[Share]:
    """By category, in their order; results by tool, the largest first."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.category, cell.tool), []).append(cell)

    def order(key: tuple[str, str]) -> tuple[int, int]:
        return CATEGORIES.index(key[0]), -sum(cell.tokens for cell in groups[key])

    for key in sorted(groups, key=order):
        some = groups[key]
        messages = sum(cell.item is not None for cell in some)
        if not messages and not any(cell.tokens for cell in some):
            continue
        sent = sum(cell.tokens for cell in some if not cell.later)
        later = sum(cell.tokens for cell in some if cell.later)
        dollars = [cell.price for cell in some if cell.price is not None]
        yield Share(*key, messages, sent, later, sum(dollars) if len(dollars) == len(some) else None)
