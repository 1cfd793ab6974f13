"""Compare a policy at several settings with each other contender at equal cost.

A contender that spends more keeps more, so a difference in fidelity says little while the costs differ. A contender is
therefore compared, session by session, with the point of the curve that costs the most without costing more.
"""

import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.lab.comparison.confidence_intervals import (
    MIN_GROUPS,
    MeanEstimate,
    estimate_difference,
    judge_difference,
)
from tidegate.lab.comparison.contenders import Contender, load_contender_policy, make_policy_contender
from tidegate.lab.scoring.measures import MEASURES_BY_KEY

EQUAL_COST_KEYS: Final = ("near_block", "far_block", "far_lines", "refs_in_context")
"""The measures that are compared at equal cost."""
COST_KEY: Final = "cost"

_ValuesByContender = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""By contender, measure and session."""


class EqualCostDifference(NamedTuple):
    """The point's value minus the contender's. `verdict` is that of the point."""

    measure: str
    estimate: MeanEstimate
    verdict: str


class EqualCostComparison(NamedTuple):
    """A contender and the point it was compared with. Costs are means over the sessions both have.

    `is_dearer`: even the cheapest point costs more than the contender, so the point has an advantage.
    """

    contender_key: str
    point_key: str
    point_cost: float
    contender_cost: float
    is_dearer: bool
    differences: tuple[EqualCostDifference, ...]

    def measures_judged(self, word: str) -> list[str]:
        """Return the measures with this verdict: better, worse, or "" where the sessions do not decide."""
        return [each.measure for each in self.differences if each.measure in EQUAL_COST_KEYS and each.verdict == word]

    @property
    def verdict(self) -> str:
        """Better or worse if all compared measures are; partly if some are and none is the opposite."""
        better, worse = len(self.measures_judged("better")), len(self.measures_judged("worse"))
        if better and worse:
            return "trade"
        if better:
            return "better" if better == len(EQUAL_COST_KEYS) else "partly better"
        if worse:
            return "worse" if worse == len(EQUAL_COST_KEYS) else "partly worse"
        return ""


def find_dominated_points(values: _ValuesByContender, points: Sequence[str]) -> set[str]:
    """Return the points that another point dominates: it costs no more and keeps no less of every compared measure.

    At an extreme setting both cost and fidelity may get worse. Nobody would choose such a point, so it is left out.
    """
    means = {point: [_mean(values[point][key]) for key in (COST_KEY, *EQUAL_COST_KEYS)] for point in points}
    dominated = set()
    for point, (cost, *fidelity) in means.items():
        for other, (its_cost, *its_kept) in means.items():
            no_worse = its_cost <= cost and all(its >= own for its, own in zip(its_kept, fidelity, strict=True))
            if no_worse and means[other] != means[point]:
                dominated.add(point)
    return dominated


def _mean(values: Mapping[str, float | None]) -> float:
    there = [value for value in values.values() if value is not None]
    return fsum(there) / len(there) if there else 0.0


class _PointCosts(NamedTuple):
    point_key: str
    point_cost: float
    contender_cost: float


def compare_at_equal_cost(
    values: _ValuesByContender,
    points: Sequence[str],
    against: str,
    groups: Mapping[str, str],
    *,
    min_groups: int = MIN_GROUPS,
) -> EqualCostComparison | None:
    """Compare one contender with the curve. None if they have no session in common."""
    costs = [each for point in points if (each := _compute_mean_costs(values, point, against))]
    if not costs:
        return None
    within = [each for each in costs if each.point_cost <= each.contender_cost]
    nearest = max(within, key=lambda each: each.point_cost) if within else min(costs, key=lambda each: each.point_cost)
    differences = []
    for measure in (*EQUAL_COST_KEYS, COST_KEY):
        difference = estimate_difference(
            values[nearest.point_key][measure], values[against][measure], groups, min_groups=min_groups
        )
        differences.append(
            EqualCostDifference(measure, difference, judge_difference(difference, MEASURES_BY_KEY[measure].better))
        )
    return EqualCostComparison(
        against, nearest.point_key, nearest.point_cost, nearest.contender_cost, not within, tuple(differences)
    )


def _compute_mean_costs(values: _ValuesByContender, point: str, against: str) -> _PointCosts | None:
    """Return the mean costs over the sessions both have: a session that one failed in counts for neither."""
    mine, theirs = values[point][COST_KEY], values[against][COST_KEY]
    both = [
        (cost, other)
        for session, cost in mine.items()
        if cost is not None and (other := theirs.get(session)) is not None
    ]
    if not both:
        return None
    return _PointCosts(point, fsum(cost for cost, _ in both) / len(both), fsum(other for _, other in both) / len(both))


# A policy at several values of one setting: the curve of what it keeps over what it costs.
#
# Its points are contenders like others. A point at the value the policy has anyway is the policy itself, and is not
# measured twice.

_CURVE_PATTERN: Final = re.compile(r"(?:(.+):)?(\w+)=(.*)", re.DOTALL).fullmatch
_CURVE_REMEDY: Final = "Write [POLICY:]SETTING=VALUE,VALUE,..., for instance fidelity=0.2,0.4,0.6."


class CurvePoint(msgspec.Struct, frozen=True):
    """A value of the setting, and the contender that was measured for it."""

    value: str
    contender_key: str


class SettingCurve(msgspec.Struct, frozen=True):
    """Points in the order they were given. `extra_contenders` are in the run only for the curve."""

    policy: str
    setting: str
    points: tuple[CurvePoint, ...]
    extra_contenders: tuple[Contender, ...]


def parse_curve(text: str, others: Sequence[Contender]) -> SettingCurve:
    """Parse `[POLICY:]SETTING=VALUE,...`. A point that is already among the other contenders is not added again."""
    match = _CURVE_PATTERN(text)
    if match is None:
        raise BadInput(f"{text!r} is not a curve.", _CURVE_REMEDY)
    name, setting = match[1] or "default", match[2]
    values = [value.strip() for value in match[3].split(",")]
    if not all(values) or len(set(values)) < len(values):
        raise BadInput(f"{text!r}: a value is empty or given twice.", _CURVE_REMEDY)
    policy = make_policy_contender(name)
    points, own = [], []
    for value in values:
        contender = _make_point_contender(policy, setting, value)
        there = next((each for each in others if each.fingerprint == contender.fingerprint), None)
        points.append(CurvePoint(value, (there or contender).key))
        own += [] if there else [contender]
    return SettingCurve(policy.key, setting, tuple(points), tuple(own))


def _make_point_contender(policy: Contender, setting: str, value: str) -> Contender:
    key = f"{policy.key} {setting}={value}"
    contender = make_policy_contender(policy.policy_name, ((setting, value),), key=key)
    if load_contender_policy(contender).settings[setting] == load_contender_policy(policy).settings[setting]:
        return make_policy_contender(policy.policy_name, key=key)
    return contender
