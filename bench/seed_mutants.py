"""Break the agent in one place at a time, and see whether the tests of the rows about that place fail.

    python bench/seed_mutants.py [--only WORD] [--list]

Each mutant is a copy of the package in which one text is replaced by another. The tests of its rows (`tidegate seeds`
names them) run against the copy. Those in tests/seeds test policies without an agent, so they run only for mutants of
the packages below the agent. A row none of whose tests fails is not proved by them: the program then ends with status
1. The mutants are in `seed_mutant_list.py`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from seed_mutant_list import MUTANTS, Mutant

from tidegate.proof.seeds import link_tests, load_seeds, name_in_report, read_test_results

ROOT = Path(__file__).resolve().parents[1]
_BELOW_THE_AGENT = ("core/", "presets/", "models/", "memory/", "session/", "datafolder/")


class Verdict(NamedTuple):
    row: str
    failed: int
    total: int


def make_copy(folder: Path, mutant: Mutant) -> None:
    """Copy the package and break it. LookupError if the place is not there: the list must follow the code."""
    shutil.copytree(ROOT / "src", folder / "src")  # with the compiled files: only the broken one is compiled again
    path = folder / "src" / "tidegate" / mutant.file
    text = path.read_text("utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(f"{mutant.name}: {mutant.file} has the text to replace {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")


def run_rows(mutant: Mutant, tests_by_row: dict[str, list[str]]) -> list[Verdict]:
    """Run the tests of the mutant's rows against its copy."""
    rows = mutant.rows.split()
    if not mutant.file.startswith(_BELOW_THE_AGENT):
        tests_by_row = {
            row: [test for test in tests_by_row[row] if not test.startswith("tests/seeds/")] for row in rows
        }
    tests = sorted({test for row in rows for test in tests_by_row[row]})
    if not tests:
        raise LookupError(f"{mutant.name}: no test of {mutant.rows} goes through an agent")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_copy(folder, mutant)
        report = folder / "report.xml"
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if not report.is_file():
            raise RuntimeError(process.stdout + process.stderr)
        results = read_test_results(report)
    return [
        Verdict(row, sum(not results.get(name_in_report(test), False) for test in row_tests), len(row_tests))
        for row in rows
        for row_tests in [tests_by_row[row]]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants with this word in their name or rows")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    options = parser.parse_args()
    mutants = [each for each in MUTANTS if options.only.lower() in f"{each.name} {each.rows}".lower()]
    if options.list:
        print("\n".join(f"{each.name}: {each.rows}" for each in mutants))
        return 0
    rows = load_seeds()
    link_tests(rows, ROOT)
    tests_by_row = {row.id: list(row.tests) for row in rows}
    green = 0
    for mutant in mutants:
        began = time.monotonic()
        verdicts = run_rows(mutant, tests_by_row)
        green += sum(not each.failed for each in verdicts)
        cells = ", ".join(
            f"{each.row} {each.failed}/{each.total}" + ("" if each.failed else " GREEN") for each in verdicts
        )
        print(f"{mutant.name}: {cells} ({time.monotonic() - began:.0f} s)", flush=True)
    pairs = sum(len(each.rows.split()) for each in mutants)
    print(f"{len(mutants)} mutants, {pairs} rows to fail, {green} stayed green")
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main())
