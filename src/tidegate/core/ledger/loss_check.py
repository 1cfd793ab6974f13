"""The check of one transaction: which facts and rules it removes from the view. The ledger keeps what it finds."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from tidegate.core.edits import Edit, EditIndex
from tidegate.core.ledger.lines import LedgerLine, ReachableIds, make_left_line, merge_ledger_lines, parse_ledger
from tidegate.core.ledger.statements import drop_old_todos, statements_of
from tidegate.core.messages import LEDGER, PIN, REMINDER, SUMMARY, Message, calls_of, is_user_request, text_of
from tidegate.core.sweep.group_notes import described_ids, is_group_note, statements_of_note
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.plural import format_count
from tidegate.core.view import Item, View, rules_given

"""The kind of a pinned message: all of it is a rule."""

_HEAD_SHARE: Final = 0.25  # of the view
_RECALL: Final = LazyPattern(r"recall(?<!\wrecall) ([me]\d+(?:\.\d+)?)")  # begins with its letters: found at once


class LossTally(NamedTuple):
    """The counts of one check. `shortened`: messages that are shown shortened and name their id for recall.

    `is_searched`: what left was searched for facts. As text it is empty if nothing was checked.
    """

    checked: int = 0
    present: int = 0
    recoverable: int = 0
    kept: int = 0
    left_out: int = 0
    shortened: int = 0
    is_searched: bool = False

    def __str__(self) -> str:
        places = (
            (self.present, "still in the view"),
            (self.kept, "in the ledger"),
            (self.recoverable, "within reach of recall"),
            (self.left_out, "only in the log"),
        )
        parts = [f"{count:,} {'is' if count == 1 else 'are'} {place}" for count, place in places if count]
        facts = ", ".join([f"of {format_count(self.checked, 'fact')}", *parts]) if parts else ""
        if not self.shortened:
            return facts or ("no facts to keep were found" if self.is_searched else "")
        shortened = f"{format_count(self.shortened, 'message')} shortened, with the id for recall"
        return "; ".join(filter(None, (facts, shortened)))


def readable_text_of(message: Message) -> str:
    return "\n".join([text_of(message), *(call.arguments for call in calls_of(message))])


class LossCheck:
    """What one transaction removes, compared with what the view has afterwards."""

    def __init__(self, view: View, edits: Sequence[Edit], lines: Sequence[LedgerLine], *, facts: bool = True) -> None:
        """Without `facts` only rules and pins are checked."""
        self.lines = list(lines)
        self._whole = facts
        self._facts: list[LedgerLine] = []
        self._summaries = ""
        self._pointed = ReachableIds(lines).named
        self._known: list[Message] = []  # what leaves and what stays
        changes = EditIndex(edits)
        items = {item.message.id: item for item in view.items if item.message.kind != LEDGER}
        messages = [item.message for item in items.values()]
        self._gone = [m for m in messages if m.id in changes.dropped and m.kind != REMINDER]
        cut = [m for m in messages if m.id in changes.replaced]
        self.moves = bool(self._gone) or _is_view_read_again(view, changes)
        """Whether the provider must read most of the view again anyway, so that a new ledger line costs little more."""
        places = view.kind_index.find(view.items, LEDGER)
        before = view.items[: places[0]] if places else []
        self.changes_before_ledger = any(
            item.message.id in changes.dropped or item.message.id in changes.replaced for item in before
        )
        """Whether the provider must read the ledger again anyway, so that it may be rewritten."""
        requests = [m for m in cut if is_user_request(m)]
        visible = (
            [_apply_replace(m, changes) for m in messages if m.id not in changes.dropped]
            if self.moves or requests
            else []
        )
        if facts and self.moves:
            stay = [*visible, *(insert.message for insert in changes.inserts)]
            described = described_ids(message for message in stay if is_group_note(message))
            vanished = [
                LedgerLine(what, ident, text)
                for message in self._gone
                if is_group_note(message)
                for what, ident, text in statements_of_note(message)
                if ident not in described
            ]
            self._known = [*self._gone, *stay]
            statements = statements_of(self._gone, described, lines=[*lines, *vanished], every=messages)
            self._facts = drop_old_todos([*(line for line in vanished if line.what == "ran"), *statements], self._known)
            self._read(stay)
        rules_of = partial(rules_held, removals=view.removed_rules)
        covered_rules = (line for item in view.covered_items for line in rules_covered(item, view.removed_rules))
        every = [*covered_rules, *(line for m in (*self._gone, *requests) for line in rules_of(items[m.id]))]
        self._rules = list({line.text: line for line in every}.values())
        known_texts = {line.text for line in lines if line.lays_down}
        missing = {line.text for line in self._rules} - known_texts
        for message in visible:  # a rule is present only in a user message: other texts may leave unchecked
            present = {text for text in missing if text in text_of(message)}
            missing -= present and {line.text for line in rules_of(items[message.id])} & present
        self._laid_down = [line for line in self._rules if line.text in missing]
        self._out_of_sight = [line for line in self._facts if not self._present(line)]
        listed = {line.text for line in merge_ledger_lines(lines, ())}  # of each file its last state
        self._missing = [line for line in self._out_of_sight if line.text not in listed]

    def _read(self, stay: Sequence[Message]) -> None:
        text = "\n".join(map(readable_text_of, stay))
        self._summaries = "\n".join(text_of(message) for message in stay if message.kind == SUMMARY)
        self._pointed |= set(_RECALL.findall(text))

    def _present(self, line: LedgerLine) -> bool:
        """Whether a summary in the view repeats the statement."""
        return line.text in self._summaries

    def wanted(self, *, again: bool = False) -> list[LedgerLine]:
        """The lines that should go into the ledger: rules, the range that leaves, and missing facts, the best first.

        `again`: also facts that the ledger has, because it is rewritten.
        """
        places = [int(message.id[1:]) for message in self._gone if message.id[:1] == "m"] if self._whole else []
        ranges = [make_left_line(min(places), max(places))] if places else []
        return [*self._laid_down, *ranges, *(self._out_of_sight if again else self._missing)]

    def list_rewritten(self) -> list[LedgerLine]:
        """All lines of a ledger that is written again: those it has and those it should have, without old to-dos."""
        return drop_old_todos(merge_ledger_lines(self.lines, self.wanted(again=True)), self._known)

    def reaches(self, lines: Sequence[LedgerLine] | None) -> bool:
        """Whether a ledger with these lines names every dropped message. None: the lines it has now."""
        reach = ReachableIds(self.lines if lines is None else lines)
        return bool(self._gone) and all(message.id in reach for message in self._gone)

    def loses_rules(self, lines: Sequence[LedgerLine] | None) -> bool:
        texts = {line.text for line in (self.lines if lines is None else lines) if line.lays_down}
        return any(line.lays_down and line.text not in texts for line in (*self.lines, *self._laid_down))

    def tally(self, lines: Sequence[LedgerLine] | None, shortened: int) -> LossTally:
        """The counts for a ledger with these lines. None: the lines it has now."""
        after = self.lines if lines is None else list(lines)
        texts = {line.text for line in after}
        reach = ReachableIds(after)
        rest = [line.ident for line in (*self._missing, *self._laid_down) if line.text not in texts]
        reachable_count = sum(not ident or ident in self._pointed or ident in reach for ident in rest)
        checked = len(self._facts) + len(self._rules)
        missing = len(self._missing) + len(self._laid_down)
        return LossTally(
            checked,
            checked - missing,
            reachable_count,
            missing - len(rest),
            len(rest) - reachable_count,
            shortened,
            self._whole and self.moves,
        )


def _is_view_read_again(view: View, changes: EditIndex) -> bool:
    """Whether the provider must read most of the view again, because a message near its head was shortened.

    That is not so for a new result that is cut, or one cleared in the middle: everything before it stays cached.
    """
    fresh = {item.message.id for item in view.items_since_reply()}
    before = 0
    for item in view.items:
        if item.message.id in changes.replaced and item.message.id not in fresh:
            return before <= view.tokens * _HEAD_SHARE
        before += item.tokens if item.message.kind != LEDGER else 0
    return False


def _apply_replace(message: Message, changes: EditIndex) -> Message:
    new = changes.replaced.get(message.id)
    return message if new is None else msgspec.structs.replace(message, parts=new.parts)


def rules_covered(item: Item, removals: Mapping[str, int]) -> list[LedgerLine]:
    """The rules of a message that the provider has replaced by a compaction; of a ledger those in it."""
    if item.message.kind != LEDGER:
        return rules_held(item, removals)
    lines = [line for line in parse_ledger(text_of(item.message)) if line.lays_down]
    return [line for line in lines if line.place > removals.get(line.text, 0)]


def rules_held(item: Item, removals: Mapping[str, int]) -> list[LedgerLine]:
    """The rules of a message: all of a pin, or the rules that the user typed. Without those removed since."""
    message = item.message
    if message.kind == PIN:
        lines = [LedgerLine("pin", message.id, " ".join(text_of(message).split()))]
    else:
        lines = [LedgerLine("rule", message.id, rule) for rule in rules_given(item)]
    return [line for line in lines if line.place > removals.get(line.text, 0)]
