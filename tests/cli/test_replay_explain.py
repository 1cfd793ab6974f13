"""`replay --explain` tells the very edits that the table counts, and how far the next sweep is."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.lab.recordings import record
from tidegate.datafolder.archive.transfer import export_session
from tidegate.datafolder.data_folder import DataFolder

FORM = re.compile(r"  \d+ (\w+): [\d,]+ -> [\d,]+ tokens, [\d,]+ (?:freed|added); ")
COMMON = ("--window", 4_000, "--count", "chars/4", "--jobs", 1)


@pytest.mark.parametrize("policy", ["default", "cowagent"])
def test_what_is_told_is_what_was_counted(tmp_path: Path, policy: str) -> None:
    record(tmp_path, 2, 2)
    counted = json.loads(called("replay", tmp_path, "--policy", policy, *COMMON, "--json").stdout)
    done = called("replay", tmp_path, "--policy", policy, *COMMON, "--explain")
    assert done.returncode == 0
    for session in counted["sessions"]:
        told = done.stdout.split(f"\n{session['name']}\n")[1].split("\n\n")[0].splitlines()
        assert Counter(found[1] for line in told if (found := FORM.match(line))) == session["edits"]
        assert told[-1].startswith("  recalled: 0 found, 0 not; fetched again what could have been recalled: ")
        assert policy != "default" or "The next sweep comes at" in told[-2]
    swept = [line for line in done.stdout.splitlines() if " sweep: " in line]
    assert all(" are written to the cache again; " in line and " are reached after about " in line for line in swept)
    assert swept or policy != "default"


def test_it_is_for_people(tmp_path: Path) -> None:
    record(tmp_path, 1, 1)
    both = called("replay", tmp_path, *COMMON, "--explain", "--json")
    assert both.returncode != 0
    assert "Give one of them." in both.stderr
    assert "--explain" in called("replay", "--help").stdout


def test_an_export_is_replayed_like_a_recording(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    with data.open("build") as session:
        for number in range(4):
            session.add({"role": "user", "content": f"Question {number}?"}, {"role": "assistant", "content": "Yes."})
    export_session(data, "build", tmp_path / "build.tidegate")
    data.close()
    for given in (tmp_path / "build.tidegate", tmp_path):
        done = called("replay", given, "--window", 8_000, "--jobs", 1, "--json")
        assert done.returncode == 0, done.stderr
        (session_report,) = json.loads(done.stdout)["sessions"]
        assert (session_report["name"], session_report["requests"]) == ("build", 4)
