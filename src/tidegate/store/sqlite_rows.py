"""The rows of the SQLite store: how records become rows, and how a row proves that it is whole."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

PACK_RECORDS = 64
PACK_BYTES = 256 * 1024
LEVEL = 3
NUMBERS = (1 << 36) - 1
"""The largest number of a record: the rowid of a chunk is its session above these bits and its first number in them."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Damaged(Exception):
    """A row is not what was written. Says why, for the error that names the session."""


class Chunk(NamedTuple):
    """Some records in a row, loose or packed."""

    first: int
    held: int
    packed: int
    check: bytes
    data: bytes

    @property
    def last(self) -> int:
        return self.first + self.held - 1


class Entry(NamedTuple):
    """A session. `packed` is the number up to which nothing is left to pack; `loose` the bytes behind it."""

    id: int
    name: str
    head: int
    packed: int
    loose: int
    size: int
    created: float
    used: float

    def check(self) -> int:
        return zlib.crc32(repr(tuple(self)).encode())


def key(session: int, number: int) -> int:
    return session * (NUMBERS + 1) + min(max(number, 0), NUMBERS)


def number_of(rowid: int) -> int:
    return rowid % (NUMBERS + 1)


def chunk_of(row: Sequence[object]) -> Chunk:
    """As it is in the file: nothing of it but its place is to be believed before it is `opened`."""
    return Chunk(number_of(row[0]), *row[1:])  # type: ignore[arg-type] # the columns, in order


def _check(first: int, count: int, packed: int, data: bytes) -> bytes:
    # Not the session: a fork copies rows as they are. The place: a row that moved is not believed.
    digest = hashlib.sha256(b"%d %d %d " % (first, count, packed))
    digest.update(data)
    return digest.digest()


def seal(first: int, records: Sequence[bytes], *, pack: bool) -> Chunk:
    data = _encode(records)
    if pack:
        data = zlib.compress(data, LEVEL)
    return Chunk(first, len(records), int(pack), _check(first, len(records), int(pack), data), data)


def opened(chunk: Chunk) -> list[bytes]:
    # A flipped bit can change the type of a column too.
    kinds = (int, int, int, bytes, bytes)
    if any(not isinstance(value, kind) for value, kind in zip(chunk, kinds, strict=True)):
        raise Damaged("its row does not hold what it should")
    if _check(chunk.first, chunk.held, chunk.packed, chunk.data) != chunk.check:
        raise Damaged("their SHA-256 is not the one that was written")
    try:
        records = _decode(zlib.decompress(chunk.data) if chunk.packed else chunk.data)
    except (zlib.error, msgspec.DecodeError) as fault:
        raise Damaged(str(fault)) from fault
    if len(records) != chunk.held:
        raise Damaged(f"{len(records)} records are where {chunk.held} should be")
    return records


def cut(first: int, records: Iterable[bytes]) -> Iterator[Chunk]:
    """Full chunks packed, and the rest loose. A very large record is full by itself."""
    group: list[bytes] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record)
        if len(group) >= PACK_RECORDS or size >= PACK_BYTES:
            yield seal(first, group, pack=True)
            first += len(group)
            group, size = [], 0
    if group:
        yield seal(first, group, pack=False)
