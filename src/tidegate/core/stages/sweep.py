"""The stage `sweep`: shorten everything old at once, but seldom, so that the cached prefix stays valid for long.

What stays: user messages; of old work the lines that are likeliest to be needed again, in their calls and results; the
newest groups whole. Every shortened message says how to recall the rest.
"""

from collections.abc import Mapping, Sequence

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
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

_USER_SHARE = 0.4  # of the room: the most that old user messages take
_MAX_FILL = 0.9  # of the room: above that even new results are cut


def sweep(
    view: View,
    budget: Budget,
    *,
    fidelity: float = DEFAULT_FIDELITY,
    tail: Share = 0.05,
    words: int = 2_000,
    ledger: Share = 0.0,
    most: Share = 1.0,
) -> Outcome:
    """Shorten everything old down to the level that costs least per call, and to at most `most` of the room.

    Of each user message the first `words` characters stay. `tail` and `ledger` are shares of the room: for the newest
    groups, which stay whole, and for the ledger. `fidelity` trades cost for kept content: see
    `core/sweep/cost_model.py`.
    """
    units, room = split_groups(view), budget.room
    first = _find_tail(units, view, int(room * tail))
    old = units[:first]
    workers = [number for number, unit in enumerate(old) if unit.items[0].message.role == "assistant"]
    if not workers:
        return NO_OUTCOME
    draft = ViewDraft(view, budget)
    _drop_hints(draft, old)
    _shorten_user_messages(draft, old, view, words, int(room * _USER_SHARE))
    reserved = int(room * min(ledger, 0.5))
    stay = reserved + draft.tokens - sum(old[number].tokens for number in workers)
    market = SweepMarket(SessionPace.of(view.total_tokens_said, view.reply_count), budget.prices, fidelity)
    full = room if market.pays(view.tokens) else find_sweep_fill(room, market, stay)
    total = find_best_level(min(stay, full), full, market, lost=_count_signed_thinking(units[first:]))
    level = min(total.level, int(room * most))
    _keep_chosen_lines(draft, old, workers, select_lines(appraise_groups(units, first, view), old, level - stay))
    _fit_newest_group(draft, units, view, int(room * _MAX_FILL) - reserved, budget)
    return Outcome(draft.edits(), why=f"a sweep {total}") if draft.edit_count else NO_OUTCOME


def _drop_hints(draft: ViewDraft, old: Sequence[Group]) -> None:
    for unit in old:
        message = unit.items[0].message
        if message.kind == NOTE and text_of(message).startswith(HINT_PREFIX):
            draft.drop(unit)


def _find_tail(units: Sequence[Group], view: View, tokens: int) -> int:
    """The index of the first group that stays whole. Messages that the model has not seen yet always do."""
    fresh = {item.message.id for item in view.items_since_reply()}
    used, first = 0, len(units)
    while first > 0:
        unit = units[first - 1]
        used += unit.tokens
        if first < len(units) and used > tokens and fresh.isdisjoint(unit.ids):
            break
        first -= 1
    return first


def _count_signed_thinking(tail: Sequence[Group]) -> int:
    """Tokens of signed thinking in the tail. It is lost, because the messages before it change."""
    found = 0
    for unit in tail:
        for item in unit.items:
            if item.signed:
                found += sum(len(part.block) // 4 for part in item.message.parts if isinstance(part, Thinking))
    return found


def _shorten_user_messages(draft: ViewDraft, old: Sequence[Group], view: View, words: int, room: int) -> None:
    """Shorten old user messages to their first `words` characters, and to fewer, oldest first, if all take too much.

    If that is not enough, the oldest ones but the first are dropped. The ledger keeps their rules.
    """
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


def _keep_chosen_lines(
    draft: ViewDraft, old: Sequence[Group], workers: Sequence[int], kept: Mapping[int, list[LineChoice]]
) -> None:
    """Reduce each group to its chosen lines. Groups without any are dropped."""
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
            draft.replace(item, _shorten_item(item, lines, names))


def _shorten_item(
    item: Item, lines: Mapping[LineSlot, Sequence[KeyLine]], names: Mapping[str, str]
) -> tuple[Part, ...]:
    message = item.message
    result = result_of(message)
    if result is None:
        return shorten_caller(message, lines)
    return shorten_result(
        message, lines.get(LineSlot(message.id), ()), names.get(result.call_id, "a tool"), item.tokens
    )


def _fit_newest_group(draft: ViewDraft, units: Sequence[Group], view: View, target: int, budget: Budget) -> None:
    """If the new messages alone are too large, shorten their results rather than user messages."""
    if draft.tokens > target and view.newest_request not in units[-1].ids:
        squeeze_group(draft, units[-1], target, budget)
