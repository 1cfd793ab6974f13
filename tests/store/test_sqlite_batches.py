"""Batches come and go: what lives in them is never lost, what is dead in them is never believed, and they stay few."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, noise, together
from tests.store.test_sqlite_arrived import ROOMS, alone, arrive, rows, wanted
from tidegate.store import sqlite_batches
from tidegate.store.errors import Stale
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_rows import MOST_LOOSE


def batches_of(store: SqliteStore) -> int:
    members, batches = (
        store._db.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("members", "batches")
    )
    assert members == batches
    return int(members[0])


def check_all(store: SqliteStore, heads: dict[str, int]) -> None:
    assert {info.name: info.head for info in store.sessions()} == heads
    for name, head in heads.items():
        assert list(store.read(name)) == wanted(name, head)


def test_one_is_packed_in_a_commit_and_dead_batches_go(tmp_path: Path) -> None:
    steps: list[str] = []
    store = SqliteStore(tmp_path, step=steps.append)
    most = 0
    for number in range(1, 200):
        steps.clear()
        arrive(store, number, number)
        assert steps.count("pack sealed") <= 1, "nobody waits for the packs of all others"
        most = max(most, batches_of(store))
    check_all(store, dict.fromkeys(ROOMS, 199))
    assert most < 80, "as many as one session has loose, and some"
    assert all(sum(held for _, _, held in each if held == 1) < 80 for each in rows(tmp_path).values())
    store.close()
    again = SqliteStore(tmp_path)
    check_all(again, dict.fromkeys(ROOMS, 199))
    arrive(again, 200, 200)
    assert batches_of(again) <= most
    again.close()


def test_a_crowd_of_many_is_packed_in_time(tmp_path: Path) -> None:
    """All of them come to 64 in the same commit; the last one's turn is before it has too many."""
    names = [f"s{number}" for number in range(70)]
    store = SqliteStore(tmp_path)
    for head in range(130):
        together(store, dict.fromkeys(names, head), [b"record %d" % (head + 1)])
        if head in (64, 100, 129):
            loose = max(sum(held for _, _, held in each if held == 1) for each in rows(tmp_path).values())
            assert loose < MOST_LOOSE
    for name in names:
        assert list(store.read(name)) == [b"record %d" % number for number in range(1, 131)]
    store.close()


def test_what_lives_long_goes_to_its_place(tmp_path: Path) -> None:
    """One says a word and is silent, while the others go on until there would be too many batches."""
    store = SqliteStore(tmp_path)
    assert together(store, {"idle": 0, **dict.fromkeys(ROOMS, 0)}) == [1] * 6
    assert rows(tmp_path)["idle"] == [("arrived", 1, 1)]
    for number in range(2, sqlite_batches.MOST + 2):
        arrive(store, number, number)
        assert batches_of(store) <= sqlite_batches.MOST
    assert rows(tmp_path)["idle"] == [("placed", 1, 1)]
    check_all(store, {"idle": 1, **dict.fromkeys(ROOMS, sqlite_batches.MOST + 1)})
    alone(store, "idle", 2, 3)
    store.close()


def test_a_large_record_is_at_its_place(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    large = random.Random(1).randbytes(100_000)
    assert together(store, dict.fromkeys(ROOMS, 0), [large]) == [1] * 5
    assert batches_of(store) == 0
    arrive(store, 2, 2)
    assert {tuple(each) for each in rows(tmp_path).values()} == {(("placed", 1, 1), ("arrived", 2, 1))}
    assert list(store.read("c")) == [large, noise(2, "c")]
    store.close()


def test_another_packs_meanwhile_and_all_is_seen(tmp_path: Path) -> None:
    """What the other has packed is dead in the batches that we have in mind, and what it has not packed lives."""
    store, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    arrive(store, 1, 40)
    alone(other, "a", 41, 70)  # packs what came with others
    arrive(other, 41, 60, ROOMS[1:])
    with pytest.raises(Stale):
        together(store, {"a": 40, **dict.fromkeys(ROOMS[1:], 60)})
    heads = {"a": 70, **dict.fromkeys(ROOMS[1:], 61)}
    for each in (store, other):
        check_all(each, heads)
    store.fork("a", 66, "fork")
    assert list(other.read("fork")) == wanted("a", 66)
    other.delete("fork")
    store.delete("b")
    del heads["b"]
    for turn in range(80):
        each = (store, other)[turn % 2]
        heads = dict(zip(heads, together(each, heads), strict=True))
    for each in (store, other):
        check_all(each, heads)
        each.close()


@pytest.mark.parametrize("where", ["packed row inserted", "batches scattered"])
@pytest.mark.parametrize("then", ["fork", "delete", "rewrite", "append"])
def test_a_commit_that_fails_leaves_what_lived(where: str, then: str, tmp_path: Path) -> None:
    """A session is packed in it, or a batch removed; what was in mind of that is forgotten with it."""
    armed: list[str] = []

    def step(name: str) -> None:
        if name in armed:
            armed.clear()
            raise KeyboardInterrupt

    store = SqliteStore(tmp_path, step=step)
    last = 63 if where != "batches scattered" else 69
    arrive(store, 1, last)
    armed.append(where)
    with pytest.raises(KeyboardInterrupt):
        arrive(store, last + 1, last + 1)
    assert not armed, "it came to that"
    heads = dict.fromkeys(ROOMS, last)
    if then == "fork":
        store.fork("c", 30, "fork")
        assert list(store.read("fork")) == wanted("c", 30)
        store.delete("fork")
    elif then == "delete":
        store.delete("e")
        del heads["e"]
    elif then == "rewrite":
        store.rewrite("e", {3: noise(3, "e")})
    else:
        alone(store, "a", last + 1, last + 3)
        heads["a"] += 3
    check_all(store, heads)
    store.close()
    again = SqliteStore(tmp_path)
    check_all(again, heads)
    again.close()


def in_a_child(work: Callable[[], None]) -> bool:
    """True if it came to its end, False if it was killed."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def test_killed_at_every_step_of_a_commit_of_many(tmp_path: Path) -> None:
    """In each of them a session is packed, and in the last ones a batch goes: all of it is there, or nothing."""
    store = SqliteStore(tmp_path / "whole")
    arrive(store, 1, 66)
    store.close()
    met: list[str] = []
    for kill in range(1, 100):
        place = tmp_path / str(kill)
        place.mkdir()
        (place / FILE).write_bytes((tmp_path / "whole" / FILE).read_bytes())
        told = place / "told"

        def work(kill: int = kill, place: Path = place, told: Path = told) -> None:
            steps: list[str] = []

            def step(said: str) -> None:
                steps.append(said)
                if len(steps) == kill:
                    told.write_text(f"{number} {said}")
                    os.kill(os.getpid(), signal.SIGKILL)

            number = 0
            store = SqliteStore(place, step=step)
            for number in range(67, 71):
                arrive(store, number, number)

        if in_a_child(work):
            break
        number, name = told.read_text().split(" ", 1)
        met.append(name)
        head = int(number) - (name != "committed") if number != "0" else 66
        store = SqliteStore(place)
        check_all(store, dict.fromkeys(ROOMS, head))
        arrive(store, head + 1, 70)
        check_all(store, dict.fromkeys(ROOMS, 70))
        store.close()
    else:
        raise AssertionError("it never came to its end")
    assert {"rows inserted", "pack sealed", "packed row inserted", "batches scattered", "committed"} <= set(met)


def test_what_was_forgotten_is_in_no_batch(tmp_path: Path) -> None:
    """Dead or alive: what a session said leaves the disk when that is rewritten or removed. Others lose nothing."""
    secret = b"what nobody should have seen " * 3
    store = SqliteStore(tmp_path)
    arrive(store, 1, 10)
    assert together(store, dict.fromkeys(ROOMS, 10), [secret]) == [11] * 5
    for number in range(12, 65):
        arrive(store, number, number)
    on_disk = (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()
    assert on_disk.count(secret) >= 5
    for name in ROOMS[:4]:
        store.rewrite(name, {11: noise(11, name)})
    assert list(store.read("e"))[10] == secret
    store.delete("e")
    assert secret not in (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()
    check_all(store, dict.fromkeys(ROOMS[:4], 64))
    store.close()
