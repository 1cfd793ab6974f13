"""The rows of the SQLite store: how records become rows, and how a row proves that it is whole."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

import msgspec
from isal import isal_zlib

from tidegate.core.event_check import is_possible_count, is_possible_time

PACK_RECORDS = 64
"""So many are packed, if there is time."""
MOST_LOOSE = 128
"""And so many at the latest. May grow, but never shrink: so far behind what is packed a loose row is looked for."""
PACK_BYTES = 256 * 1024
LEVEL = 1
"""ISA-L writes what any zlib reads, smaller than zlib's own level 1 and four times as fast."""
NUMBERS = (1 << 36) - 1
"""The largest number of a record: the rowid of a chunk is its session above these bits and its first number in them."""

PACKED = 1
LOOSE = 0
_TICKS = 1 << 22
_LARGEST = 1 << 53
"""Bytes of a session, at most."""

_KINDS = (int, int, int, bytes, bytes)  # of a chunk: a flipped bit can change the type of a column too
framed = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode
_new_check = sha256().copy  # sha256() looks for its own code each time, which takes longer than a small record


class Damaged(Exception):
    """A row is not what was written. Says why, for the error that names the session."""


class Chunk(NamedTuple):
    """Some records in a row. `mark` is PACKED, or LOOSE, or for a loose one what `mark_of` made of its time."""

    first: int
    held: int
    mark: int
    check: bytes
    data: bytes

    @property
    def last(self) -> int:
        return self.first + self.held - 1


_chunk = tuple.__new__  # Chunk(...) takes four times as long


class Entry(NamedTuple):
    """A session. `packed` is the number up to which nothing is left to pack; `loose` the bytes behind it.

    In the file it is as old as the last packing: what was appended since stands behind its `head`, loose.
    """

    id: int
    name: str
    head: int
    packed: int
    loose: int
    size: int
    created: float
    used: float

    def check(self) -> int:
        return crc32(repr(tuple(self)).encode())

    def is_sealed_by(self, seal: object) -> bool:
        """Is it what was written? A checksum alone proves nothing against somebody who can compute one."""
        return (
            self.check() == seal
            and isinstance(self.name, str)
            and all(is_possible_count(value, NUMBERS) for value in (self.head, self.packed))
            and all(is_possible_count(value, _LARGEST) for value in (self.loose, self.size))
            and is_possible_time(self.created)
            and is_possible_time(self.used)
        )


def mark_of(time: float) -> int:
    """Below zero, and in steps so fine that a time of our days comes back as it was."""
    return -int(time * _TICKS) if time > 0 else 0


def time_of(mark: object) -> float:
    """Of a row that may be damaged."""
    return -mark / _TICKS if isinstance(mark, int) and mark < 0 else 0.0


def key(session: int, number: int) -> int:
    return session * (NUMBERS + 1) + min(max(number, 0), NUMBERS)


def number_of(rowid: int) -> int:
    return rowid & NUMBERS


def session_of(rowid: int) -> int:
    return rowid >> 36


def chunk_of(row: Sequence[object]) -> Chunk:
    """As it is in the file: nothing of it but its place is to be believed before it is `opened`."""
    return Chunk(number_of(row[0]), *row[1:])  # type: ignore[arg-type] # the columns, in order


def check_of(first: int, count: int, mark: int, data: bytes) -> bytes:
    # Not the session: a fork copies rows as they are. The place: a row that moved is not believed.
    check = _new_check()
    check.update(b"%d %d %d " % (first, count, mark))
    check.update(data)
    return check.digest()


def seal(first: int, records: Sequence[bytes], mark: int) -> Chunk:
    data = framed(records)
    if mark == PACKED:
        data = isal_zlib.compress(data, LEVEL)
    count = len(records)
    return Chunk(first, count, mark, check_of(first, count, mark, data), data)


def opened(chunk: Chunk) -> list[bytes]:
    if tuple(map(type, chunk)) != _KINDS:
        raise Damaged("its row does not hold what it should")
    if check_of(chunk.first, chunk.held, chunk.mark, chunk.data) != chunk.check:
        raise Damaged("their SHA-256 is not the one that was written")
    try:
        records = _decode(isal_zlib.decompress(chunk.data) if chunk.mark == PACKED else chunk.data)
    except (isal_zlib.IsalError, msgspec.DecodeError) as fault:  # type: ignore[misc] # an exception, say its stubs not
        raise Damaged(str(fault)) from fault
    if len(records) != chunk.held:
        raise Damaged(f"{len(records)} records are where {chunk.held} should be")
    return records


def cut(first: int, records: Sequence[bytes], mark: int) -> list[Chunk]:
    """Full chunks packed, and the rest loose, with this mark. A very large record is full by itself."""
    if len(records) == 1 and len(records[0]) < PACK_BYTES:
        data = framed(records)
        return [_chunk(Chunk, (first, 1, mark, check_of(first, 1, mark, data), data))]
    return list(_cut(first, records, mark))


def _cut(first: int, records: Iterable[bytes], mark: int) -> Iterator[Chunk]:
    group: list[bytes] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record)
        if len(group) >= PACK_RECORDS or size >= PACK_BYTES:
            yield seal(first, group, PACKED)
            first += len(group)
            group, size = [], 0
    if group:
        yield seal(first, group, mark)
