"""Results kept by what they were made from."""

import subprocess
import sys
from pathlib import Path

from tidegate.lab.cache import ENGINE, MEASURES, READERS, RECALL, Cache, code_of, digest_of, sources_of


def test_what_was_put_is_found_and_what_is_damaged_is_not(tmp_path: Path) -> None:
    kept = Cache(tmp_path / "cache")
    key = digest_of("some", 1)
    assert kept.get(key, list[int]) is None
    kept.put(key, [1, 2])
    assert kept.get(key, list[int]) == [1, 2]
    assert kept.get(key, list[str]) is None, "of another kind, so of other code"
    (file,) = (tmp_path / "cache").rglob("*.mp")
    assert file.parent.stat().st_mode & 0o077 == 0, "pieces of sessions are in there"
    file.write_bytes(file.read_bytes()[:-1])
    assert kept.get(key, list[int]) is None


def test_a_key_is_of_values_and_of_their_order() -> None:
    assert digest_of("a", 1, [2]) == digest_of("a", 1, [2])
    assert len({digest_of("a", 1), digest_of(1, "a"), digest_of("a", "1"), digest_of("a", [1])}) == 4


def test_the_code_of_a_policy_is_the_engine_and_that_of_a_measure_is_not() -> None:
    """A change of the engine must not have the peers measured again; that takes minutes."""
    engine, measures, readers = (sources_of(module) for module in (ENGINE, MEASURES, READERS))
    assert {"tidegate.core.plan", "tidegate.core.view", "tidegate.session.session"} <= engine.keys()
    assert {"tidegate.lab.gauge", "tidegate.lab.signals", "tidegate.lab.identifiers"} <= measures.keys()
    assert not {"tidegate.core.plan", "tidegate.session.session", "tidegate.lab.findings_text"} & measures.keys()
    assert "tidegate.lab.importers/claude_code.py" in readers
    assert len({code_of(module) for module in (ENGINE, MEASURES, READERS)}) == 3
    theirs = sources_of(MEASURES, but=RECALL)
    assert RECALL in measures
    assert not {RECALL, "tidegate.core.view", "tidegate.core.ledger"} & theirs.keys(), "other tools have no recall"
    assert "tidegate.lab.occurrences" in theirs
    assert code_of(MEASURES, but=RECALL) != code_of(MEASURES) == code_of(MEASURES, but="tidegate.lab.nothing")


def test_a_changed_file_is_other_code(tmp_path: Path) -> None:
    """In a package of its own, in a process of its own."""
    package = tmp_path / "tidegate"
    (package / "lab").mkdir(parents=True)
    cache = Path(sys.modules[Cache.__module__].__file__ or "")
    (package / "__init__.py").touch()
    (package / "lab" / "__init__.py").touch()
    (package / "lab" / "cache.py").write_bytes(cache.read_bytes())
    (package / "one.py").write_text("from tidegate.lab.two import x\n")
    program = "from tidegate.lab.cache import code_of; print(code_of('tidegate.one'))"
    seen = []
    for text in ("x = 1\n", "x = 2\n", "x = 1\n"):
        (package / "lab" / "two.py").write_text(text)
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"]
        seen.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert seen[0] == seen[2] != seen[1]
