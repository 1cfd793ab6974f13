"""The ledger: a note in the view that keeps the facts of messages that leave it.

Every transaction that drops or shortens messages is checked for the facts in them: names, numbers, paths, failures,
calls without a result, files read and changed, and the rules of the user. Afterwards each fact must be *present* in the
view, or *recoverable*: the view names the id of its message, which recall returns. Otherwise it is *kept* in the
ledger, as far as the ledger's share of the room allows. The rest is *left out* of the view, but still in the log. The
edit's reason has the four counts.

The ledger is at the head of the view, before the summary, and stages do not see it. It grows at its end, by a new
message, when a transaction drops or shortens messages that the model has read (the provider reads everything after them
again anyway). Its lines stay word for word; it is rewritten only when messages after it are dropped. A rule counts as
present only in a user message or in the ledger, because a summary may quote anybody.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Edit, EditIndex, Insert, RemoveRule, Replace
from tidegate.core.ledger.lines import (
    LEDGER_END,
    MAX_RULES_SHARE,
    PIN_SHARE,
    LedgerLine,
    join_left_ranges,
    ledger_heading,
    parse_ledger,
    render_ledger,
    select_ledger_lines,
)
from tidegate.core.ledger.loss_check import LossCheck, LossTally, readable_text_of, rules_covered, rules_held
from tidegate.core.ledger.recall_pointers import add_recall_note, is_recall_note
from tidegate.core.messages import (
    LEDGER,
    PIN,
    STATE_NOTE,
    Call,
    Message,
    Part,
    Result,
    Text,
    text_of,
    user_message,
)
from tidegate.core.policy.policy import Policy
from tidegate.core.view import Item, View, rules_given

__all__ = [
    "LEDGER",
    "MAX_LEDGER_TOKENS",
    "PIN",
    "LedgerUpdate",
    "LossTally",
    "held_rules",
    "hide_ledger",
    "ledger_allowance",
    "ledger_share_of",
    "update_ledger",
    "without_rule",
]

_DEFAULT_SHARE: Final = 0.08
"""The share of the room if a policy sets `ledger: true`."""
MAX_LEDGER_TOKENS: Final = 8_000
"""The largest ledger, whatever its share of the room."""
_MAX_WINDOW_SHARE: Final = 0.08  # of the window: the most that the ledger takes
_RULES_IN_SMALL_WINDOW: Final = 256  # the tokens for a ledger with pins or only rules, up to half of the room
_MIN_LEDGER_TOKENS: Final = 40
"""A smaller ledger would have room for its heading only."""


class LedgerUpdate(NamedTuple):
    """The edits with those of the ledger. `tally` is None if nothing was checked. `lost`: a rule would be lost."""

    edits: tuple[Edit, ...]
    tally: LossTally | None = None
    lost: bool = False


def ledger_share_of(policy: Policy) -> float:
    """The policy's setting `ledger`: a share of the room, or true for the default share."""
    share = policy.settings.get("ledger")
    if isinstance(share, bool):
        return _DEFAULT_SHARE if share else 0.0
    return min(max(float(share), 0.0), 0.5) if isinstance(share, int | float) else 0.0


def hide_ledger(view: View) -> View:
    """The view as stages see it: without the ledger, which they must not summarize or drop.

    It is a shallow copy: apart from the list of items it shares everything with the view. `settled_count` is how many
    of its items are before the end of the ledger: an earlier transaction made them lean.
    """
    places = view.kind_index.find(view.items, LEDGER)
    if not places:
        return view
    visible = view.copy()
    visible.items = view.items[:]
    ledger_items = [visible.items.pop(place) for place in reversed(places)]
    ledger_items.reverse()
    visible.ledger_items, visible.settled_count = ledger_items, places[-1] + 1 - len(ledger_items)
    for item in ledger_items:
        visible.tokens -= item.tokens
        visible.metered -= item.metered_tokens
    return visible


def ledger_allowance(policy: Policy, view: View, budget: Budget) -> int:
    """The largest ledger in tokens; 0 for none. If the policy has no ledger, it is for rules and pins only."""
    share = ledger_share_of(policy)
    pinned = any(map(_has_pin, view.items))
    ruled = pinned or (not share and any(map(_has_rule, view.items)))
    of_window = int((budget.window or budget.capacity) * (_MAX_WINDOW_SHARE if share else 1))
    of_room = share or (PIN_SHARE if pinned else _DEFAULT_SHARE if ruled else 0)
    tokens = min(int(budget.held_room * of_room), MAX_LEDGER_TOKENS, of_window)
    if ruled:  # in a small window the share would not hold them
        tokens = max(tokens, min(budget.room // 2, _RULES_IN_SMALL_WINDOW))
    return tokens if tokens >= _MIN_LEDGER_TOKENS else 0


def _has_pin(item: Item) -> bool:
    message = item.message
    return message.kind == PIN or (message.kind == LEDGER and "\n- pin " in text_of(message))


def _has_rule(item: Item) -> bool:
    return item.message.kind == LEDGER or (item.message.role == "user" and bool(rules_given(item)))


def update_ledger(
    policy: Policy, view: View, edits: Sequence[Edit], budget: Budget, most: int, spare: int
) -> LedgerUpdate:
    """The edits, with edits of the ledger that keep their facts.

    The ledger has at most `most` tokens afterwards. All additions together cost at most `spare` tokens.
    """
    ledger_items = [view.items[place] for place in view.kind_index.find(view.items, LEDGER)]
    size = sum(item.tokens for item in ledger_items)
    whole = ledger_share_of(policy) > 0 and not _shows_state_note(edits)
    if not ledger_items and min(most, spare) <= 0:
        return LedgerUpdate(add_recall_note(view, edits, budget, spare) if whole else tuple(edits))
    edits = _move_inserts_after_ledger(edits, ledger_items)
    pointed = _add_recall_pointers(view, edits, budget, max(0, spare) // 2) if whole else _PointedEdits(edits)
    limit = min(most, size + spare - pointed.cost)
    lines = every = parse_ledger("\n".join(text_of(item.message) for item in ledger_items))
    if not whole and ledger_share_of(policy):
        lines = [line for line in every if line.lays_down]
    check = LossCheck(view, pointed.edits, lines, facts=whole)
    after = _find_place(view, edits) if whole else ledger_items[-1].message.id if ledger_items else ""
    if len(lines) < len(every):
        ledger = _rewrite_ledger(check, ledger_items, limit, budget, after)
    else:
        ledger = _write_ledger(check, pointed.edits, ledger_items, limit, budget, after)
    pointed_edits = pointed.edits
    if check.reaches(ledger.lines):  # the ledger names the range: the note of the guard is not needed
        pointed_edits = tuple(edit for edit in pointed_edits if not _is_recall_note_insert(edit))
    tally = check.tally(ledger.lines, pointed.named) if whole else None
    return LedgerUpdate((*ledger.edits, *pointed_edits), tally, check.loses_rules(ledger.lines))


def held_rules(view: View) -> list[LedgerLine]:
    """The rules and pins in force, each once: those in the ledger, then those in messages of the view."""
    lines_before = (line for item in view.covered_items for line in rules_covered(item, view.removed_rules))
    ledger_lines: dict[str, LedgerLine] = {line.text: line for line in lines_before}
    for item in view.items:
        if item.message.kind == LEDGER:
            lines = [line for line in parse_ledger(text_of(item.message)) if line.lays_down]
        else:
            lines = rules_held(item, view.removed_rules)
        ledger_lines.update((line.text, line) for line in lines if line.text not in ledger_lines)
    return list(ledger_lines.values())


def without_rule(view: View, rule: LedgerLine, budget: Budget) -> tuple[Edit, ...]:
    """The edits that remove a rule: from the ledger and the pins, and from what the ledger takes up later."""
    text = rule.text
    ledger_messages = [item.message for item in view.items if item.message.kind == LEDGER]
    lines = parse_ledger("\n".join(map(text_of, ledger_messages)))
    other_lines = [line for line in lines if not (line.lays_down and line.text == text)]
    edits: list[Edit] = []
    if len(other_lines) < len(lines):
        edits.append(Drop(tuple(message.id for message in ledger_messages)))
        if other_lines:
            message = _make_ledger_message(other_lines, headed=True)
            edits.append(Insert(message, ledger_messages[0].id, budget.count(message)))
    pins = [item for item in view.items if item.message.kind == PIN]
    pin_ids = tuple(pin.message.id for pin in pins if any(line.text == text for line in rules_held(pin, {})))
    return (*edits, *([Drop(pin_ids)] if pin_ids else []), RemoveRule(text, rule.ident))


def _shows_state_note(edits: Iterable[Edit]) -> bool:
    """Whether a state note takes the place of old messages: the ledger then has rules and pins only."""
    return any(isinstance(edit, Insert) and edit.message.kind == STATE_NOTE for edit in edits)


def _is_recall_note_insert(edit: Edit) -> bool:
    return isinstance(edit, Insert) and is_recall_note(edit.message)


# --- the edits --------------------------------------------------------------------------------------------------------


class _LedgerEdits(NamedTuple):
    """Edits of the ledger, and its lines afterwards; None if they did not change."""

    edits: tuple[Edit, ...] = ()
    lines: tuple[LedgerLine, ...] | None = None


_NO_EDITS: Final = _LedgerEdits()


def _write_ledger(
    check: LossCheck, edits: Sequence[Edit], ledger_items: list[Item], limit: int, budget: Budget, after: str
) -> _LedgerEdits:
    """Extend the ledger after the message `after`. Rewrite it if it must shrink, or if messages before it change."""
    dropped_ids = {ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids}
    new = check.wanted()
    size = sum(item.tokens for item in ledger_items)
    if (
        size > limit
        or any(item.message.id in dropped_ids for item in ledger_items)
        or (ledger_items and check.changes_before_ledger)
    ):
        return _rewrite_ledger(check, ledger_items, limit, budget, after)
    if not new or not (check.moves or ledger_items or _has_rules(new)):
        return _NO_EDITS
    ledger = _extend_ledger(check.lines, new, ledger_items, limit, budget, after)
    if ledger_items and dropped_ids and not check.reaches(ledger.lines):  # every dropped message must be recallable
        return _rewrite_ledger(check, ledger_items, limit, budget, after)
    return ledger


def _make_ledger_message(lines: Sequence[LedgerLine], *, headed: bool) -> Message:
    heading = ledger_heading(lines, headed=headed)
    return user_message(f"{heading}\n{render_ledger(lines)}\n{LEDGER_END}", LEDGER)


def _has_rules(lines: Iterable[LedgerLine]) -> bool:
    return any(line.lays_down for line in lines)


def _move_inserts_after_ledger(edits: Sequence[Edit], ledger_items: list[Item]) -> tuple[Edit, ...]:
    """The edits with inserts at the head moved after a ledger at the head, because stages do not see it."""
    last = ledger_items[-1].message.id if ledger_items else ""
    return tuple(
        msgspec.structs.replace(edit, after_id=last) if isinstance(edit, Insert) and not edit.after_id else edit
        for edit in edits
    )


def _fit_lines(
    lines: Sequence[LedgerLine], tokens: int, budget: Budget, *, headed: bool, rules: int
) -> list[LedgerLine]:
    """As many lines as fit into `tokens`, counted on the finished message."""
    room = tokens
    for _ in range(8):
        some = select_ledger_lines(lines, room, budget, headed=headed, rules=rules)
        over = budget.count(_make_ledger_message(some, headed=headed)) - tokens if some else 0
        if over <= 0:
            return some
        room -= over + 2
    return []


def _fit_ledger(
    lines: Sequence[LedgerLine], tokens: int, budget: Budget, *, headed: bool, limit: int
) -> tuple[Message, tuple[LedgerLine, ...]] | None:
    """The message with as many lines as fit, and these lines. If a rule would not fit, it gets the short heading."""
    rules = int(limit * MAX_RULES_SHARE)
    some = _fit_lines(lines, tokens, budget, headed=headed, rules=rules)
    if headed and any(line.lays_down and line not in some for line in lines):
        others = _fit_lines(lines, tokens, budget, headed=False, rules=rules)
        if sum(line.lays_down for line in others) > sum(line.lays_down for line in some):
            some, headed = others, False
    return (_make_ledger_message(some, headed=headed), tuple(some)) if some else None


def _extend_ledger(
    old: list[LedgerLine], new: list[LedgerLine], ledger_items: list[Item], limit: int, budget: Budget, after: str
) -> _LedgerEdits:
    room = limit - sum(item.tokens for item in ledger_items)
    fitted = _fit_ledger(new, room, budget, headed=not ledger_items, limit=limit)
    if fitted is None:
        return _NO_EDITS
    message, some = fitted
    return _LedgerEdits((Insert(message, after, budget.count(message)),), (*old, *some))


def _rewrite_ledger(check: LossCheck, ledger_items: list[Item], limit: int, budget: Budget, after: str) -> _LedgerEdits:
    """One new message in place of all messages of the ledger."""
    every = join_left_ranges(check.list_rewritten())
    fitted = _fit_ledger(every, limit, budget, headed=True, limit=limit) if limit >= _MIN_LEDGER_TOKENS else None
    edits: list[Edit] = [Drop(tuple(item.message.id for item in ledger_items))] if ledger_items else []
    if fitted is None:
        return _LedgerEdits(tuple(edits), ())
    message, some = fitted
    edits.append(Insert(message, after, budget.count(message)))
    return _LedgerEdits(tuple(edits), some)


def _find_place(view: View, edits: Sequence[Edit]) -> str:
    """The id after which the ledger goes on: the end of the last group that the edits drop or shorten."""
    changes = EditIndex(edits)
    place = ""
    touched = False
    for item in view.items:
        if item.message.role != "tool":
            touched = False
        ident = item.message.id
        touched = touched or ident in changes.dropped or ident in changes.replaced
        if touched:
            place = ident
    return place


class _PointedEdits(NamedTuple):
    """Edits with recall pointers added, for `cost` tokens. `named` is how many shortened messages have one."""

    edits: tuple[Edit, ...]
    cost: int = 0
    named: int = 0


def _add_recall_pointers(view: View, edits: Sequence[Edit], budget: Budget, spare: int) -> _PointedEdits:
    """Add a recall pointer to each shortened message that has none."""
    messages = {item.message.id: item.message for item in view.items}
    pointed_edits: list[Edit] = []
    cost = pointers = 0
    for edit in edits:
        old = messages.get(edit.id) if isinstance(edit, Replace) else None
        if isinstance(edit, Replace) and old is not None:
            after = readable_text_of(Message(old.role, edit.parts))
            says = f"recall {edit.id}" in after
            if not says and _count_visible_chars(after) < _count_visible_chars(readable_text_of(old)):
                parts = _append_text(edit.parts, f"[recall {edit.id} has all of it]")
                tokens = budget.count(Message(old.role, parts))
                says = cost + tokens - edit.tokens <= spare
                if says:
                    cost += tokens - edit.tokens
                    edit = msgspec.structs.replace(edit, parts=parts, tokens=tokens)
            pointers += says
        pointed_edits.append(edit)
    return _PointedEdits(tuple(pointed_edits), cost, pointers)


def _count_visible_chars(text: str) -> int:
    """The length without white space: arguments may be written closer."""
    return len("".join(text.split()))


def _append_text(parts: tuple[Part, ...], text: str) -> tuple[Part, ...]:
    for place, part in enumerate(parts):
        if isinstance(part, Result):
            inside = Result(part.call_id, (*part.parts, Text(text)), part.error)
            return (*parts[:place], inside, *parts[place + 1 :])
        if isinstance(part, Call):
            return (*parts[:place], Text(text), *parts[place:])
    return (*parts, Text(text))
