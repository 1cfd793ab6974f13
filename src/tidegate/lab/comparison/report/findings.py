"""What a comparison found, as one value: the JSON that tables, pages and the gate are made from."""

from typing import Any, Final, NamedTuple

from tidegate import __version__
from tidegate.lab.comparison.confidence_intervals import RESAMPLE_COUNT, RESAMPLE_SEED
from tidegate.lab.comparison.cost_curve import SettingCurve
from tidegate.lab.comparison.report.window_findings import WindowFindingsBuilder
from tidegate.lab.comparison.runner import ComparisonResults
from tidegate.lab.comparison.session_sources import SessionSource, SkippedSession
from tidegate.lab.scoring.measures import JUDGED_KEYS, MEASURES

FINDINGS_FORM: Final = "tidegate-lab/1"

FindingsJson = dict[str, Any]


class ReportContext(NamedTuple):
    """What is said around the figures: sentences, and the setup as it was asked for."""

    title: str
    created_at: str
    notes: tuple[str, ...]
    setup: FindingsJson
    baseline: str
    skipped: tuple[SkippedSession, ...] = ()
    curve: SettingCurve | None = None


def build_findings(results: ComparisonResults, told: ReportContext, *, with_details: bool = True) -> FindingsJson:
    """`detail` adds the requests over time and what was lost: most of the bytes."""
    plan, curve = results.plan, told.curve
    points = {each.key for each in curve.extra_contenders} if curve else set()
    long = {source.content_hash for window in plan.windows for source in plan.sources_for(window)}
    return {
        "form": FINDINGS_FORM,
        "made": told.created_at,
        "tidegate": __version__,
        "title": told.title,
        "notes": list(told.notes),
        "setup": {**told.setup, "resamples": RESAMPLE_COUNT, "level": 0.95, "seed": RESAMPLE_SEED},
        "baseline": told.baseline,
        "measures": [
            {
                "key": each.key,
                "name": each.name,
                "unit": each.unit,
                "better": each.better,
                "definition": each.definition,
                "not_shown": each.not_shown,
            }
            for each in MEASURES
        ],
        "frontier": {"x": "cost", "y": "far"},
        "judged": list(JUDGED_KEYS),
        "policies": [
            {"key": each.key, "name": each.key, "kind": each.kind, "about": each.description, "stamp": each.fingerprint}
            for each in plan.contenders
            if each.key not in points
        ],
        "curve": curve and _encode_curve(curve),
        "sessions": [_encode_session(source) for source in plan.sources if source.content_hash in long],
        "windows": [
            WindowFindingsBuilder(results, each, told.baseline, curve).build(detail=with_details)
            for each in plan.windows
        ],
        "skipped": [{"name": each.name, "why": each.reason, "remedy": each.remedy} for each in told.skipped],
        "failures": [
            {
                "session": each.cell.source.content_hash,
                "policy": each.cell.contender.key,
                "window": each.cell.window,
                "why": each.error,
            }
            for each in results.list_failed_cells()
        ],
        "unfinished": results.unmeasured_cells,
    }


def _encode_curve(curve: SettingCurve) -> FindingsJson:
    points = [{"value": point.value, "key": point.contender_key} for point in curve.points]
    return {"policy": curve.policy, "setting": curve.setting, "points": points}


def _encode_session(source: SessionSource) -> FindingsJson:
    return {
        "key": source.content_hash,
        "name": source.name,
        "project": source.project,
        "agent": source.agent,
        "calls": source.request_count,
        "tokens": round(source.tokens),
        "mended": list(source.repairs),
    }
