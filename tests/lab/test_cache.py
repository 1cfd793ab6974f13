"""Results kept by what they were made from."""

import subprocess
import sys
from pathlib import Path

from tidegate.lab.comparison.result_cache import (
    ENGINE_MODULE,
    IMPORTERS_MODULE,
    RECOVERY_MODULE,
    SCORING_MODULE,
    ResultCache,
    collect_module_sources,
    hash_module_code,
    hash_values,
)


def test_what_was_put_is_found_and_what_is_damaged_is_not(tmp_path: Path) -> None:
    kept = ResultCache(tmp_path / "cache")
    key = hash_values("some", 1)
    assert kept.get(key, list[int]) is None
    kept.put(key, [1, 2])
    assert kept.get(key, list[int]) == [1, 2]
    assert kept.get(key, list[str]) is None, "of another kind, so of other code"
    (file,) = (tmp_path / "cache").rglob("*.mp")
    assert file.parent.stat().st_mode & 0o077 == 0, "pieces of sessions are in there"
    file.write_bytes(file.read_bytes()[:-1])
    assert kept.get(key, list[int]) is None


def test_a_key_is_of_values_and_of_their_order() -> None:
    assert hash_values("a", 1, [2]) == hash_values("a", 1, [2])
    assert len({hash_values("a", 1), hash_values(1, "a"), hash_values("a", "1"), hash_values("a", [1])}) == 4


def test_the_code_of_a_policy_is_the_engine_and_that_of_a_measure_is_not() -> None:
    """A change of the engine must not have the peers measured again; that takes minutes."""
    engine, measures, readers = (
        collect_module_sources(module) for module in (ENGINE_MODULE, SCORING_MODULE, IMPORTERS_MODULE)
    )
    assert {"tidegate.core.plan", "tidegate.core.view", "tidegate.session.session"} <= engine.keys()
    assert {
        "tidegate.lab.scoring.request_scorer",
        "tidegate.lab.scoring.signals",
        "tidegate.lab.scoring.identifiers",
    } <= measures.keys()
    assert (
        not {"tidegate.core.plan", "tidegate.session.session", "tidegate.lab.comparison.report.text"} & measures.keys()
    )
    assert "tidegate.lab.importers/claude_code.py" in readers
    assert len({hash_module_code(module) for module in (ENGINE_MODULE, SCORING_MODULE, IMPORTERS_MODULE)}) == 3
    theirs = collect_module_sources(SCORING_MODULE, but=RECOVERY_MODULE)
    assert RECOVERY_MODULE in measures
    assert not {RECOVERY_MODULE, "tidegate.core.view", "tidegate.core.ledger.writer"} & theirs.keys(), (
        "other tools have no recall"
    )
    assert "tidegate.lab.scoring.occurrences" in theirs
    assert (
        hash_module_code(SCORING_MODULE, but=RECOVERY_MODULE)
        != hash_module_code(SCORING_MODULE)
        == hash_module_code(SCORING_MODULE, but="tidegate.lab.nothing")
    )


def test_a_changed_file_is_other_code(tmp_path: Path) -> None:
    """In a package of its own, in a process of its own."""
    package = tmp_path / "tidegate"
    (package / "lab").mkdir(parents=True)
    cache = Path(sys.modules[ResultCache.__module__].__file__ or "")
    (package / "__init__.py").touch()
    (package / "lab" / "__init__.py").touch()
    (package / "lab" / "cache.py").write_bytes(cache.read_bytes())
    (package / "one.py").write_text("from tidegate.lab.two import x\n")
    program = "from tidegate.lab.comparison.result_cache import code_of; print(code_of('tidegate.one'))"
    seen = []
    for text in ("x = 1\n", "x = 2\n", "x = 1\n"):
        (package / "lab" / "two.py").write_text(text)
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"]
        seen.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert seen[0] == seen[2] != seen[1]
