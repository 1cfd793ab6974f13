"""Reports for people and for programs: a plain table, or JSON."""

import json
from collections.abc import Mapping, Sequence

from tidegate.core.terminal_text import clean_line
from tidegate.lab.batch import Order, Unread
from tidegate.lab.tally import SessionReport, total

_HEAD = ("session", "calls", "mean", "max", "over", "invalid", "refused", "prefix", "newest", "edits by stage")
_LEFT = (0, len(_HEAD) - 1)
_WIDEST = 44


def as_json(order: Order, reports: Sequence[SessionReport], unread: Sequence[Unread], *, interrupted: bool) -> str:
    value = {
        "policy": order.policy,
        "settings": dict(order.settings),
        "window": order.window,
        "count": order.count,
        "wires": list(order.wires),
        "total": _values(total(reports)),
        "sessions": [{"name": report.name, **_values(report)} for report in reports],
        "skipped": [{"path": each.path, "cause": each.cause, "remedy": each.remedy} for each in unread],
        "interrupted": interrupted,
    }
    return json.dumps(value, indent=2, ensure_ascii=False)


def _values(report: SessionReport) -> dict[str, object]:
    return {
        "sessions": report.sessions,
        "calls": report.calls,
        "requests": report.requests,
        "tokens": {"mean": round(report.mean, 1), "max": round(report.most, 1)},
        "over": report.over,
        "invalid": report.invalid.total(),
        "invalid_by_wire": dict(report.invalid),
        "rules": dict(report.rules),
        "refused": report.refused,
        "refusal": report.refusal or None,
        "prefix": None if report.prefix is None else round(report.prefix, 4),
        "newest": {"whole": report.newest_whole, "clipped": report.newest_clipped, "lost": report.newest_lost},
        "tool_calls": report.tool_calls,
        "rereads": report.rereads,
        "edits": dict(report.edits),
        "exceptions": dict(report.exceptions),
    }


def as_table(order: Order, reports: Sequence[SessionReport]) -> str:
    """One line a session, the total, and below it whatever a figure in the table needs to be understood."""
    whole = total(reports)
    rows = [_HEAD, *map(_cells, reports), _cells(whole)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * min(160, len(lines[0])))
    lines.insert(-1, lines[1])
    about = (
        f"policy {order.policy}, window {order.window:,}, tokens by {order.count}, valid for {', '.join(order.wires)}"
    )
    lines = [about, "", *lines, ""]
    lines += [f"{whole.sessions} sessions, {whole.calls} calls, {whole.requests} requests"]
    lines += [f"fetched again what had left and could be recalled: {whole.rereads:,} of {whole.tool_calls:,} calls"]
    lines += _listed("edits by stage", whole.edits)
    lines += _listed("broken rules", whole.rules)
    lines += _listed("exceptions", whole.exceptions)
    refused = [report for report in reports if report.refused]
    if refused:
        lines.append(f"refused: {whole.refused} calls of {len(refused)} sessions")
        lines += [f"  {clean_line(report.name)}: {clean_line(report.refusal)}" for report in refused]
    return "\n".join(lines)


def _cells(report: SessionReport) -> tuple[str, ...]:
    prefix = "-" if report.prefix is None else f"{100 * report.prefix:.1f}%"
    newest = [f"{report.newest_whole}"]
    newest += [f"{report.newest_clipped} clipped"] if report.newest_clipped else []
    newest += [f"{report.newest_lost} LOST"] if report.newest_lost else []
    name = clean_line(report.name)
    name = name if len(name) <= _WIDEST else name[: _WIDEST - 1] + "…"
    edits = ", ".join(f"{stage} {count}" for stage, count in report.edits.most_common())
    figures = (
        f"{report.mean:,.0f}",
        f"{report.most:,.0f}",
        report.over,
        report.invalid.total(),
        report.refused,
        prefix,
    )
    return (name, str(report.calls), *map(str, figures), " + ".join(newest), edits or "-")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column in _LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _listed(what: str, tally: Mapping[str, int]) -> list[str]:
    if not tally:
        return []
    return [f"{what}: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.items(), key=lambda kv: -kv[1]))]
