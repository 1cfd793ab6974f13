"""A kill inside forget, fork or import: the doctor calls it unfinished, and the next opening completes it."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNFINISHED = "It is completed at the next opening, or now with --repair."
KEPT, CREATED, REMOVED = ("a", "another"), ("a", "another", "new"), ("another",)
OUTCOMES = {
    "forget message": {KEPT},
    "forget words": {KEPT},
    "forget session": {KEPT, REMOVED},
    "retention": {KEPT, REMOVED},
    "fork": {KEPT, CREATED},
    "import": {KEPT, CREATED},
    "export": {KEPT},
}
"""The sessions of the folder when it was opened again: as before the change, or as after it."""


def kill_acts(folder: Path, most: int, *acts: str) -> dict[str, list[dict[str, Any]]]:
    run = [sys.executable, "-m", "tests.datafolder.interrupted", str(folder), str(most), *acts]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in subprocess.check_output(run, text=True, cwd=ROOT).splitlines():
        row = json.loads(line)
        rows[row["act"]].append(row)
    return rows


def check_rows(act: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert all(said.startswith("unfinished") and said.endswith(UNFINISHED) for said in row["killed"]), row
        assert row["opened"] == [], row
    if act == "forget words":
        begun = [row for row in rows if row["killed"]]
        assert begun
        assert all(row["secret"] == [] for row in begun), "a phrase is forgotten once its forgetting has begun"
    if act == "export":  # the program imports what it finds; a part of a file would be refused
        assert all(row["killed"] == [] for row in rows), row
    assert {tuple(row["sessions"]) for row in rows} == OUTCOMES[act]


def test_a_change_that_was_killed_is_completed_by_the_next_opening(tmp_path: Path) -> None:
    """At the first, the last and one other operation of each change."""
    rows = kill_acts(tmp_path, 3, *OUTCOMES)
    assert rows.keys() == OUTCOMES.keys()
    for act, found in rows.items():
        assert len(found) >= 3
        check_rows(act, found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("act", OUTCOMES)
def test_a_change_is_completed_wherever_it_was_killed(tmp_path: Path, act: str) -> None:
    """At 12 operations of it, and at more with TIDEGATE_CASES."""
    rows = kill_acts(tmp_path, 12, act)[act]
    assert act == "export" or len(rows) >= 12
    assert act == "export" or sum(bool(row["killed"]) for row in rows) > 5
    check_rows(act, rows)
