"""The table of sessions: every append updates it, and what it says is checked before it is believed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, change, noise
from tidegate.store.errors import DamagedData, StaleHead
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.rows import compute_seal
from tidegate.store.store import SessionInfo


def heads(folder: Path) -> dict[str, int]:
    """As they are in the file."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        return dict(db.execute("SELECT name, head FROM sessions").fetchall())


def size_of_rows(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE)) as db:
        sizes = [db.execute(f"SELECT total(length(data)) FROM {table}") for table in ("packed_rows", "recent_rows")]
        return int(sum(size.fetchone()[0] for size in sizes))


def written(store: SqliteStore, session: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert store.append(session, number - 1, [noise(number)]) == number


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    times = count(1_700_000_000)
    store = SqliteStore(tmp_path, clock=lambda: next(times) + 0.123456)
    yield store
    store.close()


def test_another_finds_what_the_writer_knows(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path)
    head = 0
    for number in range(1, 140):
        records = [noise(head + place) for place in range(1, 2 + number % 3)]
        head = store.append("s", head, records)
        (info,) = other.sessions()
        size = size_of_rows(tmp_path)
        assert info == SessionInfo("s", head, 1_700_000_000.123456, 1_700_000_000.123456 + number - 1, size)
        assert store.sessions() == [info]
        with pytest.raises(StaleHead):
            other.append("s", head - 1, [b"late"])
    assert list(other.read("s")) == [noise(number) for number in range(1, head + 1)]
    other.close()


def test_all_that_is_read_is_of_one_state(store: SqliteStore, tmp_path: Path) -> None:
    """Another packs between the look at the session and the look at its rows."""
    written(store, "s", 1, 63)

    def step(name: str) -> None:
        if name == "session read" and armed and store.head("s") == 63:
            written(store, "s", 64, 64)

    armed: list[bool] = []
    other = SqliteStore(tmp_path, step=step)
    reading = other.read("s", 60)
    armed.append(True)
    assert list(reading) == [noise(number) for number in range(60, 64)]
    assert other.head("s") == 64
    assert list(other.read("s", 60)) == [noise(number) for number in range(60, 65)]
    other.close()


def test_two_stores_in_turns_on_one_session(store: SqliteStore, tmp_path: Path) -> None:
    """What each has cached of it is outdated by the other, whatever that did."""
    other = SqliteStore(tmp_path)
    records: list[bytes] = []

    def append(by: SqliteStore, many: int = 1) -> None:
        records.extend(noise(len(records) + place) for place in range(1, many + 1))
        assert by.append("s", len(records) - many, records[-many:]) == len(records)

    for turn in range(150):
        append((store, other)[turn % 3 == 0], 1 + turn % 2)
    append(store, 3)
    other.rewrite("s", {len(records): b"other"})
    records[-1] = b"other"
    append(store)
    append(store, 70)
    other.delete("s")
    records.clear()
    with pytest.raises(StaleHead):
        store.append("s", 1, [b"late"])
    append(other, 5)
    with pytest.raises(StaleHead):
        store.append("s", 4, [b"late"])
    append(store, 80)
    assert list(other.read("s")) == list(store.read("s")) == records
    other.close()


def test_the_last_used_is_first(store: SqliteStore, tmp_path: Path) -> None:
    for session in ("a", "b", "c", "b", "a"):
        store.append(session, store.head(session), [b"x"])
    other = SqliteStore(tmp_path)
    assert [info.name for info in other.sessions()] == ["a", "b", "c"]
    other.close()


def test_an_append_that_is_refused_leaves_no_session(store: SqliteStore) -> None:
    with pytest.raises(StaleHead):
        store.append("s", 3, [b"x"])
    assert store.append("s", 0, []) == 0
    assert store.sessions() == []


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["DELETE FROM recent_rows", "UPDATE recent_rows SET id = id + (1 << 20)"])
def test_a_row_lost_from_the_end_is_missed(damage: str, store: SqliteStore, tmp_path: Path) -> None:
    """Also one whose number was changed: it does not make a million records that are not there."""
    written(store, "s", 1, 70)
    change(tmp_path, f"{damage} WHERE id % 1024 = 70")
    other = SqliteStore(tmp_path)
    assert other.head("s") == 70
    with pytest.raises(DamagedData, match="Records 70 to 70"):
        list(other.read("s"))
    with pytest.raises(StaleHead):
        other.append("s", 69, [b"instead"])
    assert other.append("s", 70, [noise(71)]) == 71
    other.rewrite("s", {70: b"lost"})
    assert list(store.read("s", 69)) == [noise(69), b"lost", noise(71)]
    other.close()


@pytest.mark.parametrize("damage", ["data = x'00'", "sum = x'00'", "data = 'text'"])
def test_the_last_row_is_damaged_and_its_place_is_not_given_away(
    damage: str, store: SqliteStore, tmp_path: Path
) -> None:
    written(store, "s", 1, 70)
    change(tmp_path, f"UPDATE recent_rows SET {damage} WHERE id % 1024 = 70")
    other = SqliteStore(tmp_path)
    assert other.head("s") == 70
    with pytest.raises(DamagedData, match="Records 70 to 70"):
        list(other.read("s"))
    for each in (store, other):
        with pytest.raises(StaleHead):
            each.append("s", 69, [b"instead"])
    assert other.append("s", 70, [b"on"]) == 71
    assert list(store.read("s", 71)) == [b"on"]
    assert store.sessions()[0].used > 1_700_000_000
    other.close()


@pytest.mark.parametrize("column", ["head", "packed", "size", "seal"])
def test_a_damaged_session_is_put_in_order_by_the_next_append(column: str, store: SqliteStore, tmp_path: Path) -> None:
    written(store, "s", 1, 70)
    change(tmp_path, f"UPDATE sessions SET {column} = {column} - 7")
    assert store.head("s") == 70
    written(store, "s", 71, 71)
    assert heads(tmp_path) == {"s": 71}
    change(tmp_path, "UPDATE sessions SET head = 7")
    other = SqliteStore(tmp_path)
    written(other, "s", 72, 72)
    assert heads(tmp_path) == {"s": 72}
    assert list(store.read("s")) == [noise(number) for number in range(1, 73)]
    assert store.sessions()[0].size == size_of_rows(tmp_path)
    other.close()


def test_a_forged_head_costs_nothing_but_its_session(store: SqliteStore, tmp_path: Path) -> None:
    """Its checksum is right and the number is possible, but there are no rows for billions of records."""
    written(store, "forged", 1, 10)
    written(store, "other", 1, 10)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        (size,) = db.execute("SELECT size FROM sessions WHERE name = 'forged'").fetchone()
        seal = compute_seal(1 << 35, 0, size)
        db.execute("UPDATE sessions SET head = ?, seal = ? WHERE name = 'forged'", (1 << 35, seal))
    reading = store.read("forged")
    assert [next(reading) for _ in range(10)] == [noise(number) for number in range(1, 11)]
    with pytest.raises(DamagedData) as damage:
        next(reading)
    assert (damage.value.first_record, damage.value.last_record) == (11, 1 << 35)
    assert store.append("forged", 1 << 35, [b"next"]) == (1 << 35) + 1
    assert list(store.read("forged", (1 << 35) + 1)) == [b"next"]
    written(store, "other", 11, 12)
