"""Render replay reports: a plain table, or JSON."""

import json
from collections.abc import Mapping, Sequence

from tidegate.core.text.plural import format_count
from tidegate.core.text.table import align_table
from tidegate.core.text.terminal_text import clean_line
from tidegate.lab.replay.batch import ReplayOrder, UnreadRecording
from tidegate.lab.replay.replay_report import ReplayReport, sum_reports

_HEADINGS = ("session", "calls", "mean", "max", "over", "invalid", "refused", "prefix", "newest", "edits by stage")
_LEFT_ALIGNED = (0, len(_HEADINGS) - 1)
_MAX_NAME_CHARS = 44


def render_replay_json(
    order: ReplayOrder, reports: Sequence[ReplayReport], unread: Sequence[UnreadRecording], *, interrupted: bool
) -> str:
    value = {
        "policy": order.policy,
        "settings": dict(order.settings),
        "window": order.window,
        "count": order.count,
        "wires": list(order.dialects),
        "total": _report_values(sum_reports(reports)),
        "sessions": [{"name": report.name, **_report_values(report)} for report in reports],
        "skipped": [{"path": each.path, "cause": each.cause, "remedy": each.remedy} for each in unread],
        "interrupted": interrupted,
    }
    return json.dumps(value, indent=2, ensure_ascii=False)


def _report_values(report: ReplayReport) -> dict[str, object]:
    return {
        "sessions": report.sessions,
        "calls": report.calls,
        "requests": report.requests,
        "tokens": {"mean": round(report.mean_tokens, 1), "max": round(report.max_tokens, 1)},
        "over": report.oversized_requests,
        "invalid": report.invalid_by_dialect.total(),
        "invalid_by_wire": dict(report.invalid_by_dialect),
        "rules": dict(report.broken_rules),
        "refused": report.refused,
        "refusal": report.refusal or None,
        "prefix": None if report.mean_shared_share is None else round(report.mean_shared_share, 4),
        "newest": {"whole": report.newest_whole, "clipped": report.newest_clipped, "lost": report.newest_lost},
        "tool_calls": report.tool_calls,
        "rereads": report.rereads,
        "edits": dict(report.edits),
        "exceptions": dict(report.exceptions),
    }


def render_replay_table(order: ReplayOrder, reports: Sequence[ReplayReport], *, width: int | None = None) -> str:
    """Return one line a session, the total, and explanations of the figures that need one."""
    whole = sum_reports(reports)
    rows = [_HEADINGS, *map(_report_cells, reports), _report_cells(whole)]
    lines = align_table(rows, width=width, left_aligned=_LEFT_ALIGNED, has_total=True)
    dialects = ", ".join(order.dialects)
    about = f"policy {order.policy}, window {order.window:,}, tokens by {order.count}, valid for {dialects}"
    lines = [about, "", *lines, ""]
    lines += [f"sessions: {whole.sessions}, calls: {whole.calls}, requests: {whole.requests}"]
    lines += [f"fetched again what had left and could be recalled: {whole.rereads:,} of {whole.tool_calls:,} calls"]
    lines += _list_counts("edits by stage", whole.edits)
    lines += _list_counts("broken rules", whole.broken_rules)
    lines += _list_counts("exceptions", whole.exceptions)
    refusals = [report for report in reports if report.refused]
    if refusals:
        lines.append(f"refused: {format_count(whole.refused, 'call')} of {format_count(len(refusals), 'session')}")
        lines += [f"  {clean_line(report.name)}: {clean_line(report.refusal)}" for report in refusals]
    return "\n".join(lines)


def _report_cells(report: ReplayReport) -> tuple[str, ...]:
    prefix = "-" if report.mean_shared_share is None else f"{100 * report.mean_shared_share:.1f}%"
    newest = [f"{report.newest_whole}"]
    newest += [f"{report.newest_clipped} clipped"] if report.newest_clipped else []
    newest += [f"{report.newest_lost} LOST"] if report.newest_lost else []
    name = clean_line(report.name)
    name = name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1] + "…"
    edits = ", ".join(f"{stage} {count}" for stage, count in report.edits.most_common())
    figures = (
        f"{report.mean_tokens:,.0f}",
        f"{report.max_tokens:,.0f}",
        report.oversized_requests,
        report.invalid_by_dialect.total(),
        report.refused,
        prefix,
    )
    return (name, str(report.calls), *map(str, figures), " + ".join(newest), edits or "-")


def _list_counts(what: str, tally: Mapping[str, int]) -> list[str]:
    if not tally:
        return []
    return [f"{what}: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.items(), key=lambda kv: -kv[1]))]
