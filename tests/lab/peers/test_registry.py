"""The registry of peers is true: scripts, versions and environments are there, and a missing one is explained."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from tidegate.lab.peers.build import ENVIRONMENT_NAMES, find_requirements
from tidegate.lab.peers.environments import explain_missing_peer
from tidegate.lab.peers.registry import COST_ROWS, PEERS, REQUIREMENTS_FOLDER, SCRIPTS_FOLDER, Peer, find_peer


def test_names_are_distinct_and_scripts_are_there() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert (SCRIPTS_FOLDER / f"{peer.script}.py").is_file(), peer.name
        assert peer.description.endswith(".")
        assert peer.runs_published_code == bool(peer.package)


def test_scripts_know_nothing_of_tidegate_and_shadow_nobody() -> None:
    outside = {"langchain", "deepagents", "agents", "inspect_ai", "agent_framework", "strands", "pydantic_ai"}
    for path in SCRIPTS_FOLDER.glob("*.py"):
        if path.name != "__init__.py":
            assert not re.search(r"^\s*(?:from|import) tidegate", path.read_text("utf-8"), re.MULTILINE), path.name
            assert path.stem not in outside
            assert path.stem not in sys.stdlib_module_names


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.runs_published_code], ids=lambda peer: str(peer.name))
def test_the_version_said_is_the_version_installed(peer: Peer) -> None:
    name, version = peer.package.split()
    pinned = (REQUIREMENTS_FOLDER / f"{peer.environment}.txt").read_text("utf-8").splitlines()
    assert f"{name}=={version}" in pinned


def test_environments_are_listed_without_an_index() -> None:
    for peer in PEERS:
        if peer.runs_published_code:
            text = (REQUIREMENTS_FOLDER / f"{peer.environment}.txt").read_text("utf-8")
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), peer.environment


def test_a_missing_environment_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PEERS", str(tmp_path))
    real = find_peer("deepagents")
    assert real is not None
    reason = explain_missing_peer(real)
    assert "make peers" in reason
    assert str(tmp_path) in reason
    assert {peer.name for peer in PEERS if not explain_missing_peer(peer)} == {
        peer.name for peer in PEERS if not peer.runs_published_code
    }
    made = tmp_path / "deepagents" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert explain_missing_peer(real) == ""
    assert explain_missing_peer(real) == ""


BENCH = Path(__file__).parents[3] / "bench"


@pytest.mark.skipif(not BENCH.is_dir(), reason="not a checkout: no bench/")
def test_every_cost_row_has_a_runner_and_every_environment_its_requirements() -> None:
    assert len({row.name for row in COST_ROWS}) == len(COST_ROWS)
    for row in COST_ROWS:
        assert (BENCH / "runners" / f"{row.name}_runner.py").is_file(), row.name
        assert row.environment in ENVIRONMENT_NAMES
    for name in ENVIRONMENT_NAMES:
        assert find_requirements(name).is_file(), name
    scripts = {path.stem for path in SCRIPTS_FOLDER.glob("*.py")} - {"__init__"}
    runners = {path.stem for path in (BENCH / "runners").glob("*.py")}
    assert not scripts & runners, "both folders are on the path of a runner"


def test_environments_are_built_without_any_installed_package() -> None:
    """`make peers` runs before `make setup`: -S hides the installed packages."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(tidegate.__file__).parents[1])!r}); import tidegate.lab.peers.build"
    )
    subprocess.run([sys.executable, "-S", "-E", "-c", program], check=True)
