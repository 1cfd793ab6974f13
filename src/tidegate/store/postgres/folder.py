"""A folder of text files in PostgreSQL, for what several workers share: the same interface as `disk.folder.Folder`.

A change locks its file for the length of a transaction, so writers of one file take turns on any number of hosts.
Copies of the files can be kept in the local folder `root`, for tools that read files.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tidegate.disk.folder import Folder, check_file_name, check_file_size, find_overlap
from tidegate.store.postgres.connection import Link, durable_transaction
from tidegate.store.postgres.statements import (
    ADD_PART,
    FILE_PARTS_FROM_END,
    FILE_SIZE,
    HAS_FILE,
    HAS_FILES,
    LIST_FILES,
    LOCK_FILE,
    READ_FILE,
    READ_FILES,
    REMOVE_FILE,
)

_UNKNOWN_CHANGE = "It is not known whether the file was changed: do the same again."
_PAGE_FILES = 200


class PostgresFolder:
    def __init__(
        self,
        connect: Callable[[str], AbstractContextManager[Link]],
        folder: str,
        root: Path,
        *,
        max_file: int,
        ending: str = "",
        is_cached: bool = False,
    ) -> None:
        """`connect` gives a connection; its argument is the remedy for a lost one. `is_cached`: put copies of the files
        into `root` as they are written.
        """
        self.root = root
        self.ending = ending
        self.max_file = max_file
        self._connect = connect
        self._folder = folder.encode()
        self._cache = Folder(root, max_file=max_file, ending=ending) if is_cached else None

    def _values(self, name: str) -> dict[str, Any]:
        check_file_name(name, self.ending)
        return {"folder": self._folder, "name": name.encode("utf-8", "surrogatepass")}

    # --- reading --------------------------------------------------------------------------------------------------

    def _list(self) -> list[tuple[str, int, str]]:
        with self._connect("Read again.") as link:
            rows = link.execute(LIST_FILES, {"folder": self._folder}).fetchall()
        return sorted((name.decode("utf-8", "surrogatepass"), size, stamp) for name, size, stamp in rows)

    def names(self) -> list[str]:
        return [name for name, _, _ in self._list()]

    def list_stamps(self, now: float) -> dict[str, str]:
        return {name: stamp for name, _, stamp in self._list()}

    def has(self, name: str = "") -> bool:
        values = self._values(name) if name else {"folder": self._folder}
        with self._connect("Read again.") as link:
            return link.execute(HAS_FILE if name else HAS_FILES, values).fetchone() == (True,)

    def size(self, name: str = "") -> int:
        return sum(size for each, size, _ in self._list() if not name or each == name)

    def read(self, name: str) -> str | None:
        data = self.read_raw(name)
        return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")

    def read_raw(self, name: str) -> bytes | None:
        with self._connect("Read again.") as link:
            return _read(link, self._values(name))

    def read_all(self) -> Iterator[tuple[str, str]]:
        after = b""
        while True:
            with self._connect("Read again.") as link:
                values = {"folder": self._folder, "after": after, "most": _PAGE_FILES}
                rows = link.execute(READ_FILES, values, binary=True).fetchall()
            for name, data in rows:
                yield name.decode("utf-8", "surrogatepass"), data.decode("utf-8", "replace").replace("\r\n", "\n")
            if len(rows) < _PAGE_FILES:
                return
            after = rows[-1][0]

    # --- writing --------------------------------------------------------------------------------------------------

    def update(self, name: str, change: Callable[[str | None], str | None]) -> bool:
        values = self._values(name)
        with self._connect(_UNKNOWN_CHANGE) as link, durable_transaction(link):
            link.execute(LOCK_FILE, values)
            data = _read(link, values)
            new = change(None if data is None else data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
            if new is None:
                return False
            self._replace(link, name, new.encode("utf-8", "surrogateescape"))
        self._copy_to_cache(name)
        return True

    def write(self, name: str, text: str) -> bool:
        data = text.encode("utf-8", "surrogateescape")
        values = self._values(name)
        with self._connect(_UNKNOWN_CHANGE) as link, durable_transaction(link):
            link.execute(LOCK_FILE, values)
            if _read(link, values) == data:
                return False
            self._replace(link, name, data)
        self._copy_to_cache(name)
        return True

    def _replace(self, link: Link, name: str, data: bytes) -> None:
        check_file_size(name, len(data), self.max_file, self.ending)
        values = self._values(name)
        link.execute(REMOVE_FILE, values)
        link.execute(ADD_PART, {**values, "part": 0, "data": data})

    def append(self, name: str, text: str) -> bool:
        data = text.encode("utf-8", "surrogateescape")
        values = self._values(name)
        with self._connect(_UNKNOWN_CHANGE) as link, durable_transaction(link):
            link.execute(LOCK_FILE, values)
            row = link.execute(FILE_SIZE, values).fetchone()
            size, last = row if row else (0, -1)
            tail = _read_tail(link, values, max(1, len(data)))
            there = find_overlap(tail, data)
            rest = data[there:]
            if not rest:
                return False
            if not there and tail and not tail.endswith(b"\n"):
                rest = b"\n" + rest
            check_file_size(name, size + len(rest), self.max_file, self.ending)
            link.execute(ADD_PART, {**values, "part": last + 1, "data": rest})
        self._copy_to_cache(name)
        return True

    def remove(self, name: str) -> bool:
        values = self._values(name)
        with self._connect(_UNKNOWN_CHANGE) as link, durable_transaction(link):
            link.execute(LOCK_FILE, values)
            is_removed = link.execute(REMOVE_FILE, values).rowcount > 0
        if self._cache is not None:
            self._cache.remove(name)
        return is_removed

    def refresh_cache(self) -> None:
        """Make the copies in `root` equal to the files: others may have written or removed some."""
        if self._cache is None:
            return
        sizes = {name: size for name, size, _ in self._list()}
        for name, size in sizes.items():
            if self._cache.size(name) != size:
                self._copy_to_cache(name)
        for name in self._cache.names():
            if name not in sizes:
                self._cache.remove(name)

    def _copy_to_cache(self, name: str) -> None:
        if self._cache is not None and (data := self.read_raw(name)) is not None:
            self._cache.write(name, data.decode("utf-8", "surrogateescape"))


def _read(link: Link, values: dict[str, Any]) -> bytes | None:
    parts = [row[0] for row in link.execute(READ_FILE, values, binary=True)]
    return b"".join(parts) if parts else None


def _read_tail(link: Link, values: dict[str, Any], size: int) -> bytes:
    tail = b""
    with link.cursor("tidegate_tail") as cursor:
        cursor.itersize = 1
        for (part,) in cursor.execute(FILE_PARTS_FROM_END, values, binary=True):
            tail = part + tail
            if len(tail) >= size:
                break
    return tail[-size:]
