"""A policy at several values of one setting: the curve of what it keeps over what it costs.

Its points are contenders like others. A point at the value the policy has anyway is the policy itself, and is not
measured twice.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.core.errors import BadInput
from tidegate.lab.contenders import Contender, policy_contender, policy_of

_WRITTEN: Final = re.compile(r"(?:(.+):)?(\w+)=(.*)", re.DOTALL).fullmatch
_REMEDY: Final = "Write [POLICY:]SETTING=VALUE,VALUE,..., for instance fidelity=0.5,1,2."


class Point(msgspec.Struct, frozen=True):
    """`key` names the contender that was measured for it."""

    value: str
    key: str


class Curve(msgspec.Struct, frozen=True):
    """Points in the order they were asked for. `contenders` are those that are in the run for the curve's sake only."""

    policy: str
    setting: str
    points: tuple[Point, ...]
    contenders: tuple[Contender, ...]


def read_curve(text: str, others: Sequence[Contender]) -> Curve:
    """The curve of a policy, or of the default one. What is among the other contenders already is not added again."""
    match = _WRITTEN(text)
    if match is None:
        raise BadInput(f"{text!r} is not a curve.", _REMEDY)
    name, setting = match[1] or "default", match[2]
    values = [value.strip() for value in match[3].split(",")]
    if not all(values) or len(set(values)) < len(values):
        raise BadInput(f"{text!r}: a value is empty or stands there twice.", _REMEDY)
    policy = policy_contender(name)
    points, own = [], []
    for value in values:
        found = _at(policy, setting, value)
        there = next((each for each in others if each.stamp == found.stamp), None)
        points.append(Point(value, (there or found).key))
        own += [] if there else [found]
    return Curve(policy.key, setting, tuple(points), tuple(own))


def _at(policy: Contender, setting: str, value: str) -> Contender:
    key = f"{policy.key} {setting}={value}"
    found = policy_contender(policy.policy, ((setting, value),), key=key)
    if policy_of(found).settings[setting] == policy_of(policy).settings[setting]:
        return policy_contender(policy.policy, key=key)
    return found
