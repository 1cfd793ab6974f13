"""Several processes open a data folder that does not exist yet, at the same time."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scale import scaled
from tidegate.core.errors import BadInput
from tidegate.store.open import open_store
from tidegate.store.sqlite import SqliteStore

PROCESSES, FOLDERS = 3, scaled(12)
OPEN_EACH = """
import sys
from tidegate.datafolder.data_folder import DataFolder
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    data = DataFolder(f"{sys.argv[1]}/{number}/data")
    with data.open(sys.argv[3]) as session:
        session.add({"role": "user", "content": "hello"})
    data.close()
"""


@pytest.mark.exhaustive
def test_several_processes_can_open_a_new_folder_at_once(tmp_path: Path) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_EACH, str(tmp_path), str(FOLDERS), f"session {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.communicate()[1] for opener in openers] == [""] * PROCESSES
    for number in range(FOLDERS):
        store = open_store(tmp_path / f"{number}/data")
        assert {info.name for info in store.sessions()} == {f"session {number}" for number in range(PROCESSES)}
        store.close()


class AppearingFolder:
    """A path whose folder another process makes right after it was looked at for the first time."""

    def __init__(self, path: Path) -> None:
        self._uses = self._make_later(path)

    def _make_later(self, path: Path) -> Iterator[str]:
        yield str(path)
        yield str(path)
        path.mkdir()
        while True:
            yield str(path)

    def __fspath__(self) -> str:
        return next(self._uses)


def test_a_folder_that_appears_while_it_is_looked_for_is_a_folder(tmp_path: Path) -> None:
    SqliteStore(AppearingFolder(tmp_path / "data")).close()


def test_a_file_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(BadInput, match="is not a folder"):
        SqliteStore(tmp_path / "data")
