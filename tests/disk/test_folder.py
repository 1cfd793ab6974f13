"""Names, appends and whole writes. What notes need of a folder is tested with the notes."""

import os
import resource
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.dying import ended, killed_at, started
from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import hold_lock, make_folder, write_atomically
from tidegate.disk.folder import Folder, safe_join, session_file_key


def folder(root: Path, max_file: int = 1_000_000) -> Folder:
    return Folder(root, max_file=max_file)


# Keys.


@pytest.mark.parametrize("name", ["build-fix", "s", "0192-aa.b_c", "a" * 80])
def test_a_plain_name_is_its_own_key(name: str) -> None:
    assert session_file_key(name) == name


ODD = ["", ".", "..", ".lock", "a/b", "../x", "Build", "a b", "a~b", "a" * 81, "-x", "x\n", "阀门", "\ud800", "a\0"]


def test_any_other_name_gets_one() -> None:
    for name in ODD:
        assert "~" in session_file_key(name), name
        assert session_file_key(name) != session_file_key(name + "x"), name


def test_a_key_can_be_read() -> None:
    assert session_file_key("Fix the Pump/Hall 7").startswith("fix-the-pump-hall-7~")
    assert session_file_key("阀门").startswith("阀门~")


@given(st.text(), st.text())
def test_every_key_is_a_file_name_and_no_two_share_one(one: str, other: str) -> None:
    for key in (session_file_key(one), session_file_key(session_file_key(one))):
        safe_join(Path("/nowhere"), key)
        assert key == key.lower() or not key.isascii()
        assert "/" not in key
    assert (session_file_key(one) == session_file_key(other)) == (one == other)


# Whole writes.


def test_a_file_is_written_once_and_exactly(tmp_path: Path) -> None:
    files = folder(tmp_path / "a" / "b")
    assert files.write("deep/er/file", "one\r\ntwo\n\n")
    path = files.root / "deep/er/file"
    assert path.read_bytes() == b"one\r\ntwo\n\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert not files.write("deep/er/file", "one\r\ntwo\n\n")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert files.write("deep/er/file", "other")
    assert files.size() == files.size("deep/er/file") == 5
    assert files.size("none") == 0
    with pytest.raises(BadInput, match=r"would have 1,000,001 bytes, more than 1,000,000; nothing was written"):
        files.write("deep/er/file", "x" * 1_000_001)
    assert files.read("deep/er/file") == "other"


def test_write_whole_leaves_nothing_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for durable in (True, False):
            with pytest.raises(NotKept, match="file was not written: File too large"):
                write_atomically(path, b"n" * 5000, durable=durable)

    assert ended(started(work)) == 0
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]
    write_atomically(path, b"new", durable=False)
    assert path.read_bytes() == b"new"


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotKept):
        make_folder(tmp_path / "file" / "below")
    with pytest.raises(NotKept):
        write_atomically(tmp_path / "file" / "below", b"x")


def test_turns_are_taken_or_shared(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with hold_lock(lock, shared=True), hold_lock(lock, shared=True, patience=0), pytest.raises(NotKept):
        hold_lock(lock, patience=0).__enter__()
    with hold_lock(lock), pytest.raises(NotKept, match="held the lock lock for 0 s"):
        hold_lock(lock, shared=True, patience=0).__enter__()
    with hold_lock(lock, patience=0):
        pass


# Appends.


def test_appends_come_one_behind_the_other(tmp_path: Path) -> None:
    files = folder(tmp_path)
    assert files.append("talk/main.md", "## m1 user\n\nhello\n\n")
    assert files.append("talk/main.md", "## m2 user\n\nagain\n\n")
    assert files.read("talk/main.md") == "## m1 user\n\nhello\n\n## m2 user\n\nagain\n\n"
    assert stat.S_IMODE((tmp_path / "talk/main.md").stat().st_mode) == 0o600
    with pytest.raises(BadInput, match="nothing was written"):
        files.append("talk/main.md", "x" * 1_000_000)
    assert not files.append("talk/main.md", "")


def test_what_is_there_already_is_not_appended_again(tmp_path: Path) -> None:
    files = folder(tmp_path)
    first, second, third = (f"## m{number} user\n\n{'text ' * number}\n\n" for number in (1, 2, 3))
    files.append("a", first)
    assert files.append("a", second + third)
    assert not files.append("a", second + third)
    assert not files.append("a", third)
    assert files.append("a", third + "## m4 user\n\nmore\n\n"), "the same and more"
    assert files.read("a") == first + second + third + "## m4 user\n\nmore\n\n"
    assert files.append("a", first), "an older passage that comes again is a new one"
    assert files.append("a", "## m4"), "chance is not repetition"
    assert str(files.read("a")).endswith(first + "## m4")


def test_every_torn_append_is_made_whole(tmp_path: Path) -> None:
    files = folder(tmp_path)
    old, new = "## m1 user\n\nold\n\n", "## m2 user\n\n## m2 user\nnew ää\n\n"
    for cut in range(len(new.encode()) + 1):
        name = f"f{cut}"
        (tmp_path / name).write_bytes(old.encode() + new.encode()[:cut])
        files.append(name, new)
        text = (tmp_path / name).read_text("utf-8")
        assert text.startswith(old)
        assert text.endswith("\n" + new)
        if cut == 0 or cut > len("## m2 user"):
            assert text == old + new


def test_a_file_a_person_wrote_in_is_continued_on_a_line_of_its_own(tmp_path: Path) -> None:
    files = folder(tmp_path)
    (tmp_path / "a").write_text("mine, without a line end")
    files.append("a", "## m1\n")
    assert files.read("a") == "mine, without a line end\n## m1\n"


def test_killed_at_every_step_of_an_append(tmp_path: Path) -> None:
    step = 0
    while True:
        step += 1
        files = folder(tmp_path / str(step))
        files.append("deep/a", "## m1\nold\n")
        alive = not killed_at(step, lambda files=files: files.append("deep/a", "## m2\nnew\n") and None)  # type: ignore[misc]
        assert files.read("deep/a") in ("## m1\nold\n", "## m1\nold\n## m2\nnew\n")
        files.append("deep/a", "## m2\nnew\n")
        assert files.read("deep/a") == "## m1\nold\n## m2\nnew\n"
        if alive:
            break
    assert step >= 4


def test_an_append_that_fails_is_taken_back(tmp_path: Path) -> None:
    files = folder(tmp_path)
    files.append("a", "old\n")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        with pytest.raises(NotKept, match="a was not written: File too large"):
            files.append("a", "n" * 9_000)

    assert ended(started(work)) == 0
    assert files.read("a") == "old\n"


def test_links_and_other_kinds_are_not_appended_to(tmp_path: Path) -> None:
    files = folder(tmp_path / "in")
    files.append("a", "x\n")
    (tmp_path / "outside").write_text("theirs")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "in" / "pipe")
    for name in ("link", "../outside", "pipe", ".lock"):
        for write in (files.append, files.write):
            with pytest.raises((BadInput, NotKept)):
                write(name, "x\n")
    assert (tmp_path / "outside").read_text() == "theirs"
