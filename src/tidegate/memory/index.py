"""The full-text index: one SQLite file, or memory. It is derived: losing it costs time, never content.

Words are ours (`words.py`), ranking is FTS5's bm25. The words table holds no text; texts stand beside it in compressed
blocks of many passages, because a passage alone hardly compresses and a word can only be taken out of the index by
someone who still knows the text. An index made by another version of the rules is worthless and thrown away.
"""

import os
import sqlite3
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from tidegate.memory.words import words_of

Kind = Literal["note", "session"]

# Raise the number when words or tables change. Python's Unicode tables decide what a letter is.
STAMP = f"tidegate search 1, Unicode {unicodedata.unidata_version}"
PASSAGE = 4_000
_BLOCK_PASSAGES = 64
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_TABLES = """
CREATE TABLE stamp (text TEXT);
CREATE TABLE sources (id INTEGER PRIMARY KEY, kind TEXT, name TEXT, hash BLOB, head INTEGER, UNIQUE (kind, name));
CREATE TABLE blocks (id INTEGER PRIMARY KEY, source INTEGER, data BLOB);
CREATE TABLE passages (id INTEGER PRIMARY KEY, block INTEGER, place INTEGER, start INTEGER, size INTEGER);
CREATE INDEX blocks_by_source ON blocks (source);
CREATE INDEX passages_by_block ON passages (block);
CREATE VIRTUAL TABLE words USING fts5 (parts, wholes, content='', tokenize='ascii');
"""
_FIND = """
SELECT passages.id, bm25(words) AS score FROM words
JOIN passages ON passages.id = words.rowid JOIN blocks ON blocks.id = block JOIN sources ON sources.id = source
WHERE words MATCH ? AND (? = '' OR kind = ?) AND (? = '' OR name = ?)
ORDER BY score, passages.id DESC LIMIT ?
"""
_FETCH = """
SELECT kind, name, place, data, start, size FROM passages
JOIN blocks ON blocks.id = block JOIN sources ON sources.id = source WHERE passages.id = ?
"""


class Piece(NamedTuple):
    """A text with its place: the line of a note, the seq of a log."""

    place: int
    text: str


class Found(NamedTuple):
    passage: int
    score: float


class Passage(NamedTuple):
    kind: Kind
    name: str
    place: int
    text: str


class _Block(NamedTuple):
    """A block to write into: its number if it is there, what it holds, how many passages more it takes."""

    number: int | None
    text: str
    room: int


_NEW_BLOCK = _Block(None, "", _BLOCK_PASSAGES)


class Index:
    """Every method runs in one transaction. `damaged` tells which of the errors that come out mean a useless file."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path = path
        self._db = sqlite3.connect(path or ":memory:", timeout=10, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        run = self._db.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=NORMAL")
        run("PRAGMA secure_delete=ON")
        with self._writing():
            if not run("SELECT 1 FROM sqlite_master").fetchall():
                for statement in _TABLES.strip().split(";\n"):
                    run(statement)
                run("INSERT INTO stamp VALUES (?)", (STAMP,))
            if run("SELECT text FROM stamp").fetchall() != [(STAMP,)]:
                raise sqlite3.DatabaseError("made by another version")

    def _writing(self) -> "_Transaction":
        return _Transaction(self._db)

    def close(self) -> None:
        self._db.close()

    def discard(self) -> None:
        """Close it and remove its files."""
        self._db.close()
        if self._path is not None:
            discard(self._path)

    # --- what is in it --------------------------------------------------------------------------------------------

    def hashes(self, kind: Kind) -> dict[str, bytes]:
        return dict(self._db.execute("SELECT name, hash FROM sources WHERE kind = ?", (kind,)).fetchall())

    def head(self, name: str) -> int:
        """The last seq of a session's log that was read."""
        row = self._db.execute("SELECT head FROM sources WHERE kind = 'session' AND name = ?", (name,)).fetchone()
        return row[0] if row else 0

    def replace(self, kind: Kind, name: str, digest: bytes, pieces: Iterable[Piece]) -> None:
        with self._writing():
            self._remove(kind, name)
            self._insert(self._source(kind, name, digest), pieces)

    def extend(self, name: str, pieces: Iterable[Piece]) -> int:
        """Add to a session, and say how many were new. What stands at or before its head is known already."""
        with self._writing():
            source, head = self._source("session", name, b""), self.head(name)
            new = [piece for piece in pieces if piece.place > head]
            last = self._insert(source, new)
            self._db.execute("UPDATE sources SET head = max(head, ?) WHERE id = ?", (last, source))
            return len(new)

    def remove(self, kind: Kind, name: str) -> None:
        with self._writing():
            self._remove(kind, name)

    def purge(self) -> None:
        """Make what was removed unreadable in the file too: merged indexes, no free pages, no old log."""
        self._db.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _source(self, kind: Kind, name: str, digest: bytes) -> int:
        self._db.execute(
            "INSERT OR IGNORE INTO sources (kind, name, hash, head) VALUES (?, ?, ?, 0)", (kind, name, digest)
        )
        row = self._db.execute("SELECT id FROM sources WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        return int(row[0])

    def _insert(self, source: int, pieces: Iterable[Piece]) -> int:
        """Add passages, first to the last block if it has room: a log that grows line by line packs well too."""
        passages = (part for piece in pieces for part in divided(piece))
        number, text, room = self._last_block(source)
        last = 0
        while some := list(islice(passages, room)):
            start = len(text)
            data = zlib.compress("".join([text, *(piece.text for piece in some)]).encode())
            if number is None:
                number = self._db.execute("INSERT INTO blocks (source, data) VALUES (?, ?)", (source, data)).lastrowid
            else:
                self._db.execute("UPDATE blocks SET data = ? WHERE id = ?", (data, number))
            for place, part in some:
                passage = (number, place, start, len(part))
                row = self._db.execute("INSERT INTO passages (block, place, start, size) VALUES (?, ?, ?, ?)", passage)
                self._db.execute("INSERT INTO words (rowid, parts, wholes) VALUES (?, ?, ?)", _row(row.lastrowid, part))
                start += len(part)
                last = max(last, place)
            number, text, room = _NEW_BLOCK
        return last

    def _last_block(self, source: int) -> "_Block":
        row = self._db.execute("SELECT max(id) FROM blocks WHERE source = ?", (source,)).fetchone()
        held = self._db.execute("SELECT count(*) FROM passages WHERE block = ?", row).fetchone()[0]
        if row[0] is None or held >= _BLOCK_PASSAGES:
            return _NEW_BLOCK
        (data,) = self._db.execute("SELECT data FROM blocks WHERE id = ?", row).fetchone()
        return _Block(row[0], _unpacked(data), _BLOCK_PASSAGES - held)

    def _remove(self, kind: Kind, name: str) -> None:
        source = self._db.execute("SELECT id FROM sources WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        if source is None:
            return
        for block, data in self._db.execute("SELECT id, data FROM blocks WHERE source = ?", source).fetchall():
            text = _unpacked(data)
            rows = self._db.execute("SELECT id, start, size FROM passages WHERE block = ?", (block,)).fetchall()
            for ident, start, size in rows:
                self._db.execute(
                    "INSERT INTO words (words, rowid, parts, wholes) VALUES ('delete', ?, ?, ?)",
                    _row(ident, text[start : start + size]),
                )
            self._db.execute("DELETE FROM passages WHERE block = ?", (block,))
        self._db.execute("DELETE FROM blocks WHERE source = ?", source)
        self._db.execute("DELETE FROM sources WHERE id = ?", source)

    # --- looking --------------------------------------------------------------------------------------------------

    def find(self, match: str, most: int, kind: str = "", name: str = "") -> list[Found]:
        """Passages by rank, the best first; of equals the newest."""
        rows = self._db.execute(_FIND, (match, kind, kind, name, name, most))
        return [Found(ident, -score) for ident, score in rows]

    def fetch(self, ident: int) -> Passage | None:
        """None if it was taken out meanwhile."""
        row = self._db.execute(_FETCH, (ident,)).fetchone()
        if row is None:
            return None
        kind, name, place, data, start, size = row
        return _passage(kind, name, place, _unpacked(data), start, size)

    def scan(self, needles: Sequence[str], chars: int, kind: str = "", name: str = "") -> Iterator[Passage]:
        """Passages that hold all of these somewhere, the newest first; about so many characters are looked through."""
        blocks = self._db.execute(
            "SELECT blocks.id, kind, name, data FROM blocks JOIN sources ON sources.id = source"
            " WHERE (? = '' OR kind = ?) AND (? = '' OR name = ?) ORDER BY blocks.id DESC",
            (kind, kind, name, name),
        )
        for block, its_kind, its_name, data in blocks:
            text = _unpacked(data)
            if _holds(text, needles):
                rows = self._db.execute(
                    "SELECT place, start, size FROM passages WHERE block = ? ORDER BY id DESC", (block,)
                )
                passages = (
                    _passage(its_kind, its_name, place, text, start, size) for place, start, size in rows.fetchall()
                )
                yield from (passage for passage in passages if _holds(passage.text, needles))
            chars -= len(text)
            if chars <= 0:
                return


class _Transaction:
    """All or nothing, and one writer at a time from the first statement on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        elif self._db.in_transaction:
            self._db.execute("ROLLBACK")


def damaged(failure: Exception) -> bool:
    """Does this mean that the file is useless? A full disk or a locked file does not.

    Our statements are fixed and tested, so an error in one means tables that are not ours.
    """
    if isinstance(failure, sqlite3.ProgrammingError):
        return False
    if isinstance(failure, sqlite3.DatabaseError):
        return getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE
    return isinstance(failure, zlib.error | UnicodeDecodeError)


def _holds(text: str, needles: Sequence[str]) -> bool:
    text = text.casefold()
    return all(needle in text for needle in needles)


def _unpacked(data: object) -> str:
    if not isinstance(data, bytes):
        raise sqlite3.DatabaseError("a block is no block")
    return zlib.decompress(data).decode()


def _passage(kind: Kind, name: str, place: int, text: str, start: int, size: int) -> Passage:
    """SQLite keeps any type in any column, so a flipped byte can make a text of a number."""
    if not (isinstance(name, str) and all(isinstance(number, int) for number in (place, start, size))):
        raise sqlite3.DatabaseError("a passage is no passage")
    return Passage(kind, name, place, text[start : start + size])


def discard(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _row(ident: int | None, text: str) -> tuple[int | None, str, str]:
    words = words_of(text)
    return (ident, " ".join(words.parts), " ".join(words.wholes))


def divided(piece: Piece, most: int = PASSAGE) -> Iterator[Piece]:
    """A long text as passages, cut at the end of a line or at a blank if there is one in the last quarter."""
    place, text = piece
    start = 0
    while len(text) - start > most:
        end = start + most
        cut = max(text.rfind("\n", end - most // 4, end), text.rfind(" ", end - most // 4, end))
        cut = end if cut < 0 else cut + 1
        yield Piece(place, text[start:cut])
        start = cut
    yield Piece(place, text[start:])
