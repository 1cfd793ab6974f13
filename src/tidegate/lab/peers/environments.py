"""Where the environments of the peers are, and what is missing. Standard library only."""

import os
import sys
from pathlib import Path

from tidegate.lab.peers.registry import Peer

_BUILD_REMEDY = (
    "Run `make peers` in a checkout; TIDEGATE_PEERS names the folder of the environments if they are elsewhere."
)


def get_environments_folder() -> Path:
    """The folder of the environments, whether or not it exists."""
    named = os.environ.get("TIDEGATE_PEERS")
    return Path(named) if named else Path(__file__).resolve().parents[4] / "bench" / ".envs"


def get_environment_interpreter(environment: str) -> Path:
    """The interpreter of an environment. Links are not resolved: the target of a link is not in the environment."""
    return get_environments_folder() / environment / "bin" / "python"


def get_interpreter(peer: Peer) -> Path:
    return get_environment_interpreter(peer.environment) if peer.runs_published_code else Path(sys.executable)


def explain_missing_peer(peer: Peer) -> str:
    """Return why the peer cannot be run and what to do, or "" if it can."""
    if get_interpreter(peer).exists():
        return ""
    return f"{peer.name}: {peer.package} has no environment in {get_environments_folder()}. {_BUILD_REMEDY}"
