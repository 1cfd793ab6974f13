"""Changes of the view. They name messages by id, never by position, and are frozen once made."""

from collections.abc import Iterable

import msgspec

from tidegate.core.messages import Message, Part


class Replace(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="replace", omit_defaults=True):
    """Show other parts for a message. `kind` other than None marks what became of it."""

    id: str
    parts: tuple[Part, ...]
    tokens: int = 0
    kind: str | None = None


class Drop(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="drop"):
    ids: tuple[str, ...]


class Insert(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="insert", omit_defaults=True):
    """Add a message behind the one named `after`; the empty name is the head of the view.

    `after` may be dropped by the same transaction: the new message then stands in its place.
    """

    message: Message
    after_id: str = ""
    tokens: int = 0


class RemoveRule(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="remove_rule"):
    """The user took back the rule with this text: of messages said before this, none lays it down any more.

    `id` names a message that gave it, so that the text leaves the log where that is forgotten.
    """

    text: str
    id: str


Edit = Replace | Drop | Insert | RemoveRule


class EditIndex:
    """The edits of one transaction, by the ids they touch."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self.replaced: dict[str, Replace] = {}
        self.dropped: set[str] = set()
        self.inserts: list[Insert] = []
        self.removed_rules: list[str] = []
        self._after: dict[str, list[Insert]] = {}
        for edit in edits:
            if isinstance(edit, Replace):
                self.replaced[edit.id] = edit
            elif isinstance(edit, Drop):
                self.dropped.update(edit.ids)
            elif isinstance(edit, RemoveRule):
                self.removed_rules.append(edit.text)
            else:
                self.inserts.append(edit)
                self._after.setdefault(edit.after_id, []).append(edit)

    def inserts_after(self, ident: str) -> list[Insert]:
        return self._after.get(ident, [])
