"""The registry of peers is true: scripts, versions and environments are there, and a missing one is explained."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.core.errors import BadInput
from tidegate.lab.peer_registry import (
    CHECKOUT,
    Peer,
    explain_missing_peer,
    find_peer,
    get_scripts_folder,
    load_peers,
)

BENCH = CHECKOUT / "bench"
PEERS = load_peers()
REQUIREMENTS_FOLDER = BENCH / "peers" / "requirements"
SCRIPTS_FOLDER = get_scripts_folder()


def test_names_are_distinct_and_scripts_are_there() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert (SCRIPTS_FOLDER / f"{peer.script}.py").is_file(), peer.name
        assert peer.description.endswith(".")
        assert peer.runs_published_code == bool(peer.package)


def test_scripts_know_nothing_of_tidegate_and_shadow_nobody() -> None:
    outside = {"langchain", "deepagents", "agents", "inspect_ai", "agent_framework", "strands", "pydantic_ai"}
    for path in SCRIPTS_FOLDER.glob("*.py"):
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


def run_program(program: str, *options: str) -> str:
    done = subprocess.run([sys.executable, *options, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout


def test_every_cost_row_has_a_runner_and_an_environment() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r}); import prepare;"
        "print(*(f'{row.name} {row.environment}' for row in prepare.COST_ROWS), sep='\\n')"
    )
    rows = [line.split() for line in run_program(program).splitlines()]
    assert len({name for name, _ in rows}) == len(rows) > 5
    for name, environment in rows:
        assert (BENCH / "runners" / f"{name}_runner.py").is_file(), name
        assert (REQUIREMENTS_FOLDER / f"{environment}.txt").is_file(), name
    runners = {path.stem for path in (BENCH / "runners").glob("*.py")}
    assert not {path.stem for path in SCRIPTS_FOLDER.glob("*.py")} & runners, "both folders are on the path of a runner"


def test_environments_are_built_without_any_installed_package() -> None:
    """`make peers` runs before `make setup`: -S hides the installed packages."""
    program = f"import sys; sys.path.insert(0, {str(BENCH / 'peers')!r}); import build; print(*build.ENVIRONMENT_NAMES)"
    names = run_program(program, "-S", "-E").split()
    assert {peer.environment for peer in PEERS if peer.runs_published_code} <= {*names}


def test_without_a_checkout_the_error_says_where_the_peers_are(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not in the installed package") as caught:
        load_peers(tmp_path)
    assert "make peers" in str(caught.value)
