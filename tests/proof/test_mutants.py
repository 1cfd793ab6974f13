"""The list of `make mutants` follows the code: each place to break exists, and only once."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTANTS: list[tuple[str, str, str, str, str]] = runpy.run_path(str(ROOT / "bench" / "seed_mutant_list.py"))["MUTANTS"]


def test_each_place_exists_once() -> None:
    texts = {file: (ROOT / "src" / "tidegate" / file).read_text("utf-8") for _, file, *_ in MUTANTS}
    wrong = [f"{name}: {file}" for name, file, old, new, _ in MUTANTS if texts[file].count(old) != 1 or old == new]
    assert not wrong, "\n".join(["write in bench/seed_mutant_list.py what these files have now:", *wrong])
