"""What the SQLite store makes of a file that is not what was written: the right records, or an error with the place."""

import os
import random
import re
import sqlite3
from pathlib import Path

import pytest

from tests.scale import scaled
from tests.store.sqlite_files import FILE, change, filled, noise
from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import DamagedData, SessionNotFound
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import Store


def salvage(store: Store, name: str) -> dict[int, bytes]:
    """All that can be read, going on behind each damage as the error says, in words and in numbers."""
    found: dict[int, bytes] = {}
    start = 1
    while start:
        start = read_on(store, name, start, found)
    return found


def read_on(store: Store, name: str, start: int, found: dict[int, bytes]) -> int:
    """Gives where to go on; 0 if there is nothing behind, or no telling where."""
    damage: DamagedData
    try:
        for number, record in enumerate(store.read(name, start), start):
            found[number] = record
        return 0
    except DamagedData as met:
        damage = met
    told = re.search(rf"Records (\d+) to (\d+) of session {name!r}", str(damage))
    assert (damage.first_record, damage.last_record) == ((int(told[1]), int(told[2])) if told else (0, 0))
    assert told is None or start <= damage.first_record <= damage.last_record
    return damage.last_record + 1 if told else 0


def test_a_damaged_segment_is_named_and_all_else_is_read(tmp_path: Path) -> None:
    path = filled(tmp_path, {"other": 5, "mine": 200})
    db = sqlite3.connect(path)
    (place, data) = db.execute("SELECT id, data FROM packed_rows WHERE count = 64 ORDER BY id").fetchall()[1]
    db.execute(
        "UPDATE packed_rows SET data = ? WHERE id = ?", (data[:500] + bytes([data[500] ^ 1]) + data[501:], place)
    )
    db.commit()
    db.close()
    store = SqliteStore(tmp_path)
    with pytest.raises(DamagedData, match=r"Records 65 to 128 of session 'mine'.*continue from record 129"):
        list(store.read("mine"))
    with pytest.raises(DamagedData, match=r"Records 100 to 128"):
        list(store.read("mine", 100))
    assert salvage(store, "mine") == {number: noise(number) for number in range(1, 201) if not 65 <= number <= 128}
    assert salvage(store, "other") == {number: noise(number) for number in range(1, 6)}
    assert store.append("mine", 200, [b"on"]) == 201
    with pytest.raises(DamagedData):
        store.fork("mine", 100, "fork")
    assert store.head("fork") == 0
    store.fork("mine", 64, "fork")
    assert len(list(store.read("fork"))) == 64
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE recent_rows SET data = x'00'",
        "UPDATE recent_rows SET data = 'text'",
        "UPDATE recent_rows SET sum = x'00'",
        "UPDATE recent_rows SET id = id + 1000",
        "DELETE FROM recent_rows",
    ],
)
def test_a_damaged_recent_row_gets_no_new_seal_by_packing(damage: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    for number in range(1, 11):
        store.append("s", number - 1, [noise(number)])
    store.close()
    change(tmp_path, f"{damage} WHERE id % 1024 = 7")
    store = SqliteStore(tmp_path)
    for number in range(11, 151):
        store.append("s", number - 1, [noise(number)])
    assert salvage(store, "s") == {number: noise(number) for number in range(1, 151) if number != 7}
    store.close()


def test_a_missing_row_is_a_damage_not_an_end(tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 200})
    for first, gap in ((65, (65, 128)), (193, (193, 200)), (1, (1, 128))):
        db = sqlite3.connect(path)
        db.execute("DELETE FROM packed_rows WHERE id % 1024 = ?", (first,))
        db.commit()
        db.close()
        store = SqliteStore(tmp_path)
        with pytest.raises(DamagedData, match=f"Records {gap[0]} to {gap[1]} of"):
            list(store.read("s", first))
        store.close()


def test_a_damaged_entry_is_made_anew_from_the_rows(tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 150})
    for column in ("head", "packed", "size", "seal"):
        db = sqlite3.connect(path)
        db.execute(f"UPDATE sessions SET {column} = {column} + 5")
        db.commit()
        db.close()
        store = SqliteStore(tmp_path)
        head = store.head("s")
        assert [info.head for info in store.sessions()] == [head]
        assert store.append("s", head, [noise(head + 1)]) == head + 1
        assert list(store.read("s")) == [noise(number) for number in range(1, head + 2)]
        store.close()


def test_flipped_bytes_never_pass_for_records(tmp_path: Path) -> None:
    """A bit anywhere in the file: what is read is what was written, or there is an error; mostly all else is read."""
    heads = {"one": 150, "two": 150}
    whole = filled(tmp_path / "whole", heads).read_bytes()
    wanted = {name: {number: noise(number) for number in range(1, head + 1)} for name, head in heads.items()}
    rng = random.Random(5)
    closed = hurt = 0
    lost: list[int] = []
    for attempt in range(scaled(80)):
        place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        (tmp_path / f"{attempt}").mkdir()
        (tmp_path / f"{attempt}" / FILE).write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            store = SqliteStore(tmp_path / f"{attempt}")
        except DamagedData:
            closed += 1
            continue
        for name in heads:
            try:
                assert store.head(name) in (150, 0)
                found = salvage(store, name)
            except (DamagedData, SessionNotFound):
                found = {}
            assert found.items() <= wanted[name].items()
            hurt += len(found) < 150
            lost.append(150 - len(found))
        store.close()
    assert closed <= len(lost) / 40
    assert hurt >= len(lost) / 4, "most flips hit records, or the test would show nothing"
    assert sum(number > 64 for number in lost) <= len(lost) / 40, (
        "more than one segment is lost only if a page of the tree is hit"
    )


@pytest.mark.parametrize("part", [0, 0.00001, 0.001, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_a_clear_error_and_what_is_left_can_be_had(part: float, tmp_path: Path) -> None:
    path = filled(tmp_path, {"one": 500, "two": 500})
    whole = path.read_bytes()
    left = whole[: int(part * len(whole))]
    path.write_bytes(left)
    with pytest.raises(DamagedData, match=re.escape(str(path))) as damage:
        SqliteStore(tmp_path)
    assert damage.value.remedy
    assert path.read_bytes() == left, "looking at it changes nothing"
    if part < 0.1:
        return
    os.truncate(path, len(whole))  # zeros where something stood: now it opens, and each row is judged by itself
    store = SqliteStore(tmp_path)
    wanted = {number: noise(number) for number in range(1, 501)}
    found = [salvage(store, name) for name in ("one", "two")]
    store.close()
    assert all(some.items() <= wanted.items() for some in found)
    assert 1000 * part - 200 <= sum(map(len, found)) < 1000, "most of what is left, and not all there was"


def spoiled(folder: Path, *statements: str) -> SqliteStore:
    db = sqlite3.connect(folder / FILE)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    return SqliteStore(folder)


def test_an_entry_and_its_last_row_are_damaged_and_the_others_are_listed(tmp_path: Path) -> None:
    filled(tmp_path, {"hurt": 150, "well": 150})
    store = spoiled(
        tmp_path,
        "UPDATE sessions SET head = 7 WHERE name = 'hurt'",
        "UPDATE packed_rows SET data = x'00' WHERE id = (SELECT max(c.id) FROM packed_rows c, sessions s"
        " WHERE s.name = 'hurt' AND c.id / (1 << 36) = s.id)",
    )
    assert {info.name: info.head for info in store.sessions()} == {"hurt": 150, "well": 150}
    assert salvage(store, "hurt") == {number: noise(number) for number in range(1, 129)}
    assert salvage(store, "well") == {number: noise(number) for number in range(1, 151)}
    assert store.append("hurt", 150, [b"on"]) == 151
    assert list(store.read("hurt", 151)) == [b"on"]
    store.close()


@pytest.mark.parametrize("name", ["x'6100'", "x'ff'", "x'eda080'", "x'61' || x'00' || x'62'", "'a' || char(0) || 'b'"])
def test_a_name_that_cannot_be_hides_no_other_session(name: str, tmp_path: Path) -> None:
    """NUL, no UTF-8, half a surrogate pair: none was ever let in."""
    filled(tmp_path, {"odd": 3, "well": 70})
    store = spoiled(tmp_path, f"UPDATE sessions SET name = CAST({name} AS TEXT) WHERE name = 'odd'")
    names = [info.name for info in store.sessions()]
    assert len(names) == 2
    assert "well" in names
    assert list(store.read("well")) == [noise(number) for number in range(1, 71)]
    assert store.append("well", 70, [b"on"]) == 71
    assert store.append("odd", 0, [b"anew"]) == 1
    store.close()


@pytest.mark.parametrize("name", ["a\0b", "half \ud800 pair", "\udfff", "", "x" * 513])
def test_a_name_that_cannot_be_kept_is_refused_everywhere(name: str, tmp_path: Path) -> None:
    filled(tmp_path, {"s": 3})
    store = SqliteStore(tmp_path)
    for act in (lambda: store.append(name, 0, [b"x"]), lambda: store.fork("s", 1, name)):
        with pytest.raises(BadInput, match="without NUL"):
            act()
    for look in (lambda: store.read(name), lambda: store.delete(name), lambda: store.rewrite(name, {1: b"x"})):
        with pytest.raises(SessionNotFound):
            look()
    assert store.head(name) == 0
    assert [info.name for info in store.sessions()] == ["s"]
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE recent_rows",
        "DROP TABLE sessions",
        "ALTER TABLE sessions RENAME COLUMN head TO tail",
        "ALTER TABLE recent_rows ADD COLUMN theirs",
    ],
)
def test_tables_that_are_not_ours_are_a_clear_error(change: str, tmp_path: Path) -> None:
    filled(tmp_path, {"s": 3})
    store = spoiled(tmp_path, change)
    with pytest.raises(DamagedData, match=r"damage in session 's'.*Keep a copy"):
        store.append("s", 3, [b"x"])
    store.close()


@pytest.mark.parametrize("change", ["DROP TABLE migrations", "ALTER TABLE migrations RENAME COLUMN name TO title"])
def test_a_file_without_a_history_is_a_clear_error(change: str, tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 3})
    with pytest.raises(DamagedData, match=re.escape(str(path))):
        spoiled(tmp_path, change)


def test_a_file_of_an_unknown_format_of_sqlite_is_a_clear_error(tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 3})
    whole = path.read_bytes()
    for place, value in ((19, 9), (0, 0), (47, 9)):
        path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
        with pytest.raises((DamagedData, NotKept), match=re.escape(str(path))):
            SqliteStore(tmp_path)
    path.write_bytes(whole[:18] + b"\x09" + whole[19:])  # to be read by this SQLite, not to be written
    store = SqliteStore(tmp_path)
    assert len(list(store.read("s"))) == 3
    with pytest.raises(NotKept, match="readonly"):
        store.append("s", 3, [b"x"])
    store.close()
