"""Build the findings of a comparison from its results."""

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from math import fsum
from typing import Final, NamedTuple

from tidegate import __version__
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
from tidegate.lab.comparison.report.findings import (
    FINDINGS_FORM,
    CurveEntry,
    CurvePointEntry,
    CurvePointMeans,
    EqualCostEntry,
    FailureEntry,
    Findings,
    FindingsSetup,
    FrontierAxes,
    LeftOutEntry,
    LossEntry,
    MeasuredDifference,
    MeasureEntry,
    NegativeCase,
    PairedDifference,
    PairVerdict,
    PolicyEntry,
    PolicyMeans,
    RequestSeries,
    SessionEntry,
    SessionLosses,
    SessionValues,
    SkippedEntry,
    WindowCounts,
    WindowFindings,
)
from tidegate.lab.comparison.runner import ComparisonResults, SessionGroups, group_sessions
from tidegate.lab.comparison.session_sources import SessionSource, SkippedSession
from tidegate.lab.scoring.measures import JUDGED_KEYS, MEASURES, MEASURES_BY_KEY
from tidegate.lab.scoring.session_figures import SessionFigures


class ReportContext(NamedTuple):
    """The parts of a report that are not measured: title, notes, options, skipped files."""

    title: str
    created_at: str
    notes: tuple[str, ...]
    setup: FindingsSetup
    baseline: str
    skipped: tuple[SkippedSession, ...] = ()
    curve: SettingCurve | None = None


def build_findings(results: ComparisonResults, context: ReportContext) -> Findings:
    plan, curve = results.plan, context.curve
    points = {each.key for each in curve.extra_contenders} if curve else set()
    long = {source.content_hash for window in plan.windows for source in plan.sources_for(window)}
    return Findings(
        form=FINDINGS_FORM,
        made=context.created_at,
        tidegate=__version__,
        title=context.title,
        notes=context.notes,
        setup=context.setup,
        baseline=context.baseline,
        measures=tuple(
            MeasureEntry(each.key, each.name, each.unit, each.better, each.definition, each.not_shown)
            for each in MEASURES
        ),
        frontier=FrontierAxes(x="cost", y="refs_in_context"),
        judged=tuple(JUDGED_KEYS),
        policies=tuple(
            PolicyEntry(each.key, each.key, each.kind, each.description, each.fingerprint)
            for each in plan.contenders
            if each.key not in points
        ),
        curve=_describe_curve(curve) if curve else None,
        sessions=tuple(_describe_session(source) for source in plan.sources if source.content_hash in long),
        windows=tuple(
            WindowFindingsBuilder(results, window, context.baseline, curve).build() for window in plan.windows
        ),
        skipped=tuple(SkippedEntry(each.name, each.reason, each.remedy) for each in context.skipped),
        failures=tuple(
            FailureEntry(each.cell.source.content_hash, each.cell.contender.key, each.cell.window, each.error)
            for each in results.list_failed_cells()
        ),
        unfinished=results.unmeasured_cells,
    )


def _describe_curve(curve: SettingCurve) -> CurveEntry:
    points = tuple(CurvePointEntry(point.value, point.contender_key) for point in curve.points)
    return CurveEntry(curve.policy, curve.setting, points)


def _describe_session(source: SessionSource) -> SessionEntry:
    return SessionEntry(
        key=source.content_hash,
        name=source.name,
        project=source.project,
        agent=source.agent,
        calls=source.request_count,
        tokens=round(source.tokens),
        mended=source.repairs,
    )


_COST_RATIO_KEYS: Final = ("cost", "billed_ratio")
"""Above 1 managing costs more than not managing: those sessions are listed."""
_MAX_SERIES_POINTS: Final = 240


def _describe_equal_cost(equal: EqualCostComparison, value: str) -> EqualCostEntry:
    return EqualCostEntry(
        against=equal.contender_key,
        point=equal.point_key,
        value=value,
        cost=equal.point_cost,
        their_cost=equal.contender_cost,
        dearer=equal.is_dearer,
        differences=tuple(
            MeasuredDifference(
                one.measure, estimate.mean, estimate.low, estimate.high, estimate.session_count, one.verdict
            )
            for one in equal.differences
            for estimate in (one.estimate,)
        ),
        verdict=equal.verdict,
        better=tuple(equal.measures_judged("better")),
        worse=tuple(equal.measures_judged("worse")),
    )


def _make_verdict(policy: str, against: str, better: Sequence[str], worse: Sequence[str]) -> PairVerdict:
    word = ("trade" if worse else "better") if better else ("worse" if worse else "")
    return PairVerdict(policy, against, word, tuple(better), tuple(worse))


class _MeansAndTotals(NamedTuple):
    values: dict[str, MeanEstimate]
    totals: dict[str, float]


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

    def build(self) -> WindowFindings:
        return WindowFindings(
            window=self._window,
            counts=self._build_counts(),
            resampled=self._groups.kind,
            left_out=tuple(
                LeftOutEntry(each.name, each.reason) for each in self._results.plan.skipped_for(self._window)
            ),
            means=tuple(PolicyMeans(policy, *self._build_means(policy)) for policy in self._policies),
            paired=tuple(self._build_differences()),
            verdicts=tuple(self._build_verdicts()),
            points=tuple(self._build_curve_points()),
            equal_cost=tuple(self._build_equal_cost()),
            rows=tuple(self._build_session_rows()),
            worse=tuple(self._build_negative_cases()),
            curves=tuple(self._build_request_series(*each) for each in self._list_figures(self._policies)),
            lost=tuple(self._build_losses(*each) for each in self._list_figures(self._policies)),
        )

    def _list_figures(self, keys: Iterable[str]) -> list[tuple[str, str, SessionFigures]]:
        return [(session, key, figures) for key in keys for session, figures in self._figures[key].items()]

    def _build_counts(self) -> WindowCounts:
        some = next((cells for cells in self._figures.values() if len(cells) == len(self._sources)), {})
        return WindowCounts(
            sessions=len(self._sources),
            projects=len({source.project for source in self._sources}),
            requests=sum(source.request_count for source in self._sources),
            beyond=sum(figures.requests_beyond_window for figures in some.values()),
            far=sum(figures.far_references.total for figures in some.values()),
            anchors=sum(figures.far_anchors.total for figures in some.values()),
        )

    def _min_groups(self) -> int:
        """Where not even sessions are enough, no interval is drawn at all."""
        return MIN_GROUPS if self._groups.kind else 10**9

    def _build_means(self, policy: str) -> "_MeansAndTotals":
        groups, least = self._groups.by_session, self._min_groups()
        values: dict[str, MeanEstimate] = {}
        for measure in MEASURES:
            samples = [
                SessionSample(groups[session], value) for session, value in self._values[policy][measure.key].items()
            ]
            values[measure.key] = estimate_mean(samples, min_groups=least)
        totals = {
            key: fsum(value or 0 for value in self._values[policy][key].values())
            for key in ("over", "failed", "mended", "invalid", "broken", "summaries", "billed")
        }
        return _MeansAndTotals(values, totals)

    def _estimate_difference(self, policy: str, other: str, measure: str) -> MeanEstimate:
        mine, theirs = self._values[policy][measure], self._values[other][measure]
        return estimate_difference(mine, theirs, self._groups.by_session, min_groups=self._min_groups())

    def _build_differences(self) -> list[PairedDifference]:
        differences = []
        for policy in self._policies:
            if policy == self._baseline:
                continue
            for measure in MEASURES:
                if measure.paired:
                    difference = self._estimate_difference(policy, self._baseline, measure.key)
                    verdict = judge_difference(difference, measure.better)
                    differences.append(
                        PairedDifference(
                            policy=policy,
                            baseline=self._baseline,
                            measure=measure.key,
                            mean=difference.mean,
                            low=difference.low,
                            high=difference.high,
                            session_count=difference.session_count,
                            verdict=verdict,
                        )
                    )
        return differences

    def _build_verdicts(self) -> list[PairVerdict]:
        """For each pair: better if nothing that is judged is worse and something better; a trade if both."""
        verdicts: dict[tuple[str, str], PairVerdict] = {}
        for policy, other in combinations(self._policies, 2):
            judged = {
                measure: judge_difference(
                    self._estimate_difference(policy, other, measure), MEASURES_BY_KEY[measure].better
                )
                for measure in JUDGED_KEYS
            }
            better = [measure for measure, word in judged.items() if word == "better"]
            worse = [measure for measure, word in judged.items() if word == "worse"]
            verdicts[policy, other] = _make_verdict(policy, other, better, worse)
            verdicts[other, policy] = _make_verdict(other, policy, worse, better)
        return [verdicts[pair] for pair in permutations(self._policies, 2)]

    def _build_curve_points(self) -> list[CurvePointMeans]:
        """The curve's means, in its order; `dearer` counts the sessions that cost more than unmanaged."""
        points = []
        dominated = self._dominated_points()
        for point in self._curve.points if self._curve else ():
            dearer = sum(
                value is not None and value > 1 for value in self._values[point.contender_key][COST_KEY].values()
            )
            key = point.contender_key
            points.append(CurvePointMeans(point.value, key in dominated, dearer, key, *self._build_means(key)))
        return points

    def _dominated_points(self) -> set[str]:
        return (
            find_dominated_points(self._values, [point.contender_key for point in self._curve.points])
            if self._curve
            else set()
        )

    def _build_equal_cost(self) -> list[EqualCostEntry]:
        """The curve against every policy that is not on it."""
        if not self._curve:
            return []
        points = {point.contender_key: point.value for point in self._curve.points}
        best = [key for key in points if key not in self._dominated_points()]
        entries = []
        for policy in self._policies:
            if policy == self._curve.policy or policy in points:
                continue
            equal = compare_at_equal_cost(
                self._values, best, policy, self._groups.by_session, min_groups=self._min_groups()
            )
            if equal:
                entries.append(_describe_equal_cost(equal, points[equal.point_key]))
        return entries

    def _build_session_rows(self) -> list[SessionValues]:
        rows = [
            SessionValues(session, policy, figures.compute_measures(), "")
            for session, policy, figures in self._list_figures(self._figures)
        ]
        rows += [
            SessionValues(each.cell.source.content_hash, each.cell.contender.key, {}, each.error)
            for each in self._results.list_failed_cells()
            if each.cell.window == self._window
        ]
        return rows

    def _build_negative_cases(self) -> list[NegativeCase]:
        return [
            NegativeCase(session, policy, measure, value, 1.0)
            for policy in self._policies
            for measure in _COST_RATIO_KEYS
            for session, value in self._values[policy][measure].items()
            if value is not None and value > 1
        ]

    def _build_request_series(self, session: str, policy: str, figures: SessionFigures) -> RequestSeries:
        """Every n-th request, so that there are at most 240 points, and all edits."""
        step = max(1, -(-len(figures.message_indices) // _MAX_SERIES_POINTS))
        return RequestSeries(
            session=session,
            policy=policy,
            at=tuple(figures.message_indices[::step]),
            tokens=tuple(figures.request_sizes[::step]),
            read=tuple(figures.cached_sizes[::step]),
            edits=tuple(figures.edited_indices),
        )

    def _build_losses(self, session: str, policy: str, figures: SessionFigures) -> SessionLosses:
        items = tuple(
            LossEntry(each.message_index, each.measure, each.what, each.last_seen_index, each.recoverable)
            for each in figures.lost_items
        )
        return SessionLosses(session, policy, figures.unlisted_losses, items)
