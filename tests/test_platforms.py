"""Systems other than Linux, as far as they can be tested here: no /proc, another fsync, no fcntl."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import DataFolder
from tidegate.disk.atomic_files import sync_file

HIDDEN = ["unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


def can_hide_proc() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*HIDDEN, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_hide_proc(), reason="this user cannot hide /proc")
def test_without_proc(tmp_path: Path) -> None:
    """As on macOS: hiding the keys from other processes does no harm, and sessions are stored."""
    code = (
        "from tidegate.agent.environment import hide_environment; hide_environment();"
        "from tidegate import DataFolder; data = DataFolder('data'); session = data.open('kept', 'gpt-4o');"
        "session.add({'role': 'user', 'content': 'Hello.'}); session.close(); data.close()"
    )
    ran = subprocess.run(
        [*HIDDEN, sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    with DataFolder(tmp_path / "data") as data:
        assert [info.name for info in data.store.sessions()] == ["kept"]


@pytest.mark.parametrize("full_sync", [None, 51])
def test_a_file_is_synced_where_the_full_sync_is_not_known(tmp_path: Path, full_sync: int | None) -> None:
    """51 is F_FULLFSYNC of macOS, which is an error here: the ordinary fsync follows. A closed file is an error."""
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    sync_file(file, full_sync)
    os.close(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_file(file, full_sync)


@pytest.mark.parametrize(
    ("code", "last_line"),
    [
        (
            "from tidegate.cli.main import main; sys.exit(main(['sessions']))",
            "remedy: On Windows, run it in WSL: https://aka.ms/wsl",
        ),
        (
            "from tidegate import DataFolder",
            "ImportError: tidegate stores sessions on Linux and macOS. On Windows, use it in WSL (https://aka.ms/wsl).",
        ),
    ],
)
def test_windows_is_told_to_use_wsl(code: str, last_line: str) -> None:
    code = f"import sys; sys.modules['fcntl'] = None; {code}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == last_line
    assert ("Traceback" in ran.stderr) == ("ImportError" in last_line)
