"""The published suite over the stores of one machine, and over stores that are wrong: it must see what it is for."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from time import sleep

import pytest

from tidegate.store.conformance import StoreCheck, suite
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import SessionInfo, Store


def same(store: Store) -> Store:
    return store


ALONE = [check.name for check in suite(MemoryStore)]
WITH_ANOTHER = [check.name for check in suite(MemoryStore, same)]


def over_memory() -> dict[str, StoreCheck]:
    return {check.name: check for check in suite(MemoryStore)}


@pytest.mark.parametrize("name", ALONE)
def test_memory(name: str) -> None:
    over_memory()[name].run()


@pytest.mark.parametrize("name", WITH_ANOTHER)
def test_sqlite(name: str, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in count())

    def make() -> Store:
        return SqliteStore(next(folders))

    def again(store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path.parent)

    {check.name: check for check in suite(make, again)}[name].run()


# Wrong stores: each has one defect that somebody's backend might have.


class TakesStaleAppends(MemoryStore):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        return super().append(session, self.head(session), records)


class LosesTheLastOfABatch(MemoryStore):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        return super().append(session, after, records[:-1] if len(records) > 1 else records)


class CountsFromZero(MemoryStore):
    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        return super().read(session, start + 1 if start > 1 else start)


class StripsRecords(MemoryStore):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        return super().append(session, after, [record.rstrip(b"\0") for record in records])


class FoldsNames(MemoryStore):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        return super().append(session.lower(), after, records)

    def head(self, session: str) -> int:
        return super().head(session.lower())


class ForgetsToDelete(MemoryStore):
    def delete(self, session: str, head: int | None = None) -> None:
        list(self.read(session))


class DeletesWhatIsInUse(MemoryStore):
    def delete(self, session: str, head: int | None = None) -> None:
        super().delete(session)


class LooksBeforeItDeletes(MemoryStore):
    """Not in one step: what is appended between the look and the removal is lost."""

    def delete(self, session: str, head: int | None = None) -> None:
        seen = self.head(session)
        if head is not None and seen not in (0, head):
            super().delete(session, head)
        for _ in range(20):
            if self.head(session) != seen:
                break
            sleep(0.001)
        super().delete(session)


class ForksOneTooMany(MemoryStore):
    def fork(self, session: str, at: int, new: str) -> None:
        super().fork(session, min(at + 1, self.head(session)), new)


class ForksOverOthers(MemoryStore):
    def fork(self, session: str, at: int, new: str) -> None:
        if self.head(new) and new != session:
            self.delete(new)
        super().fork(session, at, new)


class ListsTheFirstUsedFirst(MemoryStore):
    def sessions(self) -> list[SessionInfo]:
        return super().sessions()[::-1]


class ReadsNothingOfNothing(MemoryStore):
    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        return super().read(session, start) if self.head(session) else iter(())


class MakesEmptySessions(MemoryStore):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        if not records and after == 0 == self.head(session):
            super().append(session, 0, [b""])
            return 0
        return super().append(session, after, records)


class RacesWithoutALock(MemoryStore):
    """Looks at the head, lets others go first, and appends behind whatever is there then, if it was not stale."""

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        if after != self.head(session):
            return super().append(session, after, records)
        if records and records[0][1:2] == b":":  # the racing writers' records: one in seven is lost as in a lost update
            return after + 1 if records[0].endswith(b"7") else super().append(session, self.head(session), records)
        return super().append(session, after, records)


class RewritesTheGoodOnes(MemoryStore):
    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        good = {number: record for number, record in changes.items() if 1 <= number <= self.head(session)}
        super().rewrite(session, good)
        super().rewrite(session, changes)


class RewritesTheNext(MemoryStore):
    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        head = self.head(session)
        super().rewrite(session, {min(number + 1, max(number, head)): record for number, record in changes.items()})


class RewritesByAppending(MemoryStore):
    """All the records anew: what is appended meanwhile goes, and the session looks as if it were used."""

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        super().rewrite(session, changes)
        records = list(self.read(session))
        self.delete(session)
        self.append(session, 0, records)


class ForgetsToRewrite(MemoryStore):
    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        super().rewrite(session, {number: record for number, record in changes.items() if record or number > 300})


WRONG = [
    DeletesWhatIsInUse,
    RewritesTheGoodOnes,
    RewritesTheNext,
    RewritesByAppending,
    ForgetsToRewrite,
    TakesStaleAppends,
    LosesTheLastOfABatch,
    CountsFromZero,
    StripsRecords,
    FoldsNames,
    ForgetsToDelete,
    ForksOneTooMany,
    ForksOverOthers,
    ListsTheFirstUsedFirst,
    ReadsNothingOfNothing,
    MakesEmptySessions,
    RacesWithoutALock,
]


def failures(checks: list[StoreCheck]) -> list[str]:
    failed: list[str] = []
    for check in checks:
        try:
            check.run()
        except AssertionError:
            failed.append(check.name)
    return failed


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: str(wrong.__name__))
def test_a_wrong_store_is_seen(wrong: type[MemoryStore]) -> None:
    assert any(failures([check]) for check in suite(wrong))


def test_a_look_before_a_removal_is_not_enough() -> None:
    name = "a session that another uses is not removed"
    assert failures([check for check in suite(LooksBeforeItDeletes, same) if check.name == name]) == [name]
    assert failures([check for check in suite(MemoryStore, same) if check.name == name]) == []


class NeverRewrites:
    """A store as the protocol has it, and no more."""

    def __init__(self) -> None:
        kept = MemoryStore()
        self.append, self.read, self.head, self.sessions = kept.append, kept.read, kept.head, kept.sessions
        self.fork, self.delete, self.close = kept.fork, kept.delete, kept.close


def test_a_store_need_not_rewrite() -> None:
    names = [check.name for check in suite(NeverRewrites)]
    assert 0 < len(names) < len(ALONE)
    assert [name for name in ALONE if "rewr" in name] == [name for name in ALONE if name not in names]
    assert failures(suite(NeverRewrites)) == []


def test_a_store_that_forgets_when_closed_is_seen() -> None:
    def anew(_: Store) -> Store:
        return MemoryStore()

    assert failures(suite(MemoryStore, anew)) == [name for name in WITH_ANOTHER if name not in ALONE]
