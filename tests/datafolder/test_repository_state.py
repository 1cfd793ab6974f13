"""What git says about a folder, and that asking it runs nothing of the repository."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tidegate.datafolder.repository_state import describe_change, read_repository_state

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-b", "main")
    (folder / "pump.py").write_text("speed = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    return folder


def test_three_lines_say_what_changed(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    (folder / "pump.py").write_text("speed = 2\n")
    before = read_repository_state(folder)
    assert before is not None
    assert before.branch == "main"
    assert [(file.name, file.state) for file in before.files] == [("pump.py", ".M")]
    git(folder, "commit", "-am", "second")
    git(folder, "checkout", "-b", "fix")
    (folder / "new\nline.txt").write_text("x")
    now = read_repository_state(folder)
    assert now is not None
    lines = describe_change(before, now)
    assert len("\n".join(lines).splitlines()) == 3
    assert f"branch main, commit {before.commit[:12]}, changed: pump.py, untracked: none" in lines[0]
    assert f"branch fix, commit {now.commit[:12]}, changed: none" in lines[1]
    assert "the branch; the commit; files new" in lines[2]
    assert "no longer changed pump.py" in lines[2]
    assert describe_change(now, now)[2] == "Changed since: nothing."


def test_a_file_that_was_edited_again_is_named(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    (folder / "pump.py").write_text("speed = 2\n")
    before = read_repository_state(folder)
    (folder / "pump.py").write_text("speed = 300\n")
    now = read_repository_state(folder)
    assert before is not None
    assert now is not None
    assert describe_change(before, now)[2] == "Changed since: files pump.py."


def test_nothing_of_the_repository_runs(tmp_path: Path) -> None:
    """A monitor, a filter, hooks, and the environment of the caller: none of them starts a program."""
    folder, ran = make_repository(tmp_path / "work"), tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(stat.S_IRWXU)
    for name in ("post-index-change", "fsmonitor-watchman"):
        shutil.copy(program, folder / ".git" / "hooks" / name)
    (folder / ".gitattributes").write_text("* filter=evil\n")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.external"):
        git(folder, "config", key, str(program))
    (folder / "pump.py").write_text("speed = 3\n")
    os.utime(folder / "pump.py", (1, 1))
    found = read_repository_state(folder)
    assert found is not None
    assert {file.name for file in found.files} == {"pump.py", ".gitattributes"}
    assert not ran.exists(), ran.read_text()


def test_without_a_repository_or_in_no_time_nothing_is_said(tmp_path: Path) -> None:
    assert read_repository_state(tmp_path) is None
    assert read_repository_state(tmp_path / "missing") is None
    assert read_repository_state(make_repository(tmp_path / "work"), deadline=1e-9) is None
