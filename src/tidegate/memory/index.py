"""The full-text index: one SQLite file, or in memory. It can always be rebuilt from notes and logs.

Words are split by `words.py`; FTS5 ranks by bm25. The FTS table holds no text. The texts are stored beside it in
compressed blocks of many passages, because a single passage hardly compresses and FTS5 needs the text to remove its
words. The id of a passage is its block's number and its position there.

FTS5 leaves free pages behind when it merges, up to a third of the file; they are released as they accumulate. An index
written by another version of these rules is discarded.
"""

import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from tidegate.memory.passages import (
    BLOCK_DECODE_ERRORS,
    Passage,
    PassageSpan,
    SourceKind,
    make_passage,
    pack_spans,
    pack_text,
    slice_passage,
    unpack_spans,
    unpack_text,
)
from tidegate.memory.text_pieces import TextPiece, split_text
from tidegate.memory.words import QueryUnit, build_match_expression, extract_words

# Raise the number when words or tables change. Python's Unicode tables decide what a letter is.
_INDEX_VERSION = f"tidegate search 3, Unicode {unicodedata.unidata_version}"
_BLOCK_PASSAGES = 64
_MAX_UNPACKED_BLOCKS = 16
_FREE_SHARE = 16
"""Free pages are released when they exceed this fraction (1/n) of the file, a few at a time so that no search waits
long.
"""
_VACUUM_PAGES = 2_000
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_TABLES = """
CREATE TABLE stamp (text TEXT);
CREATE TABLE sources (id INTEGER PRIMARY KEY, kind TEXT, name TEXT, hash BLOB, seen TEXT, head INTEGER,
                      UNIQUE (kind, name));
CREATE TABLE blocks (id INTEGER PRIMARY KEY, source INTEGER, spans BLOB, data BLOB);
CREATE INDEX blocks_by_source ON blocks (source);
CREATE VIRTUAL TABLE words USING fts5 (parts, wholes, content='', tokenize='ascii');
"""
_SELECT_MATCHES = f"""
SELECT words.rowid, bm25(words) AS score FROM words
JOIN blocks ON blocks.id = words.rowid / {_BLOCK_PASSAGES} JOIN sources ON sources.id = source
WHERE words MATCH ? AND (? = '' OR kind = ?) AND (? = '' OR name = ?)
ORDER BY score, words.rowid DESC LIMIT ?
"""
_SELECT_BLOCKS = "SELECT kind, name, spans, data FROM blocks JOIN sources ON sources.id = source"


class PassageMatch(NamedTuple):
    passage_id: int
    score: float


class RankedPassage(NamedTuple):
    passage: Passage
    score: float


class _UnpackedBlock(NamedTuple):
    """A block as it is read."""

    kind: SourceKind
    name: str
    spans: list[PassageSpan]
    text: str


class IndexedNote(NamedTuple):
    """The hash of a note's text, and the stamp of its file when it was read."""

    digest: bytes
    file_stamp: str


_NO_NOTE = IndexedNote(b"", "")


class _OpenBlock(NamedTuple):
    """A block with room for more passages; `number` is None for a new one."""

    number: int | None
    text: str
    spans: list[PassageSpan]


class PassageIndex(Protocol):
    """An index of passages. `SearchIndex` is one in a file; one in a database can be shared by several hosts."""

    def close(self) -> None: ...

    def indexed_notes(self) -> dict[str, IndexedNote]: ...

    def set_file_stamp(self, name: str, stamp: str) -> None: ...

    def indexed_heads(self) -> dict[str, int]: ...

    def indexed_head(self, name: str) -> int: ...

    def replace_note(self, name: str, note: IndexedNote, pieces: Iterable[TextPiece]) -> None: ...

    def extend_session(self, name: str, pieces: Iterable[TextPiece]) -> int: ...

    def remove_source(self, kind: SourceKind, name: str) -> None: ...

    def purge(self) -> None: ...

    def find_passages(
        self, units: Sequence[QueryUnit], most: int, kind: str = "", name: str = "", *, prefix: bool, every: bool
    ) -> Iterator[RankedPassage]:
        """Passages with these words, best first; the newest first among equals."""

    def scan_passages(self, needles: Sequence[str], chars: int, kind: str = "", name: str = "") -> Iterator[Passage]:
        """Passages that contain all needles, newest first, reading about `chars` characters at most."""


class SearchIndex:
    """The index file. Every method runs in one transaction. `is_index_damaged` tells which errors mean a useless
    file.
    """

    def __init__(self, path: Path | None, lock_timeout: float) -> None:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path = path
        self._db = sqlite3.connect(
            path or ":memory:", timeout=lock_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        run = self._db.execute
        run("PRAGMA auto_vacuum=INCREMENTAL")  # only a new file honors it, and only as the first statement
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=NORMAL")
        run("PRAGMA secure_delete=ON")
        with self._begin_write():
            if not run("SELECT 1 FROM sqlite_master").fetchall():
                for statement in _TABLES.strip().split(";\n"):
                    run(statement)
                run("INSERT INTO stamp VALUES (?)", (_INDEX_VERSION,))
            if run("SELECT text FROM stamp").fetchall() != [(_INDEX_VERSION,)]:
                raise sqlite3.DatabaseError("made by another version")

    def _begin_write(self) -> "_Transaction":
        return _Transaction(self._db)

    def close(self) -> None:
        self._db.close()

    def close_and_delete(self) -> None:
        """Close the index and delete its files."""
        self._db.close()
        if self._path is not None:
            delete_index_files(self._path)

    # --- what is in it --------------------------------------------------------------------------------------------

    def indexed_notes(self) -> dict[str, IndexedNote]:
        rows = self._db.execute("SELECT name, hash, seen FROM sources WHERE kind = 'note'")
        return {name: IndexedNote(digest, stamp) for name, digest, stamp in rows}

    def set_file_stamp(self, name: str, stamp: str) -> None:
        """Record the stamp of a note's file whose text did not change."""
        with self._begin_write():
            self._db.execute("UPDATE sources SET seen = ? WHERE kind = 'note' AND name = ?", (stamp, name))

    def indexed_heads(self) -> dict[str, int]:
        """Return for each indexed session the last seq of its log that is indexed."""
        return dict(self._db.execute("SELECT name, head FROM sources WHERE kind = 'session'"))

    def indexed_head(self, name: str) -> int:
        """Return the last seq of a session's log that is indexed."""
        row = self._db.execute("SELECT head FROM sources WHERE kind = 'session' AND name = ?", (name,)).fetchone()
        return row[0] if row else 0

    def replace_note(self, name: str, note: IndexedNote, pieces: Iterable[TextPiece]) -> None:
        """Replace the passages of a note."""
        with self._begin_write():
            self._remove("note", name)
            self._insert(self._source("note", name, note), pieces)
        self._shrink()

    def extend_session(self, name: str, pieces: Iterable[TextPiece]) -> int:
        """Add lines of a session and return how many were new. Lines up to its indexed head are skipped."""
        with self._begin_write():
            source, head = self._source("session", name), self.indexed_head(name)
            new = [piece for piece in pieces if piece.place > head]
            pieces_with_text = [piece for piece in new if piece.text]
            self._insert(source, pieces_with_text)
            last = max((piece.place for piece in new), default=head)
            self._db.execute("UPDATE sources SET head = ? WHERE id = ?", (last, source))
        self._shrink()
        return len(pieces_with_text)

    def remove_source(self, kind: SourceKind, name: str) -> None:
        with self._begin_write():
            self._remove(kind, name)
        self._shrink()

    def purge(self) -> None:
        """Erase removed text from the file too: merge the index, release free pages, truncate the write-ahead log."""
        self._db.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._db.execute("VACUUM")
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            busy = sqlite3.OperationalError("someone is reading it, and what was removed is still in the file")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise busy

    def _shrink(self) -> None:
        """Release free pages. Runs after a commit, because FTS5 writes and merges during it."""
        pages, free = (self._db.execute(f"PRAGMA {what}_count").fetchone()[0] for what in ("page", "freelist"))
        if free * _FREE_SHARE > pages:
            # The statement yields one row per page: `execute` alone would stop after the first.
            self._db.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")

    def _source(self, kind: SourceKind, name: str, note: IndexedNote = _NO_NOTE) -> int:
        self._db.execute(
            "INSERT OR IGNORE INTO sources (kind, name, hash, seen, head) VALUES (?, ?, ?, ?, 0)", (kind, name, *note)
        )
        row = self._db.execute("SELECT id FROM sources WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        return int(row[0])

    def _insert(self, source: int, pieces: Iterable[TextPiece]) -> None:
        """Add passages, first to the last block if it has room, so that a slowly growing log compresses well too."""
        passages = (part for piece in pieces for part in split_text(piece))
        number, text, spans = self._last_block(source)
        while some := list(islice(passages, _BLOCK_PASSAGES - len(spans))):
            old, start = len(spans), len(text)
            for place, part in some:
                spans.append(PassageSpan(place, start, len(part)))
                start += len(part)
            number = self._write(source, number, "".join([text, *(part for _, part in some)]), spans)
            for nth, (_, part) in enumerate(some, number * _BLOCK_PASSAGES + old):
                self._db.execute("INSERT INTO words (rowid, parts, wholes) VALUES (?, ?, ?)", _words_row(nth, part))
            number, text, spans = None, "", []

    def _write(self, source: int, number: int | None, text: str, spans: list[PassageSpan]) -> int:
        values = (pack_spans(spans), pack_text(text))
        if number is not None:
            self._db.execute("UPDATE blocks SET spans = ?, data = ? WHERE id = ?", (*values, number))
            return number
        cursor = self._db.execute("INSERT INTO blocks (source, spans, data) VALUES (?, ?, ?)", (source, *values))
        return cursor.lastrowid or 0

    def _last_block(self, source: int) -> _OpenBlock:
        row = self._db.execute(
            "SELECT id, spans, data FROM blocks WHERE source = ? ORDER BY id DESC LIMIT 1", (source,)
        ).fetchone()
        if row is not None and len(spans := unpack_spans(row[1])) < _BLOCK_PASSAGES:
            return _OpenBlock(row[0], unpack_text(row[2]), spans)
        return _OpenBlock(None, "", [])

    def _remove(self, kind: SourceKind, name: str) -> None:
        source = self._db.execute("SELECT id FROM sources WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        if source is None:
            return
        for block, spans, data in self._db.execute("SELECT id, spans, data FROM blocks WHERE source = ?", source):
            text = unpack_text(data)
            for nth, span in enumerate(unpack_spans(spans), block * _BLOCK_PASSAGES):
                self._db.execute(
                    "INSERT INTO words (words, rowid, parts, wholes) VALUES ('delete', ?, ?, ?)",
                    _words_row(nth, slice_passage(text, span)),
                )
        self._db.execute("DELETE FROM blocks WHERE source = ?", source)
        self._db.execute("DELETE FROM sources WHERE id = ?", source)

    # --- looking --------------------------------------------------------------------------------------------------

    def find_passages(
        self, units: Sequence[QueryUnit], most: int, kind: str = "", name: str = "", *, prefix: bool, every: bool
    ) -> Iterator[RankedPassage]:
        match = build_match_expression(units, prefix=prefix, every=every)
        rows = self._db.execute(_SELECT_MATCHES, (match, kind, kind, name, name, most)).fetchall()
        return self._load_passages(PassageMatch(ident, -score) for ident, score in rows)

    def _load_passages(self, matches: Iterable[PassageMatch]) -> Iterator[RankedPassage]:
        """Load the matched passages that still exist. Matches cluster in few blocks; each is unpacked once."""
        blocks: dict[int, _UnpackedBlock | None] = {}
        for ident, score in matches:
            block, nth = divmod(ident, _BLOCK_PASSAGES)
            if block not in blocks:
                if len(blocks) >= _MAX_UNPACKED_BLOCKS:
                    blocks.clear()
                row = self._db.execute(f"{_SELECT_BLOCKS} WHERE blocks.id = ?", (block,)).fetchone()
                blocks[block] = row and _UnpackedBlock(row[0], row[1], unpack_spans(row[2]), unpack_text(row[3]))
            passage_block = blocks[block]
            if passage_block is not None and nth < len(passage_block.spans):
                yield RankedPassage(
                    make_passage(passage_block.kind, passage_block.name, passage_block.text, passage_block.spans[nth]),
                    score,
                )

    def scan_passages(self, needles: Sequence[str], chars: int, kind: str = "", name: str = "") -> Iterator[Passage]:
        """Yield passages that contain all needles, newest first, reading about `chars` characters at most."""
        blocks = self._db.execute(
            f"{_SELECT_BLOCKS} WHERE (? = '' OR kind = ?) AND (? = '' OR name = ?) ORDER BY blocks.id DESC",
            (kind, kind, name, name),
        )
        for its_kind, its_name, spans, data in blocks:
            text = unpack_text(data)
            if contains_all(text, needles):
                passages = (make_passage(its_kind, its_name, text, span) for span in reversed(unpack_spans(spans)))
                yield from (passage for passage in passages if contains_all(passage.text, needles))
            chars -= len(text)
            if chars <= 0:
                return


class _Transaction:
    """A transaction that takes the write lock at its start."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        elif self._db.in_transaction:
            self._db.execute("ROLLBACK")


def is_index_damaged(failure: Exception) -> bool:
    """Return whether the error means a useless file. A full disk or a locked file does not.

    Our statements are fixed and tested, so an SQL error means tables that are not ours.
    """
    if isinstance(failure, sqlite3.ProgrammingError):
        return False
    if isinstance(failure, sqlite3.DatabaseError):
        return getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE_CODES
    return isinstance(failure, BLOCK_DECODE_ERRORS)


def contains_all(text: str, needles: Sequence[str]) -> bool:
    text = text.casefold()
    return all(needle in text for needle in needles)


def delete_index_files(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _words_row(ident: int, text: str) -> tuple[int, str, str]:
    words = extract_words(text)
    return (ident, " ".join(words.parts), " ".join(dict.fromkeys(words.wholes)))
