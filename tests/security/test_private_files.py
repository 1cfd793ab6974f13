"""Threat: another user of the machine reads a conversation, from a file of the data folder or one that was exported.
Files are made for their owner alone, whatever the umask is, and so are the temporary files they are written through.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.security.planted import PLANTED

WORK = Path(__file__).with_name("every_file.py")
OPEN = 0o077


class Made(NamedTuple):
    home: Path
    seen: dict[str, int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, str(WORK), str(home), PLANTED["anthropic"].text]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=home)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return Made(home, json.loads((home / "seen.json").read_text()))


def test_no_file_is_for_others(made: Made) -> None:
    assert {name: oct(mode) for name, mode in made.seen.items() if mode & OPEN} == {}


def test_all_kinds_of_files_were_looked_at(made: Made) -> None:
    """Else the test above would hold because nothing was made."""
    names = set(made.seen)
    kinds = ["data/tidegate.db", "data/tidegate.db-wal", "data/search.db-wal", "data/blobs/", "data/memory/own.md"]
    kinds += ["data/traces/", "data/views/", "data/sessions/jutul/conversation_history/", "data/damaged/", "cache/"]
    kinds += ["out/s.html", "out/s.tidegate", "out/a.json", "out/a.csv", "out/a.html", "out/kept.json", "out/requests/"]
    missing = [kind for kind in kinds if not any(name.startswith(kind) for name in names)]
    assert missing == []
    assert any(name.endswith(".writing") for name in names), "temporary files, too"


def test_folders_of_the_data_are_for_their_owner(made: Made) -> None:
    folders = [path for path in (made.home / "data", *(made.home / "data").rglob("*")) if path.is_dir()]
    assert len(folders) > 5
    assert {str(path): oct(path.stat().st_mode) for path in folders if path.stat().st_mode & OPEN} == {}
