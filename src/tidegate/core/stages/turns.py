"""Stages that drop whole turns or groups. None needs a model; some can save the messages to memory first."""

import math

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.messages import HANDOFF, NOTE, REMINDER, SUMMARY, Message, Part, Text, is_user_request, user_message
from tidegate.core.outcome import NO_OUTCOME, Effect, Flush, Outcome, SummaryRequest
from tidegate.core.stages.notices import make_reminder_edits
from tidegate.core.text.plural import format_count
from tidegate.core.turns import Group, Turn, collect_ids, count_newest_groups, split_groups, split_turns
from tidegate.core.view import Item, View

_FLUSH_INSTRUCTIONS = (
    "Write down what is worth remembering of these messages for later sessions: facts, decisions, outcomes,"
    " preferences of the user. Short notes, no instructions."
)


def _make_flush(items: tuple[Item, ...], max_tokens: int) -> Flush:
    return Flush(SummaryRequest(tuple(item.message for item in items), _FLUSH_INSTRUCTIONS, max_tokens))


def drop_turns(
    view: View,
    budget: Budget,
    *,
    share: Share = 0.0,
    keep: int | None = None,
    flush: int = 0,
    least: int = 0,
    until: int = 0,
) -> Outcome:
    """Drop the oldest complete turns: a share of them, or all but the newest `keep`. The current turn always stays.

    `flush` > 0 first saves a summary of at most so many tokens to memory. With fewer than `least` turns nothing is
    done. With `until` the same share of the rest is dropped again, and at least one turn, until the request has at most
    so many tokens.
    """
    turns = split_turns(view)
    complete = turns[:-1]
    if len(turns) < least or not complete:
        return NO_OUTCOME
    count = int(len(complete) * share) if keep is None else max(0, len(turns) - max(1, keep))
    left = view.tokens - sum(turn.tokens for turn in complete[:count])
    while until and count < len(complete) and len(turns) - count >= least and not _fits(left, until, budget):
        step = max(1, int((len(complete) - count) * share))
        left -= sum(turn.tokens for turn in complete[count : count + step])
        count += step
    leaving = complete[:count]
    if not leaving:
        return NO_OUTCOME
    items = tuple(item for turn in leaving for item in turn.items)
    effects: tuple[Effect, ...] = (_make_flush(items, flush),) if flush else ()
    return Outcome(
        (Drop(collect_ids(leaving)),),
        effects=effects,
        why=f"the oldest {len(leaving)} of {format_count(len(turns), 'turn')}",
    )


def _fits(history: int, tokens: int, budget: Budget) -> bool:
    """Whether a request with a history of this size has at most so many of the provider's tokens."""
    return math.ceil((budget.fixed + history) * budget.scale) <= min(tokens, budget.capacity)


def text_only_turns(
    view: View,
    budget: Budget,
    *,
    keep: int | None = None,
    below: int = 0,
    current: bool = True,
    running: bool = True,
) -> Outcome:
    """Reduce each turn to its request and its last reply, without the tool calls between them.

    With `keep`, only the newest so many turns stay; older ones are dropped in the same transaction. With `below`, it
    acts only if there are fewer turns than that. `current`: also the newest turn. A newest turn that is `running`
    keeps its last group, so that the model sees its last calls.
    """
    turns = split_turns(view)
    if below and len(turns) >= below:
        return NO_OUTCOME
    leaving = turns[: -max(1, keep)] if keep is not None else ()
    newest = turns[len(leaving) :]
    edits: list[Edit] = [Drop(collect_ids(leaving))] if leaving else []
    for turn in newest if current else newest[:-1]:
        edits.extend(_text_only(turn, turn is turns[-1], running))
    leave = f"{format_count(len(leaving), 'old turn')} out of the view; " if leaving else ""
    return (
        Outcome(tuple(edits), why=f"{leave}{format_count(len(newest), 'turn')} cut to request and reply")
        if edits
        else NO_OUTCOME
    )


def _text_only(turn: Turn, newest: bool, running: bool) -> list[Edit]:
    rest = turn.groups[1:]
    reply = next((group for group in reversed(rest) if _has_reply(group)), None)
    keep = {turn.groups[0].last_id}
    edits: list[Edit] = []
    if newest and running and rest and len(rest[-1].items) > 1:
        keep.update(rest[-1].ids)
    elif reply is not None:
        keep.update(reply.ids if len(reply.items) == 1 else ())
    leaving = [group for group in rest if not keep.issuperset(group.ids)]
    if leaving:
        edits.append(Drop(collect_ids(leaving)))
    if reply is not None and reply in leaving:
        text = tuple(part for part in reply.items[0].message.parts if isinstance(part, Text))
        edits.append(Insert(Message("assistant", text, kind=NOTE), turn.groups[0].last_id))
    if not newest:
        first: tuple[Part, ...] = tuple(
            part for part in turn.groups[0].items[0].message.parts if isinstance(part, Text)
        )
        if first and first != turn.groups[0].items[0].message.parts:
            edits.append(Replace(turn.groups[0].last_id, first))
    return edits


def _has_reply(group: Group) -> bool:
    message = group.items[0].message
    return message.role == "assistant" and any(isinstance(part, Text) and part.text.strip() for part in message.parts)


def keep_recent(
    view: View,
    budget: Budget,
    *,
    messages: int | None = None,
    tokens: int | None = None,
    share: Share = 0.0,
    note: str = "[Earlier messages truncated]",
    reminder: int = 0,
) -> Outcome:
    """Keep the newest messages (a number, tokens, or a share of the room) and the newest request. No group is cut.

    `note` is inserted where messages were dropped.
    """
    if share:
        tokens = int(budget.room * share)
    units = split_groups(view)
    groups = count_newest_groups(units, messages=messages, tokens=tokens)
    return _without(view, budget, units[: len(units) - groups], note, reminder)


def drop_oldest(view: View, budget: Budget, *, share: Share = 0.5, note: str = "", reminder: int = 0) -> Outcome:
    """Drop the oldest share of the messages without cutting a group. Meant for requests that a provider refused."""
    units = split_groups(view)
    groups = count_newest_groups(units, messages=view.message_count - int(view.message_count * share))
    return _without(view, budget, units[: len(units) - groups], note, reminder)


def _without(view: View, budget: Budget, old: list[Group], note: str, reminder: int) -> Outcome:
    """Drop these groups, except the newest request, summaries and reminders."""
    leaving = [
        group
        for group in old
        if view.newest_request not in group.ids and group.items[0].message.kind not in (SUMMARY, REMINDER, HANDOFF)
    ]
    if not any(
        is_user_request(item.message) or item.message.role != "user" for group in leaving for item in group.items
    ):
        return NO_OUTCOME
    edits: list[Edit] = [Drop(collect_ids(leaving))]
    if note:
        edits.append(Insert(user_message(note, NOTE), leaving[-1].last_id))
    edits.extend(make_reminder_edits(view, budget, leaving, reminder))
    return Outcome(
        tuple(edits), why=f"{format_count(sum(len(group.items) for group in leaving), 'old message')} out of the view"
    )


def clear_context(view: View, budget: Budget, *, flush: int = 0) -> Outcome:
    """Drop everything but the newest request."""
    leaving = [group for group in split_groups(view) if view.newest_request not in group.ids]
    if not leaving:
        return NO_OUTCOME
    items = tuple(item for group in leaving for item in group.items)
    effects: tuple[Effect, ...] = (_make_flush(items, flush),) if flush else ()
    return Outcome((Drop(collect_ids(leaving)),), effects=effects, why="the context is cleared")


def flush_memory(view: View, budget: Budget, *, tokens: int) -> Outcome:
    """Save a summary of the whole view to long-term memory. Nothing is dropped."""
    if not view.items:
        return NO_OUTCOME
    return Outcome(effects=(_make_flush(tuple(view.items), tokens),), why="everything is saved to memory first")
