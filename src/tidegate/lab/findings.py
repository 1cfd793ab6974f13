"""What a comparison found, as one value: the JSON that tables, pages and the gate are made from."""

from typing import Any, Final, NamedTuple

from tidegate import __version__
from tidegate.lab.comparing import Results
from tidegate.lab.curve import Curve
from tidegate.lab.findings_window import Window
from tidegate.lab.measures import JUDGED, MEASURES
from tidegate.lab.sources import Skipped, Source
from tidegate.lab.stats import RESAMPLES, SEED

FORM: Final = "tidegate-lab/1"

Json = dict[str, Any]


class Told(NamedTuple):
    """What is said around the figures: sentences, and the setup as it was asked for."""

    title: str
    made: str
    notes: tuple[str, ...]
    setup: Json
    baseline: str
    skipped: tuple[Skipped, ...] = ()
    curve: Curve | None = None


def findings(results: Results, told: Told, *, detail: bool = True) -> Json:
    """`detail` adds the requests over time and what was lost: most of the bytes."""
    plan, curve = results.plan, told.curve
    points = {each.key for each in curve.contenders} if curve else set()
    long = {source.key for window in plan.windows for source in plan.long_enough(window)}
    return {
        "form": FORM,
        "made": told.made,
        "tidegate": __version__,
        "title": told.title,
        "notes": list(told.notes),
        "setup": {**told.setup, "resamples": RESAMPLES, "level": 0.95, "seed": SEED},
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
        "judged": list(JUDGED),
        "policies": [
            {"key": each.key, "name": each.key, "kind": each.kind, "about": each.about, "stamp": each.stamp}
            for each in plan.contenders
            if each.key not in points
        ],
        "curve": curve and _curve_told(curve),
        "sessions": [_session(source) for source in plan.sources if source.key in long],
        "windows": [Window(results, each, told.baseline, curve).findings(detail=detail) for each in plan.windows],
        "skipped": [{"name": each.name, "why": each.why, "remedy": each.remedy} for each in told.skipped],
        "failures": [
            {
                "session": each.cell.source.key,
                "policy": each.cell.contender.key,
                "window": each.cell.window,
                "why": each.error,
            }
            for each in results.failed()
        ],
        "unfinished": results.waiting,
    }


def _curve_told(curve: Curve) -> Json:
    points = [{"value": point.value, "key": point.key} for point in curve.points]
    return {"policy": curve.policy, "setting": curve.setting, "points": points}


def _session(source: Source) -> Json:
    return {
        "key": source.key,
        "name": source.name,
        "project": source.project,
        "agent": source.agent,
        "calls": source.calls,
        "tokens": round(source.tokens),
        "mended": list(source.mended),
    }
