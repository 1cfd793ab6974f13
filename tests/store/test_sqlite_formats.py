"""Files of earlier formats: they open, nothing in them changes, and who has them open meanwhile cannot write."""

import hashlib
import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, FORMATS, change, noise, old_format, together
from tests.store.test_sqlite_damage import salvage
from tidegate.datafolder.data_folder import DataFolder
from tidegate.store.errors import DamagedData
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.inspection import find_structure_faults
from tidegate.store.sqlite.migrations import MIGRATIONS

ROOMS = ["a", "b", "c", "d", "e"]
RECORDED = Path(__file__).with_name("data") / "format_5"
"""A data folder as the last version that wrote format 5 left it when it was killed: sessions that are packed, that were
alone, that shared commits, and a fork. `expected.json` has the SHA-256 of each record and of the next requests."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    shutil.copytree(RECORDED, tmp_path / "data")
    return tmp_path / "data"


def expected() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((RECORDED / "expected.json").read_text())
    return found


def test_a_recorded_file_opens_and_goes_on_with_the_same_bytes(recorded: Path) -> None:
    store = SqliteStore(recorded)
    assert {info.name: info.head for info in store.sessions()} == {
        name: known["head"] for name, known in expected().items()
    }
    before = {name: list(store.read(name)) for name in expected()}
    for name, known in expected().items():
        assert [digest(record)[:12] for record in before[name]] == known["records"]
        head = len(before[name])
        for number in range(1, 71):
            assert store.append(name, head + number - 1, [noise(number)]) == head + number
    store.fork("alone", 140, "copy")
    store.rewrite("one", {70: b"gone"})
    store.delete("two")
    store.close()
    again = SqliteStore(recorded)
    for name, records in before.items():
        if name == "two":
            continue
        records += [noise(number) for number in range(1, 71)]
        if name == "one":
            records[69] = b"gone"
        assert list(again.read(name)) == records
    assert list(again.read("copy")) == before["alone"][:140]
    again.close()
    assert find_structure_faults(recorded / FILE) == []


def test_a_recorded_data_folder_gives_the_same_requests(recorded: Path) -> None:
    data = DataFolder(recorded, secrets=[])
    for name, known in expected().items():
        if "request" not in known:
            continue
        with data.open(
            name, "gpt-4o", window=16_000, count="estimate", wire="openai_chat", system="You fix builds."
        ) as session:
            assert session.log.head == known["head"], "opening appends nothing"
            assert digest(session.prepare().to_bytes()) == known["request"]
            session.add({"role": "user", "content": "And now?"})
    data.close()


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 3, 4)), 5])
def test_a_file_of_an_earlier_format_goes_on(number: int, tmp_path: Path) -> None:
    heads = {"packed": 128, "loose": 40, "both": 150, "one": 1}
    old_format(tmp_path, number, heads)
    store = SqliteStore(tmp_path)
    assert {info.name: info.head for info in store.sessions()} == heads
    assert [info.name for info in store.sessions()] == ["one", "both", "loose", "packed"]
    assert {info.used for info in store.sessions()} == {1.5e9 + place for place in (1, 2, 3, 4)}
    for name, head in heads.items():
        assert list(store.read(name)) == [noise(number) for number in range(1, head + 1)]
        store.fork(name, head, f"fork of {name}")
        for place in range(head, head + 100):
            store.append(name, place, [noise(place + 1)])
        store.append(f"fork of {name}", head, [noise(place) for place in range(head + 1, head + 31)])
    store.rewrite("loose", {3: b"other"})
    store.close()
    store = SqliteStore(tmp_path)
    for name, head in heads.items():
        wanted = [noise(number) for number in range(1, head + 101)]
        assert list(store.read(f"fork of {name}")) == wanted[: head + 30]
        assert list(store.read(name)) == (wanted if name != "loose" else [*wanted[:2], b"other", *wanted[3:]])
    store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"migrations", "sessions", "sqlite_sequence", "packed_rows", "recent_rows"}


@pytest.mark.parametrize("number", range(1, 6))
def test_who_has_an_earlier_format_open_cannot_write_any_more(number: int, tmp_path: Path) -> None:
    """It would write where nobody looks, and write over what it does not see."""
    path = old_format(tmp_path, number, {"s": 10})
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        insert = f"INSERT INTO {'placed' if number > 2 else 'chunks'} VALUES (?, 1, 0, x'00', x'00')"
        old.execute(insert, (7,))
        store = SqliteStore(tmp_path)
        assert store.append("s", 10, [b"x"]) == 11
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            old.execute(insert, (8,))
    store.close()


def test_an_earlier_version_refuses_the_file(tmp_path: Path) -> None:
    """The names of all formats are in the file, in their order; who does not know the last one says so."""
    SqliteStore(tmp_path).close()
    before = (tmp_path / FILE).read_bytes()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM migrations ORDER BY rowid")]
    assert names == [migration.__name__ for migration in MIGRATIONS] == [*FORMATS, "packed_and_recent_rows"]
    with pytest.raises(DamagedData, match=r"newer tidegate.*'packed_and_recent_rows'.*Install that version"):
        SqliteStore(tmp_path, migrations=MIGRATIONS[:5])
    assert (tmp_path / FILE).read_bytes() == before


# --- what sessions shared in earlier formats --------------------------------------------------------------------------


def third_format(folder: Path) -> None:
    """The last rows of each session are in a table of their own, with an index."""
    old_format(folder, 3, dict.fromkeys(ROOMS, 90))
    change(
        folder,
        "INSERT INTO arrived (id, own, count, mark, sum, data)"
        " SELECT id, id, count, mark, sum, data FROM placed WHERE count = 1 ORDER BY id % (1 << 36), id",
        "DELETE FROM placed WHERE count = 1",
    )


def fifth_format(folder: Path, *, last: int = 90) -> None:
    """The last rows of all sessions are in batches, and their columns know nothing of them. Some batches are garbage:
    all that is in them was packed since."""
    old_format(folder, 5, dict.fromkeys(ROOMS, last))
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for number in (3, *range(65, last + 1)):
            sought = [(session << 36) + number for session in range(1, 6)]
            rows = [_taken(db, place) for place in sought]
            _insert_batch(db, number, rows if number > 64 else [(place, 1, 0, b"x" * 32, b"?") for place in sought])
        for columns in db.execute("SELECT id, name, 64, 64, 0, 9, created, used FROM sessions").fetchall():
            update = "UPDATE sessions SET head = 64, packed = 64, loose = 0, size = 9, seal = ? WHERE id = ?"
            db.execute(update, (_crc(columns), columns[0]))


def _taken(db: sqlite3.Connection, place: int) -> tuple[int, int, int, bytes, bytes]:
    row: tuple[int, int, int, bytes, bytes] = db.execute("SELECT * FROM placed WHERE id = ?", (place,)).fetchone()
    db.execute("DELETE FROM placed WHERE id = ?", (place,))
    return row


def _crc(columns: Sequence[object]) -> int:
    return zlib.crc32(repr(tuple(columns)).encode())


def _insert_batch(db: sqlite3.Connection, turn: int, rows: Sequence[tuple[int, int, int, bytes, bytes]]) -> None:
    heads, data = b"", b""
    for place, count, mark, check, content in rows:
        heads += struct.pack(">qIqII32s", place, count, mark, len(data), len(content), check)
        data += content
    db.execute("INSERT INTO batches VALUES (?, ?, ?)", (turn, heads, data))
    db.execute("INSERT INTO members VALUES (?, ?)", (turn, b"".join(b"%020d" % row[0] for row in rows)))


@pytest.mark.parametrize("make", [third_format, fifth_format])
def test_what_sessions_shared_is_theirs(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path)
    store = SqliteStore(tmp_path)
    for name in ROOMS:
        assert list(store.read(name)) == [noise(number) for number in range(1, 91)]
    assert together(store, dict.fromkeys(ROOMS, 90)) == [91] * 5
    store.close()
    assert find_structure_faults(tmp_path / FILE) == []


def spoil(folder: Path, turn: int, table: str, column: str, at: int) -> None:
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        (value,) = db.execute(f"SELECT {column} FROM {table} WHERE turn = ?", (turn,)).fetchone()
        changed = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        db.execute(f"UPDATE {table} SET {column} = ? WHERE turn = ?", (changed, turn))


@pytest.mark.parametrize("turn", [70, 90], ids=["one before", "the last one"])
@pytest.mark.parametrize(
    ("table", "column", "at"),
    [
        ("batches", "data", 20),
        ("batches", "heads", 7),  # the number of record
        ("batches", "heads", 2),  # its session
        ("batches", "heads", 11),
        ("batches", "heads", 40),
        ("members", "ids", 19),
    ],
)
def test_a_damaged_record_of_a_batch_is_named(turn: int, table: str, column: str, at: int, tmp_path: Path) -> None:
    fifth_format(tmp_path)
    spoil(tmp_path, turn, table, column, at)
    store = SqliteStore(tmp_path)
    assert salvage(store, "a") == {number: noise(number) for number in range(1, 91) if number != turn}
    assert store.head("a") >= 90, "its number is not given again"
    for name in ROOMS[1:]:
        assert list(store.read(name)) == [noise(number) for number in range(1, 91)]
    store.close()


def test_nobody_gets_the_record_of_another(tmp_path: Path) -> None:
    """Two records of a batch, each with the other's number: each is whole, and not where it belongs."""
    fifth_format(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        (heads,) = db.execute("SELECT heads FROM batches WHERE turn = 90").fetchone()
        db.execute(
            "UPDATE batches SET heads = ? WHERE turn = 90", (heads[60:68] + heads[8:60] + heads[:8] + heads[68:],)
        )
    store = SqliteStore(tmp_path)
    for name in ("a", "b"):
        assert store.head(name) == 90
        assert salvage(store, name) == {number: noise(number) for number in range(1, 90)}
    assert list(store.read("c")) == [noise(number) for number in range(1, 91)]
    store.close()


@pytest.mark.parametrize("column", ["head", "packed", "used", "seal"])
def test_damaged_columns_of_a_session_are_made_from_its_rows(column: str, tmp_path: Path) -> None:
    fifth_format(tmp_path)
    change(tmp_path, f"UPDATE sessions SET {column} = {column} - 5 WHERE name = 'b'")
    store = SqliteStore(tmp_path)
    for name in ROOMS:
        assert list(store.read(name)) == [noise(number) for number in range(1, 91)]
    store.close()


def damage_pages(path: Path, names: list[str]) -> None:
    """Overwrite the beginning of a leaf page of each of these tables or indices."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ask = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        found = [db.execute(ask, (name,)).fetchall() for name in names]
    content = bytearray(path.read_bytes())
    for leaves in found:
        start = (leaves[len(leaves) // 2][0] - 1) * 4096
        content[start : start + 100] = b"\xff" * 100
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "pages", "lost"),
    [
        (third_format, ["arrived"], range(1, 40)),
        (third_format, ["sqlite_autoindex_arrived_1"], range(1)),
        (fifth_format, ["members"], range(1)),
        (fifth_format, ["batches"], range(1, 131)),
        (fifth_format, ["batches", "members"], range(1, 131)),
    ],
)
def test_a_damaged_page_does_not_keep_the_file_closed(
    make: object, pages: list[str], lost: range, tmp_path: Path
) -> None:
    assert callable(make)
    make(tmp_path)
    damage_pages(tmp_path / FILE, pages)
    store = SqliteStore(tmp_path)
    left = {name: salvage(store, name) for name in ROOMS}
    wanted = {number: noise(number) for number in range(1, 91)}
    assert all(found.items() <= wanted.items() for found in left.values())
    assert 5 * 90 - sum(map(len, left.values())) in lost
    store.close()


def test_a_file_that_cannot_be_converted_is_not_touched(tmp_path: Path) -> None:
    """Rows are to be moved to a page that is damaged. The version that wrote the file can still repair it."""
    fifth_format(tmp_path)
    damage_pages(tmp_path / FILE, ["placed"])
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DamagedData, match="malformed"):
        SqliteStore(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
