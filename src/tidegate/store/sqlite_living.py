"""What of the batches still lives, and how it comes to its place. Part of a transaction that the store begins."""

import sqlite3
from collections.abc import Sequence

from tidegate.store.sqlite_batches import Place
from tidegate.store.sqlite_file import Step
from tidegate.store.sqlite_read import Rows
from tidegate.store.sqlite_rows import number_of, session_of
from tidegate.store.sqlite_statements import INSERT_IF_ABSENT


class Living:
    """What a session has packed since it came is dead. How far that is, is kept in mind, as long as `Changes` says."""

    def __init__(self, db: sqlite3.Connection, rows: Rows, step: Step) -> None:
        self._db = db
        self._rows = rows
        self._step = step
        self.packed: dict[int, int] = {}

    def make_room(self) -> None:
        """The oldest batch goes if nothing of it lives, or if there are too many. One for one, so that the new one is
        written where the other was."""
        batches = self._rows.batches
        oldest = batches.oldest()
        if oldest and not self._some(batches.ids(oldest)):
            batches.remove([oldest])
            self._step("batches scattered")
        if batches.full:
            self.scatter([batches.oldest()])

    def _some(self, ids: Sequence[int]) -> bool:
        known = self.packed.get  # most of them are: that is asked first
        return any(number_of(place) > known(session_of(place), -1) and self._lives(place) for place in ids)

    def _lives(self, place: int) -> bool:
        session = session_of(place)
        packed = self.packed.get(session)
        if packed is None:
            entry = self._rows.by_id(session)
            packed = self.packed[session] = self._rows.packed(session) if entry is None else entry.packed
        return number_of(place) > packed

    def scatter(self, turns: Sequence[int], but: int = 0) -> None:
        """These batches go, and what lives in them to its place, but for what is of one session."""
        batches = self._rows.batches
        for turn in turns:
            if self._some(batches.ids(turn)):
                living = [place for place in batches.places(turn) if self._lives(place.id)]
                self.settle([place for place in living if session_of(place.id) != but and self._is_someones(place)])
        batches.remove(turns)
        self._step("batches scattered")

    def _is_someones(self, place: Place) -> bool:
        """One that is damaged may be of nobody, or may stand for a number that is elsewhere and well."""
        if place.size:
            return True
        entry = self._rows.by_id(session_of(place.id))
        return entry is not None and place.first <= entry.head and place in self._rows.batches.of(entry.id, 0)

    def settle(self, places: Sequence[Place]) -> None:
        """A row of its own for each, at its place, as it is. What is damaged stays damaged there."""
        rows = [(place.id, *self._rows.batches.chunk(place)[1:]) for place in places]
        self._db.executemany(INSERT_IF_ABSENT, rows)

    def bring_home(self, session: int, *, to_stay: bool = True) -> None:
        """Nothing of a session is left in batches, dead or alive. What it has alive goes `to_stay` at its place."""
        batches = self._rows.batches
        turns = batches.holding(session)
        if turns:
            self.scatter(turns, 0 if to_stay else session)
