"""Recall: reading messages that left the view from the log, by id, by range or by words, in bounded pieces.

A session that was found by its messages can hold the branches of several conversations. Recall for a model must then
read `ConversationLog`, not the log itself: what is on another branch may be another user's.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Drop, Insert, Replace
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, MessageAdded, ViewEdited
from tidegate.core.log_fold import iterate_current_branch
from tidegate.core.messages import Message
from tidegate.core.notes import EditRedone, EditUndone, read_note
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.memory.message_index import terms_of
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.message_text import render_message_text
from tidegate.session.recall_hits import format_hit, group_hits
from tidegate.session.recall_index import RecallIndex
from tidegate.store.log import LogReader

RECALL_USAGE = (
    "Give the id of a message (m12, or e30.1 for what an edit added), a range (m12..m40), or words to look for."
)
"""The end of every answer that found nothing."""
MIN_RECALL_CHARS = 400
_MAX_RECALL_HITS = 100
_ID = LazyPattern(r"m\d{1,15}|e\d{1,15}\.\d{1,9}", re.ASCII)
_RANGE = LazyPattern(r"m(\d{1,15})\s*(?:\.\.+|-|to)\s*m?(\d{1,15})", re.ASCII)
_CONTINUATION = LazyPattern(r"(.{1,2000}?),? offset (\d{1,12})")
_MAX_ID_LIST_CHARS = 200  # characters of a list of ids: the rest of the list is repeated at the end of a page
_PATH = LazyPattern(r"[^\s,]{0,300}(?:/[^\s,/]+|\.\w{1,8})")
_LINE_NUMBER = LazyPattern(r":\d+(?:[:-]\d+)?$")
_MAX_WHOLE_CHARS = 60_000
_CHARS_PER_TOKEN = 3
"""Code and prose have more; what has fewer is cut as other large results are."""
_MAX_LATER = 20
_MAX_OTHERS = 8
_ALSO_NAMED = "[Other messages about it:]\n"
_MAX_SPANS_CHARS = 200


class Recalled(msgspec.Struct, frozen=True):
    """The text to show, and the ids of the messages in it.

    If not everything fits, `recall_text(log, more, offset=offset)` returns the next piece; `text` says so, too.
    """

    text: str
    ids: tuple[str, ...] = ()
    next_query: str = ""
    next_offset: int = 0


def recall_message(log: LogReader, ident: str) -> Message:
    """Return the original message with this id. The id names its place in the log, so this is one read."""
    remedy = "Ids look like m12, or e30.1 for what an edit added; the stub or note in the view names them."
    if not _ID.fullmatch(ident):
        raise BadInput(f"{ident[:80]!r} is not the id of a message.", remedy)
    number, _, place = ident[1:].partition(".")
    event = _read_event(log, int(number))
    if event is not None and isinstance(event.payload, MessageAdded) and not place:
        return event.payload.message
    if event is not None and isinstance(event.payload, ViewEdited):
        for edit in event.payload.edits:
            if isinstance(edit, Insert) and edit.message.id == ident:
                return edit.message
    raise BadInput(f"There is no message {ident!r} in this log.", remedy)


def _read_event(log: LogReader, seq: int) -> Event | None:
    if not 1 <= seq <= log.head:
        return None
    event = next(islice(log.read(seq), 1), None)
    return event if event is not None and event.seq == seq else None  # a ConversationLog has gaps


def recall_text(
    log: LogReader,
    query: object,
    *,
    max_chars: int = 8_000,
    offset: int = 0,
    whole_chars: int = 0,
    index: RecallIndex | None = None,
) -> Recalled:
    """Return what `query` names (an id, a range, several of them, a file, or words), in at most `max_chars` characters.

    The first message of an id or range, or of a file, may have `whole_chars`, if that is more: pages of one long
    message cost a call each.

    It is meant for a model: the result is always a text, never an error. `offset` is where to continue: a character of
    the first message, or the number of hits already seen. The words at the end of a result may be passed back
    unchanged. Words and files are looked up in `index`, which is built for this query if it is not given; ids and
    ranges cost only what they show.
    """
    room, offset = max(max_chars, MIN_RECALL_CHARS), max(offset, 0)
    words = " ".join(query.split()) if isinstance(query, str) else ""
    further = _CONTINUATION.fullmatch(words)
    parts = _split_ids(further[1] if further else words)
    if parts:
        try:
            messages = _read_parts(log, parts)
            page = _fill_page(messages, _PageRoom(room, whole_chars), int(further[2]) if further else offset)
            return page or _explain_empty_range(log, parts, room)
        except BadInput as bad:
            return Recalled(f"{bad.args[0]} {RECALL_USAGE}")
    if not words:
        return Recalled(RECALL_USAGE)
    index = index or RecallIndex(log.whole if isinstance(log, ConversationLog) else log)
    file = _show_file(log, words, index, _PageRoom(room, whole_chars), offset)
    return file or _list_hits(log, words, index, room, offset)


def choose_whole_chars(room: int) -> int:
    """Return the characters that one message may have in an answer: about a quarter of the room of a request."""
    return min(_MAX_WHOLE_CHARS, room * _CHARS_PER_TOKEN // 4)


def _split_ids(words: str) -> list[str]:
    """Return the ids and ranges of a list; none if it contains anything else."""
    parts = [part.strip() for part in words.split(",")] if len(words) <= _MAX_ID_LIST_CHARS else [""]
    return parts if all(_ID.fullmatch(part) or _RANGE.fullmatch(part) for part in parts) else []


class _PagedMessage(NamedTuple):
    """A message, and the reference with which to continue it."""

    message: Message
    rest: str


def _read_parts(log: LogReader, parts: Sequence[str]) -> Iterator[_PagedMessage]:
    for place, part in enumerate(parts):
        behind = parts[place + 1 :]
        if _RANGE.fullmatch(part) is None:
            yield _PagedMessage(recall_message(log, part), ", ".join([part, *behind]))
            continue
        first, last = _read_span(part)
        last = min(last, log.head)
        for message in _read_range(log, first, last):
            yield _PagedMessage(message, ", ".join([f"{message.id}..m{last}", *behind]))


def _read_span(part: str) -> tuple[int, int]:
    span = _RANGE.fullmatch(part)
    return (min(int(span[1]), int(span[2])), max(int(span[1]), int(span[2]))) if span else (0, 0)


def _read_range(log: LogReader, first: int, last: int) -> Iterator[Message]:
    """Yield the messages of a range, reading only as far as needed."""
    for event in log.read(max(1, first)):
        if event.seq > last:
            return
        if isinstance(event.payload, MessageAdded):
            yield event.payload.message


class _PageRoom(NamedTuple):
    """The characters of a page, and those that its first message may have."""

    chars: int
    whole_chars: int


def _fill_page(messages: Iterator[_PagedMessage], page: _PageRoom, offset: int) -> Recalled | None:
    """Return as many whole messages as fit; only the first is cut, if it is too long by itself."""
    texts: list[str] = []
    ids: list[str] = []
    room = page.chars
    for message, rest in messages:
        reserved = 120 + max(0, len(rest) - 30)  # for the note at the end
        left = (room if ids else max(room, page.whole_chars)) - reserved
        text = render_message_text(message)[offset:]
        if len(text) > left and not ids:
            note = f"\n[{len(text) - left:,} characters of {message.id} are left out]"
            return _with_continuation(text[:left] + note, (message.id,), rest, offset + left)
        if len(text) > left:
            return _with_continuation("".join(texts), tuple(ids), rest, 0)
        ids.append(message.id)
        texts.append(text if text else f"[{message.id} has no more than {offset:,} characters]\n")
        room, offset = room - len(text), 0
    return Recalled("".join(texts), tuple(ids)) if ids else None


def _explain_empty_range(log: LogReader, parts: Sequence[str], room: int) -> Recalled:
    """Say which messages the edits of a range cover: notes in the view name edits beside messages."""
    lines = []
    for part in parts:
        first, last = _read_span(part)
        for event in log.read(max(1, first)):
            if event.seq > last:
                break
            if isinstance(event.payload, ViewEdited) and (line := _describe_edit(event.seq, event.payload)):
                lines.append(line)
    start = "No messages are in this range"
    text = f"{start}, only edits of the view:\n" if lines else f"{start}."
    left = room - len(text) - len(RECALL_USAGE) - 60
    for number, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            text += f"and {len(lines) - number:,} more edits\n"
            break
        text += line + "\n"
    return Recalled(f"{text}{'' if lines else ' '}{RECALL_USAGE}")


def _describe_edit(seq: int, edited: ViewEdited) -> str:
    """Return the messages that an edit took out of the view or shortened, as ranges to recall."""
    dropped_ids = [ident for edit in edited.edits for ident in (edit.ids if isinstance(edit, Drop) else ())]
    dropped_ids += [edit.id for edit in edited.edits if isinstance(edit, Replace)]
    if not dropped_ids:
        return ""
    spans = _join_ids(dropped_ids)
    return f"{seq}: an edit that covers {spans if len(spans) <= _MAX_SPANS_CHARS else spans[:_MAX_SPANS_CHARS] + '…'}"


def _join_ids(ids: Sequence[str]) -> str:
    """Return ids as a list in which neighbors are joined to ranges: m2..m5, m7."""
    seqs = {int(ident[1:]) for ident in ids if ident[0] == "m"}
    starts = sorted(seq for seq in seqs if seq - 1 not in seqs)
    ends = sorted(seq for seq in seqs if seq + 1 not in seqs)
    spans = [f"m{first}" if first == last else f"m{first}..m{last}" for first, last in zip(starts, ends, strict=True)]
    return ", ".join([*spans, *(ident for ident in ids if ident[0] != "m")])


def _show_file(log: LogReader, words: str, index: RecallIndex, room: _PageRoom, offset: int) -> Recalled | None:
    """Return the newest whole text of a file that the log has, and the ids of what read or changed it later.

    Other messages that name it follow if there is room. None if the query is not a path, or the log has no whole text
    of the file.
    """
    path = _LINE_NUMBER.sub("", words.strip("\"'`"))
    if not _PATH.fullmatch(path):
        return None
    touches = index.find_file(log, path)
    whole = next((touch for touch in reversed(touches) if touch.note.whole), None)
    if whole is None:
        return None
    later = [touch for touch in touches if touch.seq > whole.seq]
    kind = "written" if whole.note.writes else "read"
    head = f"[{whole.note.path}, as it was {kind} in m{whole.seq}, the newest whole text in this log."
    for label, writes in (("Changed later", True), ("Read in part later", False)):
        seqs = dict.fromkeys(touch.seq for touch in later if touch.note.writes == writes)
        if seqs:
            more = f" and {len(seqs) - _MAX_LATER:,} more" if len(seqs) > _MAX_LATER else ""
            head += f" {label}: {', '.join(f'm{seq}' for seq in list(seqs)[-_MAX_LATER:])}{more}."
    head += " The file on disk may differ.]\n"
    ident = f"m{whole.seq}"
    chars = _PageRoom(room.chars - len(head), room.whole_chars - len(head))
    page = _fill_page(iter([_PagedMessage(recall_message(log, ident), ident)]), chars, offset)
    if page is None:
        return None
    left = room.chars - len(head) - len(page.text) - len(_ALSO_NAMED)
    others = _list_others(log, words, index, left, ident) if left > 0 and not page.next_query else Recalled("")
    also = f"{_ALSO_NAMED}{others.text}" if others.ids else ""
    return msgspec.structs.replace(page, text=f"{head}{page.text}{also}", ids=page.ids + others.ids)


def _with_continuation(text: str, ids: tuple[str, ...], more: str, offset: int, name: str = "") -> Recalled:
    go_on = name or more
    return Recalled(f"{text}\n[go on with {go_on}{f', offset {offset}' if offset else ''}]", ids, more, offset)


def _list_others(log: LogReader, words: str, index: RecallIndex, room: int, own_id: str) -> Recalled:
    """Return hits beside a message that is shown, as many as fit."""
    terms = frozenset(terms_of(words))
    lines: list[str] = []
    ids: list[str] = []
    others = [hit for hit in group_hits(index.find(log, words)) if f"m{hit.seq}" != own_id]
    for hit in others[:_MAX_OTHERS]:
        event = _read_event(log, hit.seq)
        line = format_hit(event, hit, terms, _MAX_RECALL_HITS) if event is not None else ""
        room -= len(line) + 1
        if room < 0:
            break
        ids.append(f"m{hit.seq}")
        lines.append(line)
    return Recalled("\n".join(lines), tuple(ids))


def _list_hits(log: LogReader, words: str, index: RecallIndex, room: int, offset: int) -> Recalled:
    lines: list[str] = []
    ids: list[str] = []
    hits = group_hits(index.find(log, words))
    terms = frozenset(terms_of(words))
    for place, hit in enumerate(hits[offset:], offset):
        event = _read_event(log, hit.seq)
        line = format_hit(event, hit, terms, place) if event is not None else ""
        room -= len(line) + 1
        if len(lines) == _MAX_RECALL_HITS or (room < 60 + len(words) and ids):
            return _with_continuation("\n".join(lines), tuple(ids), words, place, "the same words")
        ids.append(f"m{hit.seq}")
        lines.append(line)
    if ids:
        return Recalled("\n".join(lines), tuple(ids))
    return Recalled(f"{'Nothing more' if offset else 'Nothing'} in this log has these words. {RECALL_USAGE}")


class EditStack:
    """The edits of a branch that can be undone, and those that were undone: fed with its events in order."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.undone: list[int] = []

    def feed(self, event: Event) -> None:
        what = event.payload
        if isinstance(what, ViewEdited):
            self.made.append(event.seq)
            self.undone.clear()
        elif (undone := read_note(what, EditUndone)) is not None and undone.edit in self.made:
            self.made.remove(undone.edit)
            self.undone.append(undone.edit)
        elif (redone := read_note(what, EditRedone)) is not None and redone.edit in self.undone:
            self.undone.remove(redone.edit)
            self.made.append(redone.edit)


def find_edit_to_undo(log: LogReader) -> int | None:
    """Return the edit that the next undo reverts."""
    return next(reversed(_read_edits(log).made), None)


def find_edit_to_redo(log: LogReader) -> int | None:
    """Return the edit that the next redo repeats."""
    return next(reversed(_read_edits(log).undone), None)


def _read_edits(log: LogReader) -> EditStack:
    edits = EditStack()
    for event in iterate_current_branch(log.read):
        edits.feed(event)
    return edits
