"""Findings for people who read a terminal: a table of what is kept and one of what it costs, for each window."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidegate.core.text.plural import format_count
from tidegate.core.text.table import align_table
from tidegate.lab.comparison.confidence_intervals import MIN_GROUPS
from tidegate.lab.comparison.cost_curve import COST_KEY, EQUAL_COST_KEYS
from tidegate.lab.comparison.report.findings import (
    CurveEntry,
    CurvePointMeans,
    EqualCostEntry,
    Findings,
    MeasuredDifference,
    PairedDifference,
    PairVerdict,
    PolicyMeans,
    WindowFindings,
)
from tidegate.lab.scoring.measures import JUDGED_KEYS, MEASURES, MEASURES_BY_KEY

# Tables for a terminal: how a measure is headed, how its values and differences are written.

_COLUMN_HEADINGS: Final = {
    "near_block": "recent edits",
    "far_block": "older edits",
    "reread_avoidable": "re-reads",
    "reread_lines": "re-read lines",
    "far_lines": "older lines",
    "refs_in_context": "older names",
    "typed_rules": "user rules",
    "deep_rules": "long rules",
    "held": "held",
    "user": "user words",
    "newest": "newest",
    "recoverable": "recoverable",
    "rewritten": "re-written",
    "billed": "billed $",
    "billed_ratio": "billed/full",
    "cost": "cost warm",
    "cost_cold": "cold",
    "cost_automatic": "automatic",
    "sent": "no cache",
    "pause": "pause s",
}
_INTERVAL_KEYS: Final = JUDGED_KEYS
"""Where the interval is printed, too; the JSON has all of them."""
_VERDICT_MARKS: Final = {"better": " +", "worse": " -", "": "  "}
_MARKS_LEGEND: Final = "+ better, - worse, both beyond the interval"


def _column_heading(key: str) -> str:
    return _COLUMN_HEADINGS.get(key, key)


def _format_mean(means: PolicyMeans | CurvePointMeans, key: str, bounded: Sequence[str] = _INTERVAL_KEYS) -> str:
    value = means.values[key]
    if value.mean is None:
        return "-"
    write = _number_format(key)
    text = write(value.mean)
    if key in bounded and value.low is not None and value.high is not None:
        text += f" [{write(value.low)} {write(value.high)}]"
    return text


def _number_format(key: str) -> Callable[[float], str]:
    unit = MEASURES_BY_KEY[key].unit
    if unit == "share":
        return lambda value: f"{100 * value:.1f}"
    if unit == "tokens":
        return lambda value: f"{value:,.0f}"
    return {"ratio": "{:.3f}", "usd": "{:.2f}", "seconds": "{:.3f}", "count": "{:.1f}"}[unit].format


def _format_difference(each: PairedDifference | MeasuredDifference) -> str:
    """A mark only where the interval leaves no doubt."""
    if each.mean is None:
        return "-"
    scale, digits = (100, 1) if MEASURES_BY_KEY[each.measure].unit == "share" else (1, 3)
    text = f"{scale * each.mean:+.{digits}f}"
    if each.low is not None and each.high is not None:
        text += f" [{scale * each.low:+.{digits}f} {scale * each.high:+.{digits}f}]"
    return text + _VERDICT_MARKS[each.verdict]


_FIDELITY_COLUMNS: Final = tuple(
    "near_block far_block reread_avoidable far_lines refs_in_context typed_rules deep_rules"
    " user newest recoverable held".split()
)
_COST_COLUMNS: Final = tuple(
    "over failed mended invalid cached rewritten cost cost_cold cost_automatic sent"
    " billed billed_ratio summaries pause".split()
)
_TOTAL_COLUMNS: Final = ("over", "failed", "mended", "invalid")
_MAX_NAMED_CASES: Final = 3
"""So many negative cases of a policy are named in the text."""


def render_findings_text(findings: Findings, *, width: int | None = None) -> str:
    """All windows, in tables of at most `width` characters. What a figure means is in `docs/lab.md` and in the JSON."""
    blocks = []
    for window in findings.windows:
        blocks.append(_render_window(findings, window, width))
    blocks += [f"note: {note}" for note in findings.notes]
    if findings.unfinished:
        blocks.append(f"stopped: {findings.unfinished} of the cells are not measured yet; the same command goes on.")
    return "\n\n".join(blocks)


def _render_window(findings: Findings, window: WindowFindings, width: int | None) -> str:
    counts = window.counts
    drawn = {
        "projects": f"95% intervals over {counts.projects} projects",
        "sessions": "95% intervals over sessions: there are too few projects, so they speak of these projects only",
        "": "too few sessions for intervals",
    }[window.resampled]
    sessions, projects = format_count(counts.sessions, "session"), format_count(counts.projects, "project")
    lines = [
        f"window {window.window:,}: {sessions} of {projects}, {format_count(counts.requests, 'request')},"
        f" {counts.beyond:,} beyond the window; {counts.far:,} far references,"
        f" {counts.anchors:,} far anchors; means over sessions, {drawn}",
    ]
    if not counts.sessions:
        return "\n".join([*lines, "no session is long enough for this window: nothing is measured"])
    lines += [
        "",
        "what is kept",
        *_render_table(window, _FIDELITY_COLUMNS, width),
        "",
        "what it costs",
        *_render_table(window, _COST_COLUMNS, width),
    ]
    if window.paired:
        lines += ["", *_render_differences(findings, window, width), *_render_pairs(window, width)]
    if curve := _render_curve(findings, window, width):
        lines += ["", *curve]
    return "\n".join([*lines, "", *_render_negative_cases(findings, window)])


def _render_table(window: WindowFindings, keys: Sequence[str], width: int | None) -> list[str]:
    rows = [("policy", *(_column_heading(key) for key in keys))]
    for means in window.means:
        cells = [f"{means.totals[key]:.0f}" if key in _TOTAL_COLUMNS else _format_mean(means, key) for key in keys]
        rows.append((means.policy, *cells))
    return align_table(rows, width=width)


def _render_differences(findings: Findings, window: WindowFindings, width: int | None) -> list[str]:
    """Paired with the baseline on the same sessions; a mark only where the interval leaves no doubt."""
    by = {(each.policy, each.measure): each for each in window.paired}
    verdicts = {each.policy: each for each in window.verdicts if each.against == findings.baseline}
    rows = [("policy", *(_column_heading(key) for key in JUDGED_KEYS), "verdict")]
    for policy in dict.fromkeys(each.policy for each in window.paired):
        cells = [_format_difference(by[policy, key]) for key in JUDGED_KEYS]
        rows.append((policy, *cells, _format_verdict(verdicts[policy])))
    return [
        f"difference from {findings.baseline} on the same sessions ({_MARKS_LEGEND})",
        *align_table(rows, width=width),
    ]


def _format_verdict(each: PairVerdict) -> str:
    words = {"better": "better", "worse": "worse", "trade": "trade", "": "no verdict"}
    return words[each.verdict]


def _render_pairs(window: WindowFindings, width: int | None) -> list[str]:
    """Every policy against every other, with one sign for each pair. Two policies have the table above."""
    policies = [each.policy for each in window.means]
    if len(policies) < 3:
        return []
    signs = {"better": "+", "worse": "-", "trade": "~", "": "."}
    by = {(each.policy, each.against): signs[each.verdict] for each in window.verdicts}
    numbers = [str(number) for number in range(1, len(policies) + 1)]
    rows = [("every pair", *numbers)]
    for number, policy in zip(numbers, policies, strict=True):
        rows.append((f"{number:>2} {policy}", *(by.get((policy, other), "") for other in policies)))
    title = "the policy of the row against that of the column: + better, - worse, ~ a trade, . undecided"
    return ["", title, *align_table(rows, width=width)]


def _render_negative_cases(findings: Findings, window: WindowFindings) -> list[str]:
    """Sessions that cost more managed than unmanaged: how many, and the worst of each policy by name."""
    if not window.worse:
        return ["negative cases: none; no session costs more managed than with its whole history"]
    names = {each.key: each.name for each in findings.sessions}
    lines = ["negative cases: sessions that cost more managed than with their whole history (the JSON has all)"]
    for policy in dict.fromkeys(each.policy for each in window.worse):
        parts = []
        for measure in dict.fromkeys(each.measure for each in window.worse):
            cases = [each for each in window.worse if (each.policy, each.measure) == (policy, measure)]
            if cases:
                worst = sorted(cases, key=lambda each: -float(each.value))[:_MAX_NAMED_CASES]
                examples = ", ".join(f"{names[each.session]} {each.value:.2f}" for each in worst)
                worst_word = "worst " * (len(cases) > _MAX_NAMED_CASES)
                parts.append(f"{len(cases)} by {_column_heading(measure)}, {worst_word}{examples}")
        lines.append(f"  {policy}: {'; '.join(parts)}")
    return lines


def render_findings_csv(findings: Findings) -> str:
    """One line for each session under each policy in each window."""
    sessions = {each.key: each for each in findings.sessions}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    keys = [measure.key for measure in MEASURES]
    writer.writerow(["window", "policy", "session", "project", "agent", "tokens", "error", *keys])
    for window in findings.windows:
        for row in window.rows:
            session = sessions[row.session]
            about = [session.name, session.project, session.agent, session.tokens]
            values = [row.values.get(key) for key in keys]
            writer.writerow([window.window, row.policy, *about, row.error, *values])
    return out.getvalue()


# A curve and its comparisons at equal cost, for a terminal and for a sheet.

_CURVE_COLUMNS: Final = ("held", *EQUAL_COST_KEYS, "user", "cost", "billed_ratio")
_CURVE_TOTALS: Final = ("over", "invalid")


def _render_curve(findings: Findings, window: WindowFindings, width: int | None) -> list[str]:
    """Nothing if no curve was asked for."""
    curve = findings.curve
    if not curve:
        return []
    rows = [(curve.setting, *map(_column_heading, (*_CURVE_COLUMNS, *_CURVE_TOTALS)), "dearer")]
    for point in window.points:
        totals = [f"{point.totals[key]:.0f}" for key in _CURVE_TOTALS]
        value = point.value + " x" * point.beaten
        rows.append(
            (value, *(_format_mean(point, key, (COST_KEY,)) for key in _CURVE_COLUMNS), *totals, str(point.dearer))
        )
    lines = [
        f"the curve of {curve.policy} by {curve.setting} (dearer: sessions that cost more than unmanaged)",
        *align_table(rows, width=width),
    ]
    if any(point.beaten for point in window.points):
        lines.append("x passed over below: another point costs no more and keeps no less")
    return [*lines, "", *_render_equal_cost(curve, window, width)] if window.equal_cost else lines


def _render_equal_cost(curve: CurveEntry, window: WindowFindings, width: int | None) -> list[str]:
    title = (
        f"at equal cost: {curve.policy} at the {curve.setting} that costs the most without costing more, less the"
        f" other, on the same sessions ({_MARKS_LEGEND})"
    )
    rows = [("against", "its cost", curve.setting, "costs", *map(_column_heading, EQUAL_COST_KEYS), "verdict")]
    for each in window.equal_cost:
        by = {one.measure: one for one in each.differences}
        costs = (f"{each.their_cost:.3f}", each.value + "*" * each.dearer, f"{each.cost:.3f}")
        rows.append(
            (
                each.against,
                *costs,
                *(_format_difference(by[key]) for key in EQUAL_COST_KEYS),
                _format_equal_cost_verdict(each),
            )
        )
    lines = [title, *align_table(rows, width=width)]
    if any(each.dearer for each in window.equal_cost):
        lines.append("* cheaper than the whole curve: compared with the cheapest point, which costs more")
    if any(one.low is None for each in window.equal_cost for one in each.differences):
        lines.append(
            f"a difference without an interval: fewer than {MIN_GROUPS} {_resampled_unit(window)} have an answer"
        )
    return lines


def _resampled_unit(window: WindowFindings) -> str:
    return window.resampled or "sessions"


def _format_equal_cost_verdict(each: EqualCostEntry) -> str:
    if each.verdict == "partly better":
        return f"better in {len(each.better)} of {len(EQUAL_COST_KEYS)}"
    if each.verdict == "partly worse":
        return f"worse in {len(each.worse)} of {len(EQUAL_COST_KEYS)}"
    return each.verdict or "undecided"


def render_equal_cost_csv(findings: Findings) -> str:
    """One line for each contender and measure in each window."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    figures = ("measure", "mean", "low", "high", "n", "verdict")
    sheet.writerow(["window", "against", "their cost", "point", "cost", "dearer", *figures])
    for window in findings.windows:
        for each in window.equal_cost:
            about = (each.against, each.their_cost, each.point, each.cost, each.dearer)
            for one in each.differences:
                sheet.writerow([window.window, *about, *msgspec.structs.astuple(one)])
    return out.getvalue()
