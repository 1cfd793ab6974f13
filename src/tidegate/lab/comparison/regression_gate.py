"""Check whether a policy got worse than a stored result, for a build that should fail then.

The stored result has the values of each session, so the comparison is paired. A policy is worse in a measure if the
whole interval of the difference is on the wrong side and its mean is off by more than 0.002. With too few sessions for
an interval, the mean alone decides, by a margin of 0.02. Any increase of requests that are over the window, invalid or
not made is a regression: these are defects, not noise.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.comparison.confidence_intervals import MIN_GROUPS, estimate_difference, judge_difference
from tidegate.lab.comparison.report.findings import Findings, WindowFindings, decode_findings
from tidegate.lab.scoring.measures import MEASURES_BY_KEY

_GATED_KEYS: Final = tuple(
    "near_block far_block reread_avoidable far_lines refs_in_context typed_rules deep_rules user newest"
    " cost cost_cold cost_automatic sent billed_ratio".split()
)
_DEFECT_KEYS: Final = ("over", "failed", "invalid")
_MIN_DIFFERENCE: Final = 0.002
"""A fifth of a percentage point, or 0.002 of the cost: smaller steps are not worth a broken build."""
_MIN_MEAN_DIFFERENCE: Final = 0.02
"""The same where there is no interval."""

_MeasureValues = Mapping[str, float | None]


class Regression(NamedTuple):
    """One measure that got worse, with the figures in one line."""

    window: int
    policy: str
    measure_key: str
    description: str

    def __str__(self) -> str:
        return f"window {self.window:,}, {self.policy}: {MEASURES_BY_KEY[self.measure_key].name}: {self.description}"


class GateResult(NamedTuple):
    """`compared_pairs` counts pairs of a policy and a window in both results, `unmatched_sessions` those in one
    only.
    """

    regressions: list[Regression]
    compared_pairs: int
    unmatched_sessions: int


def read_stored_findings(path: Path) -> Findings:
    """Read a file that `--save` or `--json` wrote."""
    try:
        data = path.read_bytes()
    except OSError as error:
        remedy = "Give a file that `tidegate lab --save FILE` or `--json FILE` wrote."
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", remedy) from None
    return decode_findings(data, str(path))


def has_comparable_results(before: Findings, windows: Sequence[int], policies: Sequence[str]) -> bool:
    """Return whether there is anything to compare. Checked before the comparison is run."""
    return any(
        window.window in windows and not _values_by_policy(window).keys().isdisjoint(policies)
        for window in before.windows
    )


def check_regressions(old: Findings, new: Findings) -> GateResult:
    """Compare new findings with stored ones."""
    then = {window.window: _values_by_policy(window) for window in old.windows}
    projects = {each.key: each.project for each in new.sessions}
    worse: list[Regression] = []
    compared, unmatched = 0, 0
    for window in new.windows:
        for policy, now in _values_by_policy(window).items():
            before = then.get(window.window, {}).get(policy)
            if before is None:
                continue
            compared += 1
            unmatched += len(now.keys() ^ before.keys())
            shared = now.keys() & before.keys()
            groups = {session: projects[session] for session in shared}
            worse += _find_regressions(window.window, policy, {s: now[s] for s in shared}, before, groups)
    return GateResult(worse, compared, unmatched)


def _values_by_policy(window: WindowFindings) -> dict[str, dict[str, _MeasureValues]]:
    values: dict[str, dict[str, _MeasureValues]] = {}
    for row in window.rows:
        if not row.error:
            values.setdefault(row.policy, {})[row.session] = row.values
    return values


def _find_regressions(
    window: int, policy: str, now: dict[str, _MeasureValues], before: dict[str, _MeasureValues], groups: dict[str, str]
) -> list[Regression]:
    regressions = []
    for measure in _DEFECT_KEYS:
        was = sum(before[session].get(measure) or 0 for session in now)
        has = sum(values.get(measure) or 0 for values in now.values())
        if has > was:
            regressions.append(Regression(window, policy, measure, f"{has:.0f}, was {was:.0f}"))
    if len(set(groups.values())) < MIN_GROUPS:
        groups = {session: session for session in groups}
    for measure in _GATED_KEYS:
        mine = {session: values.get(measure) for session, values in now.items()}
        theirs = {session: before[session].get(measure) for session in now}
        difference = estimate_difference(mine, theirs, groups)
        if difference.mean is None:
            continue
        better = MEASURES_BY_KEY[measure].better
        wrong_way = -difference.mean if better == "more" else difference.mean
        if difference.low is None or difference.high is None:
            if wrong_way > _MIN_MEAN_DIFFERENCE:
                regressions.append(
                    Regression(
                        window, policy, measure, f"{difference.mean:+.4f} on {difference.session_count} sessions"
                    )
                )
        elif wrong_way > _MIN_DIFFERENCE and judge_difference(difference, better) == "worse":
            bounds = f"[{difference.low:+.4f} {difference.high:+.4f}]"
            regressions.append(
                Regression(
                    window, policy, measure, f"{difference.mean:+.4f} {bounds} on {difference.session_count} sessions"
                )
            )
    return regressions
