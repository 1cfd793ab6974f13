"""Who is compared: policies of ours, and other tools. Each gives, for a recording and a window, one request a call."""

import hashlib
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from tidegate.core.policy.policy import Policy
from tidegate.lab.comparison.result_cache import ENGINE_MODULE, hash_module_code, hash_values
from tidegate.lab.replay.batch import load_policy_with_settings
from tidegate.presets import preset_names

_ContenderKind = Literal["preset", "file", "peer", "re-expressed"]
SettingOverrides = tuple[tuple[str, str], ...]


class Contender(msgspec.Struct, frozen=True):
    """`stamp` is the hash of all that decides what it does. `policy` is empty for a peer, `peer` for a policy."""

    key: str
    kind: _ContenderKind
    description: str
    fingerprint: str
    policy_name: str = ""
    settings: SettingOverrides = ()
    peer_name: str = ""


def make_policy_contender(name: str, settings: SettingOverrides = (), key: str = "") -> Contender:
    """A preset or a policy file. It is read now, so that a wrong name fails before the work begins."""
    policy = load_policy_with_settings(name, settings)
    preset = name in preset_names()
    folder = resources.files("tidegate.presets")
    text = folder.joinpath(f"{name}.yaml").read_bytes() if preset else Path(name).read_bytes()
    stamp = hash_values("policy", hashlib.sha256(text).hexdigest(), settings, hash_module_code(ENGINE_MODULE))
    return Contender(
        key=key or (name if preset else Path(name).stem),
        kind="preset" if preset else "file",
        description=" ".join(policy.about.split()),
        fingerprint=stamp,
        policy_name=name,
        settings=settings,
    )


@lru_cache(maxsize=4)
def load_contender_policy(contender: Contender) -> Policy:
    """By all that decides it: a file that was changed meanwhile is another policy."""
    return load_policy_with_settings(contender.policy_name, contender.settings)
