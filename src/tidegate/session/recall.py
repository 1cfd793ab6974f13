"""Recall: reading messages that left the view from the log, by id, by range or by words, in bounded pieces.

A session that was found by its messages can hold the branches of several conversations. Recall for a model must then
read `ConversationLog`, not the log itself: what is on another branch may be another user's.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.log_fold import find_branch_points, hidden_spans, iterate_current_branch
from tidegate.core.messages import Message, calls_of, result_of
from tidegate.memory.log_lines import extract_log_lines
from tidegate.memory.words import QueryUnit, cut_snippet, find_match_offset, normalize_text, parse_query
from tidegate.session.message_text import render_message_text
from tidegate.store.log import LogReader

RECALL_USAGE = (
    "Give the id of a message (m12, or e30.1 for what an edit added), a range (m12..m40), or words to look for."
)
"""The end of every answer that found nothing."""
MIN_RECALL_CHARS = 400
_MAX_RECALL_HITS = 100
MAX_QUERY_WORDS = 16
EXCERPT_CHARS = 240
_MAX_SEARCH_PAGES = 3
_SEARCH_PAGE_CHARS = 60_000
_ID = re.compile(r"m\d{1,15}|e\d{1,15}\.\d{1,9}", re.ASCII).fullmatch
_RANGE = re.compile(r"m(\d{1,15})\s*(?:\.\.+|-|to)\s*m?(\d{1,15})", re.ASCII).fullmatch
_CONTINUATION = re.compile(r"(.{1,2000}?),? offset (\d{1,12})").fullmatch
_MAX_ID_LIST_CHARS = 200  # characters of a list of ids: the rest of the list is repeated at the end of a page
_PUNCTUATION = "\"'`.,;:!?()[]{}<>"

LogSearch = Callable[[str, int], Sequence[int]]
"""Called with words and a number of hits; returns the seqs of messages that contain them, the best first."""


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
    if not _ID(ident):
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


class ConversationLog:
    """The part of a log that belongs to one conversation: its branch, up to its last message.

    `last_id` is the id of that message (`FollowedRequest.last_id`), empty if there is none yet. None stands for the end
    of the current branch.
    Answers that were kept but never shown are left out: they may answer a request of another branch.
    """

    def __init__(self, log: LogReader, last_id: str | None = None) -> None:
        self._log = log
        self._head = log.head if last_id is None else min(int(last_id[1:] or 0), log.head)
        events = takewhile(lambda event: event.seq <= self._head, log.read())
        self._hidden = hidden_spans(find_branch_points(events))

    @property
    def head(self) -> int:
        return self._head

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events of the conversation from this seq on."""
        spans = [span for span in self._hidden if span.last >= start]
        for event in self._log.read(start):
            if event.seq > self._head:
                return
            while spans and spans[0].last < event.seq:
                spans.pop(0)
            is_elsewhere = bool(spans) and event.seq >= spans[0].first
            is_unseen = isinstance(event.payload, MessageAdded) and not event.payload.message.agent_visible
            if not is_elsewhere and not is_unseen:
                yield event


def recall_text(
    log: LogReader, query: object, *, max_chars: int = 8_000, offset: int = 0, search: LogSearch | None = None
) -> Recalled:
    """Return what `what` names (an id, a range, several of them, or words), in at most `max_chars` characters.

    It is meant for a model: the result is always a text, never an error. `offset` is where to continue: a character of
    the first message, or the number of hits already seen. The words at the end of a result may be passed back
    unchanged. Words are searched in the whole log unless `find` is given; ids and ranges cost only what they show.
    """
    room, offset = max(max_chars, MIN_RECALL_CHARS), max(offset, 0)
    wanted = " ".join(query.split()) if isinstance(query, str) else ""
    further = _CONTINUATION(wanted)
    parts = _split_ids(further[1] if further else wanted)
    if parts:
        try:
            return _fill_page(_read_parts(log, parts), room, int(further[2]) if further else offset)
        except BadInput as bad:
            return Recalled(f"{bad.args[0]} {RECALL_USAGE}")
    if not wanted:
        return Recalled(RECALL_USAGE)
    return _list_hits(log, wanted, search or _make_log_scan(log), room, offset)


def _split_ids(wanted: str) -> list[str]:
    """Return the ids and ranges of a list; none if it contains anything else."""
    parts = [part.strip() for part in wanted.split(",")] if len(wanted) <= _MAX_ID_LIST_CHARS else [""]
    return parts if all(_ID(part) or _RANGE(part) for part in parts) else []


class _PagedMessage(NamedTuple):
    """A message, and the reference with which to continue it."""

    message: Message
    rest: str


def _read_parts(log: LogReader, parts: Sequence[str]) -> Iterator[_PagedMessage]:
    for place, part in enumerate(parts):
        span = _RANGE(part)
        behind = parts[place + 1 :]
        if span is None:
            yield _PagedMessage(recall_message(log, part), ", ".join([part, *behind]))
            continue
        first, last = sorted((int(span[1]), int(span[2])))
        last = min(last, log.head)
        for message in _read_range(log, first, last):
            yield _PagedMessage(message, ", ".join([f"{message.id}..m{last}", *behind]))


def _read_range(log: LogReader, first: int, last: int) -> Iterator[Message]:
    """Yield the messages of a range, reading only as far as needed."""
    for event in log.read(max(1, first)):
        if event.seq > last:
            return
        if isinstance(event.payload, MessageAdded):
            yield event.payload.message


def _fill_page(found: Iterator[_PagedMessage], room: int, offset: int) -> Recalled:
    """Return as many whole messages as fit; only the first is cut, if it is too long by itself."""
    texts: list[str] = []
    ids: list[str] = []
    for message, rest in found:
        left = room - 120 - max(0, len(rest) - 30)  # for the note at the end
        text = render_message_text(message)[offset:]
        if len(text) > left and not ids:
            note = f"\n[{len(text) - left:,} characters of {message.id} are left out]"
            return _with_continuation(text[:left] + note, (message.id,), rest, offset + left)
        if len(text) > left:
            return _with_continuation("".join(texts), tuple(ids), rest, 0)
        ids.append(message.id)
        texts.append(text if text else f"[{message.id} has no more than {offset:,} characters]\n")
        room, offset = room - len(text), 0
    return Recalled("".join(texts), tuple(ids)) if ids else Recalled(f"No messages are in this range. {RECALL_USAGE}")


def _with_continuation(text: str, ids: tuple[str, ...], more: str, offset: int, name: str = "") -> Recalled:
    go_on = name or more
    return Recalled(f"{text}\n[go on with {go_on}{f', offset {offset}' if offset else ''}]", ids, more, offset)


def _list_hits(log: LogReader, words: str, find: LogSearch, room: int, offset: int) -> Recalled:
    hits = list(find(words, offset + _MAX_RECALL_HITS + 1))[offset:]
    units = parse_query(words, MAX_QUERY_WORDS)
    lines: list[str] = []
    ids: list[str] = []
    for number, seq in enumerate(hits):
        line = _format_hit(log, seq, units)
        room -= len(line) + 1
        if number == _MAX_RECALL_HITS or (room < 60 and ids):
            return _with_continuation("\n".join(lines), tuple(ids), words, offset + number, "the same words")
        if line:
            ids.append(f"m{seq}")
            lines.append(line)
    if ids:
        return Recalled("\n".join(lines), tuple(ids))
    return Recalled(f"{'Nothing more' if offset else 'Nothing'} in this log has these words. {RECALL_USAGE}")


def _format_hit(log: LogReader, seq: int, units: list[QueryUnit]) -> str:
    event = _read_event(log, seq)
    if event is None or not isinstance(event.payload, MessageAdded):
        return ""  # the search index may be older than the log
    (line,) = extract_log_lines("", [event])
    snippet = cut_snippet(line.text, find_match_offset(line.text, units), EXCERPT_CHARS)
    return f"m{seq} {event.payload.message.role}: {snippet}"


def _make_log_scan(log: LogReader) -> LogSearch:
    """Return the messages with most of these words, the newest first among equals; at least half of them must occur."""

    def find(words: str, most: int) -> list[int]:
        wanted = {
            normalize_text(word).casefold().strip(_PUNCTUATION) or word for word in words.split()[:MAX_QUERY_WORDS]
        }
        found: list[tuple[int, int]] = []
        for line in extract_log_lines("", log.read()):
            text = normalize_text(line.text).casefold()
            here = sum(word in text for word in wanted)
            if here and here * 2 >= len(wanted):
                found.append((here, line.seq))
        return [seq for _, seq in sorted(found, reverse=True)[:most]]

    return find


def make_log_search(log: LogReader, search_tools: Collection[str]) -> LogSearch:
    """Return a search that skips the calls and results of earlier searches, which contain all the words."""

    def find(words: str, most: int) -> list[int]:
        own = find_search_messages(log, search_tools)
        found: list[int] = []
        offset = 0
        for _ in range(_MAX_SEARCH_PAGES):
            page = recall_text(log, words, max_chars=_SEARCH_PAGE_CHARS, offset=offset)
            found += [seq for seq in (int(ident[1:]) for ident in page.ids) if seq not in own]
            offset = page.next_offset
            if len(found) >= most or not page.next_query:
                break
        return found[:most]

    return find


def find_search_messages(log: LogReader, search_tools: Collection[str]) -> set[int]:
    """Return the seqs of messages that only searched, and of their results."""
    seqs: set[int] = set()
    ids: set[str] = set()
    for event in log.read():
        message = event.payload.message if isinstance(event.payload, MessageAdded) else None
        if message is None:
            continue
        calls, result = calls_of(message), result_of(message)
        searches = [call.id for call in calls if call.name in search_tools]
        ids.update(searches)
        if (searches and len(searches) == len(calls)) or (result is not None and result.call_id in ids):
            seqs.add(event.seq)
    return seqs


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
        elif isinstance(what, NoteAdded) and what.topic == "undo" and what.edit in self.made:
            self.made.remove(what.edit)
            self.undone.append(what.edit)
        elif isinstance(what, NoteAdded) and what.topic == "redo" and what.edit in self.undone:
            self.undone.remove(what.edit)
            self.made.append(what.edit)


def find_edit_to_toggle(topic: str, log: LogReader) -> int | None:
    """Return the edit that the next undo reverts, or that the next redo repeats."""
    edits = EditStack()
    for event in iterate_current_branch(log.read):
        edits.feed(event)
    stack = edits.made if topic == "undo" else edits.undone
    return stack[-1] if stack else None
