"""Damage in recent rows of many sessions: the doctor mends it, and nobody else loses a word."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.datafolder.kept import folder, opened
from tests.store.sqlite_files import change
from tests.store.test_hostile import faults, goes_on, texts
from tests.store.test_sqlite_recent import pages_of
from tidegate.datafolder.doctor.database_rescue import needs_rescue, rescue_database

NAMES = ("one", "two", "three", "four", "five")
WORDS = {name: [f"{name} says {number}: {'word ' * 40}" for number in range(12)] for name in NAMES}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "data"
    data = folder(place)
    sessions = {name: opened(data, name) for name in NAMES}

    async def talk() -> None:
        for number in range(12):
            said = ((session, {"role": "user", "content": WORDS[name][number]}) for name, session in sessions.items())
            await asyncio.gather(*(session.add_async(message) for session, message in said))

    asyncio.run(talk())
    for session in sessions.values():
        session.close()
    data.close()
    return place


@pytest.fixture
def at_rest(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


def test_a_damaged_record_is_mended_and_costs_its_session_alone(at_rest: Path) -> None:
    change(at_rest, "UPDATE recent_rows SET data = x'00' WHERE id = (2 << 36) + 9")
    data = folder(at_rest)
    assert {finding.session for finding in faults(data, repair=True)} == {"two"}
    assert faults(data) == []
    for name in NAMES:
        found = texts(data, name)
        assert len(found) == 12 - (name == "two")
        assert set(found) <= set(WORDS[name])
        goes_on(data, name)
    data.close()


def test_a_damaged_page_costs_at_most_what_is_on_it(at_rest: Path) -> None:
    path = at_rest / "tidegate.db"
    pages = pages_of(path, "recent_rows")
    place, rows = pages[len(pages) // 2]
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + b"\xff" * 200 + whole[place + 200 :])
    assert needs_rescue(at_rest)
    found = rescue_database(at_rest)
    assert len(found) > 1
    assert not needs_rescue(at_rest)
    data = folder(at_rest)
    left = {name: texts(data, name) for name in NAMES}
    assert all(set(left[name]) <= set(WORDS[name]) for name in NAMES)
    assert 0 < sum(len(WORDS[name]) - len(left[name]) for name in NAMES) <= rows
    faults(data, repair=True)
    assert faults(data) == []
    goes_on(data, "three")
    data.close()


def test_rows_whose_entry_is_gone_are_found(at_rest: Path) -> None:
    with closing(sqlite3.connect(at_rest / "tidegate.db")) as db:
        db.execute("DELETE FROM sessions WHERE name = 'four'")
        db.commit()
    rescue_database(at_rest)
    data = folder(at_rest)
    assert texts(data, "recovered-4") == WORDS["four"]
    data.close()
