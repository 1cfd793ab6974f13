"""A curve against every other policy at equal cost, on hand-made figures whose answer is known."""

import csv
import io
import json
import random

import msgspec
import pytest

from tidegate.core.errors import BadInput
from tidegate.lab.comparison.cells import CellResult, ComparisonCell, ComparisonTerms
from tidegate.lab.comparison.contenders import Contender
from tidegate.lab.comparison.cost_curve import (
    EQUAL_COST_KEYS,
    CurvePoint,
    SettingCurve,
    compare_at_equal_cost,
    find_dominated_points,
)
from tidegate.lab.comparison.report.builder import ReportContext, build_findings
from tidegate.lab.comparison.report.findings import Findings, FindingsSetup, SetupRates, decode_findings
from tidegate.lab.comparison.report.text import render_equal_cost_csv, render_findings_text
from tidegate.lab.comparison.runner import ComparisonPlan, ComparisonResults
from tidegate.lab.comparison.session_sources import SessionSource
from tidegate.lab.scoring.session_figures import ModelCosts, SessionFigures, UnmanagedCost
from tidegate.lab.scoring.text_scorer import KeptShare, TextFigures

Kept = dict[str, float | None]
SESSIONS = [f"s{number}" for number in range(12)]
GROUPS = {session: f"p{place % 6}" for place, session in enumerate(SESSIONS)}


def values(cost: float, kept: float, **others: float) -> dict[str, Kept]:
    """The same in every session, but for a wobble that all contenders share: differences are exact."""
    wobble = {session: place % 4 / 100 for place, session in enumerate(SESSIONS)}
    each = dict.fromkeys(EQUAL_COST_KEYS, kept) | {"cost": cost} | others
    return {key: {session: value + wobble[session] for session in SESSIONS} for key, value in each.items()}


CURVE = {"low": values(0.3, 0.4), "middle": values(0.5, 0.6), "high": values(0.8, 0.7)}


@pytest.mark.parametrize(
    ("cost", "point", "dearer"),
    [(0.79, "middle", False), (0.8, "high", False), (3.0, "high", False), (0.31, "low", False), (0.2, "low", True)],
)
def test_the_dearest_point_that_costs_no_more(cost: float, point: str, dearer: bool) -> None:
    found = compare_at_equal_cost({**CURVE, "other": values(cost, 0.5)}, ["middle", "high", "low"], "other", GROUPS)
    assert found is not None
    assert (found.point_key, found.is_dearer) == (point, dearer)
    assert found.contender_cost == pytest.approx(cost + 0.015)
    assert found.point_cost == pytest.approx({"low": 0.3, "middle": 0.5, "high": 0.8}[point] + 0.015)


@pytest.mark.parametrize(
    ("theirs", "word", "better", "worse"),
    [
        (values(0.6, 0.5), "better", list(EQUAL_COST_KEYS), []),
        (values(0.6, 0.9), "worse", [], list(EQUAL_COST_KEYS)),
        (values(0.6, 0.5, far_lines=0.6), "partly better", ["near_block", "far_block", "refs_in_context"], []),
        (values(0.6, 0.6, near_block=0.7), "partly worse", [], ["near_block"]),
        (values(0.6, 0.5, far_lines=0.9), "trade", ["near_block", "far_block", "refs_in_context"], ["far_lines"]),
        (values(0.6, 0.6), "", [], []),
    ],
)
def test_the_verdict_is_of_all_four(theirs: dict[str, Kept], word: str, better: list[str], worse: list[str]) -> None:
    found = compare_at_equal_cost({**CURVE, "other": theirs}, list(CURVE), "other", GROUPS)
    assert found is not None
    assert (found.point_key, found.verdict) == ("middle", word)
    assert (found.measures_judged("better"), found.measures_judged("worse")) == (better, worse)


def test_a_difference_is_ours_less_theirs_with_its_interval() -> None:
    """Half of six projects +0.2, half -0.1: in 1.6 of 100 draws none is of the one half, in 10.9 at most one is."""
    theirs = values(0.6, 0.6)
    theirs["near_block"] = {session: 0.4 if int(GROUPS[session][1]) % 2 else 0.7 for session in SESSIONS}
    ours = dict(CURVE["middle"])
    ours["near_block"] = dict.fromkeys(SESSIONS, 0.6)
    found = compare_at_equal_cost({"middle": ours, "other": theirs}, ["middle"], "other", GROUPS)
    assert found is not None
    far, *_, cost = found.differences
    assert (far.measure, far.estimate.session_count) == ("near_block", 12)
    assert far.estimate.mean == pytest.approx(0.05)
    assert far.estimate.low == pytest.approx((0.2 - 5 * 0.1) / 6)
    assert far.estimate.high == pytest.approx((5 * 0.2 - 0.1) / 6)
    assert far.verdict == ""
    assert cost.estimate.high == pytest.approx(-0.1)
    assert (cost.measure, cost.verdict) == ("cost", "better")


def test_only_sessions_both_have_decide_the_cost() -> None:
    """The other failed in its dearest sessions: in those it has, the middle point costs more than it."""
    theirs = values(0.4, 0.5)
    for key in theirs:
        theirs[key] = {session: value for session, value in theirs[key].items() if session not in SESSIONS[8:]}
    theirs["cost"]["s1"] = None
    found = compare_at_equal_cost({**CURVE, "other": theirs}, list(CURVE), "other", GROUPS)
    assert found is not None
    assert found.point_key == "low"
    assert found.differences[0].estimate.session_count == 8
    gone = {key: dict[str, float | None]() for key in theirs}
    assert compare_at_equal_cost({**CURVE, "other": gone}, list(CURVE), "other", GROUPS) is None


def test_a_point_that_another_makes_pointless_is_named() -> None:
    worse = {"far down": values(0.55, 0.59), "mixed": values(0.55, 0.59, far_lines=0.61), "twin": values(0.3, 0.4)}
    every = {**CURVE, **worse}
    assert find_dominated_points(every, list(every)) == {"far down"}


# --- from figures to the report ---------------------------------------------------------------------------------------

OURS = {"0.5": 0.3, "1": 0.5, "2": 0.8}
"""Values of the setting, and what a session costs at them; what is kept is the same number."""
OTHERS = {"cheap": (0.2, 2), "near": (0.55, 4), "dear": (2.0, 9)}
"""The cost of each, and how many of ten they keep."""


def contender(key: str) -> Contender:
    return Contender(key, "preset", f"About {key}.", f"stamp of {key}")


def figures(cost: float, kept: float, place: int) -> SessionFigures:
    share = [KeptShare(round(10 * kept), 10) for _ in EQUAL_COST_KEYS]
    made = SessionFigures(
        1000.0,
        10,
        requests_beyond_window=10,
        texts=TextFigures(near_block=share[0], far_block=share[1], far_lines=share[2], refs_in_context=share[3]),
        costs=ModelCosts(warm=1.25 * cost * (1 + place / 7)),
    )
    made.sent_tokens = cost * (1 + place / 7)
    made.unmanaged = UnmanagedCost(ModelCosts(warm=1.25 * (1 + place / 7)), 1.0, 1.0)
    made.user_word_shares = 1 / (3 + place)
    return made


def plan() -> ComparisonPlan:
    sources = [
        SessionSource(key, 0, key, f"name of {key}", GROUPS[key], "", 9.0, 10, False, (), ()) for key in SESSIONS
    ]
    keys = ["ours", *OTHERS, "ours dial=0.5", "ours dial=2"]
    return ComparisonPlan(
        tuple(sources), tuple(map(contender, keys)), (5,), ComparisonTerms("chars/4", "", (), ""), 1.0
    )


def results(order: int = 0) -> ComparisonResults:
    found = ComparisonResults(plan(), {}, [])
    cells = found.plan.list_cells()
    random.Random(order).shuffle(cells)
    for cell in cells:
        found.add_result(measured(cell))
    return found


def measured(cell: ComparisonCell) -> CellResult:
    key, place = cell.contender.key, int(cell.source.content_hash[1:])
    if (key, place) in (("cheap", 3), ("dear", 4)):
        return CellResult(cell, None, "It broke.")
    own = {"ours": "1", "ours dial=0.5": "0.5", "ours dial=2": "2"}.get(key)
    return CellResult(cell, figures(OURS[own], OURS[own], place) if own else figures(*_other(key), place))


def _other(key: str) -> tuple[float, float]:
    cost, kept = OTHERS[key]
    return cost, kept / 10


SETUP = FindingsSetup(("ours",), (5,), "chars/4", 1.0, "a model", SetupRates(1.0, 0.1, None, 2.0))


def report(order: int = 0) -> Findings:
    points = (CurvePoint("0.5", "ours dial=0.5"), CurvePoint("1", "ours"), CurvePoint("2", "ours dial=2"))
    curve = SettingCurve("ours", "dial", points, (contender("ours dial=0.5"), contender("ours dial=2")))
    return build_findings(results(order), ReportContext("It", "now", (), SETUP, "ours", curve=curve))


def test_points_are_shown_apart_and_their_sessions_can_be_had() -> None:
    found = report()
    (window,) = found.windows
    assert [each.key for each in found.policies] == ["ours", *OTHERS]
    for part in (window.means, window.curves, window.lost):
        assert part
        assert {each.policy for each in part} == {"ours", *OTHERS}
    assert {each.policy for each in window.verdicts} == {"ours", *OTHERS}
    assert {row.policy for row in window.rows} == {"ours", *OTHERS, "ours dial=0.5", "ours dial=2"}
    assert [(each.value, each.policy) for each in window.points] == [
        ("0.5", "ours dial=0.5"), ("1", "ours"), ("2", "ours dial=2"),
    ]  # fmt: skip
    for each in window.points:
        assert each.values["cost"].mean == pytest.approx(OURS[each.value])
        assert each.values["near_block"].mean == pytest.approx(OURS[each.value])


def test_the_comparison_in_the_report() -> None:
    found = report()
    (window,) = found.windows
    told = {each.against: each for each in window.equal_cost}
    assert {key: (each.value, each.dearer, each.verdict) for key, each in told.items()} == {
        "cheap": ("0.5", True, "better"), "near": ("1", False, "better"), "dear": ("2", False, "worse"),
    }  # fmt: skip
    assert {one.measure: one.mean for one in told["near"].differences} == pytest.approx(
        dict.fromkeys(EQUAL_COST_KEYS, 0.1) | {"cost": -0.05}
    )
    text = render_findings_text(found)
    lines = {line.split()[0]: line for line in text[text.index("at equal cost:") :].splitlines() if line}
    assert lines["cheap"].split()[1:4] == ["0.200", "0.5*", "0.300"]
    assert lines["near"].split()[1:4] == ["0.550", "1", "0.500"]
    assert lines["near"].endswith("better")
    assert lines["dear"].count("-10.0 [-10.0 -10.0] -") == 4
    assert lines["dear"].endswith("worse")
    assert "compared with the cheapest point, which costs more" in text
    sheet = list(csv.DictReader(io.StringIO(render_equal_cost_csv(found))))
    assert [(row["against"], row["measure"], float(row["mean"])) for row in sheet] == [
        (each.against, one.measure, one.mean) for each in window.equal_cost for one in each.differences
    ]


def test_a_grid_of_every_pair_in_the_text() -> None:
    text = render_findings_text(report())
    grid = text[text.index("every pair") :].splitlines()[2:6]
    assert [line.split() for line in grid] == [
        ["1", "ours", "~", "+", "~"], ["2", "cheap", "~", "~", "~"], ["3", "near", "-", "~", "~"],
        ["4", "dear", "~", "~", "~"],
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_in_whatever_order_cells_are_measured_the_report_is_the_same_to_the_last_digit() -> None:
    seen = {msgspec.json.encode(report(order)) for order in range(3)}
    assert len(seen) == 1
    assert b"It broke." in seen.pop()


def test_findings_are_read_as_they_were_written() -> None:
    written = msgspec.json.encode(report())
    assert msgspec.json.encode(decode_findings(written, "it")) == written
    keys = json.loads(written)["setup"].keys()
    assert {"dollars for a million tokens", "common names"} <= keys, "the keys of tidegate-lab/1"
    small = report().without_details()
    assert json.loads(msgspec.json.encode(small))["windows"][0].keys().isdisjoint({"curves", "lost"})
    assert decode_findings(msgspec.json.encode(small), "it") == small


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"form": "another"}', b'{"form": "tidegate-lab/1"}'])
def test_other_files_are_no_findings(data: bytes) -> None:
    with pytest.raises(BadInput, match=r"^it: "):
        decode_findings(data, "it")
