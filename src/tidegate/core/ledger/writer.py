"""The facts ledger: nothing hard leaves a view unseen.

Every transaction that drops or shrinks messages is held against the hard facts in what leaves: names, numbers, paths,
failures, calls without a result, files read and changed, and the rules of the user. Each must be *present* in the view
afterwards, or *recoverable*: the view names the id of the message that said it, and recall gives that back. Else it is
*kept* in a note of its own, as far as its share of the room goes; what is *left out* then is counted, and still in the
log. The counts stand in the reason of the edit.

The note stands at the head of the view, before the summary, and no stage sees it. It grows at its end, by messages of
its own, when a transaction drops or shrinks what the model has read (all behind that is read again anyway), and what it
says stays word for word; it is rewritten only by one that drops messages behind it. A rule counts as present only in
the user's own words or in this note: a summary may quote anybody.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, NamedTuple

import msgspec

from tidegate.core.budget import UNLIMITED, Budget
from tidegate.core.edits import Drop, Edit, Insert, RemoveRule, Replace
from tidegate.core.ledger.lines import (
    LEDGER,
    LEDGER_HEADING,
    MAX_RULES_SHARE,
    PIN_SHARE,
    LedgerLine,
    join_left_ranges,
    merge_ledger_lines,
    parse_ledger,
    render_ledger,
    select_ledger_lines,
)
from tidegate.core.ledger.loss_check import PIN, LossCheck, LossTally, readable_text_of, rules_held
from tidegate.core.ledger.recall_pointers import add_recall_note, is_recall_note
from tidegate.core.messages import (
    Call,
    Message,
    Part,
    Result,
    Text,
    text_of,
    user_message,
)
from tidegate.core.policy.policy import Policy
from tidegate.core.view import Item, View

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
"""Of the room, where a policy only says that it wants a ledger."""
MAX_LEDGER_TOKENS: Final = 8_000
"""The ledger has at most its share of the room and a tenth of the window, and never more tokens than this."""
_MIN_LEDGER_TOKENS: Final = 64
"""A ledger of fewer tokens would be nothing but its heading."""

_TOLD: Final = 0.2  # the most that open work, decisions and runs take of the ledger: the rest is for names


class LedgerUpdate(NamedTuple):
    """`tally` is None where nothing was looked after. `lost`: a rule found no place, neither in the view nor here."""

    edits: tuple[Edit, ...]
    tally: LossTally | None = None
    lost: bool = False


def ledger_share_of(policy: Policy) -> float:
    """What a policy sets aside for it: its setting `ledger`, a share of the room; true is the usual one."""
    share = policy.settings.get("ledger")
    if isinstance(share, bool):
        return _DEFAULT_SHARE if share else 0.0
    return min(max(float(share), 0.0), 0.5) if isinstance(share, int | float) else 0.0


def hide_ledger(view: View) -> View:
    """The view as stages see it: without the ledger, which they must not summarize or drop. It must not be folded.

    It is a shallow copy: apart from the list of items it shares everything with the view.
    """
    count = 0
    for item in view.items:
        if item.message.kind != LEDGER:
            break
        count += 1
    if not count:
        return view
    visible = copy(view)
    visible.items, visible.ledger_items = view.items[count:], view.items[:count]
    visible.tokens -= sum(item.tokens for item in visible.ledger_items)
    visible.metered -= sum(item.metered_tokens for item in visible.ledger_items)
    return visible


def ledger_allowance(policy: Policy, view: View, budget: Budget) -> int:
    """How many tokens the ledger may have; 0 for none. Where a policy has no ledger, pins still need a place."""
    share = ledger_share_of(policy)
    if not share and any(item.message.kind in (PIN, LEDGER) for item in view.items):
        share = PIN_SHARE
    tokens = min(
        int(budget.room * share),
        MAX_LEDGER_TOKENS,
        (budget.window or UNLIMITED) // (10 if ledger_share_of(policy) else 1),
    )
    return tokens if tokens >= _MIN_LEDGER_TOKENS else 0


def update_ledger(
    policy: Policy, view: View, edits: Sequence[Edit], budget: Budget, most: int, spare: int
) -> LedgerUpdate:
    """These edits with what mends them. The ledger has at most `most` tokens afterwards, all of it costs `spare`."""
    held = [item for item in view.items if item.message.kind == LEDGER]
    size = sum(item.tokens for item in held)
    if not held and min(most, spare) <= 0:
        return LedgerUpdate(add_recall_note(view, edits, budget, spare) if ledger_share_of(policy) else tuple(edits))
    whole = ledger_share_of(policy) > 0
    edits = _behind(edits, held)
    pointed = _pointed(view, edits, budget, max(0, spare) // 2) if whole else _Pointed(edits)
    limit = min(most, size + spare - pointed.cost)
    check = LossCheck(view, pointed.edits, parse_ledger("\n".join(text_of(item.message) for item in held)), facts=whole)
    written = _written(check, pointed.edits, held, limit, budget)
    done = pointed.edits
    if check.reaches(written.lines):  # the ledger says what left: the guard need not say it once more
        done = tuple(edit for edit in done if not _says_what_left(edit))
    tally = check.tally(written.lines, pointed.named) if whole else None
    return LedgerUpdate((*written.edits, *done), tally, check.loses_rules(written.lines))


def held_rules(view: View) -> list[LedgerLine]:
    """The rules and pins that hold, each once: those in the ledger, then those in messages that are still shown."""
    found: dict[str, LedgerLine] = {}
    for item in view.items:
        if item.message.kind == LEDGER:
            lines = [line for line in parse_ledger(text_of(item.message)) if line.lays_down]
        else:
            lines = rules_held(item, view.removed_rules)
        found.update((line.text, line) for line in lines if line.text not in found)
    return list(found.values())


def without_rule(view: View, rule: LedgerLine, budget: Budget) -> tuple[Edit, ...]:
    """The edits that take a rule back for good: out of the ledger and the pins, and out of what is taken in later."""
    text = rule.text
    held = [item.message for item in view.items if item.message.kind == LEDGER]
    lines = parse_ledger("\n".join(map(text_of, held)))
    kept = [line for line in lines if not (line.lays_down and line.text == text)]
    edits: list[Edit] = []
    if len(kept) < len(lines):
        edits.append(Drop(tuple(message.id for message in held)))
        if kept:
            message = _message(kept, headed=True)
            edits.append(Insert(message, held[0].id, budget.count(message)))
    pins = [item for item in view.items if item.message.kind == PIN]
    gone = tuple(pin.message.id for pin in pins if any(line.text == text for line in rules_held(pin, {})))
    return (*edits, *([Drop(gone)] if gone else []), RemoveRule(text, rule.ident))


def _says_what_left(edit: Edit) -> bool:
    return isinstance(edit, Insert) and is_recall_note(edit.message)


# --- the edits --------------------------------------------------------------------------------------------------------


class _Written(NamedTuple):
    """`lines` are those that the ledger has afterwards; None if they are as before."""

    edits: tuple[Edit, ...] = ()
    lines: tuple[LedgerLine, ...] | None = None


_NOTHING: Final = _Written()


def _written(check: LossCheck, edits: Sequence[Edit], held: list[Item], limit: int, budget: Budget) -> _Written:
    """Grow it, or rewrite it: if it must shrink, or if messages leave and all of it cannot be said at its end."""
    gone = {ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids}
    new = check.wanted()
    size = sum(item.tokens for item in held)
    if size > limit or any(item.message.id in gone for item in held):
        return _rewritten(check, held, limit, budget)
    if not new:
        return _NOTHING
    if gone and size and limit - size < _cost(new, budget, held=True):
        return _rewritten(check, held, limit, budget)
    if check.moves or held or _lays_down(new):
        grown = _extended(check.lines, new, held, limit, budget)
        if gone and not check.reaches(grown.lines):  # it must lead back to all of it
            return _rewritten(check, held, limit, budget)
        return grown
    return _NOTHING


def _message(lines: Sequence[LedgerLine], *, headed: bool) -> Message:
    return user_message(f"{LEDGER_HEADING}\n{render_ledger(lines)}" if headed else render_ledger(lines), LEDGER)


def _cost(lines: Sequence[LedgerLine], budget: Budget, *, held: bool) -> int:
    return budget.count(_message(lines, headed=not held))


def _lays_down(lines: Iterable[LedgerLine]) -> bool:
    return any(line.lays_down for line in lines)


def _behind(edits: Sequence[Edit], held: list[Item]) -> tuple[Edit, ...]:
    """The head of what a stage sees is behind the ledger."""
    last = held[-1].message.id if held else ""
    return tuple(
        msgspec.structs.replace(edit, after_id=last) if isinstance(edit, Insert) and not edit.after_id else edit
        for edit in edits
    )


def _fitting(lines: Sequence[LedgerLine], tokens: int, budget: Budget, *, headed: bool, rules: int) -> list[LedgerLine]:
    """As many lines as fit, counted on the message as it will be."""
    room = tokens
    for _ in range(8):
        some = select_ledger_lines(lines, room, budget, headed=headed, rules=rules, told=int(tokens * _TOLD))
        over = budget.count(_message(some, headed=headed)) - tokens if some else 0
        if over <= 0:
            return some
        room -= over + 2
    return []


def _extended(old: list[LedgerLine], new: list[LedgerLine], held: list[Item], limit: int, budget: Budget) -> _Written:
    room = limit - sum(item.tokens for item in held)
    some = _fitting(new, room, budget, headed=not held, rules=int(limit * MAX_RULES_SHARE))
    if not some:
        return _NOTHING
    message = _message(some, headed=not held)
    after = held[-1].message.id if held else ""
    return _Written((Insert(message, after, budget.count(message)),), (*old, *some))


def _rewritten(check: LossCheck, held: list[Item], limit: int, budget: Budget) -> _Written:
    """One ledger in place of all its parts."""
    every = join_left_ranges(merge_ledger_lines(check.lines, check.wanted(again=True)))
    some = (
        _fitting(every, limit, budget, headed=True, rules=int(limit * MAX_RULES_SHARE))
        if limit >= _MIN_LEDGER_TOKENS
        else []
    )
    edits: list[Edit] = [Drop(tuple(item.message.id for item in held))] if held else []
    if some:
        message = _message(some, headed=True)
        edits.append(Insert(message, held[0].message.id if held else "", budget.count(message)))
    return _Written(tuple(edits), tuple(some))


class _Pointed(NamedTuple):
    """`named`: how many shortened messages say where the whole is."""

    edits: tuple[Edit, ...]
    cost: int = 0
    named: int = 0


def _pointed(view: View, edits: Sequence[Edit], budget: Budget, spare: int) -> _Pointed:
    """A message that is shown shortened says where the rest is, if nothing says it yet."""
    messages = {item.message.id: item.message for item in view.items}
    done: list[Edit] = []
    cost = named = 0
    for edit in edits:
        old = messages.get(edit.id) if isinstance(edit, Replace) else None
        if isinstance(edit, Replace) and old is not None:
            after = readable_text_of(Message(old.role, edit.parts))
            says = f"recall {edit.id}" in after
            if not says and _signs(after) < _signs(readable_text_of(old)):
                parts = _with_way(edit.parts, f"[recall {edit.id} has all of it]")
                tokens = budget.count(Message(old.role, parts))
                says = cost + tokens - edit.tokens <= spare
                if says:
                    cost += tokens - edit.tokens
                    edit = msgspec.structs.replace(edit, parts=parts, tokens=tokens)
            named += says
        done.append(edit)
    return _Pointed(tuple(done), cost, named)


def _signs(text: str) -> int:
    """White space is none: arguments may be written closer."""
    return len("".join(text.split()))


def _with_way(parts: tuple[Part, ...], way: str) -> tuple[Part, ...]:
    for place, part in enumerate(parts):
        if isinstance(part, Result):
            inside = Result(part.call_id, (*part.parts, Text(way)), part.error)
            return (*parts[:place], inside, *parts[place + 1 :])
        if isinstance(part, Call):
            return (*parts[:place], Text(way), *parts[place:])
    return (*parts, Text(way))
