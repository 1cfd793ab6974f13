"""One sweep, seldom: everything old becomes lean at once, so that the provider's cached prefix then stays for long.

What is left of it: the words of the user; of old work the lines that are likeliest to be needed again, in the calls and
results they stood in; the last groups whole. Everything says where the rest is.
"""

from collections.abc import Mapping, Sequence

from tidegate.core.budget import Budget
from tidegate.core.messages import NOTE, Part, Thinking, is_user_request, result_of, text_of
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.stages.guard import squeeze_group
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.core.stages.view_draft import ViewDraft
from tidegate.core.sweep.cost_model import (
    DEFAULT_FIDELITY,
    SessionPace,
    SweepMarket,
    find_best_level,
    find_sweep_fill,
)
from tidegate.core.sweep.key_lines import KeyLine
from tidegate.core.sweep.line_values import LineChoice, appraise_groups, select_lines
from tidegate.core.sweep.shortening import LineSlot, clip_message, shorten_caller, shorten_result
from tidegate.core.turns import Group, split_groups, tool_names_by_call
from tidegate.core.view import Item, View

_WORDS = 0.4  # of the room: the most that old messages of the user take
_FULLEST = 0.9  # of the room: above that even what is new is cut


def sweep(
    view: View,
    budget: Budget,
    *,
    fidelity: float = DEFAULT_FIDELITY,
    tail: float = 0.05,
    words: int = 2_000,
    ledger: float = 0.0,
    most: float = 1.0,
) -> Outcome:
    """Make everything old lean, down to the level that costs the least per call, and never above `most` of the room.

    Of each message of the user the first `words` characters stay word for word. `tail` and `ledger` are shares of the
    room: what stays whole at the end, what is left free for the ledger. `fidelity` trades the bill for what is kept:
    see `price`.
    """
    units, room = split_groups(view), budget.room
    first = _tail(units, view, int(room * tail))
    old = units[:first]
    workers = [number for number, unit in enumerate(old) if unit.items[0].message.role == "assistant"]
    if not workers:
        return NO_OUTCOME
    draft = ViewDraft(view, budget)
    _drop_hints(draft, old)
    _shorten_words(draft, old, view, words, int(room * _WORDS))
    reserved = int(room * min(ledger, 0.5))
    stay = reserved + draft.tokens - sum(old[number].tokens for number in workers)
    market = SweepMarket(SessionPace.of(view.total_tokens_said, view.reply_count), budget.prices, fidelity)
    full = room if market.pays(view.tokens) else find_sweep_fill(room, market, stay)
    total = find_best_level(min(stay, full), full, market, lost=_signed(units[first:]))
    level = min(total.level, int(room * most))
    _make_lean(draft, old, workers, select_lines(appraise_groups(units, first, view), old, level - stay))
    _fit(draft, units, view, int(room * _FULLEST) - reserved, budget)
    return Outcome(draft.edits(), why=f"a sweep {total}") if draft.edit_count else NO_OUTCOME


def _drop_hints(draft: ViewDraft, old: Sequence[Group]) -> None:
    for unit in old:
        message = unit.items[0].message
        if message.kind == NOTE and text_of(message).startswith(HINT_PREFIX):
            draft.drop(unit)


def _tail(units: Sequence[Group], view: View, tokens: int) -> int:
    """Where the part that stays whole begins. What the model has not seen yet always does."""
    fresh = {item.message.id for item in view.items_since_reply()}
    used, first = 0, len(units)
    while first > 0:
        unit = units[first - 1]
        used += unit.tokens
        if first < len(units) and used > tokens and fresh.isdisjoint(unit.ids):
            break
        first -= 1
    return first


def _signed(tail: Sequence[Group]) -> int:
    """Tokens of signed thinking that an edit takes away although the messages stay: all of them stand behind it."""
    found = 0
    for unit in tail:
        for item in unit.items:
            if item.signed:
                found += sum(len(part.block) // 4 for part in item.message.parts if isinstance(part, Thinking))
    return found


def _shorten_words(draft: ViewDraft, old: Sequence[Group], view: View, words: int, room: int) -> None:
    """Old messages of the user to their first `words` characters. If all are still too much, the oldest to fewer; and
    if that is not enough, the oldest but the first leave: what they laid down goes into the ledger."""
    said = [unit for unit in old if is_user_request(unit.items[0].message) and unit.last_id != view.newest_request]
    total = sum(draft.group_cost(unit) for unit in said)
    for cap in (words, words // 4, words // 16):
        for unit in said:
            item = unit.items[0]
            if (cap == words or total > room) and len(text_of(item.message)) > cap * 1.1:
                total -= draft.group_cost(unit)
                draft.replace(item, clip_message(item.message, cap))
                total += draft.group_cost(unit)
    for unit in said[1:]:
        if total > room:
            total -= draft.group_cost(unit)
            draft.drop(unit)


def _make_lean(
    draft: ViewDraft, old: Sequence[Group], workers: Sequence[int], kept: Mapping[int, list[LineChoice]]
) -> None:
    """Each group with its chosen lines; those of which nothing was chosen leave."""
    for number in workers:
        unit = old[number]
        lines: dict[LineSlot, list[KeyLine]] = {}
        for choice in kept.get(number, ()):
            lines.setdefault(choice.slot, []).append(choice.line)
        if not lines:
            draft.drop(unit)
            continue
        names = tool_names_by_call(unit.items)
        for item in unit.items:
            draft.replace(item, _lean(item, lines, names))


def _lean(item: Item, lines: Mapping[LineSlot, Sequence[KeyLine]], names: Mapping[str, str]) -> tuple[Part, ...]:
    message = item.message
    result = result_of(message)
    if result is None:
        return shorten_caller(message, lines)
    return shorten_result(
        message, lines.get(LineSlot(message.id), ()), names.get(result.call_id, "a tool"), item.tokens
    )


def _fit(draft: ViewDraft, units: Sequence[Group], view: View, target: int, budget: Budget) -> None:
    """If what is new alone is too much, its results give way, so that the words of the user need not."""
    if draft.tokens > target and view.newest_request not in units[-1].ids:
        squeeze_group(draft, units[-1], target, budget)
