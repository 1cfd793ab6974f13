"""Threat: a link in a project stands in for a file that the user trusts or keeps elsewhere. A configuration that is
trusted in one project would start programs of another, and a private file would come into the prompt.
"""

import os
from pathlib import Path

import pytest

from tests.security.project import AGENT, Project, calls
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.trust import trust_project_file
from tidegate.core.errors import BadInput
from tidegate.models.scripted_provider import ScriptedAnswer

SERVER = "mcp: {tools: {command: ./mcp.sh}}\n"
SKILL = "---\nname: vault\ndescription: The vault opens with 4711.\n---\nBody.\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def trusted(tmp_path: Path, project: Project) -> Path:
    """The configuration of another project, which the user trusts."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "tidegate.yaml").write_text(SERVER)
    project.write()
    project.files.project.unlink()
    program = project.folder / "mcp.sh"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    assert trust_project_file(locate_config_files(folder, project.environment))
    return folder / "tidegate.yaml"


@pytest.mark.parametrize("way", ["symbolic", "relative", "hard", "copy"])
def test_trust_in_a_file_does_not_hold_in_another_project(project: Project, trusted: Path, way: str) -> None:
    here = project.files.project
    if way == "hard":
        os.link(trusted, here)
    elif way == "copy":
        here.write_bytes(trusted.read_bytes())
    else:
        here.symlink_to(trusted if way == "symbolic" else "../other/tidegate.yaml")
    for arguments in (["run", "Hello."], ["config"]):
        ran = project.run(*arguments)
        assert ran.returncode == 2, ran.stdout
        assert ("leads out of work" if here.is_symlink() else "you have not said that you trust it") in ran.stderr
    assert not (project.folder / "ran").exists()


def test_a_link_out_of_the_project_cannot_be_trusted(project: Project, trusted: Path) -> None:
    project.files.project.symlink_to(trusted)
    ran = project.run("config", "--trust")
    assert ran.returncode == 2
    assert "tidegate.yaml is a link that leads out of work" in ran.stderr
    assert "--config" in ran.stderr
    assert project.run("config", "--config", "tidegate.yaml").returncode == 0


def test_trust_in_a_folder_that_is_reached_by_a_link(project: Project, tmp_path: Path) -> None:
    """A linked folder is the same folder, and a link inside it is inside it."""
    project.write(project="")
    project.files.project.unlink()
    (project.folder / "real.yaml").write_text("execution: {max_steps: 2000}\n")
    project.files.project.symlink_to("real.yaml")
    (tmp_path / "way").symlink_to(project.folder)
    with pytest.raises(BadInput, match="you have not said"):
        project.read()
    assert trust_project_file(locate_config_files(tmp_path / "way", project.environment))
    assert project.read().config.settings.execution.max_steps == 2000


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
@pytest.mark.parametrize("is_hard", [False, True])
def test_no_link_brings_a_private_file_into_the_prompt(
    project: Project, tmp_path: Path, name: str, is_hard: bool
) -> None:
    (tmp_path / "private.md").write_text("The vault opens with 4711.")
    (os.link if is_hard else os.symlink)(tmp_path / "private.md", project.folder / name)
    talk = project.write().talk()
    assert "4711" not in "".join(talk.requests)
    assert any(note.startswith(f"{name} ") and "is not read" in note for note in talk.notices)


@pytest.mark.parametrize("way", ["hard link", "linked file", "linked skill", "linked folder", "linked parent"])
def test_no_link_brings_a_skill_from_elsewhere(project: Project, tmp_path: Path, way: str) -> None:
    private = tmp_path / "private" / "skills" / "vault"
    private.mkdir(parents=True)
    (private / "SKILL.md").write_text(SKILL)
    folder = project.folder / ".tidegate" / "skills" / "vault"
    up = {"linked skill": 0, "linked folder": 1, "linked parent": 2}.get(way)
    if up is None:
        folder.mkdir(parents=True)
        (os.link if way == "hard link" else os.symlink)(private / "SKILL.md", folder / "SKILL.md")
    else:
        place, target = ([each, *each.parents][up] for each in (folder, private))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    talk = project.write().talk()
    assert "4711" not in "".join(talk.requests)
    assert any("is not read" in note for note in talk.notices)


def test_a_skill_that_becomes_a_link_later_is_not_read(project: Project, tmp_path: Path) -> None:
    (tmp_path / "private.md").write_text(SKILL.replace("Body.", "The vault opens with 4712."))
    file = project.folder / ".tidegate" / "skills" / "vault" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(SKILL)

    def replace(request: bytes) -> ScriptedAnswer:
        file.unlink()
        file.symlink_to(tmp_path / "private.md")
        return calls("skills", name="vault")

    talk = project.write().talk([replace, "Done."])
    assert "4712" not in talk.requests[1]
    assert "leads out of skills" in talk.requests[1]


def test_a_folder_of_skills_that_the_user_names_may_be_elsewhere(project: Project, tmp_path: Path) -> None:
    (tmp_path / "shared" / "vault").mkdir(parents=True)
    (tmp_path / "shared" / "vault" / "SKILL.md").write_text(SKILL)
    assert "4711" in project.write(user=f"{AGENT}skills: [../shared]\n").talk().requests[0]
    assert "4711" in project.write(user=f"{AGENT}skills: ['{tmp_path}/shared']\n").talk().requests[0]
