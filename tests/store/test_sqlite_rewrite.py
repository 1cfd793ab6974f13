"""Rewriting in the SQLite store: what was forgotten is not on the disk any more, and what was damaged is in order."""

import os
import random
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from tests.store.sqlite_files import FILE, change, filled, noise
from tidegate.core.errors import NotKept
from tidegate.store.errors import DamagedData, SessionNotFound
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.store import READERS_WAIT

SECRET = bytes(random.Random(99).randbytes(24))


def on_disk(folder: Path, what: bytes = SECRET) -> bool:
    return any(what in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("behind", [0, 3, 70], ids=["just written", "loose", "packed"])
def test_what_was_rewritten_leaves_the_disk(behind: int, tmp_path: Path) -> None:
    """The file and the write-ahead log, at once: not only when the store is closed."""
    store = SqliteStore(tmp_path)
    for place in range(130):
        store.append("s", place, [noise(place) + SECRET if place % 10 == 7 else noise(place)])
    for place in range(130, 130 + behind):
        store.append("s", place, [noise(place)])
    assert on_disk(tmp_path), "noise is stored as it is, or this test would see nothing"
    hidden = {place + 1: b"[forgotten]" for place in range(7, 130, 10)}
    store.rewrite("s", hidden)
    assert not on_disk(tmp_path)
    found = list(store.read("s"))
    assert found == [hidden.get(place + 1, noise(place)) for place in range(130 + behind)]
    store.close()
    assert not on_disk(tmp_path)


def test_a_large_record_leaves_the_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    large = random.Random(3).randbytes(700_000)
    store.append("s", 0, [b"before", large, b"after"])
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        (packed,) = other.execute("SELECT data FROM packed_rows ORDER BY length(data) DESC").fetchone()
    parts = [packed[place : place + 32] for place in range(1000, len(packed), 100_000)]
    assert any(on_disk(tmp_path, part) for part in parts)  # some may lie across two pages
    store.rewrite("s", {2: b""})
    assert not any(on_disk(tmp_path, part) for part in parts)
    assert list(store.read("s")) == [b"before", b"", b"after"]
    store.close()


def test_what_another_still_reads_leaves_the_disk_when_it_is_done(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.append("s", 0, [SECRET, b"x"])
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM sessions").fetchone()
    store.rewrite("s", {1: b"[forgotten]"})
    assert list(store.read("s")) == [b"[forgotten]", b"x"]
    other.execute("ROLLBACK")
    store.close()
    other.close()
    assert not on_disk(tmp_path)


def rewrite_beside_a_reader(folder: Path) -> float:
    """Rewrite the secret while another reads, who ends when the file was vacuumed. Return how long that took him."""
    vacuumed = Event()
    store = SqliteStore(folder, step=lambda name: vacuumed.set() if name == "file vacuumed" else None)
    store.append("s", 0, [SECRET, b"x"])
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM sessions").fetchone()
        rewriting = Thread(target=store.rewrite, args=("s", {1: b"[forgotten]"}))
        rewriting.start()
        begun = monotonic()
        assert vacuumed.wait(600)
        rewriting.join(0.05)
        other.execute("ROLLBACK")
        ended = monotonic()
        rewriting.join()
    store.close()
    return ended - begun


def test_it_waits_for_who_is_just_reading(tmp_path: Path) -> None:
    """It waits no longer than READERS_WAIT. If the reader was slower, because the machine is busy, it tries again."""
    for attempt in range(100):
        seconds = rewrite_beside_a_reader(tmp_path / str(attempt))
        if seconds < READERS_WAIT:
            assert not on_disk(tmp_path / str(attempt))
            return
    raise AssertionError("the reader was always too slow")


def killed_before_the_checkpoint(folder: Path, change: Callable[[SqliteStore], object]) -> SqliteStore:
    """A process that was killed right after a commit, beside another that keeps the write-ahead log alive."""
    beside = SqliteStore(folder)
    beside.append("s", 0, [SECRET, b"x"])
    child = os.fork()
    if child == 0:
        store = SqliteStore(folder, step=lambda name: os.kill(os.getpid(), 9) if name == "committed" else None)
        change(store)
    os.waitpid(child, 0)
    return beside


def test_a_rewriting_that_was_killed_is_finished_by_another_without_changes(tmp_path: Path) -> None:
    store = killed_before_the_checkpoint(tmp_path, lambda store: store.rewrite("s", {1: b"gone"}))
    assert list(store.read("s")) == [b"gone", b"x"]
    assert on_disk(tmp_path)
    store.rewrite("s", {})
    assert not on_disk(tmp_path)
    store.close()


def test_a_delete_that_was_killed_is_finished_by_another(tmp_path: Path) -> None:
    store = killed_before_the_checkpoint(tmp_path, lambda store: store.delete("s"))
    assert on_disk(tmp_path)
    with pytest.raises(SessionNotFound):
        store.delete("s")
    assert not on_disk(tmp_path)
    store.close()


def grown_to_the_limit(path: Path) -> int:
    return max(path.stat().st_size, 1)


@pytest.mark.parametrize("what", ["rewrite", "delete"])
def test_the_disk_refuses_what_comes_after_the_commit(what: str, tmp_path: Path) -> None:
    """A delete is done then; a rewriting says so, because a secret may still be there, and can be repeated."""
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)

    def step(name: str) -> None:
        if name == "committed" and armed:  # no file may grow: the file itself must, to take in what is in the WAL
            resource.setrlimit(resource.RLIMIT_FSIZE, (grown_to_the_limit(tmp_path / FILE), whole[1]))

    armed: list[bool] = []
    store = SqliteStore(tmp_path, step=step)
    store.append("s", 0, [random.Random(1).randbytes(100_000), SECRET])
    armed.append(True)
    try:
        if what == "rewrite":
            with pytest.raises(
                NotKept, match=r"are rewritten; what stood there may still be.*Try again when the disk has recovered"
            ):
                store.rewrite("s", {2: b"gone"})
        else:
            store.delete("s")
    finally:
        armed.clear()
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    if what == "rewrite":
        assert list(store.read("s", 2)) == [b"gone"]
        store.rewrite("s", {})
    assert store.head("s") == (2 if what == "rewrite" else 0)
    store.append("t", 0, [b"x"])
    store.close()
    assert not on_disk(tmp_path)


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "gap"),
    [
        ("UPDATE packed_rows SET data = x'00' WHERE id % 1024 = 65", (65, 128)),
        ("UPDATE packed_rows SET count = 'x' WHERE id % 1024 = 193", (193, 200)),
        ("UPDATE packed_rows SET id = id + 7 WHERE id % 1024 = 65", (65, 128)),
        ("DELETE FROM packed_rows WHERE id % 1024 = 1", (1, 64)),
        ("DELETE FROM packed_rows WHERE id % 1024 IN (65, 129)", (65, 192)),
        ("DELETE FROM packed_rows WHERE id % 1024 = 193", (193, 200)),
        ("DELETE FROM packed_rows", (1, 200)),
    ],
)
def test_damage_is_put_in_order_when_all_of_it_is_replaced(
    statement: str, gap: tuple[int, int], tmp_path: Path
) -> None:
    filled(tmp_path, {"s": 200})
    change(tmp_path, statement)
    store = SqliteStore(tmp_path)
    first, last = gap
    good = {number: noise(number) for number in range(1, 201) if not first <= number <= last}
    for some in ({first: b"x"}, dict.fromkeys(range(first, last), b"x"), {last: b"x", **good}):
        with pytest.raises(DamagedData, match="only all of them can be replaced") as refusal:
            store.rewrite("s", some)
        assert refusal.value.first_record <= last
    lost = {number: b"[lost %d]" % number for number in range(first, last + 1)}
    store.rewrite("s", lost)
    wanted = [lost.get(number, noise(number)) for number in range(1, 201)]
    assert list(store.read("s")) == wanted
    for number in range(201, 280):
        assert store.append("s", number - 1, [noise(number)]) == number
    assert list(store.read("s")) == wanted + [noise(number) for number in range(201, 280)]
    store.fork("s", 150, "f")
    assert list(store.read("f")) == wanted[:150]
    store.close()


def test_a_damaged_loose_row_is_put_in_order(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    for number in range(1, 21):
        store.append("s", number - 1, [noise(number)])
    change(tmp_path, "UPDATE recent_rows SET data = x'00' WHERE id % 1024 IN (7, 8)")
    for first in (7, 8):
        with pytest.raises(DamagedData) as damage:
            list(store.read("s", first))
        assert (damage.value.first_record, damage.value.last_record) == (first, first)
        store.rewrite("s", {first: b"lost", 3: b"also"})
    for number in range(21, 100):
        store.append("s", number - 1, [noise(number)])
    odd = {3: b"also", 7: b"lost", 8: b"lost"}
    assert list(store.read("s")) == [odd.get(number, noise(number)) for number in range(1, 100)]
    assert store.sessions()[0].size == _size(tmp_path)
    store.close()


def _size(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE)) as db:
        sizes = [db.execute(f"SELECT total(length(data)) FROM {table}") for table in ("packed_rows", "recent_rows")]
        return int(sum(size.fetchone()[0] for size in sizes))


def test_a_rewriting_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    filled(tmp_path, {"s": 100})
    store = SqliteStore(tmp_path, limit=60 * 4096)
    with pytest.raises(NotKept, match="full"):
        store.rewrite("s", {5: b"x", 80: random.Random(1).randbytes(500_000)})
    assert list(store.read("s")) == [noise(number) for number in range(1, 101)]
    assert store.append("s", 100, [b"on"]) == 101
    store.close()
