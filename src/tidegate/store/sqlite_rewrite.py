"""What changes a log otherwise than at its end. All that a session has in batches comes to its place first."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from tidegate.store.memory import check_fork_request, check_record_numbers, stale_head_error
from tidegate.store.sqlite_file import Step
from tidegate.store.sqlite_read import Rows, span_of
from tidegate.store.sqlite_rows import LOOSE, PACKED, Chunk, Damaged, Entry, cut, key, opened, seal
from tidegate.store.sqlite_statements import REMOVE
from tidegate.store.sqlite_write import Changes


class Rewriting:
    def __init__(
        self, db: sqlite3.Connection, rows: Rows, changes: Changes, clock: Callable[[], float], step: Step
    ) -> None:
        self._db = db
        self._rows = rows
        self._changes = changes
        self._clock = clock
        self._step = step

    def fork(self, session: str, at: int, new: str) -> None:
        self._changes.refresh()
        entry = self._rows.known(session)
        check_fork_request(session, at, entry.head, new, self._rows.find(new) is not None)
        self._changes.living.bring_home(entry.id)
        last = self._rows.holding(entry, at)
        made = self._changes.begin(new, float(self._clock()))
        self._db.execute(
            "INSERT INTO placed SELECT id + ?, count, mark, sum, data FROM placed WHERE id >= ? AND id < ?",
            (key(made.id - entry.id, 0), key(entry.id, 1), key(entry.id, last.first)),
        )
        self._step("rows copied")
        self._changes.insert(made.id, seal(last.first, opened(last)[: at - last.first + 1], last.mark))
        self._recount(made._replace(head=at, packed=at if last.mark == PACKED else min(entry.packed, at)))
        self._step("fork noted")

    def delete(self, session: str, head: int | None) -> None:
        self._changes.refresh()
        entry = self._rows.known(session)
        if head is not None and head != entry.head:
            raise stale_head_error(session, head, entry.head)
        self._changes.forget()
        self._changes.living.bring_home(entry.id, to_stay=False)
        self._db.execute(REMOVE, span_of(entry.id))
        self._step("rows deleted")
        self._db.execute("DELETE FROM sessions WHERE id = ?", (entry.id,))
        self._step("session deleted")

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        self._changes.refresh()
        entry = self._rows.known(session)
        check_record_numbers(session, changes, entry.head)
        self._changes.forget()
        self._changes.living.bring_home(entry.id)
        done = 0
        for number in sorted(changes):
            if number > done:
                done = self._rewrite_around(entry, number, changes)
                self._step("row rewritten")
        self._recount(entry)
        self._step("rewriting noted")

    def _rewrite_around(self, entry: Entry, number: int, changes: Mapping[int, bytes]) -> int:
        """The row that holds a number, with all that changes in it. Gives its last number.

        What cannot be read can only be replaced whole: from where the last good row ended to where the next begins.
        """
        chunk = self._rows.around(entry, number)
        first, why = 1, "they are not there"
        if chunk is not None:
            try:
                records = opened(chunk)
            except Damaged as fault:
                first, why = chunk.first, str(fault)
            else:
                first = chunk.first + len(records)
                if number < first:
                    changed = [changes.get(place, record) for place, record in enumerate(records, chunk.first)]
                    self._replace(entry.id, chunk.last, [seal(chunk.first, changed, chunk.mark)])
                    return chunk.last
        last = self._rows.next_after(entry, number) - 1
        if not all(place in changes for place in range(first, last + 1)):
            raise self._rows.damage(entry, first, f"{why}; only all of them can be replaced")
        self._replace(entry.id, last, cut(first, [changes[place] for place in range(first, last + 1)], LOOSE))
        return last

    def _replace(self, session: int, last: int, chunks: Sequence[Chunk]) -> None:
        self._db.execute(REMOVE, (key(session, chunks[0].first), key(session, last)))
        for chunk in chunks:
            self._changes.insert(session, chunk)

    def _recount(self, entry: Entry) -> None:
        sums = self._rows.sums(entry.id, entry.packed)
        self._changes.save(entry._replace(size=sums.size, loose=sums.loose))
