"""Files of earlier versions: one of 0.1.0 goes on, one from before it is refused."""

from pathlib import Path

import pytest

from tests.store.sqlite_files import change, filled, noise
from tidegate.store.errors import DamagedData
from tidegate.store.sqlite import SqliteStore

BEFORE_RELEASE = ("sessions_and_chunks", "marked_chunks", "placed_and_arrived", "batches_and_members", "written_anew")


def note_migrations(folder: Path, *names: str) -> None:
    change(folder, *(f"INSERT INTO migrations VALUES ('{name}', {place})" for place, name in enumerate(names, 1)))


def test_a_file_of_version_0_1_0_goes_on(tmp_path: Path) -> None:
    """That version lists the migrations from before its release, too."""
    filled(tmp_path, {"s": 100})
    note_migrations(tmp_path, *BEFORE_RELEASE)
    store = SqliteStore(tmp_path)
    assert store.append("s", 100, [b"more"]) == 101
    assert list(store.read("s")) == [*(noise(number) for number in range(1, 101)), b"more"]
    store.close()


@pytest.mark.parametrize("number", [1, 5])
def test_a_file_from_before_the_first_release_is_refused_and_not_touched(number: int, tmp_path: Path) -> None:
    path = filled(tmp_path, {"s": 3})
    note_migrations(tmp_path, *BEFORE_RELEASE[:number])
    change(tmp_path, "DELETE FROM migrations WHERE name = 'packed_and_recent_rows'")
    before = path.read_bytes()
    with pytest.raises(DamagedData, match=r"before version 0\.1\.0.*Open it once with version 0\.1\.0"):
        SqliteStore(tmp_path)
    assert path.read_bytes() == before
