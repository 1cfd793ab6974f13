"""What fills the window: tokens and dollars by category and by message, and which rule acts next.

The categories add up to the size that the policy uses: tokens of the last request to what the provider reported, newer
ones to the difference. The work is proportional to the view, not to the log.
"""

from collections import Counter as Tally
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from tidegate.core.edits import Drop
from tidegate.core.events import Event, MessageAdded, UsageReported, ViewEdited
from tidegate.core.ledger.writer import LEDGER, PIN
from tidegate.core.messages import SUMMARY, TOOL_SUMMARY, Message, calls_of, is_user_request, result_of, texts_of
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, is_plausible_report
from tidegate.core.usage import Usage
from tidegate.core.view import Item, View
from tidegate.models.catalog import ModelInfo, find_model
from tidegate.models.pricing import compute_cost
from tidegate.session.reports.forecast import Threshold, find_next_threshold, find_removing_rules, list_thresholds
from tidegate.session.session import Session
from tidegate.store.log import Log

_MAX_GAP: Final = 64


class _UsageCell(msgspec.Struct):
    """The smallest unit that tokens are assigned to: a part of the fixed part, or a message."""

    category: str
    weight: int
    tool: str = ""
    item: Item | None = None
    position: int = 0
    turns_ago: int = 0
    is_new: bool = False
    tokens: int = 0
    dollars: float | None = None


class MessageUsage(msgspec.Struct, frozen=True):
    """A message of the view. `turns_ago` and `age_seconds` are its age. `dollars` is its price in one call (None if the
    price is not known); the part that was in the provider's cache at the last call costs less.

    `original_tokens` is its size when it was added, on the same scale as `tokens`, or 0 if it is shown whole. `reason`
    says why it is still in the view, or that it was shortened.
    """

    id: str
    category: str
    tool: str
    role: str
    tokens: int
    turns_ago: int
    age_seconds: float | None
    dollars: float | None
    reason: str
    original_tokens: int = 0


def describe_messages(cells: Sequence[_UsageCell], session: Session) -> Iterator[MessageUsage]:
    takers, now = find_removing_rules(session), session.parts.live.clock()
    events = {
        event.seq: event
        for event in read_events_at(session.log, [_event_seq(cell.item) for cell in cells if cell.item])
    }
    for cell in cells:
        assert cell.item is not None
        message, event = cell.item.message, events.get(_event_seq(cell.item))
        user_count = 0
        if event is not None and isinstance(event.payload, MessageAdded) and cell.item.edited:
            user_count = (
                round(event.payload.tokens * cell.tokens / cell.weight) if cell.weight else event.payload.tokens
            )
        yield MessageUsage(
            message.id,
            cell.category,
            cell.tool,
            message.role,
            cell.tokens,
            cell.turns_ago,
            max(0.0, now - event.time) if event is not None else None,
            cell.dollars,
            _explain_presence(cell.item, session.view, event, takers, user_count),
            user_count,
        )


def _explain_presence(item: Item, view: View, event: Event | None, takers: Mapping[str, str], full_tokens: int) -> str:
    ident = item.message.id
    if ident == view.newest_request:
        return "the newest request: it is always kept"
    if item.message.kind == PIN:
        return "pinned: it is always kept, word for word"
    if item.message.kind == LEDGER:
        return "the ledger: rules and facts of removed messages"
    lines: list[str] = []
    if event is not None and isinstance(event.payload, ViewEdited):
        dropped_count = sum(len(edit.ids) for edit in event.payload.edits if isinstance(edit, Drop))
        lines.append(
            f"stands for {dropped_count:,} messages that were removed at record {event.seq}"
            if dropped_count
            else f"added at record {event.seq}"
        )
    elif full_tokens:
        lines.append(f"shortened from {full_tokens:,} tokens; recall {ident} shows all of it")
    lines.append(f"stays until {takers[ident]}" if ident in takers else "recent: no rule removes it yet")
    return "; ".join(lines)


def _event_seq(item: Item | None) -> int:
    """Return the seq of the event that the item's message id names."""
    number = item.message.id[1:].partition(".")[0] if item is not None else ""
    return int(number) if number.isdecimal() else 0


def read_events_at(log: Log, seqs: Iterable[int]) -> Iterator[Event]:
    """Read the events with these seqs, neighboring ones in one read: the work grows with their number."""
    queue = deque(sorted({seq for seq in seqs if 1 <= seq <= log.head}))
    while queue:
        for event in log.read(queue[0]):
            if event.seq == queue[0]:
                queue.popleft()
                yield event
            if not queue or queue[0] > event.seq + _MAX_GAP:
                break


_MAX_MESSAGES: Final = 200
"""How many messages are described one by one."""
_EVENTS_SINCE_REPORT: Final = 16
"""How many of the newest events are searched for a usage report."""
_PROMPT_PART_CATEGORIES: Final[Mapping[str, str]] = MappingProxyType(
    {"skills": "skills", "memory": "memory", "project": "rules", "pinned": "rules"}
)
"""The category of a part of the system prompt; other parts are `system`."""
WINDOW_CATEGORIES: Final = (
    "system tools skills memory rules user assistant results summaries ledger notes framing".split()
)
"""All categories in display order. `framing` is what the wire format adds."""


class CategoryUsage(msgspec.Struct, frozen=True):
    """Tokens of a category; results have one entry for each tool.

    `sent_tokens` were in the last request, `new_tokens` were added since. Without a valid usage report all are new.
    `dollars` is the price in one call, None if not known.
    """

    category: str
    tool: str = ""
    message_count: int = 0
    sent_tokens: int = 0
    new_tokens: int = 0
    dollars: float | None = None

    @property
    def tokens(self) -> int:
        return self.sent_tokens + self.new_tokens

    @property
    def name(self) -> str:
        return f"{self.category}: {self.tool}" if self.tool else self.category


class RoleCounts(msgspec.Struct, frozen=True):
    """Messages in the view by role (`tool`: tool results), and the characters of all of them."""

    total: int
    system: int
    user: int
    assistant: int
    tool: int
    characters: int


class WindowUsage(msgspec.Struct, frozen=True):
    """The window as it is now. `tokens` is the size of the next request, `reported_tokens` the provider's report of the
    last one (0 if an edit made it obsolete).

    `capacity` is the window minus the reserve for the answer. `window_is_assumed`: the model's window is not known;
    `window` is then the policy's guess, or None. `messages` are the largest ones in view order, and `omitted_count` is
    the number of others. `next_threshold` is the one that will be reached first. `ignored_report`: the tokens of the
    last report, if they are impossible for the request.
    """

    tokens: int
    reported_tokens: int
    window: int | None
    capacity: int
    roles: RoleCounts
    categories: tuple[CategoryUsage, ...]
    messages: tuple[MessageUsage, ...]
    thresholds: tuple[Threshold, ...]
    next_threshold: Threshold | None = None
    omitted_count: int = 0
    window_is_assumed: bool = False
    ignored_report: int = 0

    @property
    def used_share(self) -> float:
        """The share of the capacity that is used."""
        return self.tokens / max(1, self.capacity)


def categorize_message(message: Message) -> str:
    """Return the category of a message in a view, one of `WINDOW_CATEGORIES`."""
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


def measure_window_usage(
    session: Session,
    *,
    prompt_parts: Mapping[str, int] | None = None,
    model_overrides: Mapping[str, ModelInfo] | None = None,
    max_messages: int = _MAX_MESSAGES,
) -> WindowUsage:
    """Measure the window. `prompt_parts` are the tokens of the system prompt's parts by name."""
    view, budget = session.view, session.budget
    cells = list(_make_cells(view, prompt_parts or {}))
    size = session.tokens
    _assign_tokens(cells, view, size)
    _assign_prices(cells, session, size, model_overrides)
    entries = sorted(
        sorted((cell for cell in cells if cell.item), key=lambda cell: -cell.tokens)[:max_messages], key=_item_position
    )
    thresholds = list_thresholds(session)
    return WindowUsage(
        size,
        view.usage.input_tokens if view.usage is not None else 0,
        budget.window,
        budget.capacity,
        count_roles(view),
        tuple(_sum_categories(cells)),
        tuple(describe_messages(entries, session)),
        tuple(thresholds),
        find_next_threshold(thresholds),
        view.message_count - len(entries),
        session.window_is_assumed,
        _find_ignored_report(session),
    )


def _find_ignored_report(session: Session) -> int:
    """Return the tokens of the newest report if they are impossible for the request; else 0."""
    start = max(1, session.log.head - _EVENTS_SINCE_REPORT)
    reports = [each.payload for each in session.log.read(start) if isinstance(each.payload, UsageReported)]
    if not reports or is_plausible_report(reports[-1].counted_tokens, reports[-1].input_tokens):
        return 0
    return reports[-1].input_tokens


def count_roles(view: View) -> RoleCounts:
    count = Tally(item.message.role for item in view.items)
    chars = sum(count_characters(item.message) for item in view.items)
    return RoleCounts(view.message_count, count["system"], count["user"], count["assistant"], count["tool"], chars)


def count_characters(message: Message) -> int:
    """Count the characters a person would read: texts, results, names and arguments of calls."""
    return sum(map(len, texts_of(message))) + sum(len(call.name) + len(call.arguments) for call in calls_of(message))


# --- weighing ---------------------------------------------------------------------------------------------------------


def _item_position(cell: _UsageCell) -> int:
    return cell.position


def _make_cells(view: View, parts: Mapping[str, int]) -> Iterator[_UsageCell]:
    """Yield the cells in the order of the request, because the provider's cache holds a prefix of it."""
    yield _UsageCell("framing", REQUEST_OVERHEAD)
    yield _UsageCell("tools", view.tools_tokens)
    shares = {name: tokens for name, tokens in parts.items() if tokens > 0} or {"system": 1}
    split = split_by_weight(view.system_tokens, list(shares.values()))
    yield from (
        _UsageCell(_PROMPT_PART_CATEGORIES.get(name, "system"), tokens)
        for name, tokens in zip(shares, split, strict=True)
    )
    later = {item.message.id for item in view.items_after(view.usage.log_head)} if view.usage is not None else set()
    names: dict[str, str] = {}
    turns = view.visible_turns
    for place, item in enumerate(view.items):
        message = item.message
        names.update((call.id, call.name) for call in calls_of(message))
        turns -= is_user_request(message)
        result = result_of(message)
        tool = names.get(result.call_id, "") if result is not None else ""
        yield _UsageCell(categorize_message(message), item.tokens, tool, item, place, turns, message.id in later)


def _assign_tokens(cells: list[_UsageCell], view: View, size: int) -> None:
    """Distribute the reported tokens and the rest of the size over the cells, in proportion to our counts."""
    reported = view.usage.input_tokens if view.usage is not None else 0
    for cell in cells if view.usage is None else ():
        cell.is_new = True
    for later, total in ((False, reported), (True, size - reported)):
        some = [cell for cell in cells if cell.is_new == later]
        for cell, tokens in zip(some, split_by_weight(total, [cell.weight for cell in some]), strict=True):
            cell.tokens = tokens


def split_by_weight(total: int, weights: Sequence[int]) -> list[int]:
    """Split a number into whole parts by weight. The parts add up exactly, and each is off by less than one."""
    whole = sum(weights)
    if not whole:
        return [total, *([0] * (len(weights) - 1))] if weights else []
    parts = [total * weight // whole for weight in weights]
    rest = sorted(range(len(weights)), key=lambda place: -(total * weights[place] % whole))
    for place in rest[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _assign_prices(
    cells: list[_UsageCell], session: Session, size: int, prices: Mapping[str, ModelInfo] | None
) -> None:
    model = find_model(session.model, prices)
    steps = [rate for rate in model.prices if not rate.above or size > rate.above] if model is not None else []
    if not steps:
        return
    rate = msgspec.structs.replace(max(steps, key=lambda each: each.above), above=0)
    cached = session.view.usage.cache_read if session.view.usage is not None else 0
    for cell in cells:
        read = min(cell.tokens, cached)
        cached -= read
        cost = compute_cost(Usage(cell.tokens, 0, read, 0), [rate])
        cell.dollars = cost.total if cost is not None else None


def _sum_categories(cells: Iterable[_UsageCell]) -> Iterator[CategoryUsage]:
    """Yield sums by category in display order; results by tool, the largest first."""
    groups: dict[tuple[str, str], list[_UsageCell]] = {}
    for cell in cells:
        groups.setdefault((cell.category, cell.tool), []).append(cell)

    def order(key: tuple[str, str]) -> tuple[int, int]:
        return WINDOW_CATEGORIES.index(key[0]), -sum(cell.tokens for cell in groups[key])

    for key in sorted(groups, key=order):
        some = groups[key]
        messages = sum(cell.item is not None for cell in some)
        if not messages and not any(cell.tokens for cell in some):
            continue
        first_sent = sum(cell.tokens for cell in some if not cell.is_new)
        later = sum(cell.tokens for cell in some if cell.is_new)
        dollars = [cell.dollars for cell in some if cell.dollars is not None]
        yield CategoryUsage(*key, messages, first_sent, later, sum(dollars) if len(dollars) == len(some) else None)
