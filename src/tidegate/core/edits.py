"""Edits: changes of the view. They name messages by id, never by position."""

from collections.abc import Iterable

import msgspec

from tidegate.core.messages import Message, Part, compacts_history


class Replace(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="replace", omit_defaults=True):
    """Show other parts for a message, and give it another `kind` unless that is None."""

    id: str
    parts: tuple[Part, ...]
    tokens: int = 0
    kind: str | None = None


class Drop(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="drop"):
    """Remove messages from the view."""

    ids: tuple[str, ...]


class Insert(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="insert", omit_defaults=True):
    """Add a message after the one named `after_id`; the empty id is the head of the view.

    The same transaction may drop that message. The new one then takes its place.
    """

    message: Message
    after_id: str = ""
    tokens: int = 0


class RemoveRule(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="remove_rule"):
    """The user removed the rule with this text: messages before this edit no longer give it.

    `id` names a message that gave it, so that forgetting the message removes this text from the log, too.
    """

    text: str
    id: str


Edit = Replace | Drop | Insert | RemoveRule


def find_new_compaction(edits: Iterable[Edit]) -> Insert | None:
    """The insert that puts a provider's block in the place of the messages before it."""
    return next((edit for edit in edits if isinstance(edit, Insert) and compacts_history(edit.message)), None)


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
