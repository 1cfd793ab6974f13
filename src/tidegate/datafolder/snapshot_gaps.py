"""Parts of a view that a snapshot leaves out because they contain secrets, and how the log restores them.

A snapshot cannot be masked: a session must continue with exactly the bytes it had. So a message that contains a secret
is left out of the snapshot and read again from its event. Once a session has seen a secret, everything that edits wrote
is left out, too: a summary or a shortened result may contain a part of the secret that no longer looks like one.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypedDict, assert_never

import msgspec

from tidegate.core.edits import EditIndex
from tidegate.core.events import Event, MessageAdded, ViewEdited
from tidegate.core.messages import (
    Call,
    Image,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    Tool,
    encode_into_bytes,
    resolve_visibility,
)
from tidegate.core.notes import N, StateNote, SystemSet, ToolsSet, is_note, read_note
from tidegate.core.text.user_rules import rules_of
from tidegate.core.view import Item, View

_MAX_SEARCHED_CHARS = 1024 * 1024
"""A longer text is not searched: it is left out of snapshots as if it contained a secret."""

ViewField = Literal["items", "orphans", "system", "tools", "removed_rules", "state_note"]
EventReader = Callable[[int], Event | None]
_encode = partial(encode_into_bytes, msgspec.msgpack.Encoder())


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """A field of the view that was left out, with the SHA-256 of its value. `index` is for items and orphans."""

    field: ViewField
    index: int
    sha256: bytes


class CensoredFields(TypedDict, total=False):
    """Fields of a view as a snapshot may store them. A field that contains no secret is absent."""

    items: list[Item]
    orphans: list[Item]
    system: str
    tools: tuple[Tool, ...]
    removed_rules: dict[str, int]
    state_note: str


class SecretSearch:
    """What is known about secrets in one session. `suspect`: it has seen one, or not all of it was searched."""

    def __init__(self, mask: Callable[[str], str], *, suspect: bool = False) -> None:
        self.suspect = suspect
        self._mask = mask
        self._clean: dict[str, bool] = {}

    def search_event(self, event: Event) -> None:
        """Search the message of an event. Call this for every event of the session, or set `suspect`."""
        if isinstance(event.payload, MessageAdded):
            message = event.payload.message
            self._clean[message.id] = clean = self._is_clean(message)
            self.suspect = self.suspect or not clean

    def _is_clean(self, message: Message) -> bool:
        return all(len(text) <= _MAX_SEARCHED_CHARS and self._mask(text) == text for text in _texts(message.parts))

    def find_gaps(self, view: View) -> list[Gap]:
        """Return the parts that a snapshot of this view must leave out."""
        gaps = []
        if self._mask(view.system) != view.system:
            gaps.append(Gap("system", 0, _hash(view.system)))
        if any(self._mask(text) != text for tool in view.tools for text in (tool.description, tool.parameters)):
            gaps.append(Gap("tools", 0, _hash(view.tools)))
        if any(self.suspect or self._mask(text) != text for text in view.removed_rules):
            gaps.append(Gap("removed_rules", 0, _hash(view.removed_rules)))
        if view.state_note and (self.suspect or self._mask(view.state_note) != view.state_note):
            gaps.append(Gap("state_note", 0, _hash(view.state_note)))
        if self.suspect:
            gaps += [Gap("items", index, _hash_item(item)) for index, item in self._find_unclean(view.items)]
            gaps += [Gap("orphans", index, _hash_item(item)) for index, item in self._find_unclean(view.orphans)]
        view_ids = {item.message.id for item in (*view.items, *view.orphans)}
        self._clean = {ident: clean for ident, clean in self._clean.items() if ident in view_ids}
        return gaps

    def _find_unclean(self, items: list[Item]) -> Iterator[tuple[int, Item]]:
        for index, item in enumerate(items):
            ident = item.message.id
            is_unedited = ident.startswith("m") and not item.edited
            if is_unedited and ident not in self._clean:
                self._clean[ident] = self._is_clean(item.message)
            if not is_unedited or not self._clean[ident]:
                yield index, item


def censor_fields(view: View, gaps: list[Gap]) -> CensoredFields:
    """Return the fields of the view that contain gaps, without the secret parts."""
    fields: CensoredFields = {}
    for gap in gaps:
        match gap.field:
            case "system":
                fields["system"] = ""
            case "tools":
                fields["tools"] = ()
            case "state_note":
                fields["state_note"] = ""
            case "removed_rules":
                fields["removed_rules"] = {str(seq): seq for seq in view.removed_rules.values()}
            case "items":
                _blank_item(fields.setdefault("items", list(view.items)), gap.index)
            case "orphans":
                _blank_item(fields.setdefault("orphans", list(view.orphans)), gap.index)
            case _:
                assert_never(gap.field)
    return fields


def _blank_item(items: list[Item], index: int) -> None:
    blank = msgspec.structs.replace(items[index].message, parts=())
    items[index] = msgspec.structs.replace(items[index], message=blank, rules=())


def fill_gaps(view: View, gaps: list[Gap], read: EventReader) -> bool:
    """Restore the parts that were left out. False if the log no longer contains them: then the view is of no use."""
    originals = _Originals(read)
    return all(_fill_gap(view, gap, originals) for gap in gaps)


class _Originals:
    """The events that gaps are filled from. Each is read once, and its edits are sorted by their ids once."""

    def __init__(self, read: EventReader) -> None:
        self._read = read
        self._events: dict[int, Event | None] = {}
        self._edits: dict[int, EditIndex] = {}
        self._inserted: dict[str, Message] = {}

    def read_event(self, seq: int) -> Event | None:
        if seq not in self._events:
            self._events[seq] = self._read(seq) if seq else None
        return self._events[seq]

    def read_edits(self, seq: int) -> EditIndex:
        """The edits of an event; none if it made none."""
        if seq not in self._edits:
            event = self.read_event(seq)
            payload = event.payload if event is not None else None
            self._edits[seq] = edits = EditIndex(payload.edits if isinstance(payload, ViewEdited) else ())
            self._inserted.update((insert.message.id, insert.message) for insert in edits.inserts)
        return self._edits[seq]

    def read_message(self, ident: str) -> Message | None:
        """A message as it was added, or as an edit inserted it."""
        number = ident[1:].partition(".")[0]
        seq = int(number) if number.isdecimal() else 0
        event = self.read_event(seq)
        payload = event.payload if event is not None else None
        if isinstance(payload, ViewEdited):
            self.read_edits(seq)
            return self._inserted.get(ident)
        if isinstance(payload, MessageAdded) and payload.message.id == ident:
            return resolve_visibility(payload.message)
        return None


def _fill_gap(view: View, gap: Gap, originals: _Originals) -> bool:
    read = originals.read_event
    match gap.field:
        case "system":
            system = _read(read(view.system_at), SystemSet)
            view.system = system.text if system else ""
            return system is not None and _hash(view.system) == gap.sha256
        case "tools":
            tools = _read(read(view.tools_at), ToolsSet)
            view.tools = tools.tools if tools else ()
            return tools is not None and _hash(view.tools) == gap.sha256
        case "state_note":
            event = read(view.state_note_seq)
            text = event.payload.text if event is not None and is_note(event.payload, StateNote) else None
            view.state_note = text or ""
            return text is not None and _hash(view.state_note) == gap.sha256
        case "removed_rules":
            view.removed_rules = _read_removed_rules(sorted(set(view.removed_rules.values())), originals)
            return _hash(view.removed_rules) == gap.sha256
        case "items" | "orphans":
            items = view.items if gap.field == "items" else view.orphans
            if gap.index >= len(items) or not _fill_item(items[gap.index], originals):
                return False
            return _hash_item(items[gap.index]) == gap.sha256
        case _:
            assert_never(gap.field)


def _read(event: Event | None, kind: type[N]) -> N | None:
    return read_note(event.payload, kind) if event is not None else None


def _read_removed_rules(seqs: list[int], originals: _Originals) -> dict[str, int]:
    return {text: seq for seq in seqs for text in originals.read_edits(seq).removed_rules}


def _fill_item(item: Item, originals: _Originals) -> bool:
    """Restore a message as its last edit left it; without an edit, as it was added."""
    first = originals.read_message(item.message.id)
    if first is None:
        return False
    parts = first.parts
    if item.edited:
        replacement = originals.read_edits(item.edited).replaced.get(item.message.id)
        if replacement is None:
            return False
        parts, item.rules = replacement.parts, tuple(rules_of(first))
    item.message = msgspec.structs.replace(item.message, parts=parts)
    return True


def _hash_item(item: Item) -> bytes:
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
