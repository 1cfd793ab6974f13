"""What a comparison found in one window, as one value."""

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from math import fsum
from typing import Any, Final

from tidegate.lab.comparison.confidence_intervals import (
    MIN_GROUPS,
    MeanEstimate,
    SessionSample,
    estimate_difference,
    estimate_mean,
    judge_difference,
)
from tidegate.lab.comparison.cost_curve import (
    COST_KEY,
    EqualCostComparison,
    SettingCurve,
    compare_at_equal_cost,
    find_dominated_points,
)
from tidegate.lab.comparison.runner import ComparisonResults, SessionGroups, group_sessions
from tidegate.lab.scoring.measures import JUDGED_KEYS, MEASURES, MEASURES_BY_KEY
from tidegate.lab.scoring.session_figures import SessionFigures

_COST_RATIO_KEYS: Final = ("cost", "billed_ratio")
"""Above 1 managing costs more than not managing: those sessions are listed."""
_MAX_SERIES_POINTS: Final = 240

_Json = dict[str, Any]


def _encode_estimate(each: MeanEstimate) -> _Json:
    return {"mean": each.mean, "low": each.low, "high": each.high, "n": each.session_count}


def _encode_equal_cost(equal: EqualCostComparison, value: str) -> _Json:
    return {
        "against": equal.contender_key,
        "point": equal.point_key,
        "value": value,
        "cost": equal.point_cost,
        "their_cost": equal.contender_cost,
        "dearer": equal.is_dearer,
        "differences": [
            {"measure": each.measure, **_encode_estimate(each.estimate), "verdict": each.verdict}
            for each in equal.differences
        ],
        "verdict": equal.verdict,
        "better": equal.measures_judged("better"),
        "worse": equal.measures_judged("worse"),
    }


def _encode_verdict(policy: str, against: str, better: Sequence[str], worse: Sequence[str]) -> _Json:
    word = ("trade" if worse else "better") if better else ("worse" if worse else "")
    return {"policy": policy, "against": against, "verdict": word, "better": list(better), "worse": list(worse)}


class WindowFindingsBuilder:
    """Everything about one window. Values are kept by policy, measure and session."""

    def __init__(
        self, results: ComparisonResults, window: int, baseline: str, curve: SettingCurve | None = None
    ) -> None:
        self._results = results
        self._window = window
        self._baseline = baseline
        self._curve = curve
        keys = [each.key for each in results.plan.contenders]
        apart = {each.key for each in curve.extra_contenders} if curve else set()
        self._policies = [key for key in keys if key not in apart]
        self._sources = results.plan.sources_for(window)
        self._groups: SessionGroups = group_sessions(self._sources)
        self._figures = {key: results.figures_of(window, key) for key in keys}
        self._values: dict[str, dict[str, dict[str, float | None]]] = {}
        for policy, cells in self._figures.items():
            by_session = {session: figures.compute_measures() for session, figures in cells.items()}
            self._values[policy] = {
                measure.key: {session: values[measure.key] for session, values in by_session.items()}
                for measure in MEASURES
            }

    def build(self, *, detail: bool) -> _Json:
        found: _Json = {
            "window": self._window,
            "counts": self._build_counts(),
            "resampled": self._groups.kind,
            "left_out": [
                {"session": each.name, "why": each.reason} for each in self._results.plan.skipped_for(self._window)
            ],
            "means": [self._build_means(policy) for policy in self._policies],
            "paired": self._build_differences(),
            "verdicts": self._build_verdicts(),
            "points": self._build_curve_points(),
            "equal_cost": self._build_equal_cost(),
            "rows": self._build_session_rows(),
            "worse": self._build_negative_cases(),
        }
        if detail:
            found["curves"] = [self._build_request_series(*each) for each in self._list_figures(self._policies)]
            found["lost"] = [self._build_losses(*each) for each in self._list_figures(self._policies)]
        return found

    def _list_figures(self, keys: Iterable[str]) -> list[tuple[str, str, SessionFigures]]:
        return [(session, key, figures) for key in keys for session, figures in self._figures[key].items()]

    def _build_counts(self) -> _Json:
        some = next((cells for cells in self._figures.values() if len(cells) == len(self._sources)), {})
        return {
            "sessions": len(self._sources),
            "projects": len({source.project for source in self._sources}),
            "requests": sum(source.request_count for source in self._sources),
            "beyond": sum(figures.requests_beyond_window for figures in some.values()),
            "far": sum(figures.far_references.total for figures in some.values()),
            "anchors": sum(figures.far_anchors.total for figures in some.values()),
        }

    def _min_groups(self) -> int:
        """Where not even sessions are enough, no interval is drawn at all."""
        return MIN_GROUPS if self._groups.kind else 10**9

    def _build_means(self, policy: str) -> _Json:
        groups, least = self._groups.by_session, self._min_groups()
        values = {}
        for measure in MEASURES:
            samples = [
                SessionSample(groups[session], value) for session, value in self._values[policy][measure.key].items()
            ]
            values[measure.key] = _encode_estimate(estimate_mean(samples, min_groups=least))
        totals = {
            key: fsum(value or 0 for value in self._values[policy][key].values())
            for key in ("over", "failed", "mended", "invalid", "broken", "summaries", "billed")
        }
        return {"policy": policy, "values": values, "totals": totals}

    def _estimate_difference(self, policy: str, other: str, measure: str) -> MeanEstimate:
        mine, theirs = self._values[policy][measure], self._values[other][measure]
        return estimate_difference(mine, theirs, self._groups.by_session, min_groups=self._min_groups())

    def _build_differences(self) -> list[_Json]:
        found = []
        for policy in self._policies:
            if policy == self._baseline:
                continue
            for measure in MEASURES:
                if measure.paired:
                    difference = self._estimate_difference(policy, self._baseline, measure.key)
                    found.append(
                        {
                            "policy": policy,
                            "baseline": self._baseline,
                            "measure": measure.key,
                            **_encode_estimate(difference),
                            "verdict": judge_difference(difference, measure.better),
                        }
                    )
        return found

    def _build_verdicts(self) -> list[_Json]:
        """For each pair: better if nothing that is judged is worse and something better; a trade if both."""
        found: dict[tuple[str, str], _Json] = {}
        for policy, other in combinations(self._policies, 2):
            judged = {
                measure: judge_difference(
                    self._estimate_difference(policy, other, measure), MEASURES_BY_KEY[measure].better
                )
                for measure in JUDGED_KEYS
            }
            better = [measure for measure, word in judged.items() if word == "better"]
            worse = [measure for measure, word in judged.items() if word == "worse"]
            found[policy, other] = _encode_verdict(policy, other, better, worse)
            found[other, policy] = _encode_verdict(other, policy, worse, better)
        return [found[pair] for pair in permutations(self._policies, 2)]

    def _build_curve_points(self) -> list[_Json]:
        """The curve's means, in its order; `dearer` counts the sessions that cost more than unmanaged."""
        found = []
        passed_over = self._dominated_points()
        for point in self._curve.points if self._curve else ():
            dearer = sum(
                value is not None and value > 1 for value in self._values[point.contender_key][COST_KEY].values()
            )
            about = {"value": point.value, "beaten": point.contender_key in passed_over, "dearer": dearer}
            found.append({**about, **self._build_means(point.contender_key)})
        return found

    def _dominated_points(self) -> set[str]:
        return (
            find_dominated_points(self._values, [point.contender_key for point in self._curve.points])
            if self._curve
            else set()
        )

    def _build_equal_cost(self) -> list[_Json]:
        """The curve against every policy that is not on it."""
        if not self._curve:
            return []
        points = {point.contender_key: point.value for point in self._curve.points}
        best = [key for key in points if key not in self._dominated_points()]
        found = []
        for policy in self._policies:
            if policy == self._curve.policy or policy in points:
                continue
            equal = compare_at_equal_cost(
                self._values, best, policy, self._groups.by_session, min_groups=self._min_groups()
            )
            if equal:
                found.append(_encode_equal_cost(equal, points[equal.point_key]))
        return found

    def _build_session_rows(self) -> list[_Json]:
        rows: list[_Json] = [
            {"session": session, "policy": policy, "values": figures.compute_measures(), "error": ""}
            for session, policy, figures in self._list_figures(self._figures)
        ]
        for each in self._results.list_failed_cells():
            if each.cell.window == self._window:
                rows.append(
                    {
                        "session": each.cell.source.content_hash,
                        "policy": each.cell.contender.key,
                        "values": {},
                        "error": each.error,
                    }
                )
        return rows

    def _build_negative_cases(self) -> list[_Json]:
        """The negative cases: sessions in which managing costs more than sending the whole history."""
        return [
            {"session": session, "policy": policy, "measure": measure, "value": value, "baseline": 1.0}
            for policy in self._policies
            for measure in _COST_RATIO_KEYS
            for session, value in self._values[policy][measure].items()
            if value is not None and value > 1
        ]

    def _build_request_series(self, session: str, policy: str, figures: SessionFigures) -> _Json:
        """At most so many points: every n-th request, and those that were edited."""
        every = max(1, -(-len(figures.message_indices) // _MAX_SERIES_POINTS))
        some = range(0, len(figures.message_indices), every)
        return {
            "session": session,
            "policy": policy,
            "at": [figures.message_indices[place] for place in some],
            "tokens": [figures.request_sizes[place] for place in some],
            "read": [figures.cached_sizes[place] for place in some],
            "edits": figures.edited_indices,
        }

    def _build_losses(self, session: str, policy: str, figures: SessionFigures) -> _Json:
        items = [
            {
                "at": each.message_index,
                "measure": each.measure,
                "what": each.what,
                "seen": each.last_seen_index,
                "recoverable": each.recoverable,
            }
            for each in figures.lost_items
        ]
        return {"session": session, "policy": policy, "more": figures.unlisted_losses, "items": items}
