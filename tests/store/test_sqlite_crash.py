"""Processes that write to a SQLite store, killed, crowded and starved: what was acknowledged is there, and no more."""

import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidegate
from tests.store.sqlite_child import CHANGES, record, records
from tidegate.core.errors import NotKept
from tidegate.store.errors import SessionNotFound
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import Store

CHILD = Path(__file__).with_name("sqlite_child.py")
State = dict[str, list[bytes]]


def start(*words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, str(CHILD), *map(str, words)]
    source = str(Path(tidegate.__file__).parents[1])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source})


def state_of(store: Store) -> State:
    return {info.name: list(store.read(info.name)) for info in store.sessions()}


def states() -> list[State]:
    """What the store holds before the first change and after each."""
    store = MemoryStore()
    found: list[State] = [{}]
    for change in CHANGES:
        change(store)
        found.append(state_of(store))
    return found


def test_killed_at_every_step(tmp_path: Path) -> None:
    wanted = states()
    met: set[str] = set()
    heard = start("steps", tmp_path).communicate()[0].split("end\n")[:-1]
    for number, lines in enumerate(heard, 1):
        said = lines.split("\n")[:-1]
        done, kept = said.count("done"), said.count("committed")
        assert done <= kept <= done + 1
        store = SqliteStore(tmp_path / str(number))
        found = state_of(store)
        if said[-1] == "whole":
            assert found == wanted[-1]
            store.close()
            break
        step = said[-1].removeprefix("at ")
        met.add(step)
        assert found == wanted[kept], f"killed at step {number}: {step}"
        for change in CHANGES[kept:]:
            change(store)
        assert state_of(store) == wanted[-1], f"going on after step {number}: {step}"
        store.close()
    else:
        raise AssertionError("the child never came to its end")
    assert met == set(
        "migration made,migration noted,migrations committed,file written,file published,folder synced,"
        "begun,session created,session saved,rows inserted,recent rows deleted,packed rows inserted,"
        "committed,rows copied,row rewritten,rows deleted,session deleted,vacuum requested,file vacuumed".split(",")
    )


def test_killed_at_random_times(tmp_path: Path) -> None:
    rng = random.Random(11)
    acknowledged = 0
    for _ in range(8):
        child = start("stream", tmp_path / "data")
        assert child.stdout is not None
        begun = int(child.stdout.readline().split()[1])
        assert begun >= acknowledged
        time.sleep(rng.uniform(0, 0.25))
        child.kill()
        heard = child.communicate()[0].split("\n")[:-1]
        acknowledged = int(heard[-1]) if heard else begun
        store = SqliteStore(tmp_path / "data")
        head = store.head("s")
        assert head >= acknowledged
        assert list(store.read("s")) == records(1, head) if head else acknowledged == 0
        store.close()
    assert acknowledged > 64


def test_killed_while_threads_write_together(tmp_path: Path) -> None:
    rng = random.Random(12)
    acknowledged = dict.fromkeys([f"s{number}" for number in range(8)], 0)
    for _ in range(4):
        child = start("crowd", tmp_path / "data")
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        for line in child.communicate()[0].split("\n")[:-1]:
            session, told = line.split()
            acknowledged[session] = int(told)
        store = SqliteStore(tmp_path / "data")
        for session, least in acknowledged.items():
            head = store.head(session)
            assert head >= least
            assert (list(store.read(session)) if head else []) == records(1, head)
        store.close()
    assert min(acknowledged.values()) > 10


def test_processes_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    """Nothing is there when they start: they also make the file beside each other."""
    names = ["red", "green", "blue"]
    children = [start("race", tmp_path / "data", name) for name in names]
    acknowledged = [line for child in children for line in child.communicate()[0].splitlines()]
    assert [child.returncode for child in children] == [0, 0, 0]
    store = SqliteStore(tmp_path / "data")
    found = [entry.decode() for entry in store.read("s")]
    store.close()
    assert len(acknowledged) == 60 * len(names)
    assert sorted(acknowledged) == sorted(f"{place} {entry}" for place, entry in enumerate(found, 1))
    for name in names:
        assert [entry for entry in found if entry.startswith(name)] == [f"{name} {number}" for number in range(60)]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["tidegate.db"]


def test_a_reader_beside_a_writer_sees_no_damage(tmp_path: Path) -> None:
    """Rows are packed, copied and deleted under it: it reads the right records, or that the session is gone."""
    child = start("churn", tmp_path)
    assert child.stdout is not None
    child.stdout.readline()
    store = SqliteStore(tmp_path)
    outcomes = {"read": 0, "gone": 0}
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            found = list(store.read("s", 2))
        except SessionNotFound:
            outcomes["gone"] += 1
        else:
            assert found == records(2, len(found) + 1)
            outcomes["read"] += 1
    child.kill()
    child.communicate()
    store.close()
    assert min(outcomes.values()) > 3, outcomes


@pytest.mark.parametrize("size", [40_000, 63_000, 121_111, 150_000])
def test_no_file_may_grow(size: int, tmp_path: Path) -> None:
    """The system refuses the write that goes over the quota, wherever in a transaction that is."""
    said = start("quota", tmp_path, size).communicate()[0].split("\n")[:-1]
    assert said[-1] == "refused"
    acknowledged = int(said[-2])
    store = SqliteStore(tmp_path)
    assert list(store.read("s")) == records(1, acknowledged)
    assert store.append("s", acknowledged, [b"on"]) == acknowledged + 1
    store.close()


@pytest.mark.parametrize("size", [1, 4_096, 5_000, 9_000, 20_000, 200_000])
def test_a_file_that_cannot_be_made_whole_is_not_there(size: int, tmp_path: Path) -> None:
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, whole[1]))
    try:
        SqliteStore(tmp_path / "data").close()
        made = True
    except NotKept:
        made = False
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    assert made == (size == 200_000), "the last is room enough, or this test would show nothing"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["tidegate.db"] * made
    store = SqliteStore(tmp_path / "data")
    assert store.append("s", 0, [b"x"]) == 1
    store.close()


def fill(store: Store) -> int:
    """Append until it is refused. Gives the head that was acknowledged last."""
    for head in range(5000):
        try:
            assert store.append("s", head, [random.Random(head).randbytes(500 + head)]) == head + 1
        except NotKept:
            return head
    raise AssertionError("it never became full")


@pytest.mark.parametrize("pages", [10, 17, 40])
def test_the_database_is_full(pages: int, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, limit=pages * 4096)
    head = fill(store)
    with pytest.raises(NotKept, match="full"):
        store.append("s", head, [random.Random(head).randbytes(500 + head)])
    wanted = [random.Random(place).randbytes(500 + place) for place in range(head)]
    assert head > 3
    assert list(store.read("s")) == wanted
    with pytest.raises(NotKept):
        store.append("s", head, [bytes(9) * 100, random.Random(0).randbytes(300_000)])
    assert list(store.read("s")) == wanted
    store.close()
    store = SqliteStore(tmp_path)
    assert store.append("s", head, [record(1)]) == head + 1
    assert list(store.read("s")) == [*wanted, record(1)]
    store.close()
