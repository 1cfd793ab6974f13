"""Scripts from the outside: what they are given wrongly they say, and what they write is whole."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.peers.played import SHORT, WINDOW, judged, lines_of, long, record, run
from tidegate.lab import peers

SCRIPT = str(peers.SCRIPTS_FOLDER / "tail_only.py")


def told(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-E", SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--window", "0", "--out", "o"], "--window must be at least 1"),
        (["--window", "10", "--out", "o", "--settings", "{"], "not JSON"),
        (["--window", "10", "--out", "o", "--settings", '{"high": 1}'], "known: low (0.0)"),
        (["--window", "10", "--out", "o", "--settings", "[]"], "not known"),
        (["--out", "o"], "--window"),
    ],
)
def test_wrong_arguments_are_said(arguments: list[str], says: str) -> None:
    done = told("a.jsonl", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"role": "user", "content": "a"}\n{broken\n', "line 2: broken JSON"),
        (b"[1]\n", "line 1: not a message"),
        (gzip.compress(b"x" * 1000, mtime=0)[:20], "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_recording_is_said_and_leaves_nothing(tmp_path: Path, content: bytes | None, says: str) -> None:
    recording = tmp_path / "a.jsonl"
    if content is not None:
        recording.write_bytes(content)
    done = told(str(recording), "--window", "100", "--out", str(tmp_path / "out.jsonl"))
    assert done.returncode == 1
    assert says in done.stderr
    assert "a.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_plain_packed_one_and_many_are_the_same(tmp_path: Path) -> None:
    peer = peers.find_peer("tail-sliding")
    assert peer is not None
    one, other = record(tmp_path / "one.jsonl", SHORT), record(tmp_path / "other.jsonl.gz", long())
    figures = run(peer, [one, other], tmp_path / "out")
    assert [figure["recording"] for figure in figures] == ["one.jsonl", "other.jsonl.gz"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one.jsonl.gz", "other.jsonl.gz"]
    run(peer, other, tmp_path / "alone.jsonl")
    run(peer, other, tmp_path / "again.jsonl.gz")
    assert lines_of(tmp_path / "alone.jsonl") == lines_of(tmp_path / "out" / "other.jsonl.gz")
    assert (tmp_path / "again.jsonl.gz").read_bytes() == (tmp_path / "out" / "other.jsonl.gz").read_bytes()


def test_without_the_guard_faults_are_told_and_nothing_is_touched(tmp_path: Path) -> None:
    peer = peers.find_peer("masking")
    assert peer is not None
    messages = long()
    recording = record(tmp_path / "a.jsonl", messages)
    [free] = run(peer, recording, tmp_path / "free.jsonl", guard=False)
    [held] = run(peer, recording, tmp_path / "held.jsonl")
    assert free["over"] == held["over"] > 0
    lines = lines_of(tmp_path / "free.jsonl")
    assert sum("over" in line.get("faults", ()) for line in lines) == free["over"]
    assert not any("guarded" in line for line in lines)
    judged(lines_of(tmp_path / "held.jsonl"), messages)
    for before, after in zip(lines, lines_of(tmp_path / "held.jsonl"), strict=True):
        if "faults" not in before:
            assert before == after
        else:
            assert after["guarded"]["tokens"] > WINDOW


def test_a_recording_that_begins_with_an_answer_is_played(tmp_path: Path) -> None:
    messages = SHORT[2:]
    for peer in peers.PEERS:
        if not peer.runs_published_code:
            run(peer, record(tmp_path / "a.jsonl", messages), tmp_path / "out.jsonl")
            lines = lines_of(tmp_path / "out.jsonl")
            assert [line["at"] for line in lines] == [0, 3, 5, 7]
            assert lines[0]["messages"] == [{"role": "user", "content": "[earlier messages left out]"}]
            assert [line["messages"] for line in lines[1:]] == [messages[:at] for at in (3, 5, 7)]
            assert not any("faults" in line for line in lines[1:])
