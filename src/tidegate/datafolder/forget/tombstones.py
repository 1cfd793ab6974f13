"""Removes content from events. Pure functions; an event without such content is returned unchanged.

Everything that the log needs to be valid stays: seq, time, role, kind, ids, calls and the results that answer them.
Counts remain upper bounds of what is sent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import msgspec

from tidegate.core.edits import Drop, Edit, Insert, RemoveRule, Replace
from tidegate.core.events import BranchStarted, Event, EventPayload, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import (
    STATE_NOTE,
    Call,
    Image,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    Tool,
    resolve_visibility,
)
from tidegate.core.notes import (
    AnswerBirth,
    ContentForgotten,
    EditRedone,
    EditUndone,
    ModelNote,
    NoteKind,
    PreparedSummary,
    RuleFruitless,
    SignaturesRefused,
    StateNote,
    SystemSet,
    ToolsSet,
    TurnStarted,
    ViewCleared,
    is_note,
    read_note,
)
from tidegate.core.state_note.block import repeats_any
from tidegate.core.state_note.forgetting import forget_in_note, forget_in_shown_note
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.tokens.counting import MESSAGE_OVERHEAD, count_message
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.session.continuation import find_recorded_span

TOMBSTONE = "[forgotten]"
MIN_FORGOTTEN_CHARS = 4
_MAX_JSON_DEPTH = 200
_MIN_CUT_CHARS = 8
"""At the end of a clipped text, a part of the words that has this length counts as the words."""
_EXTRA_TOKENS = 8
"""Tokens by which a mark may exceed the word it replaces, with neighboring words that are now split differently."""
_KEPT_NOTES: tuple[NoteKind, ...] = (
    EditUndone,
    EditRedone,
    ViewCleared,
    TurnStarted,
    ModelNote,
    RuleFruitless,
    ContentForgotten,
    SignaturesRefused,
    AnswerBirth,
)
_JSON_SHORT = {'"': '"', "/": "/", "\b": "b"}
_ESCAPED_BLANK = r"(?:[nrtf]|u(?i:00(?:0[9a-d]|1[c-f]|20|85|a0)|1680|20[0-5][0-9af]|3000))"
_QUOTED_BLANK = r"%(?i:20|0[9a-d]|1[c-f]|c2%(?:85|a0)|e1%9a%80|e2%8[01]%[89a][0-9a-f]|e3%80%80)"
_BLANKS = rf"(?:[\s+]|\\{{1,15}}{_ESCAPED_BLANK}|{_QUOTED_BLANK})+"


class _ByteCounter:
    """Counts bytes: no vocabulary makes more tokens of a text than it has bytes."""

    name = "bytes"

    def count_text(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))


def _count_upper_bound(message: Message) -> int:
    return count_message(message, _ByteCounter(), thinking=True)


# --- a message --------------------------------------------------------------------------------------------------------


def blank_event(event: Event, ids: frozenset[str]) -> Event:
    """Return the event without the content of these messages, also in edits of them."""
    what = event.payload
    if isinstance(what, MessageAdded) and what.message.id in ids:
        message = _blank_message(what.message)
        if message == what.message:
            return event
        return _replace_payload(
            event, MessageAdded(message, 0 if resolve_visibility(message) is None else _count_upper_bound(message))
        )
    if isinstance(what, ViewEdited):
        return _replace_payload(
            event, msgspec.structs.replace(what, edits=tuple(_blank_edit(edit, ids) for edit in what.edits))
        )
    if is_note(what, StateNote):
        return _replace_payload(event, msgspec.structs.replace(what, text=forget_in_note(what.text, ids)))
    if is_note(what, PreparedSummary):
        prepared = read_note(what, PreparedSummary)
        if prepared is not None and not ids.isdisjoint(prepared.ids):
            return _replace_payload(event, msgspec.structs.replace(what, text="{}"))
    return event


def _replace_payload(event: Event, what: EventPayload) -> Event:
    return event if what == event.payload else msgspec.structs.replace(event, payload=what)


def _blank_edit(edit: Edit, ids: frozenset[str]) -> Edit:
    if isinstance(edit, Replace) and edit.id in ids:
        message = _blank_message(Message("user", edit.parts))
        return (
            edit
            if message.parts == edit.parts
            else Replace(edit.id, message.parts, _count_upper_bound(message), edit.kind)
        )
    if isinstance(edit, Insert) and (edit.message.id in ids or repeats_any(edit.message, ids)):
        message = _blank_message(edit.message)
        return edit if message == edit.message else Insert(message, edit.after_id, _count_upper_bound(message))
    if isinstance(edit, Insert) and edit.message.kind == STATE_NOTE:
        note_without_ids = forget_in_shown_note(edit.message, ids)
        return (
            edit
            if note_without_ids == edit.message
            else Insert(note_without_ids, edit.after_id, _count_upper_bound(note_without_ids))
        )
    if isinstance(edit, RemoveRule) and edit.id in ids:
        return RemoveRule(TOMBSTONE, edit.id)
    return edit


def _blank_message(message: Message) -> Message:
    """Replace all content by one mark. Calls and results stay without their content."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Call):
            parts.append(Call(part.id, part.name))
        elif isinstance(part, Result):
            parts.append(Result(part.call_id, (Text(TOMBSTONE),), part.error))
        elif isinstance(part, Text | Image) and Text(TOMBSTONE) not in parts:
            parts.append(Text(TOMBSTONE))
    return msgspec.structs.replace(message, parts=tuple(parts or [Text(TOMBSTONE)]))


def find_derived_messages(event: Event, about: set[str]) -> list[str]:
    """Return the messages that may repeat the content of some of these: with which this edit replaced them, or a record
    of work that has them."""
    if isinstance(event.payload, MessageAdded):
        message = event.payload.message
        span = find_recorded_span(message)
        is_recorded = span is not None and any(span.first <= seq_of_id(ident) <= span.last for ident in about)
        return [message.id] if is_recorded else []
    if not isinstance(event.payload, ViewEdited):
        return []
    removed_ids = {ident for edit in event.payload.edits for ident in _list_removed_ids(edit)}
    if not removed_ids & about:
        return []
    return [edit.message.id for edit in event.payload.edits if isinstance(edit, Insert)]


def _list_removed_ids(edit: Edit) -> tuple[str, ...]:
    if isinstance(edit, Drop):
        return edit.ids
    return (edit.id,) if isinstance(edit, Replace) else ()


# --- words ------------------------------------------------------------------------------------------------------------


class PhraseRemover:
    """Words to be removed, as they are and as written in JSON (also JSON in JSON) and URLs.

    `sums` are the hashes of files that will change, so that notices about these files stay true.
    """

    def __init__(self, words: str, sums: Mapping[str, str] | None = None) -> None:
        self._phrase = words
        self._file_hashes = dict(sums or {})
        self._pattern = re.compile(_pattern(words))
        self._new_call_ids: dict[str, str] = {}
        self._changed_ids: set[str] = set()

    def matches(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def remove_from_text(self, text: str) -> str:
        new = self._pattern.sub(TOMBSTONE, text)
        for old, sum_now in self._file_hashes.items():
            new = new.replace(old, sum_now)
        return new

    def remove_from_excerpt(self, text: str) -> str:
        """Remove words from a text that was made from another one and may be clipped in the middle of the words."""
        text = self.remove_from_text(text)
        if len(self._phrase) <= _MIN_CUT_CHARS:
            return text
        text = _remove_cut_phrase(text, self._phrase)
        return _remove_cut_phrase(text[::-1], self._phrase[::-1], TOMBSTONE[::-1])[::-1]

    def remove_from_json(self, text: str, instead: str) -> str:
        """The same for JSON, which stays JSON; return `instead` if the words extend beyond single strings."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.remove_from_text(text)
        new = self._walk(value, 0)
        if new != value:
            text = json.dumps(new, ensure_ascii=False, separators=(",", ":"))
        return instead if self.matches(text) else text

    def _walk(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self.remove_from_text(value)
        if depth > _MAX_JSON_DEPTH:
            return TOMBSTONE if self.matches(json.dumps(value)) else value
        if isinstance(value, dict):
            return {self.remove_from_text(key): self._walk(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._walk(inner, depth + 1) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and self.matches(json.dumps(value)):
            return 0
        return value

    # --- events -------------------------------------------------------------------------------------------------------

    def remove_from_event(self, event: Event) -> Event:
        """Process an event. Call it for all events in order, because edits depend on earlier messages."""
        what = event.payload
        if isinstance(what, MessageAdded):
            message = self._message(what.message, event.seq)
            if message == what.message:
                return event
            self._changed_ids.add(message.id)
            return _replace_payload(
                event,
                MessageAdded(
                    message, 0 if resolve_visibility(message) is None else _bound_message_tokens(message, what.tokens)
                ),
            )
        if isinstance(what, ViewEdited):
            self._changed_ids.update(find_derived_messages(event, self._changed_ids))
            edits = tuple(self._edit(edit, event.seq) for edit in what.edits)
            return _replace_payload(
                event, msgspec.structs.replace(what, edits=edits, why=self.remove_from_text(what.why))
            )
        return _replace_payload(event, self._remove_from_note(what)) if isinstance(what, NoteAdded) else event

    def _edit(self, edit: Edit, seq: int) -> Edit:
        if isinstance(edit, Replace):
            parts = self._parts(edit.parts, seq, torn=edit.id in self._changed_ids)
            message = Message("user", parts)
            return (
                edit
                if parts == edit.parts
                else Replace(edit.id, parts, _bound_message_tokens(message, edit.tokens), edit.kind)
            )
        if isinstance(edit, Insert):
            message = self._message(edit.message, seq)
            return (
                edit
                if message == edit.message
                else Insert(message, edit.after_id, _bound_message_tokens(message, edit.tokens))
            )
        return RemoveRule(self.remove_from_text(edit.text), edit.id) if isinstance(edit, RemoveRule) else edit

    def _message(self, message: Message, seq: int) -> Message:
        parts = self._parts(message.parts, seq, torn=message.id in self._changed_ids)
        if parts == message.parts:
            return message
        return msgspec.structs.replace(message, parts=parts or (Text(TOMBSTONE),))

    def _parts(self, parts: tuple[Part, ...], seq: int, *, torn: bool) -> tuple[Part, ...]:
        return tuple(new for part in parts if (new := self._part(part, seq, torn)) is not None)

    def _part(self, part: Part, seq: int, torn: bool) -> Part | None:
        if isinstance(part, Text | Image):
            return self._remove_from_visible_part(part, torn)
        if isinstance(part, Thinking):
            # It is signed by the provider, so it is removed as a whole.
            return (
                None
                if self.matches(part.block)
                else msgspec.structs.replace(part, text=self.remove_from_text(part.text))
            )
        if isinstance(part, Result):
            inner = tuple(self._remove_from_visible_part(each, torn) for each in part.parts)
            return Result(self._call_id(part.call_id, seq), inner, part.error)
        values = (
            self._call_id(part.id, seq),
            self.remove_from_text(part.name),
            self.remove_from_json(part.arguments, "{}"),
        )
        is_new = values != (part.id, part.name, part.arguments) or self.matches(part.opaque)
        return Call(*values) if is_new else part

    def _remove_from_visible_part(self, part: Text | Image, torn: bool) -> Text | Image:
        if isinstance(part, Image):
            return msgspec.structs.replace(part, url=self.remove_from_text(part.url))
        text = self.remove_from_excerpt(part.text) if torn else self.remove_from_text(part.text)
        same = text == part.text and not self.matches(part.opaque)
        return part if same else msgspec.structs.replace(part, text=text, opaque="")

    def _call_id(self, ident: str, seq: int) -> str:
        """Return another id, the same for a call and its result."""
        if ident not in self._new_call_ids and self.matches(ident):
            self._new_call_ids[ident] = f"forgotten-{seq}-{len(self._new_call_ids)}"
        return self._new_call_ids.get(ident, ident)

    def _remove_from_note(self, note: NoteAdded) -> NoteAdded:
        if isinstance(note, BranchStarted) or is_note(note, *_KEPT_NOTES):
            return note
        if is_note(note, StateNote, PreparedSummary):
            return msgspec.structs.replace(note, text=self.remove_from_json(note.text, "{}"))
        text = self._tools(note.text) if is_note(note, ToolsSet) else self.remove_from_text(note.text)
        if not is_note(note, SystemSet, ToolsSet):
            return msgspec.structs.replace(note, topic=self.remove_from_text(note.topic), text=text)
        if text == note.text:
            return note
        return msgspec.structs.replace(note, text=text, tokens=_bound_text_tokens(text, note.tokens))

    def _tools(self, text: str) -> str:
        tools = msgspec.json.decode(text, type=tuple[Tool, ...])
        new = tuple(
            Tool(
                self.remove_from_text(tool.name),
                self.remove_from_text(tool.description),
                self.remove_from_json(tool.parameters, Tool("").parameters),
            )
            for tool in tools
        )
        encoded = text if new == tools else msgspec.json.encode(new).decode()
        return "[]" if self.matches(encoded) else encoded


def _bound_message_tokens(message: Message, old: int) -> int:
    marks = sum(text.count(TOMBSTONE) for text in _strings(message.parts))
    return min(
        max(old + _EXTRA_TOKENS * marks, count_message(message, TokenEstimator(), thinking=True)),
        _count_upper_bound(message),
    )


def _bound_text_tokens(text: str, old: int) -> int:
    upper = old + _EXTRA_TOKENS * text.count(TOMBSTONE)
    return min(
        max(upper, MESSAGE_OVERHEAD + TokenEstimator().count_text(text)),
        MESSAGE_OVERHEAD + _ByteCounter().count_text(text),
    )


def _strings(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Result):
            yield from _strings(part.parts)
        elif isinstance(part, Text | Thinking):
            yield part.text
        elif isinstance(part, Call):
            yield part.name
            yield part.arguments


def _pattern(words: str) -> str:
    """Split a text into units: a run of blanks, a run of backslashes, or any other single character."""
    return "".join(_spelling_pattern(match[0]) for match in re.finditer(r"\s+|\\+|.", words, re.DOTALL))


def _spelling_pattern(run: str) -> str:
    """Return a pattern for the ways in which a unit can be written, bounded for runs of backslashes."""
    char, length = run[0], len(run)
    if char.isspace():
        return _BLANKS
    if char == "\\":
        return rf"(?:\\{{{length},{16 * length}}}|(?:%5[Cc]){{{length}}})"
    if char.isascii() and (char.isalnum() or char in "_-.~"):
        return re.escape(char)
    ways = [re.escape(char), f"(?i:{re.escape(quote(char, safe=''))})"]
    if char in _JSON_SHORT:
        ways.append(rf"\\{{1,15}}{_JSON_SHORT[char]}")
    units = char.encode("utf-16-be")
    ways.append("".join(rf"\\{{1,15}}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2)))
    return f"(?:{'|'.join(ways)})"


def _remove_cut_phrase(text: str, words: str, mark: str = TOMBSTONE) -> str:
    """Remove the longest beginnings of the words from a text."""
    start, position, pieces = words[:_MIN_CUT_CHARS], 0, list[str]()
    while (at := text.find(start, position)) >= 0:
        end = _MIN_CUT_CHARS
        while end < len(words) and text[at + end : at + end + 1] == words[end]:
            end += 1
        pieces += [text[position:at], mark]
        position = at + end
    return "".join([*pieces, text[position:]])
