"""Findings for people who read a terminal: a table of what is kept and one of what it costs, for each window."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from tidegate.lab.curve_text import curve_lines
from tidegate.lab.measures import JUDGED, MEASURES
from tidegate.lab.tables import SIGNS, aligned, cell, difference, head

Json = dict[str, Any]

_KEPT: Final = ("held", "far", "far_strict", "anchors", "anchors_strict", "user", "newest", "recoverable")
_PRICE: Final = tuple("over failed mended invalid cached rewritten cost billed billed_ratio summaries pause".split())
_TOTALS: Final = ("over", "failed", "mended", "invalid")
MOST_NAMED: Final = 3
"""So many negative cases of a policy are named in the text."""


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
        lines += ["", *_differences(found, window), *_pairs(window)]
    if curve := curve_lines(found, window):
        lines += ["", *curve]
    return "\n".join([*lines, "", *_negative(found, window)])


def _table(window: Json, keys: Sequence[str]) -> list[str]:
    rows = [("policy", *(head(key) for key in keys))]
    for means in window["means"]:
        cells = [f"{means['totals'][key]:.0f}" if key in _TOTALS else cell(means, key) for key in keys]
        rows.append((means["policy"], *cells))
    return aligned(rows)


def _differences(found: Json, window: Json) -> list[str]:
    """Paired with the baseline on the same sessions; a mark only where the interval leaves no doubt."""
    by = {(each["policy"], each["measure"]): each for each in window["paired"]}
    verdicts = {each["policy"]: each for each in window["verdicts"] if each["against"] == found["baseline"]}
    rows = [("policy", *(head(key) for key in JUDGED), "verdict")]
    for policy in dict.fromkeys(each["policy"] for each in window["paired"]):
        cells = [difference(by[policy, key]) for key in JUDGED]
        rows.append((policy, *cells, _verdict(verdicts[policy])))
    return [f"difference from {found['baseline']} on the same sessions ({SIGNS})", *aligned(rows)]


def _verdict(each: Json) -> str:
    words = {"better": "better", "worse": "worse", "trade": "trade", "": "no verdict"}
    return words[each["verdict"]]


def _pairs(window: Json) -> list[str]:
    """Every policy against every other, a sign each. Of two there is the table above."""
    policies = [each["policy"] for each in window["means"]]
    if len(policies) < 3:
        return []
    signs = {"better": "+", "worse": "-", "trade": "~", "": "."}
    by = {(each["policy"], each["against"]): signs[each["verdict"]] for each in window["verdicts"]}
    numbers = [str(number) for number in range(1, len(policies) + 1)]
    rows = [("every pair", *numbers)]
    for number, policy in zip(numbers, policies, strict=True):
        rows.append((f"{number:>2} {policy}", *(by.get((policy, other), "") for other in policies)))
    title = "the policy of the row against that of the column: + better, - worse, ~ a trade, . not told apart"
    return ["", title, *aligned(rows)]


def _negative(found: Json, window: Json) -> list[str]:
    """Sessions that cost more managed than unmanaged: how many, and the worst of each policy by name."""
    if not window["worse"]:
        return ["negative cases: none; no session costs more managed than with its whole history"]
    names = {each["key"]: each["name"] for each in found["sessions"]}
    lines = ["negative cases: sessions that cost more managed than with their whole history (the JSON has all)"]
    for policy in dict.fromkeys(each["policy"] for each in window["worse"]):
        told = []
        for measure in dict.fromkeys(each["measure"] for each in window["worse"]):
            cases = [each for each in window["worse"] if (each["policy"], each["measure"]) == (policy, measure)]
            if cases:
                worst = sorted(cases, key=lambda each: -float(each["value"]))[:MOST_NAMED]
                named = ", ".join(f"{names[each['session']]} {each['value']:.2f}" for each in worst)
                told.append(f"{len(cases)} by {head(measure)}, {'worst ' * (len(cases) > MOST_NAMED)}{named}")
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
