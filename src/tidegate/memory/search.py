"""Search over the notes and over whole logs.

    search = Search(notes, logs, path=data / "search.db")
    for hit in search.search("where is the port configured"):
        print(hit.kind, hit.name, hit.place, hit.snippet)

Each search first takes in what changed: notes by the hash of their text, logs from where they were read last. What is
found comes in steps, stricter ones first, each ranked by bm25:

    1. all words, as they are           2. all words, as beginnings
    3. all pieces anywhere in a text    4. any word, as a beginning

Step 3 reads texts instead of an index, newest first up to a bound, and only when 1 and 2 found nothing: an index of
all triples would cost several times the rest and still not find a Chinese word of two characters.

A second signal (embeddings) would be one more ranked list of passages here; nothing else would change.
"""

import hashlib
import re
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.memory.index import Found, Index, Kind, Passage, Piece, damaged, discard, divided
from tidegate.memory.logs import Logs
from tidegate.memory.notes import Notes
from tidegate.memory.words import Unit, matching, plain, units_of
from tidegate.wire.reading import clean

LONGEST_QUERY = 400
MOST_UNITS = 16
MOST_HITS = 100
SCANNED = 8_000_000
_BATCH = 256
_SECTION = re.compile(r"^(?=#{1,6} )", re.MULTILINE)

T = TypeVar("T")


class Unsearchable(TidegateError):
    """The index can neither be used nor made anew. Notes and logs are untouched."""


class Hit(msgspec.Struct, frozen=True):
    """`place` is the line in a note, the seq in a session. `step` and `score` say why it stands where it stands."""

    kind: Kind
    name: str
    place: int
    snippet: str
    step: int
    score: float = 0.0


class Refreshed(msgspec.Struct, frozen=True):
    """What an update took in. `skipped` are notes that cannot be read, each with the reason."""

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    lines: int = 0


class _Lost(Exception):
    """The index was damaged and is now empty."""


class Search:
    """The index is at `path`, or in memory without one. Threads may share it."""

    def __init__(self, notes: Notes | None = None, logs: Logs | None = None, *, path: Path | None = None) -> None:
        self._notes = notes
        self._logs = logs
        self._path = path
        self._lock = threading.RLock()
        self.rebuilt = 0
        self._index = self._opened()

    def _opened(self) -> Index:
        try:
            return Index(self._path)
        except (sqlite3.Error, UnicodeDecodeError, OSError) as failure:
            if not damaged(failure) or self._path is None:
                raise _unsearchable(failure) from failure
        self.rebuilt += 1
        discard(self._path)
        try:
            return Index(self._path)
        except (sqlite3.Error, OSError) as failure:
            raise _unsearchable(failure) from failure

    def close(self) -> None:
        self._index.close()

    # --- taking in ------------------------------------------------------------------------------------------------

    def refresh(self) -> Refreshed:
        """Take in what changed. A damaged index is thrown away and filled again."""
        return self._twice(self._refresh)

    def forget(self, session: str) -> None:
        """Take a session out, also from the file's free space. If its log is still given it comes back, as it is."""

        def act() -> None:
            self._do(lambda index: index.remove("session", clean(session)))
            self._do(Index.purge)

        self._twice(act)

    def _refresh(self) -> Refreshed:
        notes = self._refresh_notes() if self._notes else Refreshed()
        return msgspec.structs.replace(notes, lines=self._refresh_logs() if self._logs else 0)

    def _refresh_notes(self) -> Refreshed:
        assert self._notes is not None
        known = self._do(lambda index: index.hashes("note"))
        changed: list[str] = []
        skipped: list[str] = []
        gone = set(known)
        for name in self._notes.names():
            try:
                text = clean(self._notes.read(name))
            except BadInput as bad:
                skipped.append(f"{name}: {bad}")
                continue
            gone.discard(name)
            digest = hashlib.sha256(text.encode()).digest()
            if known.get(name) != digest:
                pieces = list(sections(text))
                self._do(partial(Index.replace, kind="note", name=name, digest=digest, pieces=pieces))
                changed.append(name)
        for name in sorted(gone):
            self._do(partial(Index.remove, kind="note", name=name))
        return Refreshed(tuple(changed), tuple(sorted(gone)), tuple(skipped))

    def _refresh_logs(self) -> int:
        assert self._logs is not None
        lines = 0
        rows = iter(self._logs(lambda session: self._do(lambda index: index.head(clean(session)))))
        # A batch is read before it is written: an error of the log's must not be taken for one of the index.
        while batch := list(islice(rows, _BATCH)):
            for session, some in groupby(batch, key=lambda line: line.session):
                pieces = [Piece(line.seq, clean(line.text)) for line in some]
                lines += self._do(partial(Index.extend, name=clean(session), pieces=pieces))
        return lines

    # --- looking --------------------------------------------------------------------------------------------------

    def search(
        self, query: str, limit: int = 10, *, kind: Kind | None = None, name: str = "", chars: int = 240
    ) -> list[Hit]:
        """The best places for these words. The query is data; whatever stands in it, this does not raise for it."""
        limit = min(max(limit, 1), MOST_HITS)
        query = clean(query[:LONGEST_QUERY])
        if not query.strip():
            return []

        def act() -> list[Hit]:
            self._refresh()
            return self._do(
                lambda index: list(islice(_hits(index, query, limit, kind or "", clean(name), chars), limit))
            )

        return self._twice(act)

    # --- the index behind it --------------------------------------------------------------------------------------

    def _do(self, act: Callable[[Index], T]) -> T:
        try:
            return act(self._index)
        except (sqlite3.Error, zlib.error, UnicodeDecodeError) as failure:
            if not damaged(failure):
                raise _unsearchable(failure) from failure
            self._index.discard()
            self._index = self._opened()
            self.rebuilt += 1
            raise _Lost from failure

    def _twice(self, act: Callable[[], T]) -> T:
        with self._lock:
            try:
                return act()
            except _Lost:
                try:
                    return act()
                except _Lost as again:
                    raise _unsearchable(again) from again


def _unsearchable(failure: Exception) -> Unsearchable:
    return Unsearchable(f"The search index cannot be used: {failure}.", "Look at the disk and the rights of its file.")


def _hits(index: Index, query: str, limit: int, kind: str, name: str, chars: int) -> Iterator[Hit]:
    """Hits of all steps in order, each place once."""
    units = units_of(query, MOST_UNITS)
    seen: set[tuple[str, str, int]] = set()
    worded = [unit for unit in units if unit.phrases]
    found: Iterator[_Ranked]
    for step in (1, 2, 3, 4):
        if step == 3:
            scan = () if seen else index.scan(query.casefold().split(), SCANNED, kind, name)
            found = (_Ranked(passage, 0.0) for passage in scan)
        elif not worded:
            continue
        else:
            match = matching(worded, prefix=step > 1, every=step < 4)
            found = _ranked(index, index.find(match, limit * 4, kind, name))
        for passage, score in found:
            at = place_of(passage.text, units)
            line = passage.text.count("\n", 0, at) if passage.kind == "note" else 0
            key = (passage.kind, passage.name, passage.place + line)
            if key not in seen:
                seen.add(key)
                yield Hit(*key, snippet(passage.text, at, chars), step, score)


class _Ranked(NamedTuple):
    passage: Passage
    score: float


def _ranked(index: Index, found: list[Found]) -> Iterator[_Ranked]:
    for ident, score in found:
        passage = index.fetch(ident)
        if passage is not None:
            yield _Ranked(passage, score)


def sections(text: str) -> Iterator[Piece]:
    """A note by its headings, each piece with the line it begins at."""
    line = 1
    for section in _SECTION.split(text):
        for piece in divided(Piece(line, section)):
            if piece.text.strip():
                yield Piece(line, piece.text)
            line += piece.text.count("\n")


def place_of(text: str, units: list[Unit]) -> int:
    """Where to show a text: at the rarest kind of match there is, a whole piece of the query before its words."""
    text = text if text.isascii() else "".join(new if len(new := plain(char)) == 1 else char for char in text)
    phrases = [phrase for unit in units for phrase in unit.phrases]
    # ASCII only: there a word holds none of what may stand between two, so the pattern has one way to match.
    together = [r"[\W_]*".join(phrase) for phrase in phrases if all(map(str.isascii, phrase))]
    words = [re.escape(word) for phrase in phrases for word in phrase]
    for pattern in ("|".join(re.escape(unit.raw) for unit in units), "|".join(together), "|".join(words)):
        if pattern and (match := re.search(pattern, text, re.IGNORECASE)):
            return match.start()
    return 0


def snippet(text: str, at: int, chars: int) -> str:
    """The text around a place on one line, at most so many characters."""
    chars = max(chars, 16)
    start = max(0, at - chars // 3)
    if start:
        blank = text.find(" ", start, at)
        start = blank + 1 if blank >= 0 else start
    line = " ".join(text[start : start + 4 * chars].split())
    line = ("…" if start else "") + line
    return line if len(line) <= chars and start + 4 * chars >= len(text) else line[: chars - 1] + "…"
