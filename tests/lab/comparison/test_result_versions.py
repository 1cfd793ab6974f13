"""The figures of a small comparison are those of the file beside this one, unless a version was raised.

The cache of the lab finds results by version numbers: a change that alters results without raising a number would mix
old and new figures. Run `python -m tests.lab.comparison.test_result_versions` to write the file again.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tests.lab.recordings import record
from tidegate.lab.comparison.cells import ComparisonTerms
from tidegate.lab.comparison.contenders import find_peer_contenders, make_policy_contender
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS
from tidegate.lab.comparison.runner import ComparisonPlan, run_comparison
from tidegate.lab.comparison.session_sources import merge_scans, scan_sources
from tidegate.lab.worker_pool import ProcessEngine

STORED = Path(__file__).with_name("result_versions.json")
WINDOW = 2000
TIMES = {"pause"}
"""Measures that differ from run to run."""


def measure_figures(folder: Path) -> dict[str, Any]:
    """Each measure of two generated sessions under two presets and one peer, with the versions."""
    cache = folder / "cache"
    sources = merge_scans(scan_sources(record(folder / "recordings", 2, 2), cache, "chars/4", 1)).sources
    contenders = (
        make_policy_contender("default"),
        make_policy_contender("ai"),
        *find_peer_contenders(["masking"]).contenders,
    )
    terms = ComparisonTerms("chars/4", "", (), str(cache))
    results = run_comparison(ComparisonPlan(tuple(sources), contenders, (WINDOW,), terms), ProcessEngine(1))
    assert not results.failures
    figures = {
        contender.key: {
            source.name: {
                key: value if value is None else round(value, 9)
                for key, value in results.figures[WINDOW][contender.key][source.content_hash].compute_measures().items()
                if key not in TIMES
            }
            for source in sources
        }
        for contender in contenders
    }
    return {"versions": msgspec.structs.asdict(CURRENT_VERSIONS), "figures": figures}


def test_changed_figures_have_a_raised_version(tmp_path: Path) -> None:
    stored, found = json.loads(STORED.read_text("utf-8")), measure_figures(tmp_path)
    if stored["versions"] == found["versions"]:
        assert found["figures"] == stored["figures"], "results changed: raise a number in ResultVersions"
    assert found == stored, "a version was raised: write the file again (see the top of this module)"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        STORED.write_text(json.dumps(measure_figures(Path(made)), indent=1) + "\n", "utf-8")
