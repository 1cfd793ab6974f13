"""The SQLite store: its file, its size and its cost."""

import json
import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.sqlite_files import FILE, filled, noise, open_with_connection
from tidegate import BadInput, Session
from tidegate.core.errors import NotKept
from tidegate.proof.session_generator import generate_session
from tidegate.store.errors import DamagedData, SessionNotFound
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import KeptLog
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.rows import PACK_BYTES
from tidegate.store.sqlite.tables import MIGRATIONS
from tidegate.store.store import Store, list_page


@pytest.mark.parametrize("make", [MemoryStore, SqliteStore])
def test_the_pages_of_the_sessions_are_the_list(make: Callable[..., Store], tmp_path: Path) -> None:
    now = 0.0
    store = make(*([tmp_path] if make is SqliteStore else []), clock=lambda: now)
    for number, now in enumerate([5.0, 3.0, 3.0, 9.0, 1.0, 3.0, 7.0]):  # noqa: B007 - the clock shows it
        store.append(f"s{number}", 0, [b"x"] * (number + 1))
    whole = store.sessions()
    assert [info.name for info in whole] == ["s3", "s6", "s0", "s5", "s2", "s1", "s4"]
    pages = [list_page(store, first, 3) for first in (0, 3, 6, 9)]
    assert [page.sessions for page in pages] == [whole[:3], whole[3:6], whole[6:], []]
    assert {page.total for page in pages} == {7}
    store.close()


# --- the file -----------------------------------------------------------------------------------------------------


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        store = SqliteStore(tmp_path / "a" / "b")
        store.append("s", 0, [b"x"])
        files = list((tmp_path / "a" / "b").iterdir())
        assert {path.name for path in files} == {FILE, f"{FILE}-wal", f"{FILE}-shm"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
        store.close()
        (tmp_path / "a" / "b" / FILE).chmod(0o644)
        SqliteStore(tmp_path / "a" / "b").close()
        assert stat.S_IMODE((tmp_path / "a" / "b" / FILE).stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_an_append_is_power_safe_when_it_returns(tmp_path: Path) -> None:
    """The settings that this rests on: a power cut cannot be had in a test."""
    store, db = open_with_connection(tmp_path)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def third(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE third (x)")


def failing(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE half_done (x)")
    raise sqlite3.OperationalError("it did not work")


def test_migrations_run_once_and_whole(tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 100})
    with pytest.raises(DamagedData, match="it did not work"):
        SqliteStore(tmp_path, migrations=(*MIGRATIONS, third, failing))
    newer = SqliteStore(tmp_path, migrations=(*MIGRATIONS, third))
    assert newer.head("s") == 100
    newer.close()
    SqliteStore(tmp_path, migrations=(*MIGRATIONS, third)).close()
    db = sqlite3.connect(path)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"migrations", "sessions", "packed_rows", "recent_rows", "sqlite_sequence", "third"}
    names = [name for (name,) in db.execute("SELECT name FROM migrations ORDER BY applied, rowid")]
    assert names == [*(migration.__name__ for migration in MIGRATIONS), "third"]
    db.close()


def test_a_file_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    filled(tmp_path, {"s": 3})
    SqliteStore(tmp_path, migrations=(*MIGRATIONS, third)).close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DamagedData, match=r"newer tidegate.*'third'.*Install"):
        SqliteStore(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_of_someone_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("CREATE TABLE sessions (theirs)")
    other.close()
    (tmp_path / FILE).chmod(0o640)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DamagedData, match="not a store of tidegate"):
        SqliteStore(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o640


def test_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="not a folder"):
        SqliteStore(tmp_path / "file")
    with pytest.raises(NotKept, match="permissions"):
        SqliteStore(tmp_path / "file" / "below")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.close()
    with pytest.raises(BadInput, match="closed"):
        store.head("s")
    store.close()


def _use_in_fork(store: SqliteStore, path: Path) -> None:
    try:
        store.append("s", 1, [b"child"])
    except BadInput as refusal:
        path.write_text(str(refusal))
    store.close()


def test_a_forked_process_may_not_use_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    store.append("s", 0, [b"parent"])
    child = multiprocessing.get_context("fork").Process(target=_use_in_fork, args=(store, tmp_path / "said"))
    child.start()
    child.join()
    assert "forked" in (tmp_path / "said").read_text()
    assert store.append("s", 1, [b"on"]) == 2
    store.close()


def test_another_process_that_holds_the_file_is_waited_for_and_then_told(tmp_path: Path) -> None:
    filled(tmp_path, {"s": 1})
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(tmp_path, timeout=0.05)
    with pytest.raises(NotKept, match="locked"):
        store.append("s", 1, [b"x"])
    assert list(store.read("s")) == [noise(1)], "reading does not wait"
    other.execute("ROLLBACK")
    assert store.append("s", 1, [b"x"]) == 2
    other.close()
    store.close()


def test_who_makes_the_file_second_uses_that_of_the_first(tmp_path: Path) -> None:
    def step(name: str) -> None:
        if name == "file written":
            filled(tmp_path, {"s": 3})

    store = SqliteStore(tmp_path, step=step)
    assert store.head("s") == 3
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_session_deleted_in_the_middle_of_a_read_is_no_damage(tmp_path: Path) -> None:
    """There are more rows than the one that is read first. The deletion does not wait for the reader: it is the same
    thread, and it would be refused in the end."""
    other = SqliteStore(tmp_path)
    records = [b"%d" % number for number in range(65)]
    other.append("s", 0, records)
    armed: list[bool] = []

    def step(name: str) -> None:
        if name == "session read" and armed and other.head("s"):
            other.delete("s")

    store = SqliteStore(tmp_path, step=step)
    reading = store.read("s")
    armed.append(True)
    assert [next(reading) for _ in range(64)] == records[:-1]
    assert other.head("s") == 0
    with pytest.raises(SessionNotFound):
        next(reading)
    store.close()
    other.close()


# --- size and cost ------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_on_disk_it_is_less_than_half_of_the_json(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    session = Session("gpt-4o", window=32_000, wire="openai_chat", count="estimate", log=KeptLog(store, "s"))
    raw = said = 0
    for message in generate_session(30, seed=1):
        if message["role"] == "user":
            session.prepare()
        if message["role"] == "system":
            session.set_system(str(message["content"]))
        else:
            session.add(message)
        raw += len(json.dumps(message, ensure_ascii=False).encode())
        said += 1
    assert said >= 500
    assert session.edit_counts.total() > 5
    size = store.sessions()[0].size
    store.close()
    disk = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert disk <= 0.5 * raw, f"{disk / raw:.2f} times the JSON"
    assert size <= disk <= 1.5 * size, "what the list says of the size is about what the file takes"


def test_the_end_of_a_long_log_costs_what_that_of_a_short_one_does(tmp_path: Path) -> None:
    """The cost is what SQLite counts: the instructions of its virtual machine, about one for each column of a row."""
    store, db = open_with_connection(tmp_path)
    entries = [b"%d some words that are in every one of the records" % number for number in range(30_000)]
    store.append("short", 0, entries[:1000])
    for place in range(0, 30_000, 5_000):
        store.append("long", place, entries[place : place + 5_000])
    instructions = 0

    def count_instruction() -> int:
        nonlocal instructions
        instructions += 1
        return 0

    def cost_of(name: str, start: int, expected: int) -> int:
        before = instructions
        assert sum(1 for _ in store.read(name, start)) == expected
        return instructions - before

    db.set_progress_handler(count_instruction, 1)
    short, long = cost_of("short", 950, 51), cost_of("long", 29_950, 51)
    assert 0 < long <= 2 * short
    assert cost_of("long", 1, 30_000) > 10 * long, "or the measure above would see nothing"
    store.close()


def test_a_record_of_many_packs(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    large = b"%09d" * 100 % tuple(range(100)) * 6_000
    assert len(large) > 20 * PACK_BYTES
    for place, record in enumerate((b"before", large, b"after")):
        store.append("s", place, [record])
    assert list(store.read("s")) == [b"before", large, b"after"]
    assert store.sessions()[0].size < len(large) // 10
    store.close()


def test_what_was_deleted_leaves_the_disk(tmp_path: Path) -> None:
    """Also what stood in loose rows before it was packed."""
    secret = b"sk-live-5f9d2c7e81ab"
    store = SqliteStore(tmp_path)
    for place in range(70):
        store.append("s", place, [noise(place) + secret])
    store.append("t", 0, [b"stays"])
    assert any(secret in path.read_bytes() for path in tmp_path.iterdir())
    store.delete("s")
    store.close()
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())
