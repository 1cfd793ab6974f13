"""The peers: other libraries that manage a context window, each run by the interpreter of its own environment.

The package does not contain them: `bench/peers` of a checkout lists them and has the scripts that run their code, and
`make peers` there builds their environments. tidegate never imports any of it.
"""

import os
import sys
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput

CHECKOUT = Path(__file__).resolve().parents[3]
"""The folder above src/ in a checkout. An installed package has no `bench/peers` there."""
_BUILD_REMEDY = (
    "Run `make peers` in a checkout; TIDEGATE_PEERS names the folder of the environments if they are elsewhere."
)


class Peer(msgspec.Struct, frozen=True):
    """A contender of the lab that is not a policy of tidegate.

    `environment` names the requirements file and the folder of the environment; it is empty for a re-expression, which
    runs under tidegate's own interpreter.
    """

    name: str
    description: str
    script: str
    package: str = ""
    environment: str = ""
    settings: dict[str, object] = {}

    @property
    def runs_published_code(self) -> bool:
        return bool(self.environment)


def get_scripts_folder(checkout: Path = CHECKOUT) -> Path:
    return checkout / "bench" / "peers" / "scripts"


def load_peers(checkout: Path = CHECKOUT) -> tuple[Peer, ...]:
    """Read the list of peers, or raise BadInput if tidegate does not run from a checkout."""
    try:
        text = (checkout / "bench" / "peers" / "peers.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(
            "The other libraries to compare with are not in the installed package.",
            "Clone the repository of tidegate, and there run `make setup`, `make peers` and this command.",
        ) from None
    return msgspec.json.decode(text, type=tuple[Peer, ...])


def find_peer(name: str) -> Peer | None:
    return next((peer for peer in load_peers() if peer.name == name), None)


def get_environments_folder() -> Path:
    """The folder of the environments, whether or not it exists. `bench/peers/build.py` builds them there."""
    folder = os.environ.get("TIDEGATE_PEERS")
    return Path(folder) if folder else CHECKOUT / "bench" / ".envs"


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
