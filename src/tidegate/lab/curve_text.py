"""A curve and its comparisons at equal cost, for a terminal and for a sheet."""

import csv
import io
from typing import Any, Final

from tidegate.lab.equal_cost import COST, EQUAL
from tidegate.lab.stats import LEAST_GROUPS
from tidegate.lab.tables import SIGNS, aligned, cell, difference, head

Json = dict[str, Any]

_SHOWN: Final = ("held", "far", "far_strict", "anchors", "anchors_strict", "user", "cost", "billed_ratio")
_COUNTED: Final = ("over", "invalid")


def curve_lines(found: Json, window: Json) -> list[str]:
    """Nothing if no curve was asked for."""
    curve = found["curve"]
    if not curve:
        return []
    rows = [(curve["setting"], *map(head, (*_SHOWN, *_COUNTED)), "dearer")]
    for point in window["points"]:
        totals = [f"{point['totals'][key]:.0f}" for key in _COUNTED]
        value = point["value"] + " x" * point["beaten"]
        rows.append((value, *(cell(point, key, (COST,)) for key in _SHOWN), *totals, str(point["dearer"])))
    lines = [
        f"the curve of {curve['policy']} by {curve['setting']} (dearer: sessions that cost more than unmanaged)",
        *aligned(rows),
    ]
    if any(point["beaten"] for point in window["points"]):
        lines.append("x passed over below: another point costs no more and keeps no less")
    return [*lines, "", *_equal(curve, window)] if window["equal_cost"] else lines


def _equal(curve: Json, window: Json) -> list[str]:
    title = (
        f"at equal cost: {curve['policy']} at the {curve['setting']} that costs the most without costing more, less the"
        f" other, on the same sessions ({SIGNS})"
    )
    rows = [("against", "its cost", curve["setting"], "costs", *map(head, EQUAL), "verdict")]
    for each in window["equal_cost"]:
        by = {one["measure"]: one for one in each["differences"]}
        costs = (f"{each['their_cost']:.3f}", each["value"] + "*" * each["dearer"], f"{each['cost']:.3f}")
        rows.append((each["against"], *costs, *(difference(by[key]) for key in EQUAL), _verdict(each)))
    lines = [title, *aligned(rows)]
    if any(each["dearer"] for each in window["equal_cost"]):
        lines.append("* cheaper than the whole curve: compared with the cheapest point, which costs more")
    if any(one["low"] is None for each in window["equal_cost"] for one in each["differences"]):
        lines.append(f"a difference without an interval: fewer than {LEAST_GROUPS} {_drawn(window)} have an answer")
    return lines


def _drawn(window: Json) -> str:
    return window["resampled"] or "sessions"


def _verdict(each: Json) -> str:
    partly = {"partly better": "better", "partly worse": "worse"}.get(each["verdict"])
    if partly:
        return f"{partly} in {len(each[partly])} of {len(EQUAL)}"
    return each["verdict"] or "not told apart"


def equal_csv(found: Json) -> str:
    """One line for each contender and measure in each window."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    keys = ("mean", "low", "high", "n", "verdict")
    sheet.writerow(["window", "against", "their cost", "point", "cost", "dearer", "measure", *keys])
    for window in found["windows"]:
        for each in window["equal_cost"]:
            about = (each["against"], each["their_cost"], each["point"], each["cost"], each["dearer"])
            for one in each["differences"]:
                sheet.writerow([window["window"], *about, one["measure"], *(one[key] for key in keys)])
    return out.getvalue()
