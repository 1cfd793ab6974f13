"""Threat: a cloned project's `tidegate.yaml` names a policy file of the project, and a rule in it names a function as
`module:name`, so that opening an agent in this folder runs code of the project. Such a policy must not import anything
unless the user chose it: in their own file, with --policy, or with --config. A tool of an installed package is offered
only by a file that is trusted.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.project import AGENT, Project
from tidegate.agent.config.launch import override_config
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.core.errors import BadInput, BadPolicy

MODULE = "planted_stage_module"
SOURCE = """\
from pathlib import Path
from tidegate import Outcome

Path({mark!r}).write_text("ran")

def stage(view, budget):
    return Outcome()
"""
POLICY = f'moments: {{before_call: [{{stage: "{MODULE}:stage"}}]}}\n'
CONTEXT = f"{POLICY}settings: {{x: 1}}\ncontext: {{settings: [x]}}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose folder is on the import path, as with `python -m tidegate`."""
    found = Project(tmp_path)
    (found.folder / f"{MODULE}.py").write_text(SOURCE.format(mark=str(tmp_path / "mark")))
    (found.folder / "planted.yaml").write_text(CONTEXT)
    monkeypatch.syspath_prepend(str(found.folder))
    yield found
    sys.modules.pop(MODULE, None)


def has_run(project: Project) -> bool:
    return (project.folder.parent / "mark").exists() or MODULE in sys.modules


@pytest.mark.parametrize("trusted", [False, True])
def test_a_policy_that_a_project_chose_imports_nothing(project: Project, trusted: bool) -> None:
    project.write(project="policy: planted.yaml\n", trusted=trusted)
    with pytest.raises(BadPolicy, match="would import a module, and this policy file is not trusted") as caught:
        project.talk()
    assert "--policy" in caught.value.remedy
    assert "planted.yaml" in str(caught.value)
    assert not has_run(project)


def test_reading_the_configuration_imports_nothing(project: Project) -> None:
    """Also a context key, which looks into the policy before anything is trusted."""
    project.write(project="policy: planted.yaml\nexecution: {context: {keep_recent: 3}}\n")
    with pytest.raises((BadInput, BadPolicy)):
        project.read()
    assert not has_run(project)


def test_a_policy_that_the_user_chose_may_import(project: Project) -> None:
    project.write(user=f"{AGENT}policy: {project.folder / 'planted.yaml'}\n")
    project.talk()
    assert has_run(project)


def test_a_policy_of_the_command_line_may_import(project: Project) -> None:
    project.write(project="policy: default\n")
    config = override_config(project.read().config, policy=str(project.folder / "planted.yaml"))
    assert load_configured_policy(config).moments["before_call"][0].stage == f"{MODULE}:stage"
    assert has_run(project)


def test_the_tools_of_a_project_need_trust(project: Project) -> None:
    project.write(project="tools: [count_words]\n")
    with pytest.raises(BadInput, match="sets tools, and you have not said that you trust it"):
        project.read()
