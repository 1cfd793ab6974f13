"""Eight writers and a change of the folder at the same time, killed together: nothing acknowledged is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.datafolder.test_interrupted import UNFINISHED

ROUNDS = os.environ.get("TIDEGATE_CROWD", "1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("act", ["forget words", "forget session", "retention", "fork", "import", "export"])
def test_eight_writers_and_a_change_are_killed(tmp_path: Path, act: str) -> None:
    run = [sys.executable, "-m", "tests.datafolder.busy_folder", str(tmp_path), act, ROUNDS]
    rows = [json.loads(line) for line in subprocess.check_output(run, text=True).splitlines()]
    assert len(rows) == int(ROUNDS)
    for row in rows:
        assert row["acknowledged"] >= 3
        assert row["missing"] == []
        assert all(said.startswith("unfinished") and said.endswith(UNFINISHED) for said in row["killed"]), row
        assert row["opened"] == [], row
        assert row["finished"] >= 1
