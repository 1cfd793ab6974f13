"""Search over notes and whole logs.

    search = Search(notes, logs, path=data / "search.db")
    for hit in search.search("where is the port configured"):
        print(hit.kind, hit.name, hit.place, hit.snippet)

Each search first indexes changes: notes whose file changed, and the new part of each log. A log from which something
was forgotten is erased from the index and read again. Hits come in steps, stricter ones first, each ranked by bm25:

    1. all words, as they are           2. all words, as prefixes
    3. all pieces anywhere in a text    4. any word, as a prefix

Step 3 scans texts, newest first up to a limit, and only if steps 1 and 2 found nothing: an index of all character
triples would cost several times the rest and still not find a Chinese word of two characters.
"""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.memory.index import (
    IndexedNote,
    PassageIndex,
    RankedPassage,
    SearchIndex,
    delete_index_files,
    is_index_damaged,
)
from tidegate.memory.log_lines import LogLine, LogLineSource
from tidegate.memory.notes import Notes
from tidegate.memory.passages import BLOCK_DECODE_ERRORS, SourceKind
from tidegate.memory.text_pieces import TextPiece, split_sections
from tidegate.memory.words import cut_snippet, find_match_offset, parse_query
from tidegate.wire.parsing import repair_unicode

_MAX_QUERY_CHARS = 400
_MAX_QUERY_UNITS = 16
_MAX_HITS = 100
_MAX_SCANNED_CHARS = 8_000_000
_BATCH = 256

_T = TypeVar("_T")


class SearchUnavailable(TidegateError):
    """The index can neither be used nor rebuilt. Notes and logs are intact."""


class SearchHit(msgspec.Struct, frozen=True):
    """A hit. `place` is the line in a note or the seq in a session; `step` and `score` explain its rank."""

    kind: SourceKind
    name: str
    place: int
    snippet: str
    step: int
    score: float = 0.0


class IndexUpdate(msgspec.Struct, frozen=True):
    """What an update indexed. `skipped` are unreadable notes, each with the reason."""

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    line_count: int = 0


class _IndexRebuilt(Exception):
    """The index was damaged and is now empty."""


class Search:
    """Full-text search. The index is at `path`, or a given `index`, or in memory. Thread-safe. `mask` hides secrets
    from the index.
    """

    def __init__(
        self,
        notes: Notes | None = None,
        logs: LogLineSource | None = None,
        *,
        path: Path | None = None,
        index: PassageIndex | None = None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.time,
        lock_timeout: float = 10.0,
    ) -> None:
        self._notes = notes
        self._lock_timeout = lock_timeout
        self._logs = logs
        self._path = path
        self._mask = mask
        self._clock = clock
        self._lock = threading.RLock()
        self.rebuild_count = 0
        self._index: PassageIndex = index or self._open_index()

    def _open_index(self) -> SearchIndex:
        try:
            return SearchIndex(self._path, self._lock_timeout)
        except (sqlite3.Error, UnicodeDecodeError, OSError) as failure:
            if not is_index_damaged(failure) or self._path is None:
                raise _search_unavailable(failure) from failure
        self.rebuild_count += 1
        delete_index_files(self._path)
        try:
            return SearchIndex(self._path, self._lock_timeout)
        except (sqlite3.Error, OSError) as failure:
            raise _search_unavailable(failure) from failure

    def close(self) -> None:
        self._index.close()

    # --- taking in ------------------------------------------------------------------------------------------------

    def refresh(self, progress: Callable[[int], None] | None = None) -> IndexUpdate:
        """Index all changes. A damaged index is deleted and rebuilt. `progress` is called with the number of events
        that were read since its last call.
        """
        return self._retry_after_rebuild(lambda: self._refresh(progress))

    def index_session(self, session: str, read_lines: Callable[[int], Iterable[LogLine]]) -> None:
        """Index what is new in one session. `read_lines` is given its indexed head, and yields the later lines."""

        def act() -> None:
            name = repair_unicode(session)
            head = self._use_index(lambda index: index.indexed_head(name))
            rows = iter(read_lines(head))
            while batch := list(islice(rows, _BATCH)):
                if head and any(line.reindex for line in batch):
                    return  # the next search erases what is no longer true
                self._add(batch)

        self._retry_after_rebuild(act)

    def forget_session(self, session: str) -> None:
        """Erase a session from the index, including the file's free pages. If its log still exists, it is indexed again
        later.
        """

        def act() -> None:
            self._use_index(lambda index: index.remove_source("session", repair_unicode(session)))
            self._use_index(lambda index: index.purge())

        self._retry_after_rebuild(act)

    def indexed_heads(self) -> dict[str, int]:
        """Return for each indexed session, also one whose log is gone, the last seq of its log that is indexed."""
        return self._retry_after_rebuild(lambda: self._use_index(lambda index: index.indexed_heads()))

    def _refresh(self, progress: Callable[[int], None] | None = None) -> IndexUpdate:
        notes = self._refresh_notes() if self._notes else IndexUpdate()
        return msgspec.structs.replace(notes, line_count=self._refresh_logs(progress) if self._logs else 0)

    def _refresh_notes(self) -> IndexUpdate:
        assert self._notes is not None
        indexed_notes = self._use_index(lambda index: index.indexed_notes())
        changes: list[str] = []
        problems: list[str] = []
        missing_names = set(indexed_notes)
        for name, stamp in self._notes.folder.list_stamps(self._clock()).items():
            try:
                if self._index_note(name, stamp, indexed_notes.get(name)):
                    changes.append(name)
            except BadInput as bad:
                problems.append(f"{name}: {bad}")
            else:
                missing_names.discard(name)
        for name in sorted(missing_names):
            self._remove_source("note", name)
        return IndexUpdate(tuple(changes), tuple(sorted(missing_names)), tuple(problems))

    def _remove_source(self, kind: SourceKind, name: str) -> None:
        self._use_index(lambda index: index.remove_source(kind, name))

    def _index_note(self, name: str, stamp: str, indexed: IndexedNote | None) -> bool:
        """Index a note if its file and text changed. Return whether it did. The file is read only if its stamp
        differs.
        """
        assert self._notes is not None
        if indexed and stamp and stamp == indexed.file_stamp:
            return False
        text = repair_unicode(self._notes.read(name))
        now = IndexedNote(hashlib.sha256(text.encode()).digest(), stamp)
        if indexed is None or indexed.digest != now.digest:
            pieces = list(split_sections(self._mask(text)))
            self._use_index(lambda index: index.replace_note(name, now, pieces))
            return True
        if stamp:
            self._use_index(lambda index: index.set_file_stamp(name, stamp))
        return False

    def _refresh_logs(self, progress: Callable[[int], None] | None = None) -> int:
        assert self._logs is not None
        lines = 0
        heads = self._use_index(lambda index: index.indexed_heads())
        afresh: set[str] = set()
        rows = iter(self._logs(lambda session: heads.get(repair_unicode(session), 0)))
        # Read a batch before writing it, so that an error of the log is not taken for an error of the index.
        while batch := list(islice(rows, _BATCH)):
            # A session that was never indexed needs no erasing.
            afresh |= {line.session for line in batch if line.reindex and heads.get(repair_unicode(line.session))}
            lines += self._add(line for line in batch if line.session not in afresh)
            if progress is not None:
                progress(len(batch))
        if afresh:
            for session in afresh:
                self._remove_source("session", repair_unicode(session))
            self._use_index(lambda index: index.purge())
            lines += self._refresh_logs()
        return lines

    def _add(self, lines: Iterable[LogLine]) -> int:
        new = 0
        for session, some in groupby(lines, key=lambda line: line.session):
            pieces = [TextPiece(line.seq, self._mask(repair_unicode(line.text))) for line in some]
            new += self._extend_session(repair_unicode(session), pieces)
        return new

    def _extend_session(self, name: str, pieces: list[TextPiece]) -> int:
        return self._use_index(lambda index: index.extend_session(name, pieces))

    # --- looking --------------------------------------------------------------------------------------------------

    def search(
        self, query: str, limit: int = 10, *, kind: SourceKind | None = None, name: str = "", chars: int = 240
    ) -> list[SearchHit]:
        """Return the best hits. The query is data; no query raises an error."""
        limit = min(max(limit, 1), _MAX_HITS)
        query = repair_unicode(query[:_MAX_QUERY_CHARS])
        if not query.strip():
            return []

        def act() -> list[SearchHit]:
            self._refresh()
            return self._use_index(
                lambda index: list(
                    islice(_find_hits(index, query, limit, kind or "", repair_unicode(name), chars), limit)
                )
            )

        return self._retry_after_rebuild(act)

    # --- the index behind it --------------------------------------------------------------------------------------

    def _use_index(self, act: Callable[[PassageIndex], _T]) -> _T:
        try:
            return act(self._index)
        except (sqlite3.Error, *BLOCK_DECODE_ERRORS) as failure:
            if not is_index_damaged(failure) or not isinstance(self._index, SearchIndex):
                raise _search_unavailable(failure) from failure
            self._index.close_and_delete()
            self._index = self._open_index()
            self.rebuild_count += 1
            raise _IndexRebuilt from failure

    def _retry_after_rebuild(self, act: Callable[[], _T]) -> _T:
        with self._lock:
            try:
                return act()
            except _IndexRebuilt:
                try:
                    return act()
                except _IndexRebuilt as again:
                    raise _search_unavailable(again) from again


def _search_unavailable(failure: Exception) -> SearchUnavailable:
    return SearchUnavailable(
        f"The search index cannot be used: {failure}.", "Check the disk and the permissions of its file."
    )


def _find_hits(index: PassageIndex, query: str, limit: int, kind: str, name: str, chars: int) -> Iterator[SearchHit]:
    """Yield the hits of all steps in order, each place once."""
    units = parse_query(query, _MAX_QUERY_UNITS)
    places: set[tuple[str, str, int]] = set()
    worded = [unit for unit in units if unit.phrases]
    is_single = sum(len(phrase) for unit in worded for phrase in unit.phrases) == 1  # any word is then all words
    passages: Iterator[RankedPassage]
    for step in (1, 2, 3, 4):
        if step == 3:
            scan = () if places else index.scan_passages(query.casefold().split(), _MAX_SCANNED_CHARS, kind, name)
            passages = (RankedPassage(passage, 0.0) for passage in scan)
        elif not worded or (step == 4 and is_single):
            continue
        else:
            passages = index.find_passages(worded, limit * 4, kind, name, prefix=step > 1, every=step < 4)
        for passage, score in passages:
            at = find_match_offset(passage.text, units)
            line = passage.text.count("\n", 0, at) if passage.kind == "note" else 0
            key = (passage.kind, passage.name, passage.place + line)
            if key not in places:
                places.add(key)
                yield SearchHit(*key, cut_snippet(passage.text, at, chars), step, score)
