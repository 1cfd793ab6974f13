"""The lab's page in a real browser: its numbers are the report's, every one can be had as data, nothing leaves it."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import run_command
from tests.web.browser import BrowserThread, Looked, looking
from tests.web.sample_report import MEASURES, POINTS, POLICIES, SESSIONS, Json, report
from tests.web.sample_sessions import SECRET
from tidegate.core.text.secrets import SecretMask
from tidegate.lab.comparison.report.findings import decode_findings
from tidegate.proof.session_generator import generate_session
from tidegate.web.lab_page import render_lab_page

SHOWN = ["default", "none", "ai", "peer-0"]


@pytest.fixture(scope="module")
def made() -> Json:
    return report()


@pytest.fixture(scope="module")
def file(made: Json, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "lab.html"
    path.write_text(render_lab_page(decode_findings(json.dumps(made).encode(), "made")), "utf-8")
    return path


@pytest.fixture
def looked(browser: BrowserThread, file: Path) -> Iterator[Looked]:
    with browser.entered(looking(browser, file)) as found:
        yield found


def number(words: str, unit: str) -> float:
    bare = float(words.replace(",", "").replace("$", "").rstrip("%"))
    return bare / 100 if unit == "share" else bare


def near(value: float, unit: str) -> Any:
    """As exact as it is written."""
    return pytest.approx(value, abs={"share": 5.1e-4, "tokens": 0.51, "usd": 5.1e-3, "count": 5.1e-3}.get(unit, 5.1e-4))


def check_means(looked: Looked, made: Json) -> None:
    """Each mean and interval of both windows; the first window is shown at the end."""
    for place in (1, 0):
        looked.page.locator(".bar-of-choices .choice label").nth(place).click()
        assert f"{made['windows'][place]['window']:,}" in looked.text("#counts")
        for key, unit in MEASURES.items():
            cells = looked.page.eval_on_selector_all(
                f"tr[data-measure={key}] td",
                "cells => cells.map(cell => ['.value', 'small'].map(name => cell.querySelector(name).innerText))",
            )
            for (words, interval), mean in zip(cells, made["windows"][place]["means"], strict=True):
                value = mean["values"][key]
                assert number(words, unit) == near(value["mean"], unit)
                ends = [number(end, unit) for end in interval.split(" to ") if end]
                assert ends == ([] if value["low"] is None else [near(value[end], unit) for end in ("low", "high")])


def ends_of_axis(looked: Looked, section: str, group: str, along: str, unit: str) -> list[tuple[float, float]]:
    """The first and the last number of an axis, each with the pixel it stands at."""
    found = looked.page.eval_on_selector_all(
        f"{section} .chart svg > g:{group}-child text",
        f"nodes => nodes.map(node => [node.textContent, +node.getAttribute('{along}')])",
    )
    ticks = sorted((number(words, unit), at) for words, at in found if words[:1].isdigit())
    assert len(ticks) > 2
    return [(value, at - 4 if along == "y" else at) for value, at in (ticks[0], ticks[-1])]


def check_frontier(looked: Looked, made: Json) -> None:
    places = looked.page.eval_on_selector_all(
        "#frontier g[data-policy]",
        "groups => groups.map(group => { const dot = group.querySelector('circle');"
        " return [group.dataset.policy, +dot.getAttribute('cx'), +dot.getAttribute('cy')]; })",
    )
    means = {mean["policy"]: mean["values"] for mean in made["windows"][0]["means"]}
    assert {policy for policy, _, _ in places} == set(POLICIES)
    for axis, key, unit, group in ((1, "cost", "ratio", "last"), (2, "far", "share", "first")):
        low, high = ends_of_axis(looked, "#frontier", group, "x" if axis == 1 else "y", unit)
        for each in places:
            share = (means[each[0]][key]["mean"] - low[0]) / (high[0] - low[0])
            assert each[axis] == pytest.approx(low[1] + share * (high[1] - low[1]), abs=0.5)
    whiskers = looked.page.locator("#frontier g[data-policy] .whisker").count()
    assert whiskers == 2 * (len(POLICIES) - 1)  # one policy has no interval
    best = looked.page.get_attribute("#frontier .frontier", "d")
    assert best.count("L") >= 1


def check_curve(looked: Looked, made: Json) -> None:
    places = looked.page.eval_on_selector_all(
        "#frontier g[data-curve] circle",
        "dots => dots.map(dot => [+dot.getAttribute('cx'), +dot.getAttribute('cy')])",
    )
    points = made["windows"][0]["points"]
    assert len(places) == len(points) == len(POINTS)
    for axis, key, unit, group in ((0, "cost", "ratio", "last"), (1, "far", "share", "first")):
        low, high = ends_of_axis(looked, "#frontier", group, "y" if axis else "x", unit)
        for place, point in zip(places, points, strict=True):
            share = (point["values"][key]["mean"] - low[0]) / (high[0] - low[0])
            assert place[axis] == pytest.approx(low[1] + share * (high[1] - low[1]), abs=0.5)
    drawn = looked.page.get_attribute("#frontier g[data-curve] path", "d")
    ends = [[float(number) for number in each.split()] for each in drawn.lstrip("M").split("L")]
    assert ends == [pytest.approx(place, abs=0.06) for place in places]
    assert "The line is default at other values of dial." in looked.text("#frontier figcaption")


def check_equal_cost(looked: Looked, made: Json) -> None:
    rows = {row[0]: row for row in looked.cells("#equal table.against")}
    equal = made["windows"][0]["equal_cost"]
    assert list(rows) == POLICIES[1:]
    words = {"better": "better", "partly better": "better in 1 of 2", "trade": "a trade", "": "undecided"}
    for each in equal:
        row = rows[each["against"]]
        assert float(row[1]) == pytest.approx(each["their_cost"], abs=5e-4)
        assert row[2] == "0.5*" if each["dearer"] else "0.5"
        for cell, difference in zip(row[4:7], each["differences"], strict=True):
            unit = MEASURES[difference["measure"]]
            assert number(cell.split()[0], unit) == near(difference["mean"], unit)
            assert ("▲" in cell) == (difference["verdict"] == "better")
        assert row[3] == words[each["verdict"]]
    points = looked.cells("#equal table.points")
    assert [row[0] for row in points] == ["0.5", "1", "4 ×"]
    for row, point in zip(points, made["windows"][0]["points"], strict=True):
        assert number(row[1], "share") == near(point["values"]["far"]["mean"], "share")
        assert row[-1] == "2"
    assert "cheaper than the whole curve" in looked.text("#equal")


@pytest.mark.exhaustive
def test_a_report_without_a_curve(browser: BrowserThread, made: Json, tmp_path: Path) -> None:
    plain: Json = {**made, "curve": None}
    plain["windows"] = [{**each, "points": [], "equal_cost": []} for each in made["windows"]]
    (tmp_path / "lab.html").write_text(render_lab_page(decode_findings(json.dumps(plain).encode(), "plain")), "utf-8")
    with looking(browser, tmp_path / "lab.html") as found:
        found.page.wait_for_selector("#session figure path")
        assert found.page.locator("#equal, [data-curve]").count() == 0
        assert found.page.locator("#frontier circle").count() == len(POLICIES)


def check_definitions(looked: Looked, _: Json) -> None:
    for section in ("#frontier", "#scatter", "#equal", "#verdicts", "#session"):
        assert "How far is defined. It does not show: What far hides." in looked.text(section)
    looked.page.locator("#frontier select").nth(1).select_option("held")
    assert "How held is defined." in looked.text("#frontier")
    looked.page.locator("#frontier select").nth(1).select_option("cost")
    looked.page.click("tr[data-measure=pause] summary")
    assert "How pause is defined." in looked.text("tr[data-measure=pause]")


def check_differences(looked: Looked, made: Json) -> None:
    rows = {row[0]: row for row in looked.cells("#paired table")}
    paired = [each for each in made["windows"][0]["paired"] if each["measure"] == "far"]
    assert len(rows) == len(paired) == len(POLICIES) - 1
    for each in paired:
        row = rows[each["policy"]]
        assert number(row[1], "share") == near(each["mean"], "share")
        assert row[4] == (each["verdict"] or "undecided")
    assert looked.text("#verdicts").count("a trade") == len(POLICIES) - 1 + 1  # and in the words above


def check_scatter(looked: Looked, _: Json) -> None:
    assert looked.page.locator("#scatter circle").count() == len(SHOWN) * (len(SESSIONS) - 1)  # s8 has no values
    looked.page.click("#policies label:has-text('peer-5')")
    assert looked.page.locator("#scatter circle").count() == (len(SHOWN) + 1) * (len(SESSIONS) - 1)
    looked.page.click("#policies label:has-text('peer-5')")


def check_session(looked: Looked, made: Json) -> None:
    looked.page.locator("#session select").select_option("s3")
    looked.page.wait_for_function("document.querySelectorAll('#session figure').length === 4")
    names = looked.page.eval_on_selector_all("#session figure", "nodes => nodes.map(node => node.dataset.policy)")
    assert names == SHOWN
    values = {row["policy"]: row["values"] for row in made["windows"][0]["rows"] if row["session"] == "s3"}
    for policy in SHOWN:
        words = looked.text(f"#session figure[data-policy='{policy}'] figcaption")
        assert f"far kept {100 * values[policy]['far']:.1f}%" in words
        assert looked.page.locator(f"#session figure[data-policy='{policy}'] .lost-tick").count() == 3
    rows = looked.cells("#session table")
    lost = [each for each in made["windows"][0]["lost"] if each["session"] == "s3" and each["policy"] in SHOWN]
    told = sum(cell.startswith("lost") for row in rows for cell in row[3:])
    assert told == sum(len(each["items"]) for each in lost)
    recallable = sum(cell == "lost, recallable" for row in rows for cell in row[3:])
    assert recallable == sum(bool(item["recoverable"]) for each in lost for item in each["items"])
    assert "default 3" in looked.text("#session")  # so many more than are listed


def check_negative_cases(looked: Looked, _: Json) -> None:
    assert looked.cells("#worse table")[0][:2] == ["session s1", "ai"]
    words = looked.text("#worse details")
    assert words.startswith("3 sessions or runs not counted")


CHECKS = (
    check_frontier,
    check_curve,
    check_equal_cost,
    check_differences,
    check_scatter,
    check_session,
    check_negative_cases,
    check_definitions,
    check_means,
)


def test_every_section_has_the_figures_of_the_report(looked: Looked, made: Json, file: Path) -> None:
    for check in CHECKS:
        check(looked, made)
    assert SECRET not in looked.page.content()
    assert "[masked]" in looked.text("#session")
    looked.clean(file)


def saved(looked: Looked, selector: str) -> str:
    with looked.page.expect_download() as found:
        looked.page.click(selector)
    return Path(found.value.path()).read_text("utf-8")


@pytest.mark.exhaustive
def test_everything_can_be_had_as_data(looked: Looked, made: Json) -> None:
    means = list(csv.DictReader(saved(looked, "#frontier a[download]").splitlines()))
    assert len(means) == 2 * len(POLICIES) * len(MEASURES)
    assert float(means[0]["mean"]) == made["windows"][0]["means"][0]["values"]["far"]["mean"]
    rows = list(csv.DictReader(saved(looked, "#scatter a[download]").splitlines()))
    assert [float(row["cost"]) for row in rows[:3]] == [row["values"]["cost"] for row in made["windows"][0]["rows"][:3]]
    assert rows[SESSIONS.index("s8")]["cost"] == ""
    assert len(saved(looked, "#paired a[download]").splitlines()) == 1 + 2 * 2 * (len(POLICIES) - 1)
    assert saved(looked, "#measures a[download]") == saved(looked, "#frontier a[download]")
    whole = json.loads(saved(looked, "#foot button"))
    assert _sorted(whole) == _sorted(json.loads(SecretMask()(json.dumps(made))))


@pytest.mark.exhaustive
def test_every_section_gives_its_data(browser: BrowserThread, file: Path, made: Json) -> None:
    with looking(browser, file) as fresh:  # a page may save ten files, then the browser asks
        _gives_its_data(fresh, made)


def _gives_its_data(looked: Looked, made: Json) -> None:
    windows = made["windows"]
    curve = list(csv.DictReader(saved(looked, "#equal a[download='curve.csv']").splitlines()))
    assert len(curve) == 2 * len(POINTS) * len(MEASURES)
    assert float(curve[0]["mean"]) == windows[0]["points"][0]["values"]["far"]["mean"]
    equal = list(csv.DictReader(saved(looked, "#equal a[download='equal-cost.csv']").splitlines()))
    assert [float(row["mean"]) for row in equal] == [
        one["mean"] for window in windows for each in window["equal_cost"] for one in each["differences"]
    ]
    verdicts = list(csv.DictReader(saved(looked, "#verdicts a[download]").splitlines()))
    assert [(row["policy"], row["verdict"]) for row in verdicts] == [
        (each["policy"], each["verdict"]) for window in windows for each in window["verdicts"]
    ]
    (worse, _) = csv.DictReader(saved(looked, "#worse a[download]").splitlines())
    assert (worse["name"], float(worse["value"])) == ("session s1", 1.5)
    looked.page.locator("#session select").select_option("s3")
    looked.page.wait_for_function("document.querySelectorAll('#session figure').length === 4")
    requests = list(csv.DictReader(saved(looked, "#session a[download='requests.csv']").splitlines()))
    curves = [each for each in windows[0]["curves"] if each["session"] == "s3"]
    assert [int(row["tokens"]) for row in requests] == [tokens for each in curves for tokens in each["tokens"]]
    assert [row["message"] for row in requests if row["edited"] == "true"] == ["7", "21"] * len(POLICIES)
    lost = saved(looked, "#session a[download='lost.csv']")
    items = [item for each in windows[0]["lost"] if each["session"] == "s3" for item in each["items"]]
    assert len(list(csv.DictReader(lost.splitlines(keepends=True)))) == len(items)
    assert SECRET not in lost


def _sorted(value: Json) -> Json:
    for window in value["windows"]:
        for kind in ("curves", "lost"):
            window[kind].sort(key=lambda each: (each["session"], each["policy"]))
    return value


@pytest.mark.parametrize(
    ("width", "scheme"), [pytest.param(1280, "dark", marks=pytest.mark.exhaustive), (400, "light")]
)
def test_it_can_be_read_at_any_width(browser: BrowserThread, file: Path, width: int, scheme: str) -> None:
    with looking(browser, file, width=width, scheme=scheme) as found:
        found.page.wait_for_selector("#session figure path")
        assert found.width() == width
        assert found.page.locator("#frontier g[data-policy] circle").count() == len(POLICIES)
        found.clean(file)


def test_a_real_comparison(browser: BrowserThread, tmp_path: Path) -> None:
    """From recordings to the page, by way of the command."""
    for seed in (1, 2):
        lines = [json.dumps(message) for message in generate_session(4, seed)]
        (tmp_path / f"recording-{seed}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    policies = ("--policy", "default", "--policy", "ai")
    outs = ("--json", tmp_path / "lab.json", "--html", tmp_path / "lab.html", "--cache", tmp_path / "cache")
    arguments = ["lab", tmp_path, "--window", 3000, "--jobs", 1, *policies, *outs]
    assert run_command(*arguments) == 0
    found = json.loads((tmp_path / "lab.json").read_text("utf-8"))
    with looking(browser, tmp_path / "lab.html") as looked:
        looked.page.wait_for_selector("#session figure path")
        for measure in found["measures"]:
            cells = looked.page.locator(f"tr[data-measure={measure['key']}] td .value").all_inner_texts()
            for words, mean in zip(cells, found["windows"][0]["means"], strict=True):
                value = mean["values"][measure["key"]]["mean"]
                assert (words == "–") == (value is None)
                if value is not None:
                    assert number(words, measure["unit"]) == near(value, measure["unit"])
        looked.clean(tmp_path / "lab.html")
