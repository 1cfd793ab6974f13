"""A state note that the provider writes as a block in the place of the messages that it read.

It stands for exactly the messages of the request that asked for it. What follows them stays as it is, so that its
signed thinking stays valid. If the view changed before the sweep, the note is shown like any other.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b

import msgspec

from tidegate.core.messages import HANDOFF, LEDGER, Message, Text, compaction_of
from tidegate.core.notes import AskedRange, NoteBlock
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.turns import Group
from tidegate.core.view import Item, View


def find_askable_groups(groups: Sequence[Group]) -> Sequence[Group]:
    """The groups without answers at the end, which came after the last request; none if no block can replace them.

    "Compact exactly the `messages` of a request you already sent. The kept turns then start with Claude's reply to it":
    https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks
    """
    end = len(groups)
    while end and groups[end - 1].items[-1].message.role == "assistant":
        end -= 1
    first_groups = groups[:end]
    return () if any(_stays_first(item) for group in first_groups for item in group.items) else first_groups


def _stays_first(item: Item) -> bool:
    """Whether a message must stay at the beginning: a client's own block, or the record of other clients."""
    block = compaction_of(item.message)
    return item.message.kind == HANDOFF or (block is not None and not block.horizon)


def find_asked_range(view: View, groups: Sequence[Group], head: int, birth: str, origin: str) -> AskedRange:
    """What a block stands for that is asked for with these groups."""
    items = [item for group in groups for item in group.items if item.message.kind != LEDGER]
    last_id = items[-1].message.id if items else ""
    return AskedRange(last_id, head, _hash_range(view, last_id, head), birth, origin)


def _hash_range(view: View, last_id: str, head: int) -> str:
    """A hash of what the view shows up to a message, with the fixed part; empty if it does not show the message.

    Stages see the view without the ledger, which may have grown at its end since the event `head`.
    """
    ledger = [item.message.id for item in (*view.ledger_items, *view.items) if item.message.kind == LEDGER]
    ledger_ids = [ident for ident in ledger if int(ident[1:].partition(".")[0]) <= head]
    versions: list[tuple[str, int]] = []
    for item in view.items:
        if item.message.kind != LEDGER:
            versions.append((item.message.id, item.edited))
        if item.message.id == last_id:
            fixed = (view.system_at, view.tools_at, view.rejected_seq)
            return blake2b(msgspec.msgpack.encode((fixed, ledger_ids, versions)), digest_size=12).hexdigest()
    return ""


def count_covered(view: View, block: NoteBlock) -> int:
    """How many items a block can replace; 0 if the view is not the one it was asked for, or no answer follows."""
    span = block.asked
    if not span.key or _hash_range(view, span.last_id, span.head) != span.key:
        return 0
    place = next(n for n, item in enumerate(view.items, 1) if item.message.id == span.last_id)
    if place == len(view.items) or view.items[place].message.role != "assistant":
        return 0
    return place


def label_repeated(ident: str) -> str:
    """What stands before words of the user that are said again after a block."""
    return f"[{ident}, what the user said before all this:]\n"


def repeats_any(message: Message, ids: Collection[str]) -> bool:
    """Whether a message stands for one of these, as a block, or says its words again."""
    block, first = compaction_of(message), message.parts[0] if message.parts else None
    if block is not None:
        return any(0 < seq_of_id(ident) <= seq_of_id(block.horizon) for ident in ids)
    return isinstance(first, Text) and any(first.text == label_repeated(ident) for ident in ids)


def find_horizon(groups: Sequence[Group]) -> str:
    """The newest message of the log in these groups."""
    ids = [ident for group in groups for ident in group.ids if seq_of_id(ident)]
    return max(ids, key=seq_of_id, default="")
