"""A kill inside forget, fork or import: the doctor calls it unfinished, and the next opening completes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("interrupted.py")
UNFINISHED = "It is completed at the next opening, or now with --repair."


@pytest.mark.parametrize("act", ["forget message", "forget words", "forget session", "retention", "fork", "import"])
def test_a_change_that_was_killed_is_completed_by_the_next_opening(tmp_path: Path, act: str) -> None:
    run = [sys.executable, str(PROGRAM), str(tmp_path), act]
    rows = [json.loads(line) for line in subprocess.check_output(run, text=True).splitlines()]
    assert len(rows) > 15
    for row in rows:
        assert all(said.startswith("unfinished") and said.endswith(UNFINISHED) for said in row["killed"]), row
        assert row["opened"] == [], row
    begun = [row for row in rows if row["killed"]]
    assert len(begun) > 10
    assert all(row["secret"] == [] for row in begun), "a phrase is forgotten once its forgetting has begun"
    outcomes = {tuple(row["sessions"]) for row in rows}
    expected = {
        "forget session": {("a", "another"), ("another",)},
        "retention": {("a", "another"), ("another",)},
        "fork": {("a", "another"), ("a", "another", "new")},
        "import": {("a", "another"), ("a", "another", "new")},
    }
    assert outcomes == expected.get(act, {("a", "another")})


def test_an_export_that_was_killed_leaves_no_file_or_a_whole_one(tmp_path: Path) -> None:
    """The program imports what it finds; a part of a file would be refused."""
    run = [sys.executable, str(PROGRAM), str(tmp_path), "export"]
    rows = [json.loads(line) for line in subprocess.check_output(run, text=True).splitlines()]
    assert rows
    assert all(row["killed"] == row["opened"] == [] for row in rows)
