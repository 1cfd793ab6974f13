"""An append writes a row and no entry: what a session's entry would say is found by the rows, by whoever looks."""

import sqlite3
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, first_version, noise
from tidegate.store.errors import Broken, Stale
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_file import MIGRATIONS
from tidegate.store.store import SessionInfo


def entry_heads(folder: Path) -> dict[str, int]:
    """As they stand in the file."""
    db = sqlite3.connect(folder / FILE)
    heads = dict(db.execute("SELECT name, head FROM sessions").fetchall())
    db.close()
    return heads


def change(folder: Path, statement: str) -> None:
    db = sqlite3.connect(folder / FILE)
    assert db.execute(statement).rowcount > 0, "nothing was changed"
    db.commit()
    db.close()


def written(store: SqliteStore, session: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert store.append(session, number - 1, [noise(number)]) == number


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    times = count(1_700_000_000)
    store = SqliteStore(tmp_path, clock=lambda: next(times) + 0.123456)
    yield store
    store.close()


def test_the_entry_is_written_when_rows_are_packed_and_when_the_store_is_closed(
    store: SqliteStore, tmp_path: Path
) -> None:
    seen = []
    for number in range(1, 71):
        written(store, "s", number, number)
        seen.append(entry_heads(tmp_path)["s"])
    assert seen == [1] * 63 + [64] * 7
    store.close()
    assert entry_heads(tmp_path) == {"s": 70}


def test_an_append_changes_the_pages_of_one_row(store: SqliteStore, tmp_path: Path) -> None:
    """In the middle of a page it is one page: that is all there is to sync."""
    store._db.execute("PRAGMA wal_autocheckpoint=0").close()
    wal = tmp_path / f"{FILE}-wal"
    store.append("s", 0, [b"x"])
    sizes = [wal.stat().st_size]
    for number in range(1, 20):
        store.append("s", number, [b"x"])
        sizes.append(wal.stat().st_size)
    assert {after - before for before, after in pairwise(sizes)} == {24 + 4096}


def test_another_finds_what_the_writer_knows(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path)
    head = 0
    for number in range(1, 140):
        records = [noise(head + place) for place in range(1, 2 + number % 3)]
        head = store.append("s", head, records)
        (info,) = other.sessions()
        (size,) = other._db.execute("SELECT sum(length(data)) FROM chunks").fetchone()
        assert info == SessionInfo("s", head, 1_700_000_000.123456, 1_700_000_000.123456 + number - 1, size)
        assert store.sessions() == [info]
        with pytest.raises(Stale):
            other.append("s", head - 1, [b"late"])
    assert list(other.read("s")) == [noise(number) for number in range(1, head + 1)]
    other.close()


def test_a_head_does_not_go_back_when_another_packs_meanwhile(store: SqliteStore, tmp_path: Path) -> None:
    written(store, "s", 1, 63)

    def step(name: str) -> None:
        if name == "entry read" and store.head("s") == 63:
            written(store, "s", 64, 64)

    other = SqliteStore(tmp_path, step=step)
    assert other.head("s") >= 63
    assert other.head("s") == 64
    other.close()


def test_the_last_used_is_first_though_no_entry_says_so(store: SqliteStore, tmp_path: Path) -> None:
    for session in ("a", "b", "c", "b", "a"):
        store.append(session, store.head(session), [b"x"])
    other = SqliteStore(tmp_path)
    assert [info.name for info in other.sessions()] == ["a", "b", "c"]
    other.close()


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_row_lost_from_the_end_is_missed_once_the_store_was_closed(store: SqliteStore, tmp_path: Path) -> None:
    written(store, "s", 1, 70)
    store.close()
    change(tmp_path, "DELETE FROM placed WHERE id % 1024 = 70")
    store = SqliteStore(tmp_path)
    with pytest.raises(Broken, match="Records 70 to 70"):
        list(store.read("s"))
    assert store.append("s", 70, [b"on"]) == 71
    store.close()


@pytest.mark.parametrize("damage", ["data = x'00'", "sum = x'00'", "mark = mark + 5", "mark = 'x'", "count = 9999"])
def test_the_last_row_is_damaged_and_its_place_is_not_given_away(
    damage: str, store: SqliteStore, tmp_path: Path
) -> None:
    written(store, "s", 1, 70)
    change(tmp_path, f"UPDATE placed SET {damage} WHERE id % 1024 = 70")
    other = SqliteStore(tmp_path)
    assert other.head("s") == 70
    with pytest.raises(Broken, match="Records 70 to 70"):
        list(other.read("s"))
    for each in (store, other):
        with pytest.raises(Stale):
            each.append("s", 69, [b"instead"])
    assert other.append("s", 70, [b"on"]) == 71
    assert list(store.read("s", 71)) == [b"on"]
    assert store.sessions()[0].used > 1_700_000_000
    other.close()


def test_a_row_that_is_too_far_away_is_not_the_end(store: SqliteStore, tmp_path: Path) -> None:
    """A bit in its number: it would make a million records that are not there."""
    written(store, "s", 1, 70)
    store.close()
    change(tmp_path, "UPDATE placed SET id = id + (1 << 20) WHERE id % 1024 = 70")
    store = SqliteStore(tmp_path)
    assert store.head("s") == 70
    with pytest.raises(Broken, match="Records 70 to 70"):
        list(store.read("s"))
    store.rewrite("s", {70: b"lost"})
    written(store, "s", 71, 71)
    assert list(store.read("s", 69)) == [noise(69), b"lost", noise(71)]
    store.close()


def test_a_damaged_entry_is_put_in_order(store: SqliteStore, tmp_path: Path) -> None:
    """By the first append of whoever looks at it again; who has it in mind does not, before it packs."""
    written(store, "s", 1, 70)
    change(tmp_path, "UPDATE sessions SET head = 7")
    other = SqliteStore(tmp_path)
    written(other, "s", 71, 71)
    assert entry_heads(tmp_path) == {"s": 71}
    written(other, "s", 72, 72)
    assert entry_heads(tmp_path) == {"s": 71}
    assert other.head("s") == store.head("s") == 72
    other.close()
    change(tmp_path, "UPDATE sessions SET head = 7")
    assert store.head("s") == 72
    written(store, "s", 73, 73)
    assert entry_heads(tmp_path) == {"s": 73}


# --- the first version --------------------------------------------------------------------------------------------


def test_a_file_of_the_first_version_goes_on(tmp_path: Path) -> None:
    heads = {"packed": 128, "loose": 40, "both": 150, "one": 1}
    first_version(tmp_path / "old", heads)
    store = SqliteStore(tmp_path / "old")
    assert {info.name: info.head for info in store.sessions()} == heads
    assert [info.name for info in store.sessions()] == ["one", "both", "loose", "packed"]
    assert {info.used for info in store.sessions()} == {1.5e9 + place for place in (1, 2, 3, 4)}
    for name, head in heads.items():
        assert list(store.read(name)) == [noise(number) for number in range(1, head + 1)]
        store.fork(name, head, f"fork of {name}")
        written(store, name, head + 1, head + 100)
        written(store, f"fork of {name}", head + 1, head + 30)
    store.rewrite("loose", {3: b"other"})
    store.close()
    store = SqliteStore(tmp_path / "old")
    for name, head in heads.items():
        wanted = [noise(number) for number in range(1, head + 101)]
        assert list(store.read(f"fork of {name}")) == wanted[: head + 30]
        assert list(store.read(name)) == (wanted if name != "loose" else [*wanted[:2], b"other", *wanted[3:]])
    store.close()


def test_who_has_the_file_open_as_the_first_version_cannot_write_any_more(tmp_path: Path) -> None:
    """It would believe the entries, and write over rows that it does not look for."""
    path = first_version(tmp_path / "old", {"s": 10})
    old = sqlite3.connect(path, isolation_level=None)
    assert old.execute("SELECT count(*) FROM chunks WHERE packed = 0").fetchone() == (10,)
    store = SqliteStore(tmp_path / "old")
    written(store, "s", 11, 12)
    with pytest.raises(sqlite3.OperationalError, match="packed"):
        old.execute("SELECT id, count, packed, sum, data FROM chunks")
    old.close()
    store.close()
    assert [migration.__name__ for migration in MIGRATIONS] == [
        "sessions_and_chunks",
        "marked_chunks",
        "placed_and_arrived",
        "batches_and_members",
        "written_anew",
    ]
