"""The prompt and its indexes: what enters it, what only when it is read, and in which order."""

import os
from pathlib import Path

import pytest

from tidegate import Session
from tidegate.agent.skills import Skills
from tidegate.agent.system_prompt import PromptSources, assemble_prompt, read_project_instructions
from tidegate.core.errors import BadInput
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.memory.notes import Notes

BODY = "First tag the commit, then build the wheel."


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    for name, head in (
        ("release", "name: release\ndescription: How to cut a release"),
        ("review", "description: >\n  How to review\n  a change"),
    ):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"---\n{head}\n---\n{BODY}\n")
    (tmp_path / "skills" / "broken").mkdir()
    (tmp_path / "skills" / "broken" / "SKILL.md").write_text("no head at all")
    return Skills([tmp_path / "skills"])


def test_skills_are_named_and_read_on_demand(skills: Skills) -> None:
    assert skills.render_index() == "- release: How to cut a release\n- review: How to review a change"
    assert skills.read_body("release") == BODY
    assert skills.problems == [
        "broken/SKILL.md: It does not begin with a head. Put `---`, name and description, `---` at its top."
    ]
    with pytest.raises(BadInput, match="release"):
        skills.read_body("relaese")


def test_a_long_index_says_how_many_more_there_are(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"s{number:02}").mkdir()
        (tmp_path / f"s{number:02}" / "SKILL.md").write_text(f"---\ndescription: The skill {number}\n---\n")
    index = Skills([tmp_path]).render_index(100)
    assert TokenEstimator().count_text(index) <= 110
    named = index.count("\n- ") + 1
    assert index.endswith(f"[{40 - named} more: list them with the tool skills]")


@pytest.mark.seed("JUT-01", fixed="the order of the parts is the prompt's, whatever the preset")
@pytest.mark.seed("PIC-09", fixed="the parts are the prompt's, whatever the preset")
def test_the_prompt_is_made_of_parts_stable_first(tmp_path: Path, skills: Skills) -> None:
    (tmp_path / "AGENTS.md").write_text("Run make check.\n")
    notes = Notes(tmp_path / "memory")
    notes.write("ports.md", "The gateway listens on 8443.", about="which ports are used")
    facts = {"date": "2026-11-15", "folder": "project"}
    sources = PromptSources("Rules.", "A gateway.", tmp_path, skills, notes, ("Never push to main.",), facts)
    prompt = assemble_prompt(sources)
    assert [part.name for part in prompt.parts] == "rules domain project skills memory pinned facts".split()
    later = assemble_prompt(sources._replace(facts={**facts, "date": "2026-11-16"}))
    same = len(prompt.text) - len("date: 2026-11-15\nfolder: project")
    assert later.text[:same] == prompt.text[:same]
    counted = prompt.measure_parts(TokenEstimator())
    assert [each.name for each in counted] == [part.name for part in prompt.parts]
    assert sum(each.tokens for each in counted) >= TokenEstimator().count_text(prompt.text)


@pytest.mark.seed("JUT-02", fixed="skills are the prompt's, whatever the preset")
@pytest.mark.seed("JUT-03", fixed="the memory index is the prompt's, whatever the preset")
def test_bodies_are_not_in_the_prompt_until_read(tmp_path: Path, skills: Skills) -> None:
    notes = Notes(tmp_path / "memory")
    notes.write("ports.md", "The gateway listens on 8443.", about="which ports are used")
    session = Session(
        policy="jutul", window=8_000, system=assemble_prompt(PromptSources(skills=skills, notes=notes)).text
    )
    session.add({"role": "user", "content": "Which port?"})
    sent = session.prepare().to_bytes().decode()
    assert "How to cut a release" in sent
    assert BODY not in sent
    assert "[ports.md](ports.md): which ports are used" in sent
    assert "8443" not in sent
    session.add({"role": "user", "content": f"It says: {notes.read('ports.md')} and {skills.read_body('release')}"})
    sent = session.prepare().to_bytes().decode()
    assert "8443" in sent
    assert BODY in sent


def test_a_small_room_gets_a_small_prompt(tmp_path: Path, skills: Skills) -> None:
    (tmp_path / "AGENTS.md").write_text("x " * 20_000)
    small = assemble_prompt(PromptSources(project_folder=tmp_path, skills=skills), max_tokens=500)
    assert TokenEstimator().count_text(small.text) < 700
    assert len(assemble_prompt(PromptSources(project_folder=tmp_path), max_tokens=20_000).text) > 20_000


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "AGENTS.md").chmod(0)
    (tmp_path / "CLAUDE.md").write_text("Use blanks.")
    assert read_project_instructions(tmp_path) == "Use blanks."


def test_what_is_no_plain_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").mkdir()
    assert read_project_instructions(tmp_path) == ""
