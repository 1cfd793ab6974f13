"""Whether removed content is needed again, read from the log alone: recalls that found something or nothing, calls that
fetched again what could have been recalled, and hints with their effect.

A call *re-reads* if its result was already in the log and had left the view (dropped or shortened) when the call was
made: the same call with the same arguments and result, or a read of a file that had been read whole. It does not count
if a tool changed the file in between, because a check that runs again after a change fetches something new even if the
result is the same.
"""

import re
from collections import Counter as Tally
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from tidegate.core.edits import Drop, Insert, Replace
from tidegate.core.events import Event, MessageAdded, ViewEdited
from tidegate.core.messages import NOTE, Call, Message, calls_of, result_of, text_of
from tidegate.core.notes import EditRedone, EditUndone, ViewCleared, is_note, read_note
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import call_target_of, file_name_of, iterate_strings, parse_call_arguments
from tidegate.session.recall import RECALL_USAGE
from tidegate.store.log import LogReader

_RECALL_TOOL: Final = "recall"
"""The name of the recall tool; the name of an MCP tool ends with it (`mcp__notes__recall`)."""
_ID_RANGES: Final = LazyPattern(r"\bm(\d{1,15})(?:\s*(?:\.\.+|-|to)\s*m?(\d{1,15}))?", re.ASCII)
_PATH_KEYS: Final = LazyPattern(r"path|file|notebook", re.I)
_AGENT_TOOLS: Final = frozenset({_RECALL_TOOL, "memory_search", "memory_write", "compact", "skills", "task"})


class RecallStats(msgspec.Struct, frozen=True):
    """Counts of one log. `hints` are messages that said how to recall a file; `followed` counts those after which it
    was recalled.
    """

    calls: int = 0
    hits: int = 0
    misses: int = 0
    rereads: int = 0
    hints: int = 0
    followed: int = 0

    @property
    def any(self) -> bool:
        return bool(self.hits or self.misses or self.rereads or self.hints)

    def __str__(self) -> str:
        line = f"recalled: {self.hits:,} found, {self.misses:,} not; fetched again what could have been recalled:"
        line += f" {self.rereads:,} of {self.calls:,} calls"
        return f"{line}; hints: {self.hints:,}, {self.followed:,} followed" if self.hints else line


def count_recalls(log: LogReader) -> RecallStats:
    counting = RecallCounter()
    for event in log.read():
        counting.add_event(event)
    return counting.stats


class _Fetched(NamedTuple):
    """The result of a call: the id of its message, the hash of its content, and the base names of the files in its path
    arguments (a shell command has none).
    """

    answer: str
    content: bytes
    files: frozenset[str]


class _OpenCall(NamedTuple):
    """A call without a result yet. `previous_content` is the hash of the same call's earlier result if that left the
    view; `was_read_whole`: its file was read whole before, and that result left the view.
    """

    call: Call
    previous_content: bytes = b""
    was_read_whole: bool = False


class RecallCounter:
    """Counts recalls over the events of a log, added one by one; `stats` holds the counts so far."""

    def __init__(self) -> None:
        self.stats = RecallStats()
        self._asked: dict[str, _OpenCall] = {}
        self._same: dict[tuple[str, str], _Fetched] = {}
        self._whole: dict[str, _Fetched] = {}
        self._left: Tally[str] = Tally()
        self._edits: dict[int, tuple[str, ...]] = {}
        self._cleared = 0
        self._hinted: list[frozenset[int]] = []

    def add_event(self, event: Event) -> None:
        what = event.payload
        if isinstance(what, MessageAdded):
            self._said(what.message)
        elif isinstance(what, ViewEdited):
            self._edited(event.seq, what)
        elif is_note(what, ViewCleared):
            self._cleared = event.seq
        elif (undone := read_note(what, EditUndone)) is not None:
            self._left.subtract(self._edits.get(undone.edit, ()))
        elif (redone := read_note(what, EditRedone)) is not None:
            self._left.update(self._edits.get(redone.edit, ()))

    def _count(self, **more: int) -> None:
        values = {name: getattr(self.stats, name) + number for name, number in more.items()}
        self.stats = msgspec.structs.replace(self.stats, **values)

    def _edited(self, seq: int, edited: ViewEdited) -> None:
        ids = [ident for edit in edited.edits if isinstance(edit, Drop) for ident in edit.ids]
        ids += [edit.id for edit in edited.edits if isinstance(edit, Replace)]
        self._edits[seq] = tuple(ids)
        self._left.update(ids)
        for edit in edited.edits:
            if isinstance(edit, Insert) and edit.message.kind == NOTE and text_of(edit.message).startswith(HINT_PREFIX):
                self._count(hints=1)
                self._hinted.append(frozenset(first for first, _ in _find_ranges(text_of(edit.message))))

    def _said(self, message: Message) -> None:
        result = result_of(message)
        if result is not None:
            open_call = self._asked.pop(result.call_id, None)
            if open_call is not None:
                self._answered(open_call, message, failed=result.error)
            return
        for call in calls_of(message):
            self._count(calls=1)
            self._asked[call.id] = _OpenCall(call) if call.name in _AGENT_TOOLS else self._seen_before(call)
            if _is_recall(call):
                self._count_followed_hint(call)

    def _seen_before(self, call: Call) -> _OpenCall:
        same = self._same.get((call.name, call.arguments))
        files = [] if call_target_of(call).writes else [self._whole.get(path) for path in _named_paths(call)]
        return _OpenCall(
            call,
            same.content if same is not None and self._has_left(same.answer) else b"",
            any(each is not None and self._has_left(each.answer) for each in files),
        )

    def _answered(self, open_call: _OpenCall, message: Message, *, failed: bool) -> None:
        call = open_call.call
        if _is_recall(call):
            is_hit = not failed and not text_of(message).rstrip().endswith(RECALL_USAGE)
            self._count(hits=is_hit, misses=not is_hit)
        elif not failed and call.name not in _AGENT_TOOLS:
            fetched = _Fetched(message.id, _hash(message), frozenset(map(file_name_of, _named_paths(call))))
            self._count(rereads=open_call.was_read_whole or open_call.previous_content == fetched.content)
            self._remember_fetch(call, fetched)

    def _remember_fetch(self, call: Call, fetched: _Fetched) -> None:
        target, paths = call_target_of(call), _named_paths(call)
        if target.writes:
            self._same = {
                key: each for key, each in self._same.items() if each.files and each.files.isdisjoint(target.files)
            }
            self._whole = {path: each for path, each in self._whole.items() if file_name_of(path) not in target.files}
            return
        self._same[call.name, call.arguments] = fetched
        if target.whole_file:
            self._whole.update(dict.fromkeys(paths, fetched))

    def _has_left(self, ident: str) -> bool:
        return self._left[ident] > 0 or int(ident[1:].partition(".")[0]) < self._cleared

    def _count_followed_hint(self, call: Call) -> None:
        argument_texts = [text for _, text in iterate_strings(parse_call_arguments(call))]
        spans = [span for text in argument_texts for span in _find_ranges(text)]
        for hint in self._hinted:
            if any(first <= place <= last for place in hint for first, last in spans):
                self._hinted.remove(hint)
                self._count(followed=1)
                return


def _is_recall(call: Call) -> bool:
    return call.name == _RECALL_TOOL or call.name.endswith(f"__{_RECALL_TOOL}")


def _hash(message: Message) -> bytes:
    return blake2b(text_of(message).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _find_ranges(text: str) -> Iterator[tuple[int, int]]:
    for match in _ID_RANGES.finditer(text):
        yield int(match[1]), int(match[2] or match[1])


def _named_paths(call: Call) -> frozenset[str]:
    """Return the full paths in the path arguments of a call: many files share a base name."""
    values = (
        value
        for key, value in iterate_strings(parse_call_arguments(call))
        if _PATH_KEYS.search(key) and len(value) <= 400
    )
    return frozenset(value.removeprefix("./") for value in values if "\n" not in value)
