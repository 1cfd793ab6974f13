"""What many sessions said in one commit lies in one row, and is read, copied, changed and removed as all else."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, first_version, noise, together
from tests.store.test_sqlite_damage import salvage
from tidegate.store.errors import Broken, Missing, Stale
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_batches import Batches
from tidegate.store.sqlite_file import MIGRATIONS

ROOMS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path)
    yield store
    store.close()


def arrive(store: SqliteStore, first: int, last: int, rooms: list[str] = ROOMS) -> None:
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


def rows(folder: Path) -> dict[str, list[tuple[str, int, int]]]:
    """Of each session, by its name: where its rows are, where each begins, and how many records it holds."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    with closing(sqlite3.connect(folder / FILE)) as db:
        batches = Batches(db)
        batches.look()
        for name, session, packed in db.execute("SELECT name, id, packed FROM sessions").fetchall():
            span = (session << 36, (session + 1) << 36)
            placed = db.execute("SELECT id % (1 << 36), count FROM placed WHERE id > ? AND id < ?", span)
            each = [("placed", place, held) for place, held in placed]
            each += [("arrived", place.first, place.held) for place in batches.of(session, packed)]
            found[name] = sorted(each, key=lambda row: row[1])
    return found


def spoil(folder: Path, session: int, number: int, part: str) -> None:
    """One byte of what stands in a batch for a record."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        batches = Batches(db)
        batches.look()
        (place,) = (place for place in batches.of(session, number - 1) if place.first == number)
        at = batches.ids(place.turn).index(place.id)
        table, column, byte = {
            "data": ("batches", "data", place.start + 20),
            "members": ("members", "ids", at * 20 + 19),
            "id": ("batches", "heads", at * 60 + 7),
            "session": ("batches", "heads", at * 60 + 3),
            "held": ("batches", "heads", at * 60 + 11),
            "mark": ("batches", "heads", at * 60 + 19),
            "start": ("batches", "heads", at * 60 + 23),
            "size": ("batches", "heads", at * 60 + 27),
            "check": ("batches", "heads", at * 60 + 44),
        }[part]
        (value,) = db.execute(f"SELECT {column} FROM {table} WHERE turn = ?", (place.turn,)).fetchone()
        flip = 16 if part == "session" else 1
        changed = value[:byte] + bytes([value[byte] ^ flip]) + value[byte + 1 :]
        db.execute(f"UPDATE {table} SET {column} = ? WHERE turn = ?", (changed, place.turn))
        db.commit()


# --- reading ------------------------------------------------------------------------------------------------------


def test_what_came_together_and_what_came_alone_is_one_log(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path)
    arrive(store, 1, 3)
    alone(store, "a", 4, 6)
    alone(other, "b", 4, 5)
    together(store, {"a": 6, "b": 5, "c": 3, "d": 3}, [b"x", b"y"])
    alone(store, "a", 9, 10)
    loose = [("arrived", 1, 1), ("arrived", 2, 1), ("arrived", 3, 1)]
    assert rows(tmp_path)["e"] == loose
    assert rows(tmp_path)["c"] == [*loose, ("arrived", 4, 2)]
    own = [("placed", 4, 1), ("placed", 5, 1), ("placed", 6, 1), ("arrived", 7, 2), ("placed", 9, 1), ("placed", 10, 1)]
    assert rows(tmp_path)["a"] == [*loose, *own]
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


def test_they_are_packed_with_what_came_alone(store: SqliteStore, tmp_path: Path) -> None:
    arrive(store, 1, 30)
    alone(store, "a", 31, 40)
    arrive(store, 31, 63, ROOMS[1:])
    other = SqliteStore(tmp_path)
    alone(other, "b", 64, 64)  # has to read what it packs
    alone(store, "a", 41, 63)
    for number in range(64, 68):  # one of them is packed in a commit
        arrive(store, number, number, ["a", "c", "d", "e"])
    found = rows(tmp_path)
    assert found["b"] == [("placed", 1, 64)]
    assert sorted(found[name][0] for name in "acde") == [("placed", 1, held) for held in range(64, 68)]
    assert all({row[0] for row in found[name][1:]} <= {"arrived"} for name in ROOMS)
    for name in "acde":
        assert list(other.read(name)) == wanted(name, 67)
    arrive(store, 68, 131, ["a", "c", "d", "e"])
    alone(store, "b", 65, 128)
    arrive(store, 132, 135, ["a", "c", "d", "e"])
    (size,) = other._db.execute("SELECT sum(length(data)) FROM placed").fetchone()
    living = sum(held for each in rows(tmp_path).values() for table, _, held in each if table == "arrived")
    assert 0 < living < 30
    assert size < sum(info.size for info in store.sessions()) < size + 400 * living
    assert store.sessions() == other.sessions()
    other.close()


def test_a_long_log_is_read_in_parts_whichever_way_it_came(store: SqliteStore) -> None:
    """More than is read at once from both tables, in turns."""
    log = [random.Random(number).randbytes(200_000) for number in range(24)]
    for head, record in enumerate(log):
        if head % 3:
            together(store, dict.fromkeys(ROOMS[1:], head), [record])
        else:
            for name in ROOMS[1:]:
                store.append(name, head, [record])
    for start in (1, 2, 5, 24):
        assert list(store.read("c", start)) == log[start - 1 :]


def test_another_process_sees_them_and_goes_on_behind_them(store: SqliteStore, tmp_path: Path) -> None:
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
        assert child.communicate("\n")[0].split("\n") == ["Stale", "4 5 6", ""]
    assert list(store.read("a")) == wanted("a", 6)
    with pytest.raises(Stale):
        store.append("a", 4, [b"late"])


def test_nobody_writes_behind_the_back_of_those_who_came_together(store: SqliteStore, tmp_path: Path) -> None:
    """Who knows the last row that stands at its place must notice that others have arrived behind it."""
    alone(store, "a", 1, 3)
    other = SqliteStore(tmp_path)
    together(other, {"a": 3, "b": 0, "c": 0, "d": 0})
    with pytest.raises(Stale):
        store.append("a", 3, [b"instead"])
    alone(store, "a", 5, 6)
    with pytest.raises(Stale):
        together(other, {"a": 4, "b": 1, "c": 1, "d": 1})
    assert list(other.read("a")) == list(store.read("a")) == wanted("a", 6)
    assert list(other.read("b")) == wanted("b", 2)
    other.close()


def test_alone_again_it_is_one_statement_from_the_second_append_on(store: SqliteStore) -> None:
    arrive(store, 1, 3)
    said: list[str] = []
    store._db.set_trace_callback(said.append)
    counts = []
    for number in range(4, 7):
        alone(store, "a", number, number)
        counts.append(len(said))
        said.clear()
    assert counts[0] > 1
    assert counts[1:] == [1, 1]


# --- changing -----------------------------------------------------------------------------------------------------


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
        with pytest.raises(Missing):
            each.read("c")
    alone(again, "fork", 71, 71)
    assert again.append("fork of b", 66, [b"on"]) == 67
    assert together(again, {"a": 72, "b": 75, "c": 0, "d": 75}) == [73, 76, 1, 76]
    assert list(store.read("c")) == wanted("c", 1)
    again.close()


def test_what_was_removed_is_not_on_the_disk(store: SqliteStore, tmp_path: Path) -> None:
    secret = b"a secret that is pasted " * 3
    arrive(store, 1, 2)
    for name in ROOMS:
        together(store, {"a": 2, "b": 2, "c": 2, "d": 2} if name == "a" else {}, [secret])
    assert secret in (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()
    store.rewrite("a", {3: b"[gone]"})
    store.delete("b")
    alone(store, "c", 4, 64)
    store.rewrite("c", {3: b"[gone]"})
    store.delete("d")
    assert secret not in (tmp_path / FILE).read_bytes() + (tmp_path / f"{FILE}-wal").read_bytes()


def test_no_table_is_read_from_end_to_end(store: SqliteStore) -> None:
    arrive(store, 1, 20)
    alone(store, "a", 21, 30)
    said: set[str] = set()
    store._db.set_trace_callback(said.add)
    assert len(list(store.read("a", 5))) == 26
    arrive(store, 21, 64, ROOMS[1:])
    alone(store, "a", 31, 66)
    store.fork("a", 65, "f")
    store.rewrite("b", {7: b"x"})
    store.delete("c")
    assert store.head("d") == 64
    store._db.set_trace_callback(None)
    plans = []
    for statement in sorted(said):
        if statement.startswith(("SELECT", "INSERT", "DELETE", "UPDATE")):
            plans += [str(row[3]) for row in store._db.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert any("SEARCH placed" in plan for plan in plans)
    scans = {plan for plan in plans if "SCAN" in plan}
    assert scans <= {"SCAN members", "SCAN batches"}, "these have few rows"


# --- damage -------------------------------------------------------------------------------------------------------


def root_of(folder: Path, name: str) -> int:
    """Where the first page of a table or an index begins in the file."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return (int(root) - 1) * 4096


@pytest.mark.parametrize("part", ["data", "members", "id", "session", "held", "mark", "start", "size", "check"])
def test_a_damaged_record_is_named_and_gets_no_new_seal(part: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    arrive(store, 1, 10)
    store.close()
    spoil(tmp_path, 1, 7, part)
    store = SqliteStore(tmp_path)
    with pytest.raises(Broken, match="Records 7 to 7 of session 'a'"):
        list(store.read("a"))
    alone(store, "a", 11, 70)
    assert salvage(store, "a") == {number: noise(number, "a") for number in range(1, 71) if number != 7}
    for name in ROOMS[1:]:
        assert list(store.read(name)) == wanted(name, 10)
    store.rewrite("a", {7: b"lost"})
    assert len(list(store.read("a"))) == 70
    store.close()


@pytest.mark.parametrize("last", [False, True])
def test_nobody_gets_the_record_of_another(last: bool, tmp_path: Path) -> None:
    """Record 5 of two sessions, each with the other's number: each is whole, and not where it belongs."""
    store = SqliteStore(tmp_path)
    arrive(store, 1, 5 if last else 8)
    store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        (heads,) = db.execute("SELECT heads FROM batches WHERE turn = 5").fetchone()
        changed = heads[60:68] + heads[8:60] + heads[:8] + heads[68:]
        assert db.execute("UPDATE batches SET heads = ? WHERE turn = 5", (changed,)).rowcount == 1
        db.commit()
    again = SqliteStore(tmp_path)
    for name in ("a", "b"):
        assert again.head(name) == (5 if last else 8)
        found = salvage(again, name)
        assert found == {number: noise(number, name) for number in range(1, 6 if last else 9) if number != 5}
    assert list(again.read("c")) == wanted("c", 5 if last else 8)
    again.close()


@pytest.mark.parametrize("part", ["data", "members", "id", "session", "held", "mark", "start", "size", "check"])
def test_the_number_of_a_damaged_record_is_not_given_again(part: str, tmp_path: Path) -> None:
    """It is the last of its log, and no entry tells of it."""
    store = SqliteStore(tmp_path)
    arrive(store, 1, 7)
    store._db.close()
    spoil(tmp_path, 2, 7, part)
    store = SqliteStore(tmp_path)
    with pytest.raises(Stale):
        store.append("b", 6, [b"instead"])
    head = store.head("b")
    assert head >= 7
    assert store.append("b", head, [b"on"]) == head + 1
    assert salvage(store, "b") == {number: noise(number, "b") for number in range(1, 7)} | {head + 1: b"on"}
    arrive(store, 8, 70, ["a", "c", "d", "e"])
    for name in ("a", "c", "d", "e"):
        assert list(store.read(name)) == wanted(name, 70)
    store.delete("b")
    assert {info.name: info.head for info in store.sessions()} == dict.fromkeys(["a", "c", "d", "e"], 70)
    store.close()


@pytest.mark.parametrize("tables", [["batches"], ["members"], ["batches", "members"]])
@pytest.mark.parametrize("settled", [True, False])
def test_a_damaged_page_of_what_arrived_hides_nothing_else(tables: list[str], settled: bool, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    alone(store, "alone", 1, 70)
    arrive(store, 1, 70)
    alone(store, "a", 71, 72)
    if settled:
        store.close()
    store._db.close()
    path = tmp_path / FILE
    roots = [root_of(tmp_path, table) for table in tables]
    for root in roots:
        content = path.read_bytes()
        path.write_bytes(content[:root] + b"\xff" * 100 + content[root + 100 :])
    store = SqliteStore(tmp_path)
    assert salvage(store, "alone") == {number: noise(number, "alone") for number in range(1, 71)}
    left = {"batches": range(65, 71), "members": range(0)}[tables[0]]
    assert salvage(store, "a") == {number: noise(number, "a") for number in range(1, 73) if number not in left}
    end = 66 if left else 71
    assert salvage(store, "b") == {number: noise(number, "b") for number in range(1, end)}
    assert {info.name for info in store.sessions()} == {"alone", *ROOMS}
    if len(tables) == 1:
        assert store.head("b") == 70, "one table tells what was in the other"
        assert store.append("b", 70, [b"on"]) == 71
        assert together(store, {"a": 72, "c": 70, "d": 70, "alone": 70}) == [73, 71, 71, 71]
        assert list(store.read("alone")) == wanted("alone", 71)
    else:
        with pytest.raises(Broken):
            store.append("b", store.head("b"), [b"where would it be?"])
    store.close()


def test_flipped_bytes_never_pass_for_records(tmp_path: Path) -> None:
    """A bit anywhere in a file that a process left when it died, most of which has arrived with others."""
    store = SqliteStore(tmp_path / "whole")
    arrive(store, 1, 60)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    whole = (tmp_path / "whole" / FILE).read_bytes()
    store.close()
    rng = random.Random(7)
    lost: list[int] = []
    for attempt in range(75):
        place, bit = rng.randrange(4096, len(whole)), 1 << rng.randrange(8)
        (tmp_path / f"{attempt}").mkdir()
        (tmp_path / f"{attempt}" / FILE).write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        store = SqliteStore(tmp_path / f"{attempt}")
        for name in ROOMS:
            try:
                found = salvage(store, name)
            except (Broken, Missing):
                found = {}
            assert found.items() <= dict(enumerate(wanted(name, 60), 1)).items()
            lost.append(60 - len(found))
        store.close()
    assert sum(map(bool, lost)) >= 40, "most flips hit records, or the test would show nothing"
    assert sum(number > 4 for number in lost) <= 10, "more is lost only if a page of a tree is hit"


@pytest.mark.parametrize(("part", "least"), [(0.5, 60), (0.9, 240)])
def test_what_is_left_of_a_truncated_file_can_be_had(part: float, least: int, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    arrive(store, 1, 60)
    store.close()
    path = tmp_path / FILE
    size = path.stat().st_size
    os.truncate(path, int(part * size))
    with pytest.raises(Broken):
        SqliteStore(tmp_path)
    os.truncate(path, size)  # zeros where something stood
    store = SqliteStore(tmp_path)
    found = {name: salvage(store, name) for name in ROOMS}
    store.close()
    assert all(some.items() <= dict(enumerate(wanted(name, 60), 1)).items() for name, some in found.items())
    assert least <= sum(map(len, found.values())) < 300


# --- older versions -----------------------------------------------------------------------------------------------


def test_a_file_of_the_second_version_goes_on_and_who_has_it_open_cannot_write(tmp_path: Path) -> None:
    first_version(tmp_path / "old", {"s": 70})
    SqliteStore(tmp_path / "old", migrations=MIGRATIONS[:2])._db.close()
    old = sqlite3.connect(tmp_path / "old" / FILE, isolation_level=None)
    behind = "INSERT INTO chunks SELECT ?, 1, 0, x'00', x'00' WHERE (SELECT max(id) FROM chunks WHERE id < ?) = ?"
    place = (1 << 36) + 70
    assert old.execute(behind, (place + 1, 1 << 37, place)).rowcount == 1
    old.execute("DELETE FROM chunks WHERE id = ?", (place + 1,))
    store = SqliteStore(tmp_path / "old")
    assert together(store, {"s": 70, "b": 0, "c": 0, "d": 0}) == [71, 1, 1, 1]
    with pytest.raises(sqlite3.OperationalError, match="view"):
        old.execute(behind, (place + 1, 1 << 37, place))
    assert old.execute("SELECT max(id) FROM chunks WHERE id < ?", (1 << 37,)).fetchone() == (place,)
    old.close()
    assert list(store.read("s")) == [*(noise(number) for number in range(1, 71)), noise(71, "s")]
    store.close()
    with pytest.raises(Broken, match="newer tidegate"):
        SqliteStore(tmp_path / "old", migrations=MIGRATIONS[:2])


def third_version(folder: Path) -> None:
    """As the third version left it: the last rows of each session stand in a table of their own, with an index."""
    first_version(folder, dict.fromkeys(ROOMS, 90))
    SqliteStore(folder, migrations=MIGRATIONS[:3])._db.close()
    with closing(sqlite3.connect(folder / FILE)) as db:
        arrived = "SELECT id, id, count, mark, sum, data FROM placed WHERE count = 1 ORDER BY id % (1 << 36), id"
        db.execute(f"INSERT INTO arrived (id, own, count, mark, sum, data) {arrived}")
        assert db.execute("DELETE FROM placed WHERE count = 1").rowcount == 5 * 26
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_file_of_the_third_version_goes_on_and_who_has_it_open_cannot_write(tmp_path: Path) -> None:
    third_version(tmp_path)
    old = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    behind = "INSERT INTO placed SELECT 1, 1, 0, x'00', x'00' WHERE NOT EXISTS (SELECT 1 FROM arrived WHERE id > 5)"
    assert old.execute(behind).rowcount == 0
    store = SqliteStore(tmp_path)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        old.execute(behind)
    old.close()
    for name in ROOMS:
        assert list(store.read(name)) == [noise(number) for number in range(1, 91)]
    assert together(store, dict.fromkeys(ROOMS, 90)) == [91] * 5
    store.close()
    with pytest.raises(Broken, match="newer tidegate"):
        SqliteStore(tmp_path, migrations=MIGRATIONS[:3])


@pytest.mark.parametrize("page", ["arrived", "sqlite_autoindex_arrived_1"])
def test_a_damaged_file_of_the_third_version_can_be_opened(page: str, tmp_path: Path) -> None:
    third_version(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        found = db.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (page,)).fetchall()
    path, middle = tmp_path / FILE, (found[len(found) // 2][0] - 1) * 4096
    content = path.read_bytes()
    path.write_bytes(content[:middle] + b"\xff" * 100 + content[middle + 100 :])
    store = SqliteStore(tmp_path)
    left = {name: salvage(store, name) for name in ROOMS}
    wanted = {number: noise(number) for number in range(1, 91)}
    assert all(found.items() <= wanted.items() for found in left.values())
    lost = 5 * 90 - sum(map(len, left.values()))
    assert lost == 0 if page != "arrived" else 0 < lost < 30
    store.close()
