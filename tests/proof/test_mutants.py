"""The list of `make mutants` follows the code: each place to break exists, and only once."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS: list[tuple[str, str, str, str, str]] = runpy.run_path(str(ROOT / "bench" / "seed_mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_each_place_exists_once(mutant: tuple[str, str, str, str, str]) -> None:
    name, file, old, new, _ = mutant
    text = (ROOT / "src" / "tidegate" / file).read_text("utf-8")
    assert text.count(old) == 1, f"{name}: write in bench/seed_mutants.py what {file} has now"
    assert old != new
