"""The table of peers: what it says is so, and what is missing is said with what to do."""

import re
import sys
from pathlib import Path

import pytest

from tidegate.lab import peers

BENCH = Path(__file__).parents[3] / "bench" / "peers"


def test_names_are_distinct_and_scripts_are_there() -> None:
    assert len({peer.name for peer in peers.PEERS}) == len(peers.PEERS)
    for peer in peers.PEERS:
        assert (peers.SCRIPTS_FOLDER / f"{peer.script}.py").is_file(), peer.name
        assert peer.description.endswith(".")
        assert peer.runs_published_code == bool(peer.package)


def test_scripts_know_nothing_of_tidegate_and_shadow_nobody() -> None:
    outside = {"langchain", "deepagents", "agents", "inspect_ai", "agent_framework", "strands", "pydantic_ai"}
    for path in peers.SCRIPTS_FOLDER.glob("*.py"):
        if path.name != "__init__.py":
            assert not re.search(r"^\s*(?:from|import) tidegate", path.read_text("utf-8"), re.MULTILINE), path.name
            assert path.stem not in outside
            assert path.stem not in sys.stdlib_module_names


@pytest.mark.skipif(not BENCH.is_dir(), reason="not a checkout: no lists of the environments")
@pytest.mark.parametrize(
    "peer", [peer for peer in peers.PEERS if peer.runs_published_code], ids=lambda peer: str(peer.name)
)
def test_the_version_said_is_the_version_installed(peer: peers.Peer) -> None:
    name, version = peer.package.split()
    pinned = (BENCH / f"{peer.environment}.txt").read_text("utf-8").splitlines()
    assert f"{name}=={version}" in pinned


@pytest.mark.skipif(not BENCH.is_dir(), reason="not a checkout: no lists of the environments")
def test_environments_are_listed_without_an_index() -> None:
    for peer in peers.PEERS:
        if peer.runs_published_code:
            text = (BENCH / f"{peer.environment}.txt").read_text("utf-8")
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), peer.environment


def test_a_missing_environment_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PEERS", str(tmp_path))
    real = peers.find_peer("deepagents")
    assert real is not None
    told = peers.explain_missing_peer(real)
    assert "make peers" in told
    assert str(tmp_path) in told
    assert {peer.name for peer in peers.list_available_peers()} == {
        peer.name for peer in peers.PEERS if not peer.runs_published_code
    }
    made = tmp_path / "deepagents" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert peers.explain_missing_peer(real) == ""
    assert real in peers.list_available_peers()


def test_a_command_names_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PEERS", str(tmp_path))
    peer = peers.find_peer("inspect-trim")
    assert peer is not None
    made = peers.build_peer_command(peer, [Path("a.jsonl"), Path("b.jsonl")], 8000, Path("out"), guard=False)
    script = str(peers.SCRIPTS_FOLDER / "inspect_compaction.py")
    assert made == [
        str(tmp_path / "inspect_ai" / "bin" / "python"), "-E", script, "a.jsonl", "b.jsonl", "--window", "8000",
        "--out", "out", "--settings", '{"strategy": "trim"}', "--no-guard",
    ]  # fmt: skip
    assert peers.find_peer("nobody") is None
