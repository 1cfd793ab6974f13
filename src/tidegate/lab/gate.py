"""Has a policy got worse than it was? For a build that should fail when it has.

What was stored are the values of each session, so the comparison is paired: the same sessions then and now. A policy is
worse in a measure if the whole interval of the difference is on the wrong side and its mean is more than a hair's
breadth off. With too few sessions for an interval the mean alone decides, by a wider margin. More requests over the
window, invalid or not made are worse, however few: these are defects, not noise.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.lab.findings import FORM
from tidegate.lab.measures import BY_KEY
from tidegate.lab.stats import LEAST_GROUPS, paired, verdict

GATED: Final = ("far", "far_strict", "anchors", "anchors_strict", "user", "newest", "cost", "billed_ratio")
NEVER: Final = ("over", "failed", "invalid")
HAIR: Final = 0.002
"""A fifth of a percentage point, or 0.002 of the cost: smaller steps are not worth a broken build."""
MARGIN: Final = 0.02
"""The same where there is no interval."""

Json = dict[str, Any]


class Worse(NamedTuple):
    """One thing that got worse: said in one line, with the figures."""

    window: int
    policy: str
    measure: str
    why: str

    def __str__(self) -> str:
        return f"window {self.window:,}, {self.policy}: {BY_KEY[self.measure].name}: {self.why}"


class Gated(NamedTuple):
    """`compared` counts pairs of a policy and a window that both have; sessions that changed are in `unmatched`."""

    worse: list[Worse]
    compared: int
    unmatched: int


def read_stored(path: Path) -> Json:
    """What `--save` wrote."""
    remedy = "Give a file that `tidegate lab --save FILE` or `--json FILE` wrote."
    try:
        stored = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", remedy) from None
    except msgspec.DecodeError as error:
        raise BadInput(f"{path}: broken JSON ({error}).", remedy) from None
    if not isinstance(stored, dict) or stored.get("form") != FORM:
        raise BadInput(f"{path}: not a result of the lab.", remedy)
    return stored


def comparable(stored: Json, windows: Sequence[int], policies: Sequence[str]) -> bool:
    """Is there anything to compare? Asked before the work, not after it."""
    return any(
        window["window"] in windows and not _by_policy(window).keys().isdisjoint(policies)
        for window in stored["windows"]
    )


def gate(stored: Json, found: Json) -> Gated:
    """Hold what was found now against what was stored."""
    then = {window["window"]: _by_policy(window) for window in stored["windows"]}
    projects = {each["key"]: each["project"] for each in found["sessions"]}
    worse: list[Worse] = []
    compared, unmatched = 0, 0
    for window in found["windows"]:
        for policy, now in _by_policy(window).items():
            before = then.get(window["window"], {}).get(policy)
            if before is None:
                continue
            compared += 1
            unmatched += len(now.keys() ^ before.keys())
            shared = now.keys() & before.keys()
            groups = {session: projects[session] for session in shared}
            worse += _judged(window["window"], policy, {s: now[s] for s in shared}, before, groups)
    return Gated(worse, compared, unmatched)


def _by_policy(window: Json) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    for row in window["rows"]:
        if not row["error"]:
            found.setdefault(row["policy"], {})[row["session"]] = row["values"]
    return found


def _judged(
    window: int, policy: str, now: dict[str, Json], before: dict[str, Json], groups: dict[str, str]
) -> list[Worse]:
    found = []
    for measure in NEVER:
        was = sum(before[session].get(measure) or 0 for session in now)
        has = sum(values.get(measure) or 0 for values in now.values())
        if has > was:
            found.append(Worse(window, policy, measure, f"{has:.0f}, was {was:.0f}"))
    if len(set(groups.values())) < LEAST_GROUPS:
        groups = {session: session for session in groups}
    for measure in GATED:
        mine = {session: values.get(measure) for session, values in now.items()}
        theirs = {session: before[session].get(measure) for session in now}
        difference = paired(mine, theirs, groups)
        if difference.mean is None:
            continue
        better = BY_KEY[measure].better
        wrong_way = -difference.mean if better == "more" else difference.mean
        if difference.low is None or difference.high is None:
            if wrong_way > MARGIN:
                found.append(Worse(window, policy, measure, f"{difference.mean:+.4f} on {difference.n} sessions"))
        elif wrong_way > HAIR and verdict(difference, better) == "worse":
            bounds = f"[{difference.low:+.4f} {difference.high:+.4f}]"
            found.append(Worse(window, policy, measure, f"{difference.mean:+.4f} {bounds} on {difference.n} sessions"))
    return found
