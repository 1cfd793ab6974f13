"""The contenders of a comparison: policies of tidegate and other tools, each with the settings it runs under.

For a recording and a window, a contender gives one request for each model call.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.policy.policy import Policy
from tidegate.lab.comparison.result_cache import hash_values
from tidegate.lab.peer_registry import Peer, explain_missing_peer, load_peers
from tidegate.lab.replay.batch import load_policy_with_settings
from tidegate.presets import preset_names

_ContenderKind = Literal["preset", "file", "peer", "re-expressed"]
SettingOverrides = tuple[tuple[str, str], ...]

_encode_policy = msgspec.json.Encoder(enc_hook=lambda stage: stage.__qualname__, order="deterministic").encode
"""A policy with all its settings, sorted: every process writes the same bytes. A function is written by its name."""


class Contender(msgspec.Struct, frozen=True):
    """A policy or a peer: one of `policy_name` and `peer_name` is empty. `fingerprint` is the hash of its settings."""

    key: str
    kind: _ContenderKind
    description: str
    fingerprint: str
    policy_name: str = ""
    settings: SettingOverrides = ()
    peer_name: str = ""


def make_policy_contender(name: str, settings: SettingOverrides = (), key: str = "") -> Contender:
    """Make a contender of a preset or a policy file. The policy is loaded now, so that a wrong name fails at once."""
    policy = load_policy_with_settings(name, settings)
    preset = name in preset_names()
    return Contender(
        key=key or (name if preset else Path(name).stem),
        kind="preset" if preset else "file",
        description=" ".join(policy.about.split()),
        fingerprint=hash_values("policy", _encode_policy(policy).decode()),
        policy_name=name,
        settings=settings,
    )


@lru_cache(maxsize=4)
def load_contender_policy(contender: Contender) -> Policy:
    """Load the policy of a contender. The key of the cache has its fingerprint, so a changed file is another policy."""
    return load_policy_with_settings(contender.policy_name, contender.settings)


class PeerContenders(NamedTuple):
    """The peers that can be run, and for each other one a sentence why it cannot."""

    contenders: list[Contender]
    missing_reasons: list[str]


def find_peer_contenders(names_given: Sequence[str] = ()) -> PeerContenders:
    """Return the peers of these names, or all."""
    peers = load_peers()
    names = [peer.name for peer in peers]
    for name in names_given:
        if name not in names:
            raise BadInput(f"There is no peer {name!r}.", f"There are: {', '.join(names)}.")
    contenders, missing = [], []
    for peer in peers:
        if names_given and peer.name not in names_given:
            continue
        why = explain_missing_peer(peer)
        if why:
            missing.append(why)
        else:
            contenders.append(_make_peer_contender(peer))
    return PeerContenders(contenders, missing)


def _make_peer_contender(peer: Peer) -> Contender:
    fingerprint = hash_values("peer", peer.package, peer.script, peer.settings)
    about = (
        f"{peer.package}: {peer.description}" if peer.runs_published_code else f"{peer.description} Re-expressed here."
    )
    return Contender(
        peer.name, "peer" if peer.runs_published_code else "re-expressed", about, fingerprint, peer_name=peer.name
    )
