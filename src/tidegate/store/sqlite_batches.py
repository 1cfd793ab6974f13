"""What many sessions append in one commit: one row for all of them, that is written and removed in one piece.

Each at its place would cost a page or more, and an index over them as many. So a batch lies in the file as it came, and
everyone keeps in mind what is in which batch: it is found by reading the short parts of a few rows, once.

- `batches`: for each record its head (session and number, SHA-256, where it begins), then all of them in one value.
- `members`: the sessions and numbers once more. If a page of one table is damaged, the other tells whom it concerns;
  and a number that was changed in one is not believed, so that nobody gets the records of another.
- A batch is never changed, and its number never given again: who removes the newest puts an empty one behind it.
- What its session has packed since, or has at its place, is dead. A batch goes when all of it is dead; see `Living`.
"""

import sqlite3
import struct
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.store.sqlite_file import damage_aside
from tidegate.store.sqlite_rows import Chunk, key, number_of, session_of

MOST = 256
MOST_BYTES = 32 * 1024 * 1024
"""Of batches, at most: then the oldest goes, and what lives in it to its place."""
ID = 20
_HEAD = struct.Struct(">qIqII32s")
_MEMBERS = "SELECT ids FROM members WHERE turn = ?"
_HEADS = "SELECT heads FROM batches WHERE turn = ?"
_DATA = "SELECT substr(data, ?, ?) FROM batches WHERE turn = ?"
_ADD = ("INSERT INTO members VALUES (?, ?)", "INSERT INTO batches VALUES (?, ?, ?)")
_REMOVE = ("DELETE FROM members WHERE turn = ?", "DELETE FROM batches WHERE turn = ?")

Row = tuple[int, int, int, bytes, bytes]
"""Of a chunk: its id, how many records, its mark, its check, its data."""


class Place(NamedTuple):
    """Where a chunk lies. One of whom no more is known has no size: it is damaged."""

    id: int
    held: int
    mark: int
    start: int
    size: int
    check: bytes
    turn: int

    @property
    def first(self) -> int:
        return number_of(self.id)


class _Batch(NamedTuple):
    ids: list[int]
    heads: bytes
    size: int


class Batches:
    """What is in the batches of a file, as this process knows it. `look` before it is asked, in the same snapshot."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known: dict[int, _Batch] = {}  # by turn, the oldest first
        self._of: dict[int, list[tuple[int, int]]] = {}  # by session: turns, and places in them
        self._told = 0  # up to this turn that is so
        self._gone = 0
        self._bytes = 0
        self.version = -1
        self.last = 0
        self.unsure = True
        """Whether what we know may not be what was committed."""
        self.whole = True
        """Whether no page is damaged on which the numbers of batches are."""
        self.torn = False
        """Whether there may be batches of which nothing can be known."""
        self.spoilt = False
        """Whether damage was met when one was added or removed."""

    # --- knowing --------------------------------------------------------------------------------------------------

    def look(self, *, changing: bool = False) -> None:
        """`changing`: amid a transaction of our own. Then what is there now may be undone."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if self.unsure or version != self.version:
            known = {} if self.unsure else self._known
            self.unsure = True
            self._load(known)
            self.version, self.unsure = version, changing

    def _load(self, known: dict[int, _Batch]) -> None:
        members, whole = self._turns("members")
        batches, complete = self._turns("batches")
        self.whole, self.torn = whole and complete, not (whole or complete)
        turns = sorted({*members, *batches})
        self._known = {turn: known.get(turn) or self._read(turn) for turn in turns}
        self._bytes = sum(batch.size for batch in self._known.values())
        self.last = turns[-1] if turns else 0
        self._of, self._told, self._gone = {}, 0, 0

    def _turns(self, table: str) -> tuple[list[int], bool]:
        """Those that are found, and whether these are all. Around a damaged page, from both sides."""
        turns: list[int] = []
        for order in ("", "DESC"):
            with damage_aside():
                for (turn,) in self._db.execute(f"SELECT turn FROM {table} ORDER BY turn {order}"):
                    turns.append(turn)
                return turns, not order
        return turns, False

    def _read(self, turn: int) -> _Batch:
        """If both tables tell of a chunk, they must tell the same. Else it is damaged, for each of whom one tells: its
        number must not be given again."""
        ids = self._value(_MEMBERS, turn)
        heads = self._value(_HEADS, turn) or b""
        found = list(_HEAD.iter_unpack(heads[: len(heads) // _HEAD.size * _HEAD.size]))
        if ids is not None:
            numbers = [_number(ids[at : at + ID]) for at in range(0, len(ids), ID)]
            sound = [head for head, number in zip(found, numbers, strict=False) if head[0] == number]
            hurt = {number for number in [*numbers, *(head[0] for head in found)] if number > 0}
            hurt -= {head[0] for head in sound}
            found = sound + [(number, 1, 0, 0, 0, b"") for number in sorted(hurt)]
        return _Batch([head[0] for head in found], b"".join([_HEAD.pack(*head) for head in found]), _size(found))

    def _value(self, ask: str, turn: int) -> bytes | None:
        with damage_aside():
            found = self._db.execute(ask, (turn,)).fetchone()
            if found is not None and isinstance(found[0], bytes):
                return found[0]
        return None

    def of(self, session: int, after: int) -> list[Place]:
        """What a session has here behind a number, in order."""
        for turn in [turn for turn in self._known if turn > self._told]:
            for at, number in enumerate(self._known[turn].ids):
                self._of.setdefault(session_of(number), []).append((turn, at))
            self._told = turn
        low = key(session, after)
        found: dict[int, Place] = {}
        for turn, at in self._of.get(session, ()):
            place = self._place(turn, at) if turn in self._known else None
            if place is not None and place.id > low and (place.size or place.id not in found):
                found[place.id] = place
        return [found[place] for place in sorted(found)]

    def _place(self, turn: int, at: int) -> Place:
        return Place._make((*_HEAD.unpack_from(self._known[turn].heads, at * _HEAD.size), turn))

    def chunk(self, place: Place) -> Chunk:
        """As it is in the file: nothing of it is to be believed before it is `opened`."""
        data = b""
        if not place.size:
            return Chunk(place.first, place.held, place.mark, place.check, data)
        with damage_aside():
            found = self._db.execute(_DATA, (place.start + 1, place.size, place.turn)).fetchone()
            data = found[0] if found else b""
        return Chunk(place.first, place.held, place.mark, place.check, data)

    @property
    def usable(self) -> bool:
        """Whether more is to be put here."""
        return self.whole and not self.spoilt

    @property
    def full(self) -> bool:
        return len(self._known) >= MOST or self._bytes >= MOST_BYTES

    def oldest(self) -> int:
        return next(iter(self._known), 0)

    def ids(self, turn: int) -> list[int]:
        return self._known[turn].ids

    def places(self, turn: int) -> list[Place]:
        return [self._place(turn, at) for at in range(len(self._known[turn].ids))]

    def sessions(self) -> set[int]:
        """Of those that are not damaged: a number that was changed may be of nobody."""
        return {session_of(place.id) for turn in self._known for place in self.places(turn) if place.size}

    def holding(self, session: int) -> list[int]:
        """The batches in which something of a session is, dead or alive."""
        return [turn for turn, batch in self._known.items() if any(session_of(each) == session for each in batch.ids)]

    # --- changing -------------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[Row]) -> None:
        """A new batch of these."""
        self.unsure = True
        turn, start, pack = self.last + 1, 0, _HEAD.pack
        heads: list[bytes] = []
        try:
            for place, held, mark, check, data in rows:
                heads.append(pack(place, held, mark, start, len(data), check))
                start += len(data)
        except struct.error as fault:  # as SQLite would
            raise OverflowError(str(fault)) from fault
        batch = _Batch([row[0] for row in rows], b"".join(heads), start)
        self._db.execute(_ADD[0], (turn, b"%020d" * len(rows) % tuple(batch.ids)))
        self._db.execute(_ADD[1], (turn, batch.heads, b"".join([row[4] for row in rows])))
        self._known[turn] = batch
        self._bytes += start
        self.last = turn

    def remove(self, turns: Sequence[int]) -> None:
        self.unsure = True
        if self.last in turns:
            self.add(())
        for turn in turns:
            for remove in _REMOVE:
                self._db.execute(remove, (turn,))
            self._bytes -= self._known.pop(turn).size
            self._gone += 1
        if self._gone > MOST:  # or those of whom nobody asks would be kept for ever
            self._of, self._told, self._gone = {}, 0, 0


def _size(heads: Sequence[Sequence[int]]) -> int:
    return sum(head[4] for head in heads)


def _number(text: bytes) -> int:
    return int(text) if len(text) == ID and text.isdigit() else 0
