"""Stages of a program: passed to `load`, or named in a policy file as `module:name`. No package is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import plugin_stage
from tidegate import BadPolicy, Budget, Outcome, Session, View, load

PROGRAM = Path(plugin_stage.__file__)


def test_the_program_runs() -> None:
    assert plugin_stage.run() == ["line 0\nline 1"]


@pytest.mark.exhaustive  # `make check` has the program among its files, too
def test_the_program_passes_the_strict_type_checker(tmp_path: Path) -> None:
    """Only against the installed package, as for a user: with no configuration of this project."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(PROGRAM)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_passes_pyright(tmp_path: Path) -> None:
    pyright = shutil.which("pyright", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if pyright is None:
        pytest.skip("pyright is not installed")
    program = shutil.copy(PROGRAM, tmp_path)
    command = [pyright, "--pythonpath", sys.executable, str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stages_of_a_program_are_known_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("moments: {before_call: [{stage: drop_notes, kind: remark}]}\n")
    with pytest.raises(BadPolicy, match='unknown stage "drop_notes"'):
        load(path)
    rule = load(path, stages=[plugin_stage.drop_notes]).moments["before_call"][0]
    assert (rule.stage, rule.settings) == ("drop_notes", {"kind": "remark"})


def summarize(view: View, budget: Budget) -> Outcome:
    return Outcome()


def hint(view: View, budget: Budget) -> Outcome:
    return Outcome()


def test_a_stage_cannot_take_the_name_of_another() -> None:
    with pytest.raises(BadPolicy, match='two stages with the name "hint"'):
        load("default", stages=[hint])
    with pytest.raises(BadPolicy, match='two stages with the name "summarize"'):
        load("default", stages=[summarize])
    with pytest.raises(BadPolicy, match='two stages with the name "drop_notes"'):
        load("default", stages=[plugin_stage.drop_notes, plugin_stage.drop_notes])


def test_a_stage_without_the_right_signature_is_refused() -> None:
    def short(view: View) -> Outcome:
        return Outcome()

    with pytest.raises(BadPolicy, match=r"The stage short has the parameters \(view: .*\): a stage is a function"):
        load("default", stages=[short])


def test_a_stage_that_raises_loses_nothing(tmp_path: Path) -> None:
    """The view that it saw was a copy, the rules after it run, and the next request is complete."""

    def forgetful(view: View, budget: Budget) -> Outcome:
        view.items[0].tokens = 0
        view.items.clear()
        view.unanswered.clear()
        raise RuntimeError("out of luck")

    path = tmp_path / "own.yaml"
    path.write_text("moments: {before_call: [{stage: forgetful}]}\n")
    session = Session("gpt-4o", window=8_000, policy=load(path, stages=[forgetful]))
    session.add({"role": "user", "content": "Hello."})
    for _ in range(2):
        request = session.prepare()
        assert [message["content"] for message in request.messages] == ["Hello."]
        assert session.view.items[0].tokens > 0
        assert "failed (RuntimeError: out of luck); nothing was changed" in str(session.explain())
