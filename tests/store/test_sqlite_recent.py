"""Recent rows: what sessions append at once or alone, before it is packed, is read, copied and removed as all else."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.memory.dying import ended, started
from tests.scale import scaled
from tests.store.sqlite_files import FILE, change, noise, open_with_connection, together
from tests.store.test_sqlite_damage import salvage
from tidegate.store.errors import DamagedData, SessionNotFound, StaleHead
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.store import MAX_CACHED_BYTES, MAX_PACKS

ROOMS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path)
    yield store
    store.close()


def arrive(store: SqliteStore, first: int, last: int, rooms: list[str] = ROOMS) -> None:
    """The next records of several sessions, one of each in a commit."""

    async def act() -> None:
        for number in range(first, last + 1):
            told = (store.append_async(name, number - 1, [noise(number, name)]) for name in rooms)
            assert await asyncio.gather(*told) == [number] * len(rooms)

    asyncio.run(act())


def alone(store: SqliteStore, session: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert store.append(session, number - 1, [noise(number, session)]) == number


def wanted(session: str, last: int) -> list[bytes]:
    return [noise(number, session) for number in range(1, last + 1)]


def rows(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Of each session: the first number and the length of its packed rows, and (number, 0) for a recent one."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        found = {}
        for name, session in db.execute("SELECT name, id FROM sessions").fetchall():
            span = (session << 36, (session + 1) << 36)
            packed = db.execute("SELECT id % (1 << 36), count FROM packed_rows WHERE id > ? AND id < ?", span)
            recent = db.execute("SELECT id % (1 << 36), 0 FROM recent_rows WHERE id > ? AND id < ? ORDER BY id", span)
            found[name] = packed.fetchall() + recent.fetchall()
        return found


def check_all(store: SqliteStore, heads: dict[str, int]) -> None:
    assert {info.name: info.head for info in store.sessions()} == heads
    for name, head in heads.items():
        assert list(store.read(name)) == wanted(name, head)


def recent(numbers: range) -> list[tuple[int, int]]:
    return [(number, 0) for number in numbers]


# --- reading and packing ----------------------------------------------------------------------------------------------


def test_what_came_together_and_what_came_alone_is_one_log(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path)
    arrive(store, 1, 3)
    alone(store, "a", 4, 6)
    alone(other, "b", 4, 5)
    together(store, {"a": 6, "b": 5, "c": 3, "d": 3}, [b"x", b"y"])
    alone(store, "a", 9, 10)
    assert rows(tmp_path)["e"] == recent(range(1, 4))
    assert rows(tmp_path)["a"] == recent(range(1, 11))
    all_of_a = [*wanted("a", 6), b"x", b"y", noise(9, "a"), noise(10, "a")]
    again = SqliteStore(tmp_path)
    for each in (store, other, again):
        assert {info.name: info.head for info in each.sessions()} == {"a": 10, "b": 7, "c": 5, "d": 5, "e": 3}
        for number in range(1, 12):
            assert list(each.read("a", number)) == all_of_a[number - 1 :]
        assert list(each.read("b")) == [*wanted("b", 5), b"x", b"y"]
    assert store.sessions() == other.sessions()
    other.close()
    again.close()


def test_sixty_four_are_packed_whoever_appended_them(store: SqliteStore, tmp_path: Path) -> None:
    arrive(store, 1, 30)
    alone(store, "a", 31, 40)
    arrive(store, 31, 63, ROOMS[1:])
    other = SqliteStore(tmp_path)
    alone(other, "b", 64, 64)  # has to read what it packs
    alone(store, "a", 41, 63)
    arrive(store, 64, 67, ["a", "c", "d", "e"])
    found = rows(tmp_path)
    assert found["b"] == [(1, 64)]
    for name in "acde":
        assert found[name] == [(1, 64), *recent(range(65, 68))]
        assert list(other.read(name)) == wanted(name, 67)
    alone(store, "b", 65, 128)
    arrive(store, 68, 135, ["a", "c", "d", "e"])
    check_all(other, {"b": 128, **dict.fromkeys("acde", 135)})
    assert store.sessions() == other.sessions()
    other.close()


def test_a_crowd_is_packed_in_parts_and_in_time(tmp_path: Path) -> None:
    """All come to 64 in the same commit: nobody waits until hundreds are packed, and nobody is forgotten."""
    names = [f"s{number}" for number in range(MAX_PACKS + 10)]
    steps: list[str] = []
    store = SqliteStore(tmp_path, step=steps.append)
    for head in range(70):
        steps.clear()
        together(store, dict.fromkeys(names, head), [b"record %d" % (head + 1)])
        assert steps.count("packed rows inserted") == {63: MAX_PACKS, 64: 10}.get(head, 0)
    for name in names:
        assert list(store.read(name)) == [b"record %d" % number for number in range(1, 71)]
    assert {each[0] for each in rows(tmp_path).values()} == {(1, 64)}
    store.close()


def test_large_records_are_packed_at_once(store: SqliteStore, tmp_path: Path) -> None:
    log = [random.Random(number).randbytes(200_000) for number in range(24)]
    for head, record in enumerate(log):
        if head % 3:
            together(store, dict.fromkeys(ROOMS[1:], head), [record])
        else:
            for name in ROOMS[1:]:
                store.append(name, head, [record])
    assert rows(tmp_path)["c"] == [(number, 2) for number in range(1, 24, 2)]
    for start in (1, 2, 5, 24):
        assert list(store.read("c", start)) == log[start - 1 :]


def test_more_than_is_kept_in_memory(store: SqliteStore) -> None:
    """What is not packed of many sessions is more than the cache takes: it is read back to be packed."""
    names = [f"s{number}" for number in range(MAX_CACHED_BYTES // 240_000 + 10)]
    for head in range(3):
        together(store, dict.fromkeys(names, head), [b"%d" % head * 80_000])
    for name in names:
        assert store.append(name, 3, [b"x"]) == 4
    for name in names[::50]:
        assert list(store.read(name)) == [b"0" * 80_000, b"1" * 80_000, b"2" * 80_000, b"x"]


def test_another_process_sees_them_and_goes_on_after_them(store: SqliteStore, tmp_path: Path) -> None:
    alone(store, "a", 1, 2)
    code = (
        "import sys; from tests.store.sqlite_files import *; store = SqliteStore(sys.argv[1])\n"
        "print(store.append('a', 2, [noise(3, 'a')]), flush=True); input()\n"
        "try: store.append('a', 3, [b'late'])\n"
        "except Exception as fault: print(type(fault).__name__)\n"
        "print(store.head('a'), store.append('a', 4, [noise(5, 'a')]), store.append('a', 5, [noise(6, 'a')]))\n"
        "store.close()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "3\n"
        together(store, {"a": 3, "b": 0, "c": 0, "d": 0})
        assert child.communicate("\n")[0].split("\n") == ["StaleHead", "4 5 6", ""]
    assert list(store.read("a")) == wanted("a", 6)
    with pytest.raises(StaleHead):
        store.append("a", 4, [b"late"])


def test_one_who_is_late_in_a_crowd_is_refused_alone(store: SqliteStore, tmp_path: Path) -> None:
    """What another process did is noticed though all of them are cached; the others are written."""
    other = SqliteStore(tmp_path)
    arrive(store, 1, 40)
    alone(other, "a", 41, 70)  # packs what came with others
    arrive(other, 41, 60, ROOMS[1:])
    with pytest.raises(StaleHead):
        together(store, {"a": 40, **dict.fromkeys(ROOMS[1:], 60)})
    heads = {"a": 70, **dict.fromkeys(ROOMS[1:], 61)}
    for each in (store, other):
        check_all(each, heads)
    store.delete("b")
    del heads["b"]
    for turn in range(80):
        each = (store, other)[turn % 2]
        heads = dict(zip(heads, together(each, heads), strict=True))
    for each in (store, other):
        check_all(each, heads)
    other.close()


# --- changing ---------------------------------------------------------------------------------------------------------


def test_they_are_copied_rewritten_and_removed_as_all_others(store: SqliteStore, tmp_path: Path) -> None:
    arrive(store, 1, 70)
    alone(store, "a", 71, 72)
    arrive(store, 71, 75, ROOMS[1:])
    store.fork("a", 70, "fork")
    store.fork("b", 66, "fork of b")
    store.rewrite("a", {3: b"[gone]", 69: b"[gone]", 72: b"[gone]"})
    store.delete("c")
    changed = wanted("a", 72)
    changed[2] = changed[68] = changed[71] = b"[gone]"
    again = SqliteStore(tmp_path)
    for each in (store, again):
        assert list(each.read("a")) == changed
        assert list(each.read("fork")) == wanted("a", 70)
        assert list(each.read("fork of b")) == wanted("b", 66)
        assert list(each.read("b")) == wanted("b", 75)
        with pytest.raises(SessionNotFound):
            each.read("c")
    alone(again, "fork", 71, 71)
    assert again.append("fork of b", 66, [b"on"]) == 67
    assert together(again, {"a": 72, "b": 75, "c": 0, "d": 75}) == [73, 76, 1, 76]
    assert list(store.read("c")) == wanted("c", 1)
    again.close()


@pytest.mark.parametrize("last", [11, 64], ids=["recent", "packed"])
def test_what_was_forgotten_is_not_on_the_disk(last: int, store: SqliteStore, tmp_path: Path) -> None:
    secret = b"what nobody should have seen " * 3
    arrive(store, 1, 10)
    assert together(store, dict.fromkeys(ROOMS, 10), [secret]) == [11] * 5
    arrive(store, 12, last)
    on_disk = (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()
    assert on_disk.count(secret) >= 5
    for name in ROOMS[:4]:
        store.rewrite(name, {11: noise(11, name)})
    assert list(store.read("e"))[10] == secret
    store.delete("e")
    assert secret not in (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()
    check_all(store, dict.fromkeys(ROOMS[:4], last))


FAULTS = ("session saved", "rows inserted", "recent rows deleted", "packed rows inserted")
LATER = ("fork", "delete", "rewrite", "append")


@pytest.mark.parametrize(
    ("where", "then"),
    [
        pytest.param(where, then, marks=[pytest.mark.exhaustive] * (place != other))
        for place, where in enumerate(FAULTS)
        for other, then in enumerate(LATER)
    ],
)
def test_a_commit_that_fails_leaves_all_as_it_was(where: str, then: str, tmp_path: Path) -> None:
    """What was cached of the sessions is forgotten with it."""
    armed: list[str] = []

    def step(name: str) -> None:
        if name in armed:
            armed.clear()
            raise KeyboardInterrupt

    store = SqliteStore(tmp_path, step=step)
    arrive(store, 1, 63)
    alone(store, "a", 64, 64)
    armed.append(where)
    with pytest.raises(KeyboardInterrupt):
        together(store, {"a": 64, **dict.fromkeys(ROOMS[1:], 63)}, [b"not kept"])
    assert not armed, "it came to that"
    heads = {"a": 64, **dict.fromkeys(ROOMS[1:], 63)}
    check_all(store, heads)
    if then == "fork":
        store.fork("c", 30, "fork")
        assert list(store.read("fork")) == wanted("c", 30)
        store.delete("fork")
    elif then == "delete":
        store.delete("e")
        del heads["e"]
    elif then == "rewrite":
        store.rewrite("e", {3: noise(3, "e")})
    heads = dict(zip(heads, together(store, heads), strict=True))
    check_all(store, heads)
    store.close()
    again = SqliteStore(tmp_path)
    check_all(again, heads)
    again.close()


def append_in_turn(folder: Path, step: Callable[[int, str], None]) -> None:
    """Three commits of all sessions, telling of each step in them. In the first one all of them are packed."""
    number = 0
    store = SqliteStore(folder, step=lambda name: step(number, name))
    for number in range(64, 67):
        arrive(store, number, number)
    store.close()


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["some", "every"])
def test_killed_at_a_step_of_a_commit_of_many(every: bool, tmp_path: Path) -> None:
    """At the first step of each name, or at all of them: all of the commit is there, or nothing."""
    store = SqliteStore(tmp_path / "whole")
    arrive(store, 1, 63)
    store.close()
    whole = (tmp_path / "whole" / FILE).read_bytes()
    steps: list[tuple[int, str]] = []
    append_in_turn(tmp_path / "whole", lambda number, name: steps.append((number, name)))
    names = [name for _, name in steps]
    assert {"rows inserted", "recent rows deleted", "packed rows inserted", "session saved", "committed"} <= set(names)
    for place, (number, name) in enumerate(steps):
        if not every and name in names[:place]:
            continue
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / FILE).write_bytes(whole)
        left = [place]

        def step(_number: int, _name: str, left: list[int] = left) -> None:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        assert ended(started(lambda folder=folder, step=step: append_in_turn(folder, step))) == -signal.SIGKILL  # type: ignore[misc]
        head = max(63, number - (name != "committed"))
        store = SqliteStore(folder)
        check_all(store, dict.fromkeys(ROOMS, head))
        arrive(store, head + 1, 70)
        check_all(store, dict.fromkeys(ROOMS, 70))
        store.close()


def test_no_table_is_read_from_end_to_end(tmp_path: Path) -> None:
    """The statements of the store, as SQLite would run them."""
    said: set[str] = set()
    store, db = open_with_connection(tmp_path)
    db.set_trace_callback(said.add)
    for number in range(1, 131):
        alone(store, "a", number, number)
        arrive(store, number, number, ROOMS[1:])
    for name in ROOMS:
        assert len(list(store.read(name, 129))) == 2
    store.fork("a", 65, "f")
    store.rewrite("b", {7: b"x"})
    db.set_trace_callback(None)
    plans: list[str] = []
    for statement in sorted(said):
        if statement.startswith(("SELECT", "INSERT", "DELETE", "UPDATE")):
            plans += [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
    store.close()
    assert any("SEARCH recent_rows" in plan for plan in plans)
    assert any("SEARCH packed_rows" in plan for plan in plans)
    assert [plan for plan in plans if "SCAN" in plan and "CONSTANT ROW" not in plan] == []


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE recent_rows SET data = x'00'",
        "UPDATE recent_rows SET sum = zeroblob(32)",
        "UPDATE recent_rows SET data = 'text'",
        "UPDATE recent_rows SET id = id + (1 << 30)",
        "DELETE FROM recent_rows",
    ],
)
def test_a_damaged_record_is_named_and_gets_no_new_seal(damage: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    arrive(store, 1, 10)
    store.close()
    change(tmp_path, f"{damage} WHERE id = (1 << 36) + 7")
    store = SqliteStore(tmp_path)
    with pytest.raises(DamagedData, match="Records 7 to 7 of session 'a'"):
        list(store.read("a"))
    alone(store, "a", 11, 70)
    assert salvage(store, "a") == {number: noise(number, "a") for number in range(1, 71) if number != 7}
    for name in ROOMS[1:]:
        assert list(store.read(name)) == wanted(name, 10)
    store.rewrite("a", {7: b"lost"})
    assert len(list(store.read("a"))) == 70
    store.close()


@pytest.mark.parametrize("last", [5, 8], ids=["the last one", "one before"])
def test_nobody_gets_the_record_of_another(last: int, tmp_path: Path) -> None:
    """Record 5 of two sessions, each with the other's number: each is whole, and not where it belongs."""
    store = SqliteStore(tmp_path)
    arrive(store, 1, last)
    store.close()
    one, two = (1 << 36) + 5, (2 << 36) + 5
    changes = ((one, 7), (two, one), (7, two))
    change(tmp_path, *(f"UPDATE recent_rows SET id = {new} WHERE id = {old}" for old, new in changes))
    again = SqliteStore(tmp_path)
    for name in ("a", "b"):
        assert again.head(name) == last
        assert salvage(again, name) == {number: noise(number, name) for number in range(1, last + 1) if number != 5}
    assert list(again.read("c")) == wanted("c", last)
    again.close()


def pages_of(path: Path, name: str) -> list[tuple[int, int]]:
    """Where the leaf pages of a table or an index begin in the file, and how many rows are on each."""
    with closing(sqlite3.connect(path)) as db:
        ask = "SELECT pageno, ncell FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        return [((page - 1) * 4096, cells) for page, cells in db.execute(ask, (name,))]


def test_a_damaged_page_hides_nothing_else(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    alone(store, "alone", 1, 64)
    arrive(store, 1, 60)
    store.close()
    path = tmp_path / FILE
    pages = pages_of(path, "recent_rows")
    middle, on_page = pages[len(pages) // 2]
    content = path.read_bytes()
    path.write_bytes(content[:middle] + b"\xff" * 100 + content[middle + 100 :])
    store = SqliteStore(tmp_path)
    assert list(store.read("alone")) == wanted("alone", 64)
    assert {info.name: info.head for info in store.sessions()} == {"alone": 64, **dict.fromkeys(ROOMS, 60)}
    lost = 0
    for name in ROOMS:
        found = salvage(store, name)
        assert found.items() <= dict(enumerate(wanted(name, 60), 1)).items()
        lost += 60 - len(found)
    assert lost == on_page
    alone(store, "alone", 65, 70)
    store.close()


@pytest.mark.parametrize("places", ["''", "',1,2,3,99,x,5'", "7", "places || ',12345'"])
def test_places_that_are_wrong_hide_nothing(places: str, tmp_path: Path) -> None:
    """They only say where to look first: a row is known by its own number."""
    store = SqliteStore(tmp_path)
    arrive(store, 1, 30)
    store.close()
    change(tmp_path, f"UPDATE sessions SET places = {places} WHERE name = 'b'")
    store = SqliteStore(tmp_path)
    check_all(store, dict.fromkeys(ROOMS, 30))
    arrive(store, 31, 70)
    check_all(store, dict.fromkeys(ROOMS, 70))
    store.close()
    assert rows(tmp_path)["b"] == [(1, 64), *recent(range(65, 71))], "nothing is left behind"


def test_flipped_bytes_never_pass_for_records(tmp_path: Path) -> None:
    """A bit anywhere in a file, most of which are recent rows."""
    store = SqliteStore(tmp_path / "whole")
    arrive(store, 1, 60)
    store.close()
    whole = (tmp_path / "whole" / FILE).read_bytes()
    rng = random.Random(7)
    lost: list[int] = []
    for attempt in range(scaled(30)):
        place, bit = rng.randrange(4096, len(whole)), 1 << rng.randrange(8)
        (tmp_path / f"{attempt}").mkdir()
        (tmp_path / f"{attempt}" / FILE).write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        store = SqliteStore(tmp_path / f"{attempt}")
        for name in ROOMS:
            try:
                found = salvage(store, name)
            except (DamagedData, SessionNotFound):
                found = {}
            assert found.items() <= dict(enumerate(wanted(name, 60), 1)).items()
            lost.append(60 - len(found))
        store.close()
    assert sum(map(bool, lost)) >= len(lost) / 10, "most flips hit records, or the test would show nothing"
    assert sum(number > 4 for number in lost) <= len(lost) / 30, "more is lost only if a page of a tree is hit"


@pytest.mark.parametrize(("part", "least"), [(0.5, 60), (0.9, 240)])
def test_what_is_left_of_a_truncated_file_can_be_had(part: float, least: int, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    arrive(store, 1, 60)
    store.close()
    path = tmp_path / FILE
    size = path.stat().st_size
    os.truncate(path, int(part * size))
    with pytest.raises(DamagedData):
        SqliteStore(tmp_path)
    os.truncate(path, size)  # zeros where something stood
    store = SqliteStore(tmp_path)
    found = {name: salvage(store, name) for name in ROOMS}
    store.close()
    assert all(some.items() <= dict(enumerate(wanted(name, 60), 1)).items() for name, some in found.items())
    assert least <= sum(map(len, found.values())) < 300
