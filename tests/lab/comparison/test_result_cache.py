"""The cache of results: values are found again under their key, and the key depends on all that decides a result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.lab.recordings import record
from tidegate.lab.comparison.cells import ComparisonCell, ComparisonTerms
from tidegate.lab.comparison.contenders import find_peer_contenders, make_policy_contender
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS, ResultCache, hash_values
from tidegate.lab.comparison.session_sources import SessionSource, scan_sources
from tidegate.models.pricing import TokenRates
from tidegate.proof.session_generator import generate_session


def test_a_stored_value_is_found_and_a_damaged_file_is_not(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache")
    key = hash_values("some", 1)
    assert cache.get(key, list[int]) is None
    cache.put(key, [1, 2])
    assert cache.get(key, list[int]) == [1, 2]
    assert cache.get(key, list[str]) is None, "a value of another type is not found"
    (file,) = (tmp_path / "cache").rglob("*.mp")
    assert file.parent.stat().st_mode & 0o077 == 0, "only the user may read pieces of sessions"
    file.write_bytes(file.read_bytes()[:-1])
    assert cache.get(key, list[int]) is None


def test_a_hash_depends_on_values_types_and_order() -> None:
    assert hash_values("a", 1, [2]) == hash_values("a", 1, [2])
    assert len({hash_values("a", 1), hash_values(1, "a"), hash_values("a", "1"), hash_values("a", [1])}) == 4


def scan(path: Path, cache: Path) -> SessionSource:
    (found,) = scan_sources([path], cache, "chars/4", 1)
    return found.sources[0]


@pytest.fixture
def cell(tmp_path: Path) -> ComparisonCell:
    (recording,) = record(tmp_path / "recordings", 1, 1)
    terms = ComparisonTerms("chars/4", "", (), str(tmp_path / "cache"))
    return ComparisonCell(scan(recording, tmp_path / "cache"), make_policy_contender("default"), 2000, terms)


def test_the_key_of_a_cell_changes_with_everything_that_decides_its_figures(
    cell: ComparisonCell, tmp_path: Path
) -> None:
    change = msgspec.structs.replace
    other_content = scan(record(tmp_path / "other", 1, 1, turns=4)[0], tmp_path / "cache")
    terms = [
        change(cell.terms, count="exact"),
        change(cell.terms, common_names_key="names"),
        change(cell.terms, rates=(TokenRates(1.0, 2.0),)),
        change(cell.terms, versions=change(CURRENT_VERSIONS, engine=CURRENT_VERSIONS.engine + 1)),
        change(cell.terms, versions=change(CURRENT_VERSIONS, scoring=CURRENT_VERSIONS.scoring + 1)),
    ]
    cells = [
        cell,
        change(cell, source=other_content),
        change(cell, contender=make_policy_contender("ai")),
        change(cell, contender=make_policy_contender("default", (("fidelity", "0.123"),))),
        change(cell, window=4000),
        *(change(cell, terms=each) for each in terms),
    ]
    assert len({each.cache_key for each in cells}) == len(cells)


def test_the_key_of_a_cell_does_not_change_with_the_place_of_the_recording(
    cell: ComparisonCell, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(Path(cell.source.path).read_bytes())
    same = msgspec.structs.replace(cell, source=scan(moved, tmp_path / "cache"))
    assert same.source.path != cell.source.path
    assert same.cache_key == cell.cache_key


def test_a_policy_file_is_another_contender_when_a_setting_changes_and_the_same_with_a_comment(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (Path(__file__).parents[3] / "src/tidegate/presets/default.yaml").read_text("utf-8")
    file.write_text(text, "utf-8")
    plain = make_policy_contender(str(file)).fingerprint
    file.write_text(f"# a comment\n{text}", "utf-8")
    assert make_policy_contender(str(file)).fingerprint == plain
    assert make_policy_contender(str(file), (("fidelity", "0.123"),)).fingerprint != plain


def test_results_of_peers_outlive_a_change_of_the_engine_only(cell: ComparisonCell) -> None:
    """Measuring all peers again takes minutes."""
    change = msgspec.structs.replace
    (masking,) = find_peer_contenders(["masking"]).contenders
    of_peer = change(cell, contender=masking)

    def key(**raised: int) -> str:
        return change(of_peer, terms=change(cell.terms, versions=change(CURRENT_VERSIONS, **raised))).cache_key

    assert key(engine=CURRENT_VERSIONS.engine + 1) == of_peer.cache_key
    assert key(peers=CURRENT_VERSIONS.peers + 1) != of_peer.cache_key
    assert key(scoring=CURRENT_VERSIONS.scoring + 1) != of_peer.cache_key
    sliding, hysteresis = find_peer_contenders(["tail-sliding", "tail-hysteresis"]).contenders
    assert sliding.fingerprint != hysteresis.fingerprint, "one script with two settings"


@pytest.mark.exhaustive
def test_every_process_finds_the_results_of_all_presets_in_the_cache(tmp_path: Path) -> None:
    """Python orders sets differently in each process; the key of a result must not depend on it."""
    recording, cache = tmp_path / "one.jsonl", tmp_path / "cache"
    recording.write_text("".join(json.dumps(message) + "\n" for message in generate_session(2, 1)))
    stored = []
    for seed in ("1", "2"):
        words = ["lab", str(recording), "--window", "2000", "--cache", str(cache), "--jobs", "1"]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-m", "tidegate", *words], env=environment, check=True, capture_output=True)
        stored.append(sorted(path.relative_to(cache) for path in cache.rglob("*") if path.is_file()))
    assert stored[0] == stored[1]
