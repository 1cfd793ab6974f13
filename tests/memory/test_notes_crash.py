"""Killed writers, many writers, a failing disk: a file is old or new, and nothing acknowledged is lost."""

import os
import random
import resource
import signal
import time
from datetime import UTC
from pathlib import Path

import pytest

from tests.memory.dying import ended, killed_at, started
from tests.scale import scaled
from tidegate.core.errors import NotKept
from tidegate.memory.notes import Notes

NOON = 1_763_208_000.0
DAY = "2025-11-15.md"


def opened(folder: Path) -> Notes:
    return Notes(folder, zone=UTC, clock=lambda: NOON)


def test_killed_at_every_step_the_file_is_old_or_new(tmp_path: Path) -> None:
    steps = seen_new = 0
    while True:
        steps += 1
        notes = opened(tmp_path / str(steps))
        notes.add_entry("old " * 500)
        old = notes.read(DAY)
        alive = not killed_at(steps, lambda notes=notes: notes.add_entry("new " * 500) and None)  # type: ignore[misc]
        now = notes.read(DAY)
        assert now.startswith(old)
        texts = [entry.text for entry in notes.read_entries(DAY)]
        assert texts in ([("old " * 500).strip()], [("old " * 500).strip(), ("new " * 500).strip()])
        assert notes.names() == [DAY]
        notes.add_entry("new " * 500)
        assert len(notes.read_entries(DAY)) == 2, "it goes on, and twice is once"
        assert sorted(path.name for path in notes.folder.root.iterdir()) == [".lock", DAY], "nothing is left over"
        seen_new += len(texts) == 2
        if alive:
            break
    assert steps >= 6
    assert seen_new >= 2


@pytest.mark.exhaustive
def test_killed_at_any_time_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    rng = random.Random(7)
    lives = scaled(8)
    for life in range(lives):
        receipts = tmp_path / f"receipts{life}"

        def work(life: int = life, receipts: Path = receipts) -> None:
            notes = opened(tmp_path / "memory")
            with receipts.open("ab", buffering=0) as file:
                for number in range(10_000):
                    notes.add_entry(f"entry {life}.{number} " + "x" * 2000, source=str(life))
                    file.write(b"%d\n" % number)

        pid = started(work)
        written = rng.randint(2, 30)
        while not receipts.exists() or receipts.read_bytes().count(b"\n") < written:
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
        ended(pid)
    texts = [entry.text for entry in opened(tmp_path / "memory").read_entries(DAY)]
    assert len(texts) == len(set(texts))
    for life in range(lives):
        receipts = tmp_path / f"receipts{life}"
        acknowledged = len(receipts.read_bytes().splitlines()) if receipts.exists() else 0
        mine = [text for text in texts if text.startswith(f"entry {life}.")]
        assert mine == [f"entry {life}.{number} " + "x" * 2000 for number in range(len(mine))]
        assert acknowledged <= len(mine) <= acknowledged + 1
    assert len(texts) >= 2 * lives


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    def work(writer: int) -> None:
        notes = opened(tmp_path)
        for number in range(12):
            notes.add_entry(f"of {writer}: {number}")
            notes.add_entry(f"of all: {number}")

    children = [started(lambda writer=writer: work(writer)) for writer in range(4)]  # type: ignore[misc]
    assert [ended(child) for child in children] == [0] * 4
    texts = [entry.text for entry in opened(tmp_path).read_entries(DAY)]
    expected = [f"of {writer}: {number}" for writer in (*range(4), "all") for number in range(12)]
    assert sorted(texts) == sorted(expected)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    notes = opened(tmp_path)
    notes.write("a.md", "old")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        with pytest.raises(NotKept, match="was not written: File too large"):
            notes.write("a.md", "n" * 100_000)

    assert ended(started(work)) == 0
    assert notes.read("a.md") == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "a.md"]


def test_a_place_that_is_no_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(NotKept):
        opened(tmp_path / "memory").add_entry("x")
    assert (tmp_path / "memory").read_text() == "a file"
