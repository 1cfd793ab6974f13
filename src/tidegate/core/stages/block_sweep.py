"""The sweep to a state note that the provider wrote as a block in the place of messages (`core/state_note/block.py`).

The block comes first, and what came since follows it unchanged, with its signed thinking. What may not be lost of the
messages that the block stands for is said again at the end, after the newest turn: the words of the user and everything
else that stays in a sweep, the passages, and the map of what can be recalled.
"""

from collections.abc import Sequence

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Edit, Insert
from tidegate.core.messages import CLIENT_NOTE, Compaction, MarkedText, Message, text_of
from tidegate.core.notes import NoteBlock, NotePassage, StateNote
from tidegate.core.outcome import Outcome
from tidegate.core.state_note.block import count_covered, label_repeated
from tidegate.core.state_note.rendering import render_block_note
from tidegate.core.sweep.shortening import clip_message
from tidegate.core.turns import Group
from tidegate.core.view import View


class BlockSweep:
    """The sweep that leaves the block of a note in the place of the `covered` groups.

    Of these, the groups in `said` are said again; `maps` are the notes about the others.
    """

    def __init__(
        self,
        view: View,
        budget: Budget,
        note: StateNote,
        groups: Sequence[Group],
        repeat_groups: Sequence[Group],
        maps: Sequence[Message],
    ) -> None:
        assert note.block is not None
        self._view, self._budget, self._note, self._covered = view, budget, note, groups
        self._block = _make_block_message(note.block, note.horizon)
        self._kept = view.items[sum(len(group.items) for group in groups) :]
        self._said = _repeat(repeat_groups, view, budget)
        self._maps = maps

    def fit(self, share_count: int, level: int, largest: int) -> Outcome | None:
        """The sweep with as many passages as fit: the first `share_count` below `largest`, further ones below `level`.

        None if it leaves more than that without any.
        """
        fixed = sum(item.tokens for item in self._kept)
        fixed += sum(map(self._budget.count, (self._block, *self._said, *self._maps)))
        passages = list(self._note.passages)
        while True:
            note_message = render_block_note(self._note, passages)
            if fixed + self._budget.count(note_message) <= (largest if len(passages) <= share_count else level):
                return self._finish(note_message, passages)
            if not passages:
                return None
            passages.pop()

    def _finish(self, note_message: Message, passages: Sequence[NotePassage]) -> Outcome:
        note, count, last = self._note, self._budget.count, self._view.items[-1].message.id
        edits: list[Edit] = [Drop(tuple(ident for group in self._covered for ident in group.ids))]
        edits.append(Insert(self._block, "", count(self._block)))
        edits += [Insert(message, last, count(message)) for message in (*self._said, note_message, *self._maps)]
        why = (
            f"sweep to the provider's compaction of everything up to {note.horizon}, with our instruction"
            f" {_describe_passages(note, passages)}; the {len(self._kept)} messages since stay as they are; of the"
            f" block's lines {note.held} held and {note.marked} are in doubt"
        )
        return Outcome(tuple(edits), why=why)


def _describe_passages(note: StateNote, passages: Sequence[NotePassage]) -> str:
    return f"with {len(passages)} of {len(note.passages)} passages" if note.passages else "without passages"


def _make_block_message(block: NoteBlock, horizon: str) -> Message:
    part = Compaction(block.text, block.block, horizon, block.asked.birth)
    return Message("assistant", (part,), user_visible=False, origin=block.asked.origin)


def _repeat(groups: Sequence[Group], view: View, budget: Budget) -> list[Message]:
    """The messages of these groups again. Those of the user say that they are old; the longest are shortened."""
    items = [item for group in groups for item in group.items]
    words = {item.message.id for item in items if is_of_client(item.message)}
    sizes = [item.tokens for item in items if item.message.id in words - {view.newest_request}]
    cap = find_length_cap(sizes, budget.user_room)
    repetitions: list[Message] = []
    for item in items:
        message = item.message
        if message.id not in words:
            repetitions.append(msgspec.structs.replace(message, id=""))
            continue
        is_newest = message.id == view.newest_request
        if cap is not None and item.tokens > cap and not is_newest:
            chars = int(len(text_of(message)) * cap / item.tokens) - 60
            message = msgspec.structs.replace(message, parts=clip_message(message, max(chars, 100)))
        parts = message.parts
        if message.id[:1] != "e":
            parts = (MarkedText(label_repeated(message.id), typed=False), *parts)
        kind = "" if is_newest else CLIENT_NOTE
        repetitions.append(msgspec.structs.replace(message, id="", parts=parts, kind=kind, user_visible=False))
    return repetitions


def is_of_client(message: Message) -> bool:
    return message.role == "user" and message.kind in ("", CLIENT_NOTE)


def find_length_cap(sizes: Sequence[int], left: int) -> int | None:
    """The length to which the longest texts are shortened so that all together take at most `left`; None for none."""
    if sum(sizes) <= left:
        return None
    cap = left
    for number, size in enumerate(sorted(sizes)):
        cap = left // (len(sizes) - number)
        if size > cap:
            break
        left -= size
    return cap


def find_covered_groups(view: View, units: Sequence[Group], note: StateNote) -> Sequence[Group]:
    """The groups that the block of a note can replace in this view; none if it cannot."""
    count = count_covered(view, note.block) if note.block is not None else 0
    for number, unit in enumerate(units):
        if count <= 0 or (view.loop_start and view.loop_start in unit.ids):
            return units[:number] if count == 0 else ()
        count -= len(unit.items)
    return ()
