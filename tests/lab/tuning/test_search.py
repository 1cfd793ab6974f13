"""Tuning: what is searched, on what, judged on what, and what is written."""

from pathlib import Path

import pytest

from tests.cli.calling import run_command
from tests.lab.recordings import record
from tidegate.core.errors import BadInput
from tidegate.core.policy.policy import Policy
from tidegate.lab.comparison.session_sources import SessionSource
from tidegate.lab.scoring.session_figures import ModelCosts, SessionFigures, UnmanagedCost
from tidegate.lab.scoring.text_scorer import KeptShare, TextFigures
from tidegate.lab.tuning.search import score_figures, split_sessions
from tidegate.lab.tuning.settings import (
    TunableSetting,
    list_tunable_settings,
    read_policy_text,
    rewrite_policy_settings,
)
from tidegate.presets import load, preset_names


def source(number: int, project: str) -> SessionSource:
    return SessionSource(f"{number}", 0, f"key{number}", f"{number}", project, "", 1.0, 1, False, (), ())


def test_the_parts_share_no_project() -> None:
    sources = [source(number, f"p{number % 5}") for number in range(23)]
    parts = split_sessions(sources, 7)
    assert parts.divided_by == "projects"
    assert {each.project for each in parts.tuning_sources}.isdisjoint(each.project for each in parts.report_sources)
    assert {*parts.tuning_sources, *parts.report_sources} == set(sources)
    assert abs(len(parts.tuning_sources) - len(parts.report_sources)) <= 5
    assert split_sessions(sources, 7) == parts
    assert any(split_sessions(sources, seed).tuning_sources != parts.tuning_sources for seed in range(5))


def test_sessions_of_one_project_are_divided_and_that_is_said() -> None:
    parts = split_sessions([source(number, "one") for number in range(6)], 1)
    assert (parts.divided_by, len(parts.tuning_sources), len(parts.report_sources)) == ("sessions", 3, 3)
    with pytest.raises(BadInput, match="1 session is long enough"):
        split_sessions([source(0, "one")], 1)


def figures(far: int, dollars: float, over: int = 0) -> SessionFigures:
    made = SessionFigures(
        1000.0,
        10,
        requests_beyond_window=10,
        texts=TextFigures(refs_in_context=KeptShare(far, 10)),
        dollars=dollars,
        oversized_requests=over,
    )
    made.user_word_shares = far
    made.unmanaged = UnmanagedCost(ModelCosts(1.0, 1.0, 1.0), 1.0, 1.0)
    return made


def test_worth_is_what_is_kept_at_no_more_cost() -> None:
    before = {"a": figures(5, 0.5)}
    assert score_figures(before, before) == pytest.approx(0.5)
    assert score_figures({"a": figures(8, 0.5)}, before) == pytest.approx(0.8)
    assert score_figures({"a": figures(8, 0.1)}, before) == pytest.approx(0.8), "cheaper is not sought"
    assert score_figures({"a": figures(8, 1.0)}, before) == pytest.approx(0.8 - 2), "twice as dear"
    assert score_figures({"a": figures(10, 0.5, over=1)}, before) < score_figures(before, before)


def test_what_can_be_searched() -> None:
    policy = Policy("it", {}, {"keep": 4, "share": 0.5, "big": 2.0, "off": 0, "on": True, "word": "x"})
    assert list_tunable_settings(policy) == [
        TunableSetting("keep", 1, 16, True, True),
        TunableSetting("share", 0.125, 0.98, False, False),
        TunableSetting("big", 0.5, 8.0, False, True),
    ]
    assert list_tunable_settings(policy, ["keep=2..30", "share=0.1..0.2"]) == [
        TunableSetting("keep", 2, 30, True, True),
        TunableSetting("share", 0.1, 0.2, False, False),
    ]
    for wrong, why in (
        ("keep", "NAME=LOW"),
        ("word=1..2", "no number"),
        ("keep=5..2", "in order"),
        ("keep=a..b", "NAME"),
    ):
        with pytest.raises(BadInput, match=why):
            list_tunable_settings(policy, [wrong])
    with pytest.raises(BadInput, match="no number to search"):
        list_tunable_settings(Policy("it", {}, {"word": "x"}))


@pytest.mark.parametrize("preset", preset_names())
def test_a_policy_is_written_with_other_values_and_nothing_else_changed(preset: str, tmp_path: Path) -> None:
    policy = load(preset)
    knobs = list_tunable_settings(policy)
    changed = {
        knob.name: knob.format_value(policy.settings[knob.name] * 0.9 if not knob.is_integer else 17) for knob in knobs
    }
    path = tmp_path / "tuned.yaml"
    path.write_text(rewrite_policy_settings(read_policy_text(preset), changed, ["why", "", "and how"]), "utf-8")
    written = load(path)
    assert {name: float(written.settings[name]) for name in changed} == {n: float(v) for n, v in changed.items()}
    kept = {name: value for name, value in policy.settings.items() if name not in changed}
    assert {name: written.settings[name] for name in kept} == kept
    assert path.read_text("utf-8").startswith("# why\n#\n# and how\n")
    assert written.moments.keys() == policy.moments.keys()


def tune(folder: Path, *words: str) -> int:
    return run_command("tune", *words, "--cache", folder / "cache", "--jobs", "1")


def test_tuning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    record(tmp_path / "recordings", 4, 2, turns=2)
    policy = tmp_path / "mine.yaml"
    rule = "{stage: drop_turns, when: {pressure: '> 0.5'}, keep: $keep}"
    policy.write_text(f"name: mine\nsettings:\n  keep: 1  # turns\nmoments:\n  before_call:\n    - {rule}\n")
    out = tmp_path / "tuned.yaml"
    words = [str(tmp_path / "recordings"), "--policy", str(policy), "--window", "4000", "--trials", "5"]
    words += ["--vary", "keep=1..6", "--out", str(out)]
    assert tune(tmp_path, *words) == 0
    said = capsys.readouterr().out
    assert "tuned on 2 sessions: project-" in said
    assert "reported on 2 others: project-" in said
    text = out.read_text("utf-8")
    assert "# tuned on 2 sessions" in text
    assert "# older names: " in text
    assert f"keep: {load(out).settings['keep']}  # turns" in text
    with pytest.raises(BadInput, match="exists already"):
        tune(tmp_path, *words)
    out.rename(tmp_path / "first.yaml")
    capsys.readouterr()
    assert tune(tmp_path, *words) == 0
    assert capsys.readouterr().out == said, "the same search finds the same"


def test_nothing_better_is_said_and_nothing_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    record(tmp_path / "recordings", 2, 2, turns=1)
    policy = tmp_path / "mine.yaml"
    policy.write_text("name: mine\nsettings:\n  unused: 4\nmoments: {}\n")
    out = tmp_path / "tuned.yaml"
    words = [str(tmp_path / "recordings"), "--policy", str(policy), "--window", "1500", "--trials", "2"]
    assert tune(tmp_path, *words, "--out", str(out)) == 0
    assert "nothing better than" in capsys.readouterr().out
    assert not out.exists()
