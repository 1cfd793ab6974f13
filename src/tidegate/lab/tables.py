"""Tables for a terminal: how a measure is headed, how its values and differences are written."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidegate.lab.measures import BY_KEY

Json = dict[str, Any]

HEADS: Final = {
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
BOUNDED: Final = ("far", "anchors", "user", "cost", "billed_ratio")
"""Where the interval is printed, too; the JSON has all of them."""
MARKS: Final = {"better": " +", "worse": " -", "": "  "}
SIGNS: Final = "+ better, - worse, both beyond the interval"


def head(key: str) -> str:
    return HEADS.get(key, key)


def cell(means: Json, key: str, bounded: Sequence[str] = BOUNDED) -> str:
    value = means["values"][key]
    if value["mean"] is None:
        return "-"
    write = writer(key)
    text = write(value["mean"])
    if key in bounded and value["low"] is not None:
        text += f" [{write(value['low'])} {write(value['high'])}]"
    return text


def writer(key: str) -> Callable[[float], str]:
    unit = BY_KEY[key].unit
    if unit == "share":
        return lambda value: f"{100 * value:.1f}"
    if unit == "tokens":
        return lambda value: f"{value:,.0f}"
    return {"ratio": "{:.3f}", "usd": "{:.2f}", "seconds": "{:.3f}", "count": "{:.1f}"}[unit].format


def difference(each: Json) -> str:
    """A mark only where the interval leaves no doubt."""
    if each["mean"] is None:
        return "-"
    scale, digits = (100, 1) if BY_KEY[each["measure"]].unit == "share" else (1, 3)
    text = f"{scale * each['mean']:+.{digits}f}"
    if each["low"] is not None:
        text += f" [{scale * each['low']:+.{digits}f} {scale * each['high']:+.{digits}f}]"
    return text + MARKS[each["verdict"]]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first row heads the others."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        cells = [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
