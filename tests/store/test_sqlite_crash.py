"""Processes that write to a SQLite store, killed, crowded and starved: what was acknowledged is there, and no more."""

import random
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import tidegate
from tests.memory.dying import ended, started
from tests.scale import scaled
from tests.store.sqlite_child import CHANGES, make_changes, record, records
from tidegate.core.errors import NotKept
from tidegate.store.errors import SessionNotFound
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.rows import PACK_RECORDS
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


STEPS = set(
    "migration made,migration noted,migrations committed,file written,file published,folder synced,"
    "begun,session created,session saved,rows inserted,recent rows deleted,packed rows inserted,"
    "committed,rows copied,row rewritten,rows deleted,session deleted,vacuum requested,file vacuumed".split(",")
)


def steps_of_changes(folder: Path) -> list[str]:
    names: list[str] = []
    make_changes(folder, names.append)
    return [name for name in names if name != "done"]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["some", "every"])
def test_killed_at_a_step(every: bool, tmp_path: Path) -> None:
    """At the first step of each name, or at all of them."""
    names = steps_of_changes(tmp_path / "whole")
    assert set(names) == STEPS
    numbers = [number for number, name in enumerate(names, 1) if every or name not in names[: number - 1]]
    wanted = states()
    heard = start("steps", tmp_path, *numbers, len(names) + 1).communicate()[0].split("end\n")[:-1]
    assert heard.pop().endswith("whole\n")
    for number, lines in zip(numbers, heard, strict=True):
        said = lines.split("\n")[:-1]
        done, kept = said.count("done"), said.count("committed")
        assert done <= kept <= done + 1
        assert said[-1] == f"at {names[number - 1]}"
        store = SqliteStore(tmp_path / str(number))
        assert state_of(store) == wanted[kept], f"killed at step {number}: {said[-1]}"
        for change in CHANGES[kept:]:
            change(store)
        assert state_of(store) == wanted[-1], f"going on after step {number}: {said[-1]}"
        store.close()
    store = SqliteStore(tmp_path / str(len(names) + 1))
    assert state_of(store) == wanted[-1]
    store.close()


def test_killed_between_appends(tmp_path: Path) -> None:
    """When it has acknowledged some more of them, wherever it is then."""
    rng = random.Random(11)
    acknowledged = head = 0
    for _ in range(scaled(4)):
        child = start("stream", tmp_path / "data")
        assert child.stdout is not None
        begun = int(child.stdout.readline().split()[1])
        assert begun >= acknowledged
        for _ in range(rng.randrange(10, 40)):
            assert child.stdout.readline()
        child.kill()
        heard = child.communicate()[0].split("\n")[:-1]
        acknowledged = int(heard[-1]) if heard else begun
        store = SqliteStore(tmp_path / "data")
        head = store.head("s")
        assert head >= acknowledged
        assert list(store.read("s")) == records(1, head)
        store.close()
    assert head > PACK_RECORDS


def test_killed_while_threads_write_together(tmp_path: Path) -> None:
    """When each thread has had several appends acknowledged, wherever they are then."""
    acknowledged = dict.fromkeys([f"s{number}" for number in range(8)], 0)
    for least in (4, 12):
        child = start("crowd", tmp_path / "data")
        assert child.stdout is not None
        while min(acknowledged.values()) < least:
            hear(child.stdout.readline(), acknowledged)
        child.kill()
        for line in child.communicate()[0].split("\n")[:-1]:
            hear(line, acknowledged)
        store = SqliteStore(tmp_path / "data")
        for session, told in acknowledged.items():
            head = store.head(session)
            assert head >= told
            assert list(store.read(session)) == records(1, head)
        store.close()


def test_threads_write_together_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    child = start("outlive", tmp_path / "data")
    acknowledged: dict[str, int] = {}
    for line in child.communicate()[0].splitlines():
        hear(line, acknowledged)
    assert acknowledged == {f"s{number}": 50 for number in range(4)}


def hear(line: str, acknowledged: dict[str, int]) -> None:
    session, told = line.split()
    acknowledged[session] = int(told)


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
    while min(outcomes.values()) < 4:
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


def append_until_refused(folder: Path, size: int, note: Path) -> None:
    """Append until a file would grow beyond that. Write down the head that was acknowledged."""
    store = SqliteStore(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    head = 0
    with suppress(NotKept):
        while True:
            head = store.append("s", head, records(head + 1, head + 3))
    assert store.head("s") == head == len(list(store.read("s")))
    note.write_text(str(head))


@pytest.mark.parametrize("size", [40_000, 63_000, 121_111, 150_000])
def test_no_file_may_grow(size: int, tmp_path: Path) -> None:
    """The system refuses the write that goes over the quota, wherever in a transaction that is."""
    note = tmp_path / "acknowledged"
    assert ended(started(lambda: append_until_refused(tmp_path / "data", size, note))) == 0
    acknowledged = int(note.read_text())
    store = SqliteStore(tmp_path / "data")
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
