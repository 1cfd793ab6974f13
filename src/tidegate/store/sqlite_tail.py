"""The end of a session as one who writes keeps it in mind."""

from tidegate.store.sqlite_rows import PACK_RECORDS, Entry, key, time_of

NextRow = tuple[int, int, bytes, bytes, int, int, int]
"""What `INSERT_BEHIND` wants."""


class Tail:
    """The end of a session as it is in mind: its entry, and what single rows have added to it since.

    `last` is its last row, or 0 if that has arrived with others. `fresh` are its loose records, or None: then they must
    be read to be packed.
    """

    __slots__ = ("base", "beyond", "entry", "fresh", "head", "last", "loose", "mark", "packed", "room")

    def __init__(self, entry: Entry, last: int, fresh: list[bytes] | None) -> None:
        self.entry = entry
        self.base = key(entry.id, 0)
        self.beyond = key(entry.id + 1, 0)
        self.last = last
        self.fresh = fresh
        self.head = entry.head
        self.packed = entry.packed
        self.room = entry.packed + PACK_RECORDS  # the number with which it is full
        self.loose = entry.loose
        self.mark = 0

    def grow(self, row: NextRow, record: bytes) -> int:
        """The row is written. Gives the new head."""
        self.last, self.mark, _, data, _, _, _ = row
        self.loose += len(data)
        if self.fresh is not None:
            self.fresh.append(record)
        self.head = head = self.head + 1
        return head

    def now(self) -> Entry:
        entry = self.entry
        if self.head == entry.head:
            return entry
        size = entry.size + self.loose - entry.loose
        return entry._replace(head=self.head, loose=self.loose, size=size, used=time_of(self.mark))
