"""What a view is made of: messages with what they cost, and what a transaction makes of a list of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Changes
from tidegate.core.impossible import MOST_TOKENS
from tidegate.core.messages import ARCHIVED, Message, Result, Text, result_of
from tidegate.core.rules_said import rules_of

Meter = Callable[[Message], int]


class Item(msgspec.Struct, gc=False, array_like=True):
    """A message in the view, with what it costs. `metered` is the policy's own estimate, for its triggers.

    `edited` is the seq of the edit that last changed what is shown of it, or 0: no stage admits a result twice. `rules`
    are then those the user gave in the message as it was said: of a text that was cut nobody can tell what was typed.
    """

    message: Message
    tokens: int
    metered: int = 0
    signed: bool = True
    edited: int = 0
    rules: tuple[str, ...] = ()


def rules_given(item: Item) -> Sequence[str]:
    """The rules that the user gave in this message, also where it is no longer shown whole."""
    return item.rules if item.edited else rules_of(item.message)


def weighed(message: Message, tokens: int, meter: Meter | None) -> Item:
    """An item with the count its event has, brought into the range of the possible; `View.recount` does the rest."""
    tokens = min(max(tokens, 0), MOST_TOKENS)
    return Item(message, tokens, meter(message) if meter else tokens)


def weighed_again(item: Item, tokens: int, meter: Meter | None) -> Item:
    """The same item with another count."""
    return msgspec.structs.replace(item, tokens=tokens, metered=item.metered if meter else tokens)


def shown(message: Message) -> Message | None:
    """How a message enters the view: as it is, not at all, or (an invisible result, whose call needs one) as a stub."""
    if message.agent_visible:
        return message
    result = result_of(message)
    if result is None:
        return None
    stub = Result(result.call_id, (Text("[archived]"),), result.error)
    return msgspec.structs.replace(message, parts=(stub,), kind=ARCHIVED)


def said_after(ident: str, seq: int) -> bool:
    number = ident[1:]
    return ident[:1] == "m" and number.isdecimal() and len(number) < 20 and int(number) > seq


class Applied(NamedTuple):
    """The items after a transaction, and the first place where they differ."""

    items: list[Item]
    first: int


def applied(changed: Changes, before: Sequence[Item], meter: Meter | None, seq: int) -> Applied:
    """What a transaction, the event `seq`, makes of these items.

    An insert goes to the head if asked to, or if the message it names has gone (an earlier edit was undone).
    """
    known = {item.message.id for item in before}
    lost = [insert for insert in changed.inserts if not insert.after or insert.after not in known]
    items = [weighed(insert.message, insert.tokens, meter) for insert in lost]
    first = 0 if items else len(before)
    for item in before:
        ident = item.message.id
        new = changed.replaced.get(ident)
        behind = changed.after(ident) if ident else []
        if ident in changed.dropped or new is not None:
            first = min(first, len(items))
        if new is not None and ident not in changed.dropped:
            kind = item.message.kind if new.kind is None else new.kind
            given = tuple(rules_given(item))
            item = weighed(msgspec.structs.replace(item.message, parts=new.parts, kind=kind), new.tokens, meter)
            item.edited, item.rules = seq, given
        if ident not in changed.dropped:
            items.append(item)
        if behind:
            first = min(first, len(items))
            items.extend(weighed(insert.message, insert.tokens, meter) for insert in behind)
    return Applied(items, first)
