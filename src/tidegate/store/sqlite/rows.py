"""Rows of the SQLite store: how records become rows, and how a row proves that it is intact."""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec

from tidegate.core.event_check import is_possible_count, is_possible_time
from tidegate.core.messages import encode_into_bytes

PACK_RECORDS = 64
PACK_BYTES = 256 * 1024
"""A session's recent records are packed into one compressed row when there are this many of them, or bytes."""
NUMBERS = (1 << 36) - 1
"""The largest record number. A row id is the session's id above these 36 bits and the first record's number in them."""
PACKED, PLAIN, RECENT = 1, 0, 2
"""Kinds of rows. A plain row is not compressed: a damaged recent one that was packed as it was."""

_MAX_BYTES = 1 << 53  # of a session
_COLUMN_TYPES = (int, int, int, bytes, bytes)  # a flipped bit can change the type of a column, too
_new_sha256 = sha256().copy  # sha256() itself takes longer than hashing a small record
_encode = partial(encode_into_bytes, msgspec.msgpack.Encoder())
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Damaged(Exception):
    """A row is not what was written. The text says why, for the error that names the session."""


class Row(NamedTuple):
    """A row as it is in the file: nothing but its place is to be trusted before `open_row` has checked it."""

    id: int
    length: int
    mark: int
    sum: bytes
    data: bytes

    @property
    def first(self) -> int:
        return self.id & NUMBERS


class SessionRow(NamedTuple):
    """A session. Records 1 to `packed` are in `packed_rows`, the others in `recent_rows`, at `places` as far as known.

    `size` counts the bytes of all its rows. `seal` is a checksum, which the database computes, too.
    """

    id: int
    name: str
    head: int
    packed: int
    places: str
    size: int
    created: float
    used: float
    seal: int = 0

    def is_intact(self) -> bool:
        """Return whether this is what was written. Anybody can compute the checksum, so the values are checked, too."""
        return (
            self.is_possible()
            and isinstance(self.places, str)
            and self.seal == compute_seal(self.head, self.packed, self.size)
        )

    def is_possible(self) -> bool:
        return (
            isinstance(self.name, str)
            and is_possible_count(self.head, NUMBERS)
            and is_possible_count(self.packed, self.head)
            and is_possible_count(self.size, _MAX_BYTES)
            and is_possible_time(self.created)
            and is_possible_time(self.used)
        )


def compute_seal(head: int, last_packed: int, size: int) -> int:
    """Return a checksum that differs if one of the numbers does. The trigger in `migrations.py` computes the same."""
    return (head * 1000003 + last_packed * 10007 + size) % 2147483647


def row_id(session: int, number: int) -> int:
    return session * (NUMBERS + 1) + min(max(number, 0), NUMBERS)


def digest_recent(row: int, record: bytes) -> bytes:
    """Return the SHA-256 of a recent record. It covers the session: a record cannot pass for one of another session."""
    check = _new_sha256()
    check.update(b"%d " % row)
    check.update(record)
    return check.digest()


def _digest(row: Row) -> bytes:
    if row.mark == RECENT:
        return digest_recent(row.id, row.data)
    # Without the session, so that a fork can copy rows as they are.
    return sha256(b"%d %d %d " % (row.first, row.length, row.mark) + row.data).digest()


def pack_row(first: int, records: Sequence[bytes]) -> Row:
    """Make a packed row. Its id has no session yet: `Tables.insert` adds that.

    ISA-L writes what any zlib reads, smaller than zlib's own level 1 and four times as fast.
    """
    from isal import isal_zlib  # noqa: PLC0415 - a list of sessions seldom needs it

    row = Row(first, len(records), PACKED, b"", isal_zlib.compress(_encode(records), 1))
    return row._replace(sum=_digest(row))


def pack_rows(first: int, records: Sequence[bytes]) -> Iterator[Row]:
    """Make packed rows of 64 records, or less if they have 256 KiB. The last one takes the rest."""
    start = size = 0
    for end, record in enumerate(records, 1):
        size += len(record)
        if end - start >= PACK_RECORDS or size >= PACK_BYTES or end == len(records):
            yield pack_row(first + start, records[start:end])
            start, size = end, 0


def open_row(row: Row) -> list[bytes]:
    """Return the records of a row, or raise Damaged."""
    if tuple(map(type, row)) != _COLUMN_TYPES:
        raise Damaged("its row does not hold what it should")
    if _digest(row) != row.sum:
        raise Damaged("their SHA-256 is not the one that was written")
    if row.mark == RECENT:
        return [row.data]
    from isal import isal_zlib  # noqa: PLC0415 - as above

    try:
        records = _decode(isal_zlib.decompress(row.data) if row.mark == PACKED else row.data)
    except (isal_zlib.IsalError, msgspec.DecodeError) as fault:  # type: ignore[misc] # an exception, say its stubs not
        raise Damaged(str(fault)) from fault
    if len(records) != row.length:
        raise Damaged(f"{len(records)} records are where {row.length} should be")
    return records


def last_number(row: Row) -> int:
    """Return the number of a row's last record. For a damaged row, use its own count if that is plausible."""
    try:
        return row.first + len(open_row(row)) - 1
    except Damaged:
        plausible = isinstance(row.length, int) and 1 <= row.length <= 4 * PACK_RECORDS
        return row.first + (row.length if plausible else 1) - 1
