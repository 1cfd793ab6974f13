"""Findings for people who read a terminal: a table of what is kept and one of what it costs, for each window."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidegate.lab.measures import BY_KEY, JUDGED, MEASURES

Json = dict[str, Any]

_KEPT: Final = ("held", "far", "far_strict", "anchors", "anchors_strict", "user", "newest", "recoverable")
_PRICE: Final = tuple("over failed mended invalid cached rewritten cost billed billed_ratio summaries pause".split())
_HEADS: Final = {
    "held": "held",
    "far": "far refs",
    "far_strict": "strict",
    "anchors": "anchors",
    "anchors_strict": "strict",
    "user": "user words",
    "newest": "newest",
    "recoverable": "recoverable",
    "rewritten": "re-written",
    "billed": "billed $",
    "billed_ratio": "billed/full",
    "cost": "cost 0.1/1.25",
    "pause": "pause s",
}
_BOUNDED: Final = ("far", "anchors", "user", "cost", "billed_ratio")
_TOTALS: Final = ("over", "failed", "mended", "invalid")


def as_text(found: Json) -> str:
    """All windows. What a figure means is in `docs/lab.md` and in the JSON."""
    blocks = []
    for window in found["windows"]:
        blocks.append(_window(found, window))
    blocks += [f"note: {note}" for note in found["notes"]]
    if found["unfinished"]:
        blocks.append(f"stopped: {found['unfinished']} of the cells are not measured yet; the same command goes on.")
    return "\n\n".join(blocks)


def _window(found: Json, window: Json) -> str:
    counts = window["counts"]
    drawn = {
        "projects": f"95% intervals over {counts['projects']} projects",
        "sessions": "95% intervals over sessions: there are too few projects, so they speak of these projects only",
        "": "too few sessions for intervals",
    }[window["resampled"]]
    lines = [
        f"window {window['window']:,}: {counts['sessions']} sessions of {counts['projects']} projects,"
        f" {counts['requests']:,} requests, {counts['beyond']:,} beyond the window; {counts['far']:,} far references,"
        f" {counts['anchors']:,} far anchors; means over sessions, {drawn}",
    ]
    if not counts["sessions"]:
        return "\n".join([*lines, "no session is long enough for this window: nothing is measured"])
    lines += ["", "what is kept", *_table(window, _KEPT), "", "what it costs", *_table(window, _PRICE)]
    if window["paired"]:
        lines += ["", *_differences(found, window)]
    return "\n".join([*lines, *_negative(found, window)])


def _table(window: Json, keys: Sequence[str]) -> list[str]:
    rows = [("policy", *(_HEADS.get(key, key) for key in keys))]
    for means in window["means"]:
        cells = [f"{means['totals'][key]:.0f}" if key in _TOTALS else _cell(means, key) for key in keys]
        rows.append((means["policy"], *cells))
    return _aligned(rows)


def _cell(means: Json, key: str) -> str:
    value = means["values"][key]
    if value["mean"] is None:
        return "-"
    shown = _shown(key)
    text = shown(value["mean"])
    if key in _BOUNDED and value["low"] is not None:
        text += f" [{shown(value['low'])} {shown(value['high'])}]"
    return text


def _shown(key: str) -> Callable[[float], str]:
    unit = BY_KEY[key].unit
    if unit == "share":
        return lambda value: f"{100 * value:.1f}"
    if unit == "tokens":
        return lambda value: f"{value:,.0f}"
    return {"ratio": "{:.3f}", "usd": "{:.2f}", "seconds": "{:.3f}", "count": "{:.1f}"}[unit].format


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _differences(found: Json, window: Json) -> list[str]:
    """Paired with the baseline on the same sessions; a mark only where the interval leaves no doubt."""
    by = {(each["policy"], each["measure"]): each for each in window["paired"]}
    verdicts = {each["policy"]: each for each in window["verdicts"] if each["against"] == found["baseline"]}
    rows = [("policy", *(_HEADS.get(key, key) for key in JUDGED), "verdict")]
    for policy in dict.fromkeys(each["policy"] for each in window["paired"]):
        cells = [_difference(by[policy, key]) for key in JUDGED]
        rows.append((policy, *cells, _verdict(verdicts[policy])))
    head = f"difference from {found['baseline']} on the same sessions (+ better, - worse, both beyond the interval)"
    return [head, *_aligned(rows)]


def _difference(each: Json) -> str:
    if each["mean"] is None:
        return "-"
    scale, digits = (100, 1) if BY_KEY[each["measure"]].unit == "share" else (1, 3)
    text = f"{scale * each['mean']:+.{digits}f}"
    if each["low"] is not None:
        text += f" [{scale * each['low']:+.{digits}f} {scale * each['high']:+.{digits}f}]"
    return text + {"better": " +", "worse": " -", "": "  "}[each["verdict"]]


def _verdict(each: Json) -> str:
    words = {"better": "better", "worse": "worse", "trade": "trade", "": "no verdict"}
    return words[each["verdict"]]


def _negative(found: Json, window: Json) -> list[str]:
    """Sessions that cost more managed than unmanaged: how many, and the worst of each policy by name."""
    if not window["worse"]:
        return ["", "negative cases: none; no session costs more managed than with its whole history"]
    names = {each["key"]: each["name"] for each in found["sessions"]}
    lines = ["", "negative cases: sessions that cost more managed than with their whole history"]
    for policy in dict.fromkeys(each["policy"] for each in window["worse"]):
        told = []
        for measure in dict.fromkeys(each["measure"] for each in window["worse"]):
            cases = [each for each in window["worse"] if (each["policy"], each["measure"]) == (policy, measure)]
            if cases:
                worst = max(cases, key=lambda each: float(each["value"]))
                name = f"{names[worst['session']]} {worst['value']:.2f}"
                told.append(f"{len(cases)} by {_HEADS[measure]}, worst {name}")
        lines.append(f"  {policy}: {'; '.join(told)}")
    return lines


def as_csv(found: Json) -> str:
    """One line for each session under each policy in each window."""
    sessions = {each["key"]: each for each in found["sessions"]}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    keys = [measure.key for measure in MEASURES]
    writer.writerow(["window", "policy", "session", "project", "agent", "tokens", "error", *keys])
    for window in found["windows"]:
        for row in window["rows"]:
            session = sessions[row["session"]]
            about = [session[key] for key in ("name", "project", "agent", "tokens")]
            values = [row["values"].get(key) for key in keys]
            writer.writerow([window["window"], row["policy"], *about, row["error"], *values])
    return out.getvalue()
