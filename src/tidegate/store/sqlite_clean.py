"""How what was forgotten leaves the disk: the whole file is written anew, without it.

Copies of a row stay behind wherever it was. Packing leaves them on free pages: to overwrite these (`secure_delete=ON`)
would be an eighth of what a lone writer writes, and the next appends write there anyway. And SQLite itself leaves
them in the unused middle of pages that it splits or joins, whatever `secure_delete` says. As long as the record exists
they tell nobody more than the record does. When it is forgotten, all of them must go, and only VACUUM finds them all.

`user_version` counts in the file: an odd number says that this is still to be done, whoever was killed before. It only
ever grows, so that nobody takes a new debt for the one that was just paid.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.store.sqlite_file import Database, Step, roll_back, transaction, truncate_log


class Cleaning:
    def __init__(self, db: Database, timeout: float, step: Step) -> None:
        self._db = db
        self._timeout = timeout
        self._step = step
        self._later = 0
        self.owed = False
        """Whether we removed something and could not clean up behind it yet."""

    def owe(self) -> None:
        """Part of the transaction that removes something."""
        self._set(self._debt() + 1 | 1)
        self.owed = True

    def pay(self, wait: float) -> None:
        """Not in a transaction. Who else writes is waited for so long; who reads keeps what was removed in the
        write-ahead log until a later checkpoint."""
        if self._later:
            return
        self._wait(wait)
        try:
            roll_back(self._db)
            debt = self._debt()
            if debt % 2:
                self._db.execute("VACUUM")
                self._step("file written anew")
                with transaction(self._db):
                    if self._debt() == debt:
                        self._set(debt + 1)
            truncate_log(self._db)
            self.owed = False
        finally:
            self._wait(self._timeout)

    @contextmanager
    def once(self) -> Iterator[None]:
        """What is removed in here is cleaned up behind at the end, all at once."""
        self._later += 1
        try:
            yield
        finally:
            self._later -= 1

    def _wait(self, seconds: float) -> None:
        self._db.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}").close()

    def _debt(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _set(self, debt: int) -> None:
        self._db.execute(f"PRAGMA user_version={debt % (1 << 31)}").close()
