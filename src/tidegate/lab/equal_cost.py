"""A curve held against each other contender at that contender's cost.

Whoever spends more keeps more, so a difference in what is kept says little while the costs differ. Here the curve's
point that costs the most without costing more than the other is compared with it, session by session.
"""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

from tidegate.lab.measures import BY_KEY
from tidegate.lab.stats import LEAST_GROUPS, Estimate, paired, verdict

EQUAL: Final = ("far", "far_strict", "anchors", "anchors_strict")
"""What is compared at equal cost, in the plain reading and the strict one."""
COST: Final = "cost"

Values = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""By contender, measure and session."""


class Difference(NamedTuple):
    """The point's value less the other's; `verdict` is the point's."""

    measure: str
    estimate: Estimate
    verdict: str


class Equal(NamedTuple):
    """A contender and the point it was compared with; costs are means over the sessions both have.

    `dearer`: even the cheapest point costs more, so the costs are not equal and the point has an advantage.
    """

    against: str
    point: str
    cost: float
    their_cost: float
    dearer: bool
    differences: tuple[Difference, ...]

    def judged(self, word: str) -> list[str]:
        """The measures whose verdict this is: better, worse, or nothing where the sessions do not tell."""
        return [each.measure for each in self.differences if each.measure in EQUAL and each.verdict == word]

    @property
    def verdict(self) -> str:
        """Better or worse only where all that is compared is; partly where some is and nothing the other way."""
        better, worse = len(self.judged("better")), len(self.judged("worse"))
        if better and worse:
            return "trade"
        if better:
            return "better" if better == len(EQUAL) else "partly better"
        if worse:
            return "worse" if worse == len(EQUAL) else "partly worse"
        return ""


def beaten(values: Values, points: Sequence[str]) -> set[str]:
    """Points that another one of the curve makes pointless: it costs no more and keeps no less of anything compared.

    A setting may be turned so far that both get worse. Nobody would choose such a point, so it is passed over.
    """
    means = {point: [_mean(values[point][key]) for key in (COST, *EQUAL)] for point in points}
    found = set()
    for point, (cost, *kept) in means.items():
        for other, (its_cost, *its_kept) in means.items():
            no_worse = its_cost <= cost and all(its >= own for its, own in zip(its_kept, kept, strict=True))
            if no_worse and means[other] != means[point]:
                found.add(point)
    return found


def _mean(values: Mapping[str, float | None]) -> float:
    there = [value for value in values.values() if value is not None]
    return fsum(there) / len(there) if there else 0.0


class _Costs(NamedTuple):
    point: str
    cost: float
    their_cost: float


def at_equal_cost(
    values: Values, points: Sequence[str], against: str, groups: Mapping[str, str], *, least: int = LEAST_GROUPS
) -> Equal | None:
    """None if the contender and the curve have no session in common."""
    costs = [each for point in points if (each := _costs(values, point, against))]
    if not costs:
        return None
    within = [each for each in costs if each.cost <= each.their_cost]
    chosen = max(within, key=lambda each: each.cost) if within else min(costs, key=lambda each: each.cost)
    differences = []
    for measure in (*EQUAL, COST):
        found = paired(values[chosen.point][measure], values[against][measure], groups, least=least)
        differences.append(Difference(measure, found, verdict(found, BY_KEY[measure].better)))
    return Equal(against, chosen.point, chosen.cost, chosen.their_cost, not within, tuple(differences))


def _costs(values: Values, point: str, against: str) -> _Costs | None:
    """Mean costs over the sessions both have, so that a session one of them failed in weighs for neither."""
    mine, theirs = values[point][COST], values[against][COST]
    both = [
        (cost, other)
        for session, cost in mine.items()
        if cost is not None and (other := theirs.get(session)) is not None
    ]
    if not both:
        return None
    return _Costs(point, fsum(cost for cost, _ in both) / len(both), fsum(other for _, other in both) / len(both))
