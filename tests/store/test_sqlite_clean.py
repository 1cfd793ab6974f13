"""What was forgotten is on no page of the file: not on free ones, and not in the unused part of those in use."""

import random
import sqlite3
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, noise, together
from tidegate.core.errors import NotKept
from tidegate.store.errors import SessionNotFound
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.store import READERS_WAIT

WORDS = b"the password is swordfish"


def on_disk(folder: Path) -> int:
    return sum(path.read_bytes().count(WORDS) for path in folder.iterdir())


def talk(store: SqliteStore, session: str, many: int, loud: range = range(0)) -> None:
    """Each record by itself; some of them will be forgotten."""
    for number in range(1, many + 1):
        store.append(session, number - 1, [WORDS * 40 if number in loud else noise(number)])


def packed(folder: Path, session: str) -> SqliteStore:
    """With a session in which some are loud. Packed they are compressed: what is on the disk are copies from before."""
    store = SqliteStore(folder)
    talk(store, session, 65, loud=range(3, 65, 10))
    store.close()  # nothing is left in the write-ahead log
    assert on_disk(folder) >= 40
    return SqliteStore(folder)


def test_copies_that_packing_left_go_when_the_record_is_rewritten(tmp_path: Path) -> None:
    store = packed(tmp_path, "s")
    store.rewrite("s", dict.fromkeys(range(3, 65, 10), b"[forgotten]"))
    assert on_disk(tmp_path) == 0
    assert [*store.read("s")][2:4] == [b"[forgotten]", noise(4)]
    store.close()


def test_copies_that_packing_left_go_with_the_session(tmp_path: Path) -> None:
    store = packed(tmp_path, "goes")
    talk(store, "stays", 2)
    store.delete("goes")
    assert on_disk(tmp_path) == 0
    assert [*store.read("stays")] == [noise(1), noise(2)]
    store.close()


def change(store: SqliteStore, heads: dict[str, int], loud: dict[str, set[int]], rng: random.Random) -> None:
    size = rng.choice((20, 100, 400, 976, 1500, 2043, 3000, 9000))
    said = WORDS * (1 + size // 25) if rng.random() < 0.15 else b"q" * size
    some = rng.sample(sorted(heads), rng.choice((1, 1, 1, 1, 5)))
    if len(some) == 1:
        heads[some[0]] = store.append(some[0], heads[some[0]], [said])
    else:
        together(store, {name: heads[name] for name in some}, [said])
        heads |= {name: heads[name] + 1 for name in some}
    if WORDS in said:
        for name in some:
            loud[name].add(heads[name])


# Where only overwriting left some.
@pytest.mark.parametrize("seed", [5, 24, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (42, 47))])
def test_nothing_is_left_in_the_unused_part_of_a_page(seed: int, tmp_path: Path) -> None:
    """Rows of many sessions side by side: SQLite splits and joins their pages all the time, and leaves copies there."""
    rng = random.Random(seed)
    store = SqliteStore(tmp_path)
    heads, loud = dict.fromkeys("abcdef", 0), {name: set[int]() for name in "abcdef"}
    for _ in range(2):
        for _ in range(90):
            change(store, heads, loud, rng)
        assert on_disk(tmp_path)
        for name in heads:
            if loud[name] and rng.random() < 0.5:
                store.rewrite(name, dict.fromkeys(loud[name], b"gone"))
            elif loud[name]:
                store.delete(name)
                heads[name] = 0
            loud[name].clear()
        assert on_disk(tmp_path) == 0
    store.close()


def test_many_sessions_leave_the_disk_at_once(tmp_path: Path) -> None:
    steps: list[str] = []
    store = SqliteStore(tmp_path, step=steps.append)
    for name in "abc":
        talk(store, name, 3, loud=range(2, 3))
    with store.clean_up_once():
        for name in "abc":
            store.delete(name)
    assert steps.count("session deleted") == 3
    assert steps.count("file vacuumed") == 1
    assert on_disk(tmp_path) == 0
    store.close()


def test_who_was_killed_before_it_was_cleaned_is_finished_by_the_next(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def step(name: str) -> None:
        if name == "committed" and armed:
            raise Killed

    armed = False
    packed(tmp_path, "s").close()
    store = SqliteStore(tmp_path, step=step)
    armed = True
    with pytest.raises(Killed):
        store.rewrite("s", dict.fromkeys(range(3, 65, 10), b"[forgotten]"))
    assert on_disk(tmp_path)
    other = SqliteStore(tmp_path)
    other.rewrite("s", {})
    assert on_disk(tmp_path) == 0
    other.close()


def test_what_another_writer_hinders_is_said_and_done_later(tmp_path: Path) -> None:
    """It comes between the rewriting and the cleaning: the one is done, the other is owed."""
    others: list[sqlite3.Connection] = []

    def step(name: str) -> None:
        if name == "vacuum requested":
            others.append(sqlite3.connect(tmp_path / FILE, isolation_level=None))
        elif name == "committed" and others:
            others[0].execute("BEGIN IMMEDIATE")

    packed(tmp_path, "s").close()
    store = SqliteStore(tmp_path, step=step, timeout=0.1)
    with pytest.raises(NotKept, match="rewritten; what stood there may still be in the file"):
        store.rewrite("s", dict.fromkeys(range(3, 65, 10), b"[forgotten]"))
    assert on_disk(tmp_path)
    others[0].execute("ROLLBACK")
    others[0].close()
    store.close()
    assert on_disk(tmp_path) == 0


def test_a_deletion_that_another_writer_hinders_says_what_is_done_and_what_is_not(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, timeout=0.1)
    talk(store, "s", 3, loud=range(2, 3))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other, ExitStack() as cleaning:
        cleaning.enter_context(store.clean_up_once())
        store.delete("s")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(NotKept, match="The sessions are deleted; what stood there may still be"):
            cleaning.close()
        assert store.sessions() == []
        assert on_disk(tmp_path)
    with store.clean_up_once():
        pass
    assert on_disk(tmp_path) == 0
    store.close()


def test_the_clean_up_waits_for_a_writer_as_long_as_an_append_does(tmp_path: Path) -> None:
    """Another writer holds the file for longer than readers are waited for."""
    store = SqliteStore(tmp_path)
    talk(store, "s", 3, loud=range(2, 3))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)) as other:
        with store.clean_up_once():
            store.delete("s")
            other.execute("BEGIN IMMEDIATE")
            ending = threading.Timer(1.2 * READERS_WAIT, other.execute, ["ROLLBACK"])
            ending.start()
        ending.join()
    assert on_disk(tmp_path) == 0
    store.close()


def test_one_who_is_late_does_not_take_another_debt_for_its_own(tmp_path: Path) -> None:
    """Another removes something while we write the file anew: ours is paid, theirs is not."""
    met: list[int] = []

    def step(name: str) -> None:
        if name == "file vacuumed":
            with closing(sqlite3.connect(tmp_path / FILE)) as db:
                db.execute("PRAGMA user_version=3")  # as `delete` of another would
        if name == "session deleted":
            met.append(1)

    store = SqliteStore(tmp_path, step=step)
    talk(store, "s", 3, loud=range(2, 3))
    store.delete("s")
    assert met
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
    with pytest.raises(SessionNotFound):
        store.delete("s")
    store.close()
