"""The data that the page of one session asks for, as JSON. A look costs what is new in the log and what is shown."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from tidegate.core.events import Event, MessageAdded, NoteAdded
from tidegate.core.messages import Message, calls_of, text_of
from tidegate.core.text.clip import clip_chars
from tidegate.core.thinking_walk import seq_of_id
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.recall import find_edit_to_redo, find_edit_to_undo, recall_text
from tidegate.session.reports.changes import Change
from tidegate.session.reports.state_note_report import NoteParts, split_note
from tidegate.store.log import LogReader
from tidegate.store.store import SessionInfo
from tidegate.web.category_shares import CHART_CATEGORIES
from tidegate.web.live.message_json import JsonPart, describe_event, describe_message, encode_messages
from tidegate.web.live.session_catalog import SessionCatalog, SessionRow
from tidegate.web.live.session_figures import SessionFigures
from tidegate.web.live.session_index import SessionIndex, Stretch, thin_requests
from tidegate.web.request_history import RequestFigures

REQUEST_ROWS: Final = 20
MAX_CHANGES: Final = 300
MAX_MESSAGES: Final = 60
_EVENTS_PER_LOOK: Final = 10_000
_MAX_CHARS: Final = 1_500_000
_RECALL_CHARS: Final = 12_000
_MAX_LABELS: Final = 200
_LABEL_CHARS: Final = 90
_LABEL_READ_CHARS: Final = 4_000
"""More than is shown: a secret that is cut would not be recognized."""


class RequestSummary(RequestFigures, frozen=True):
    """A request with its number in the session, 0 if that is not known.

    `missed` are the tokens that were in the provider's cache and not read from it, and `miss` is why.
    """

    number: int = 0
    missed: int = 0
    miss: str = ""


class RequestPage(msgspec.Struct, frozen=True):
    rows: list[RequestSummary]
    total: int


class SessionData(msgspec.Struct, frozen=True):
    """`read_to` is how far the log was read; below `head` the page asks again. `older` changes are not listed.

    `undo` and `redo` are the events that the next undo and the next redo are about, 0 for none.
    """

    name: str
    head: int
    read_to: int
    row: SessionRow | None
    figures: SessionFigures
    categories: tuple[str, ...]
    points: list[RequestSummary]
    newest: RequestPage
    changes: list[Change]
    older: int
    undo: int
    redo: int
    tree: list[SessionRow]


class NewestPart(msgspec.Struct, frozen=True):
    """The part of the page that needs the end of the log only. `rows` are the newest requests, without a number."""

    head: int
    figures: SessionFigures
    rows: list[RequestSummary]


class Comparison(msgspec.Struct, frozen=True):
    """`system` and `tools` are the events with the fixed part of the request, 0 for none.

    `labels` say what a changed message and one that was added hold, by the reference of the message. Of a state note,
    `note` are the parts, and `sources` the references of the messages that it cites.
    """

    stretches: list[Stretch]
    labels: dict[int, str]
    system: int = 0
    tools: int = 0
    note: NoteParts | None = None
    sources: dict[str, int] = {}


class RecallAnswer(msgspec.Struct, frozen=True):
    text: str
    ids: tuple[str, ...]
    more: str
    offset: int


class SessionLooks:
    def __init__(self, data: DataFolder, catalog: SessionCatalog) -> None:
        self._data = data
        self._catalog = catalog

    def _info(self, scope: str, name: str) -> SessionInfo:
        info = self._catalog.find_info(scope, name)
        assert info is not None, "the caller has looked"
        return info

    def _index(self, scope: str, name: str) -> SessionIndex:
        return self._catalog.read_index(self._info(scope, name), _EVENTS_PER_LOOK)

    def read_ahead(self, scope: str, name: str) -> None:
        """Begin to read the log of a session whose page a browser is about to draw."""
        info = self._catalog.find_info(scope, name)
        if info is not None:
            self._catalog.read_index(info, _EVENTS_PER_LOOK)

    def describe_newest(self, scope: str, name: str) -> bytes:
        """The first look at a session: its window now and its newest requests, newest first."""
        info = self._info(scope, name)
        newest = self._catalog.read_newest(info)
        rows = [RequestSummary.of_record(each) for each in reversed(newest.requests[-REQUEST_ROWS:])]
        return msgspec.json.encode(NewestPart(info.head, newest.figures, rows))

    def describe_session(self, scope: str, name: str, running: set[str]) -> bytes:
        index = self._index(scope, name)
        head = self._data.store.head(name)
        is_read = index.head >= head
        tree = self._catalog.list_tree(scope, name, running) if is_read else []
        changes = [
            msgspec.structs.replace(each.mask_texts(self._data.mask), is_undone=each.seq in index.undone_edits)
            for each in index.changes[-MAX_CHANGES:]
        ]
        places = thin_requests(index) if is_read else []
        return msgspec.json.encode(
            SessionData(
                name=self._data.mask(name),
                head=head,
                read_to=index.head,
                row=next((row for row in tree if row.name == name), None),
                figures=index.totals.figures,
                categories=CHART_CATEGORIES,
                points=[_summarize(index, place) for place in places],
                newest=_list_requests(index),
                changes=changes,
                older=max(0, len(index.changes) - MAX_CHANGES),
                undo=index.edits.made[-1] if index.edits.made else 0,
                redo=index.edits.undone[-1] if index.edits.undone else 0,
                tree=tree,
            )
        )

    def list_requests(self, scope: str, name: str, before: int) -> bytes:
        """The requests up to number `before`, newest first."""
        return msgspec.json.encode(_list_requests(self._index(scope, name), before))

    def compare_request(self, scope: str, name: str, head: int) -> bytes:
        index = self._index(scope, name)
        system, tools = index.fixed_at(head)
        stretches = index.compare_request(head)
        return msgspec.json.encode(Comparison(stretches, self._label(name, index, stretches), system, tools))

    def compare_change(self, scope: str, name: str, seq: int) -> bytes:
        index = self._index(scope, name)
        stretches = index.compare_change(seq)
        labels, note = self._label(name, index, stretches), self._split_note(name, index, seq)
        sources = {ident: seq_of_id(ident) for ident in (note.list_sources() if note else ()) if ident[:1] == "m"}
        return msgspec.json.encode(Comparison(stretches, labels, note=note, sources=sources))

    def _split_note(self, name: str, index: SessionIndex, seq: int) -> NoteParts | None:
        """The parts of the state note of this event; None if it is another change."""
        before = index.note_before.get(seq)
        if before is None:
            return None
        events = _read_events(self._data.open_log(name), [each for each in (before, seq) if each])
        texts = {each: event.payload.text for each, event in events.items() if isinstance(event.payload, NoteAdded)}
        return split_note(texts.get(seq, ""), texts.get(before, ""), self._data.mask)

    def _label(self, name: str, index: SessionIndex, stretches: Sequence[Stretch]) -> dict[int, str]:
        """The first words of each message that was changed or added, of so many at most."""
        refs = [before for each in stretches for before, _ in each.pairs]
        refs += [ref for each in stretches if each.state == "come" for ref in each.refs]
        refs = refs[:_MAX_LABELS]
        events = _read_events(self._data.open_log(name), [ref for ref in refs if ref > 0])
        labels: dict[int, str] = {}
        for ref in refs:
            what = events[ref].payload if ref in events else None
            message = what.message if isinstance(what, MessageAdded) else index.own_message(ref)
            if message is not None:
                labels[ref] = self._describe(message)
        return labels

    def _describe(self, message: Message) -> str:
        calls = ", ".join(call.name for call in calls_of(message))
        text = " ".join(self._data.mask(text_of(message)[:_LABEL_READ_CHARS]).split())
        who = "result" if message.role == "tool" else message.role
        return f"{who}: {clip_chars(text or calls, _LABEL_CHARS, mode='head', notice='…').text}"

    def read_messages(self, scope: str, name: str, refs: Sequence[int]) -> bytes:
        index, log = self._index(scope, name), self._data.open_log(name)
        parts: list[JsonPart] = []
        events = _read_events(log, [seq for ref in refs[:MAX_MESSAGES] if ref > 0 for seq in (max(1, ref - 1), ref)])
        for ref in refs[:MAX_MESSAGES]:
            if ref > 0:
                description = describe_event(events[ref], events.get(ref - 1)) if ref in events else None
            else:
                own = index.own_message(ref)
                description = describe_message(own) if own is not None else None
            parts.append(description or {"role": "message", "content": "[this message is not in the log any more]"})
        return encode_messages(parts, self._data.mask, _MAX_CHARS)

    def recall(self, scope: str, name: str, words: str, offset: int) -> bytes:
        answer = recall_text(
            self._data.open_log(name),
            words[:1_000],
            max_chars=_RECALL_CHARS,
            offset=offset,
            index=self._data.recall_index(name),
        )
        text = self._data.mask(answer.text)
        return msgspec.json.encode(RecallAnswer(text, answer.ids, answer.next_query, answer.next_offset))

    def toggle_change(self, name: str, seq: int, *, redo: bool) -> bool:
        """Undo or redo the compaction at event `seq`. False if it is not the one to be undone or redone next."""
        live = self._data.open_conversation(name)
        if (find_edit_to_redo if redo else find_edit_to_undo)(live.log) != seq:
            return False
        (live.history.redo if redo else live.history.undo)()
        return True


def _read_events(log: LogReader, seqs: Sequence[int]) -> dict[int, Event]:
    """The events with these numbers. Neighbors are read together."""
    events: dict[int, Event] = {}
    for first, last in _join_neighbors(sorted(set(seqs))):
        for event in islice(log.read(first), last - first + 1):
            events[event.seq] = event
    return events


def _join_neighbors(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for seq in seqs:
        if first and seq - last > 4:
            yield first, last
            first = 0
        first, last = first or seq, seq
    if first:
        yield first, last


def _list_requests(index: SessionIndex, before: int | None = None) -> RequestPage:
    total = len(index.requests.requests)
    last = total if before is None else min(max(before, 0), total)
    rows = [_summarize(index, place) for place in range(last - 1, max(-1, last - 1 - REQUEST_ROWS), -1)]
    return RequestPage(rows, total)


def _summarize(index: SessionIndex, place: int) -> RequestSummary:
    request = index.requests.requests[place]
    measurement, miss = index.measured(request), index.misses.get(request.head)
    summary = msgspec.structs.replace(
        RequestSummary.of_record(request), client=index.timeline.name_speaker(request.head)
    )
    if miss is not None:
        summary = msgspec.structs.replace(summary, missed=miss.missed_tokens, miss=miss.describe())
    if measurement is None:
        return msgspec.structs.replace(summary, number=place + 1)
    return msgspec.structs.replace(
        summary,
        number=place + 1,
        model=summary.model if request.used is not None else measurement.model,
        wire=measurement.dialect,
        total=index.total_of(request),
        parts=index.parts_of(request),
        messages=measurement.messages,
        window=measurement.window,
    )
