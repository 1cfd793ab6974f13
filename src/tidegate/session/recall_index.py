"""The recall index of a session: which messages have the words of a query, and which have a file.

It is built in memory at the first search and then reads only what is new in the log, never while messages are added.
It holds no texts: those are read from the log when they are shown. `memory/message_index.py` ranks.

The index of a long session is also saved, so that the next process need not read the whole log. What is saved is
believed only if the log still has the event that it ends with. It is masked: no secret is in it.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from math import inf
from threading import Lock
from typing import Final, NamedTuple, Protocol

import msgspec

from tidegate.core.events import Event, MessageAdded, encode_event
from tidegate.core.log_fold import BranchPoint
from tidegate.core.messages import HANDOFF, Call, Message, calls_of, result_of
from tidegate.core.notes import ContentForgotten, is_note
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import (
    COMMAND_KEYS,
    call_target_of,
    changed_paths_of,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.memory.log_lines import extract_message_text
from tidegate.memory.message_index import MessageIndex, PackedIndex, is_indexed_query
from tidegate.memory.words import normalize_text
from tidegate.session.conversation_log import BranchPoints, ConversationLog
from tidegate.store.log import LogReader

_SEARCH_TOOLS: Final = ("recall", "memory_search")
_PATH_KEYS: Final = LazyPattern(r"path|file|notebook", re.I)
_PRINTED_FILE: Final = LazyPattern(r"\s*(?:cd \S+ *&& *)?cat (?:-n )?([^\s|;&<>]+)\s*")
_MAX_PATH_CHARS: Final = 400
_QUOTED: Final = LazyPattern(r'"([^"]+)"|“([^”]+)”')
_MAX_PHRASE_READS: Final = 200
_MAX_OPEN_CALLS: Final = 1_000
_PUNCTUATION: Final = "\"'`.,;:!?()[]{}<>“”"
_MAX_SCANNED_WORDS: Final = 16
_SAVE_CHARS: Final = 1_000_000
_SAVE_SHARE: Final = 8
"""The index is saved after so many new characters, or after an eighth of all, also while it reads a long log: a killed
process loses no more than that.
"""

_Filter = Callable[[int], bool]
"""Whether the message with a seq may be found."""


class CallNote(NamedTuple):
    """A call of a tool as a hit shows it. `whole`: it read or wrote all of the file."""

    tool: str
    path: str
    writes: bool
    whole: bool


class FileTouch(NamedTuple):
    """A place where a file was read or written: the message that has its text, or the change."""

    seq: int
    note: CallNote


class RecallHit(NamedTuple):
    """A message for a query. `offset` is where its best passage begins in its text.

    `score` is the rank's; that of a message with a quoted phrase is infinite.
    """

    seq: int
    offset: int
    notes: tuple[CallNote, ...] = ()
    score: float = 0.0


class _OpenCall(NamedTuple):
    """A call whose result is still to come."""

    is_search: bool
    notes: tuple[CallNote, ...]


class _SavedIndex(msgspec.Struct, frozen=True, array_like=True):
    """`event_hash` is the SHA-256 of the event with the seq `head`.

    `log_head` is where the log ended when reading began: rewrites up to there are in what was read.
    """

    head: int
    log_head: int
    born: float
    event_hash: bytes
    index: PackedIndex
    open_calls: dict[str, _OpenCall]
    notes: dict[int, tuple[CallNote, ...]]
    touches: dict[str, list[FileTouch]]
    unseen: set[int]
    searches: set[int]
    was_plain: bool
    chars: int


class IndexFile(Protocol):
    """Where the index of one session is saved between processes."""

    def read(self) -> bytes | None:
        """Return what was written last, None if there is nothing that can be read."""

    def write(self, data: bytes, is_current: Callable[[LogReader], bool]) -> None:
        """Replace what is there, unless the session is being removed or rewritten. A failure is harmless.

        `is_current` says whether the data fits a log. It is asked about the log as it is now, which nobody can rewrite
        meanwhile.
        """


class RecallIndex:
    """The index of a whole log. Thread-safe.

    A search names the log to search in. It may be a part of it (`ConversationLog`): what is elsewhere is left out.
    """

    def __init__(self, log: LogReader) -> None:
        self.log = log
        self._lock = Lock()
        self._file: IndexFile | None = None
        self._mask: Callable[[str], str] = str
        self._branches = BranchPoints()
        self._clear()

    def save_to(self, file: IndexFile, mask: Callable[[str], str]) -> None:
        """Save the index there, and read what is there before the first search. `mask` hides secrets from it."""
        with self._lock:
            self._file, self._mask = file, mask
            self._clear()

    def _clear(self) -> None:
        self._index = MessageIndex()
        self._head = self._log_head = 0
        self._born = 0.0
        self._open_calls: dict[str, _OpenCall] = {}
        self._notes: dict[int, tuple[CallNote, ...]] = {}
        self._touches: dict[str, list[FileTouch]] = {}
        self._unseen: set[int] = set()
        self._searches: set[int] = set()
        self._was_plain = False
        self._chars = self._unsaved_chars = 0

    def find(self, log: LogReader, query: str) -> list[RecallHit]:
        """Return the messages for a query, the best first: those with a quoted phrase, then those with its words.

        The texts are searched for what has no words, such as punctuation, and for short parts of words.
        """
        with self._lock:
            self._catch_up()
            is_allowed = self._make_filter(log)
            allowed = None if is_allowed is None else bytes(map(is_allowed, self._index.seqs))
            best = self._index.rank(query, allowed=allowed)
            scores = {hits.seq: hits.score for hits in best}
            ranking = [(hits.seq, hits.offset) for hits in best]
            phrases = [(one or two).strip() for one, two in _QUOTED.findall(query)]
            first = self._find_phrases(log, [phrase for phrase in phrases if phrase], is_allowed)
            if first:
                ranking = [*first.items(), *(each for each in ranking if each[0] not in first)]
                scores.update(dict.fromkeys(first, inf))
            is_scanned = not ranking and (allowed is not None or not is_indexed_query(query))
            hits = self._scan_texts(log, query, is_allowed) if is_scanned else ranking
            return [RecallHit(seq, at, self._notes.get(seq, ()), scores.get(seq, 0.0)) for seq, at in hits]

    def find_file(self, log: LogReader, path: str) -> list[FileTouch]:
        """Return where a file was read or written, oldest first. The path may lack its first folders."""
        path = path.replace("\\", "/").removeprefix("./").rstrip("/")
        with self._lock:
            self._catch_up()
            is_allowed = self._make_filter(log)
            some = self._touches.get(path.rpartition("/")[2], [])
            same = [touch for touch in some if _is_same_path(touch.note.path, path)]
            return [touch for touch in same if is_allowed is None or is_allowed(touch.seq)]

    def read_branch_points(self) -> list[BranchPoint]:
        """Return the branch points of the log. Only the first call reads the whole log."""
        with self._lock:
            return self._branches.read(self.log)

    def _make_filter(self, log: LogReader) -> _Filter | None:
        if not isinstance(log, ConversationLog):
            return None
        unseen, is_on_branch = self._unseen, log.is_on_branch
        return lambda seq: seq not in unseen and is_on_branch(seq)

    # --- reading the log ------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        whole = self.log
        born = next((event.time for event in whole.read(1)), 0.0)
        is_new = not self._head
        if is_new and self._file is not None:
            self._load(self._file)
        if born != self._born or whole.head < self._head:  # another log with this name
            self._clear()
            self._born = born
        last_seq = max(self._head, self._log_head)
        if self._head and any(map(_is_rewrite, whole.read(last_seq + 1))):
            self._clear()
            self._born = born
        self._log_head = whole.head
        for event in whole.read(self._head + 1):
            self._add_event(event)
            self._head = event.seq
            if self._file is not None and self._unsaved_chars >= max(_SAVE_CHARS, self._chars // _SAVE_SHARE):
                self._save(self._file)
        if is_new and self._file is not None and self._unsaved_chars >= _SAVE_CHARS:
            self._save(self._file)  # else each later process would read the rest again

    def _load(self, file: IndexFile) -> None:
        data = file.read()
        if data is None:
            return
        try:
            snapshot = msgspec.msgpack.decode(data, type=_SavedIndex)
            if snapshot.event_hash != _hash_event(self.log, snapshot.head):
                return
            self._index = MessageIndex.unpack(snapshot.index)
        except (msgspec.DecodeError, ValueError):
            return
        self._head, self._log_head, self._born, self._was_plain = (
            snapshot.head,
            snapshot.log_head,
            snapshot.born,
            snapshot.was_plain,
        )
        self._open_calls, self._notes, self._touches = snapshot.open_calls, snapshot.notes, snapshot.touches
        self._unseen, self._searches, self._chars = snapshot.unseen, snapshot.searches, snapshot.chars

    def _save(self, file: IndexFile) -> None:
        event_hash = _hash_event(self.log, self._head)
        saved_index = _SavedIndex(
            self._head,
            self._log_head,
            self._born,
            event_hash,
            self._index.pack(),
            self._open_calls,
            self._notes,
            self._touches,
            self._unseen,
            self._searches,
            self._was_plain,
            self._chars,
        )
        file.write(msgspec.msgpack.encode(saved_index), lambda log: self._is_current(log, event_hash))
        self._unsaved_chars = 0

    def _is_current(self, log: LogReader, event_hash: bytes) -> bool:
        """Whether a log has the newest event that is indexed, and was not rewritten since it was read."""
        is_rewritten = any(map(_is_rewrite, log.read(self._log_head + 1)))
        return not is_rewritten and event_hash == _hash_event(log, self._head)

    def _add_event(self, event: Event) -> None:
        message = event.payload.message if isinstance(event.payload, MessageAdded) else None
        if message is None:
            return
        if not message.agent_visible:
            self._unseen.add(event.seq)
        calls, result = calls_of(message), result_of(message)
        open_call = self._open_calls.pop(result.call_id, None) if result is not None else None
        repeats = message.kind == HANDOFF or (open_call is not None and open_call.is_search)
        if repeats or (calls and all(map(_is_search, calls))):
            self._searches.add(event.seq)
        else:
            text = self._mask(extract_message_text(_drop_search_calls(message) if calls else message))
            self._chars += len(text)
            self._unsaved_chars += len(text)
            is_plain = not calls and result is None
            is_linked = self._was_plain if is_plain else open_call is not None
            self._index.add(event.seq, text, is_linked=is_linked)
            self._was_plain = is_plain
            self._note_calls(event.seq, message, open_call)
        if calls:
            self._open_calls.update((call.id, _OpenCall(_is_search(call), self._describe_call(call))) for call in calls)
            for ident in list(self._open_calls)[:-_MAX_OPEN_CALLS]:
                del self._open_calls[ident]

    def _describe_call(self, call: Call) -> tuple[CallNote, ...]:
        return tuple(note._replace(path=self._mask(note.path)) for note in _describe_call(call))

    def _note_calls(self, seq: int, message: Message, open_call: _OpenCall | None) -> None:
        """Note the tools and files of a message. A read is where its result is, a change where its call is."""
        result = result_of(message)
        notes = [note for call in calls_of(message) for note in self._describe_call(call)]
        if open_call is not None:
            notes += open_call.notes
        if not notes:
            return
        self._notes[seq] = tuple(notes)
        for note in notes:
            if note.path and note.writes == (open_call is None) and not (result is not None and result.error):
                name = note.path.rpartition("/")[2]
                self._touches.setdefault(name, []).append(FileTouch(seq, note))

    # --- phrases and texts ----------------------------------------------------------------------------------------

    def _find_phrases(self, log: LogReader, phrases: Sequence[str], is_allowed: _Filter | None) -> dict[int, int]:
        """Return the messages that have all phrases word for word, newest first, with the offset of the first."""
        offsets: dict[int, int] = {}
        if not phrases:
            return offsets
        folded = [_fold(phrase) for phrase in phrases]
        seqs = [seq for seq in self._index.find_all(" ".join(phrases)) if is_allowed is None or is_allowed(seq)]
        for seq in seqs[:_MAX_PHRASE_READS]:
            text = _read_text(log, seq)
            flat = _fold(text)
            if all(phrase in flat for phrase in folded):
                offsets[seq] = max(0, text.casefold().find(phrases[0].casefold()))
        return offsets

    def _scan_texts(self, log: LogReader, query: str, is_allowed: _Filter | None) -> list[tuple[int, int]]:
        """Return the messages whose text has the query or its words anywhere, most words first, then the newest."""
        pieces = query.split()[:_MAX_SCANNED_WORDS]
        words = {_fold(piece).strip(_PUNCTUATION) or _fold(piece) for piece in pieces}
        matches: list[tuple[int, int]] = []
        for event in log.read():
            message = event.payload.message if isinstance(event.payload, MessageAdded) else None
            if message is None or event.seq in self._searches or (is_allowed and not is_allowed(event.seq)):
                continue
            text = _fold(extract_message_text(message))
            here = sum(word in text for word in words) + len(words) * (_fold(query) in text)
            if here:
                matches.append((here, event.seq))
        return [(seq, 0) for _, seq in sorted(matches, reverse=True)]


def _is_rewrite(event: Event) -> bool:
    return is_note(event.payload, ContentForgotten)


def _hash_event(log: LogReader, seq: int) -> bytes:
    """Return the hash of the event with this seq, empty if there is none."""
    event = next(log.read(seq), None) if seq else None
    return hashlib.sha256(encode_event(event)).digest() if event is not None and event.seq == seq else b""


def _is_search(call: Call) -> bool:
    return call.name.rpartition("__")[2] in _SEARCH_TOOLS


def _drop_search_calls(message: Message) -> Message:
    """Return a message without its searches: they have all the words that were searched for."""
    parts = tuple(part for part in message.parts if not (isinstance(part, Call) and _is_search(part)))
    return message if len(parts) == len(message.parts) else msgspec.structs.replace(message, parts=parts)


def _fold(text: str) -> str:
    return " ".join(normalize_text(text).casefold().split())


def _read_text(log: LogReader, seq: int) -> str:
    event = next(iter(log.read(seq)), None)
    if event is None or event.seq != seq or not isinstance(event.payload, MessageAdded):
        return ""
    return extract_message_text(event.payload.message)


def _is_same_path(other: str, path: str) -> bool:
    """Whether two paths are the same as far as both go."""
    return f"/{other}".endswith(f"/{path}") or f"/{path}".endswith(f"/{other}")


def _describe_call(call: Call) -> list[CallNote]:
    target = call_target_of(call)
    paths = changed_paths_of(call) if target.writes else list(dict.fromkeys(_named_paths(call)))
    notes = [
        CallNote(call.name, path.replace("\\", "/").removeprefix("./"), target.writes, target.whole_file)
        for path in paths
    ]
    file = None if notes else _find_printed_file(call)
    if file:
        notes = [CallNote(call.name, file, writes=False, whole=True)]
    return notes or [CallNote(call.name, "", target.writes, whole=False)]


def _named_paths(call: Call) -> Iterator[str]:
    for key, value in iterate_strings(parse_call_arguments(call)):
        if _PATH_KEYS.search(key) and len(value) <= _MAX_PATH_CHARS and "\n" not in value:
            yield value


def _find_printed_file(call: Call) -> str:
    """Return the file that a command prints whole."""
    arguments = parse_call_arguments(call)
    commands = [arguments.get(key) for key in COMMAND_KEYS] if isinstance(arguments, dict) else []
    match_of_file = next(
        (match for each in commands if isinstance(each, str) and (match := _PRINTED_FILE.fullmatch(each))), None
    )
    return match_of_file[1].removeprefix("./") if match_of_file else ""
