"""Changes to a log other than at its end: fork, rewrite, and the VACUUM that removes what was there from the disk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidegate.store.memory import check_fork_request, check_record_numbers
from tidegate.store.sqlite.connection import Database, roll_back, transact, truncate_wal
from tidegate.store.sqlite.rows import Damaged, SessionRow, open_row, pack_row, pack_rows, row_id
from tidegate.store.sqlite.tables import Tables, row_id_span


def fork_session(db: Database, tables: Tables, session: str, at: int, new: str, now: float) -> None:
    """Copy the rows before the one that holds record `at` as they are, and that one up to the record."""
    source = tables.get(session)
    check_fork_request(session, at, source.head, new, tables.find(new) is not None)
    source = tables.save(tables.pack(source))
    row = tables.find_row_before(source, at)
    first = row.first if row else 1
    records = tables.read(source, first)[: at - first + 1]
    if first + len(records) <= at:
        raise tables.make_damage_error(source, first + len(records), "they are not there")
    made = tables.create(new, now)
    db.execute(
        "INSERT INTO packed_rows SELECT id + ?, count, mark, sum, data FROM packed_rows WHERE id >= ? AND id < ?",
        (row_id(made.id - source.id, 0), row_id(source.id, 1), row_id(source.id, first)),
    )
    db.step("rows copied")
    tables.insert(made, [pack_row(first, records)])
    tables.save(tables.with_measured_size(made._replace(head=at, packed=at)))


def rewrite_session(db: Database, tables: Tables, name: str, changes: Mapping[int, bytes]) -> None:
    session = tables.get(name)
    check_record_numbers(name, changes, session.head)
    if not changes:
        return
    session = tables.pack(session)
    done = 0
    for number in sorted(changes):
        if number > done:
            done = _rewrite_row(db, tables, session, number, changes)
            db.step("row rewritten")
    tables.save(tables.with_measured_size(session))


def _rewrite_row(db: Database, tables: Tables, session: SessionRow, number: int, changes: Mapping[int, bytes]) -> int:
    """Rewrite the row that holds a number, with all changes in it. Return its last number.

    Damaged records can only be replaced together: from where the last good row ends to where the next one starts.
    """
    row = tables.find_row_before(session, number)
    records: list[bytes] = []
    first, why = row.first if row else 1, "they are not there"
    try:
        records = open_row(row) if row else []
    except Damaged as fault:
        why = str(fault)
    if number < first + len(records):
        last = first + len(records) - 1
        records = [changes.get(place, record) for place, record in enumerate(records, first)]
    else:
        first, last = first + len(records), tables.find_next_number(session, number) - 1
        if not all(place in changes for place in range(first, last + 1)):
            raise tables.make_damage_error(session, first, f"{why}; only all of them can be replaced")
        records = [changes[place] for place in range(first, last + 1)]
    db.execute("DELETE FROM packed_rows WHERE id BETWEEN ? AND ?", row_id_span(session, first, last))
    tables.insert(session, pack_rows(first, records))
    return last


class Vacuum:
    """Rewrites the file after something was removed, so that no copy of it remains.

    SQLite leaves copies of rows on free pages and in the unused part of pages that it splits or joins, even with
    `secure_delete`. As long as a record exists, they reveal nothing that the record does not. When it is forgotten, all
    copies must be removed, and only VACUUM finds all of them.

    `user_version` in the file says whether a VACUUM is due: an odd number means yes, also after a crash. It only ever
    grows, so that a slow process does not take a new request for the one it has just served.
    """

    def __init__(self, db: Database, timeout: float) -> None:
        self._db = db
        self._timeout = timeout
        self._postponed = 0
        self.due = False
        """Whether this process has requested a VACUUM that was not run yet."""

    def request(self) -> None:
        """Part of the transaction that removes something."""
        self._set("user_version", (self._version() + 1 | 1) % (1 << 31))
        self._db.step("vacuum requested")
        self.due = True

    def run(self, writers: float, readers: float) -> None:
        """Run it if it is due. Wait up to this many seconds for other writers, and for readers.

        While a reader is at work, the old pages stay in the write-ahead log until a later checkpoint.
        """
        if self._postponed:
            return
        self._set("busy_timeout", int(writers * 1000))
        try:
            roll_back(self._db)
            version = self._version()
            if version % 2:
                self._db.execute("VACUUM")
                self._db.step("file vacuumed")
                transact(self._db, lambda: self._mark_done(version))
            self._set("busy_timeout", int(readers * 1000))
            truncate_wal(self._db)
            self.due = False
        finally:
            self._set("busy_timeout", int(self._timeout * 1000))

    @contextmanager
    def postpone(self) -> Iterator[None]:
        self._postponed += 1
        try:
            yield
        finally:
            self._postponed -= 1

    def _mark_done(self, version: int) -> None:
        if self._version() == version:
            self._set("user_version", (version + 1) % (1 << 31))

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _set(self, pragma: str, value: int) -> None:
        self._db.execute(f"PRAGMA {pragma}={value}").close()
