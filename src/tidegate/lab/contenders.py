"""Who is compared: policies of ours, and other tools. Each gives, for a recording and a window, one request a call."""

import hashlib
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from tidegate.core.policy import Policy
from tidegate.lab.batch import read_policy
from tidegate.lab.cache import ENGINE, code_of, digest_of
from tidegate.presets import names

Kind = Literal["preset", "file", "peer", "re-expressed"]
Settings = tuple[tuple[str, str], ...]


class Contender(msgspec.Struct, frozen=True):
    """`stamp` is the hash of all that decides what it does. `policy` is empty for a peer, `peer` for a policy."""

    key: str
    kind: Kind
    about: str
    stamp: str
    policy: str = ""
    settings: Settings = ()
    peer: str = ""


def policy_contender(name: str, settings: Settings = (), key: str = "") -> Contender:
    """A preset or a policy file. It is read now, so that a wrong name fails before the work begins."""
    policy = read_policy(name, settings)
    preset = name in names()
    folder = resources.files("tidegate.presets")
    text = folder.joinpath(f"{name}.yaml").read_bytes() if preset else Path(name).read_bytes()
    stamp = digest_of("policy", hashlib.sha256(text).hexdigest(), settings, code_of(ENGINE))
    return Contender(
        key=key or (name if preset else Path(name).stem),
        kind="preset" if preset else "file",
        about=" ".join(policy.about.split()),
        stamp=stamp,
        policy=name,
        settings=settings,
    )


@lru_cache(maxsize=4)
def policy_of(contender: Contender) -> Policy:
    """By all that decides it: a file that was changed meanwhile is another policy."""
    return read_policy(contender.policy, contender.settings)
