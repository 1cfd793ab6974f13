"""The parts of a view that a snapshot leaves out because they hold secrets, and how they are filled from the log.

A snapshot cannot be masked: a session goes on with exactly the bytes it had. So a message with a secret in it is left
out, and read again from the event it came from. Once a session has seen a secret, so is everything that an edit wrote:
a summary or a cut result may hold a piece of the secret that looks like nothing.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from tidegate.core.edits import EditIndex
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited, read_tools
from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking
from tidegate.core.text.user_rules import rules_of
from tidegate.core.view import Item, View, resolve_visibility

LARGE = 1024 * 1024
"""Characters. A longer text is not searched: it is left out of snapshots as if it held a secret."""

Where = Literal["items", "orphans", "system", "tools", "removed_rules"]
_encode = msgspec.msgpack.Encoder().encode


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Something that was left out, with the SHA-256 of what it was. `place` is for items and orphans."""

    where: Where
    place: int
    sha256: bytes


class Searched:
    """What is known of the secrets in one session. `suspect`: it has seen one, or not all of it was searched."""

    def __init__(self, mask: Callable[[str], str], *, suspect: bool = False) -> None:
        self.suspect = suspect
        self._mask = mask
        self._clean: dict[str, bool] = {}

    def search(self, event: Event) -> None:
        """Search what an event says. Every event of the session must come by, or `suspect` be set."""
        if isinstance(event.payload, MessageAdded):
            message = event.payload.message
            self._clean[message.id] = clean = self._is_clean(message)
            self.suspect = self.suspect or not clean

    def _is_clean(self, message: Message) -> bool:
        return all(len(text) <= LARGE and self._mask(text) == text for text in _texts(message.parts))

    def gaps(self, view: View) -> list[Gap]:
        """What a snapshot of this view must leave out."""
        found = []
        if self._mask(view.system) != view.system:
            found.append(Gap("system", 0, _hash(view.system)))
        if any(self._mask(text) != text for tool in view.tools for text in (tool.description, tool.parameters)):
            found.append(Gap("tools", 0, _hash(view.tools)))
        if any(self.suspect or self._mask(text) != text for text in view.removed_rules):
            found.append(Gap("removed_rules", 0, _hash(view.removed_rules)))
        if self.suspect:
            found += [Gap("items", place, _hash_of(item)) for place, item in self._unclean(view.items)]
            found += [Gap("orphans", place, _hash_of(item)) for place, item in self._unclean(view.orphans)]
        known = {item.message.id for item in (*view.items, *view.orphans)}
        self._clean = {ident: clean for ident, clean in self._clean.items() if ident in known}
        return found

    def _unclean(self, items: list[Item]) -> Iterator[tuple[int, Item]]:
        for place, item in enumerate(items):
            ident = item.message.id
            said = ident.startswith("m") and not item.edited
            if said and ident not in self._clean:
                self._clean[ident] = self._is_clean(item.message)
            if not said or not self._clean[ident]:
                yield place, item


def without(view: View, gaps: list[Gap]) -> dict[str, Any]:
    """The fields of the view in which something is left out, as they are without it."""
    fields: dict[str, Any] = {}
    for gap in gaps:
        if gap.where == "system":
            fields["system"] = ""
        elif gap.where == "tools":
            fields["tools"] = ()
        elif gap.where == "removed_rules":
            fields["removed_rules"] = {str(seq): seq for seq in view.removed_rules.values()}
        else:
            items = fields.setdefault(gap.where, list(getattr(view, gap.where)))
            item = items[gap.place]
            bare = msgspec.structs.replace(item.message, parts=())
            items[gap.place] = msgspec.structs.replace(item, message=bare, rules=())
    return fields


def fill(view: View, gaps: list[Gap], read: Callable[[int], Event | None]) -> bool:
    """Put back what was left out. False if the log does not hold what it held then: the view is of no use."""
    known: dict[int, Event | None] = {}

    def event_at(seq: int) -> Event | None:
        if seq not in known:
            known[seq] = read(seq) if seq else None
        return known[seq]

    return all(_fill(view, gap, event_at) for gap in gaps)


def _fill(view: View, gap: Gap, read: Callable[[int], Event | None]) -> bool:
    if gap.where in ("system", "tools"):
        event = read(view.system_at if gap.where == "system" else view.tools_at)
        noted = event.payload if event is not None else None
        if not isinstance(noted, NoteAdded) or noted.topic != gap.where:
            return False
        setattr(view, gap.where, noted.text if gap.where == "system" else read_tools(noted))
        return _hash(getattr(view, gap.where)) == gap.sha256
    if gap.where == "removed_rules":
        view.removed_rules = _removed_rules(sorted(set(view.removed_rules.values())), read)
        return _hash(view.removed_rules) == gap.sha256
    items: list[Item] = getattr(view, gap.where)
    return gap.place < len(items) and _fill_item(items[gap.place], read) and _hash_of(items[gap.place]) == gap.sha256


def _removed_rules(seqs: list[int], read: Callable[[int], Event | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for seq in seqs:
        event = read(seq)
        if event is not None and isinstance(event.payload, ViewEdited):
            found.update(dict.fromkeys(EditIndex(event.payload.edits).removed_rules, seq))
    return found


def _fill_item(item: Item, read: Callable[[int], Event | None]) -> bool:
    """Show of a message what its last edit made of it; without one, what it was when it came into the view."""
    first = _first_shown(item.message.id, read)
    if first is None:
        return False
    parts = first.parts
    if item.edited:
        event = read(item.edited)
        edits = event.payload.edits if event is not None and isinstance(event.payload, ViewEdited) else ()
        replaced = EditIndex(edits).replaced.get(item.message.id)
        if replaced is None:
            return False
        parts, item.rules = replaced.parts, tuple(rules_of(first))
    item.message = msgspec.structs.replace(item.message, parts=parts)
    return True


def _first_shown(ident: str, read: Callable[[int], Event | None]) -> Message | None:
    """A message as it was said, or as an edit inserted it."""
    number = ident[1:].partition(".")[0]
    event = read(int(number) if number.isdecimal() else 0)
    what = event.payload if event is not None else None
    if isinstance(what, ViewEdited):
        return next((made.message for made in EditIndex(what.edits).inserts if made.message.id == ident), None)
    return resolve_visibility(what.message) if isinstance(what, MessageAdded) and what.message.id == ident else None


def _hash_of(item: Item) -> bytes:
    return _hash((item.message.parts, item.rules))


def _hash(value: object) -> bytes:
    return hashlib.sha256(_encode(value)).digest()


def _texts(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, Result):
            yield from _texts(part.parts)
        elif isinstance(part, Call):
            yield from (part.name, part.arguments)
        elif isinstance(part, Thinking):
            yield from (part.text, part.block)
        elif isinstance(part, Image):
            yield part.url
