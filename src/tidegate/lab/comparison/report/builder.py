"""Build the findings of a comparison from its results."""

from typing import NamedTuple

from tidegate import __version__
from tidegate.lab.comparison.cost_curve import SettingCurve
from tidegate.lab.comparison.report.findings import (
    FINDINGS_FORM,
    CurveEntry,
    CurvePointEntry,
    FailureEntry,
    Findings,
    FindingsSetup,
    FrontierAxes,
    MeasureEntry,
    PolicyEntry,
    SessionEntry,
    SkippedEntry,
)
from tidegate.lab.comparison.report.window_findings import WindowFindingsBuilder
from tidegate.lab.comparison.runner import ComparisonResults
from tidegate.lab.comparison.session_sources import SessionSource, SkippedSession
from tidegate.lab.scoring.measures import JUDGED_KEYS, MEASURES


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
