"""Skills: folders with a `SKILL.md`. The prompt lists them; the agent reads a body when it needs it.

skills/
  release/
    SKILL.md      ---
                  name: release
                  description: How to cut a release of this project
                  ---
                  1. ...
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tidegate.core.config.values import suggest_name
from tidegate.core.config.yaml_tree import read_yaml
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.text.clip import clip_bytes, clip_chars
from tidegate.core.tokens.counting import TokenCounter
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.disk.project_files import check_is_inside, read_project_file

_SKILL_FILE = "SKILL.md"
_MAX_SKILLS = 500
_MAX_DESCRIPTION_CHARS = 1_024
_MAX_BODY_BYTES = 64 * 1024


class Skill(msgspec.Struct, frozen=True):
    """A skill. Its file `path` is below `folder`."""

    name: str
    description: str
    path: Path
    folder: Path


class Skills:
    """The skills of some folders; of two with one name the first is used. `problems` says which cannot be read.

    A folder of the project `project` must not be a link that leads out of it.
    """

    def __init__(self, folders: Iterable[Path] = (), *, project: Path | None = None) -> None:
        self.by_name: dict[str, Skill] = {}
        self.problems: list[str] = []
        for folder in folders:
            try:
                if project is not None and Path(os.path.abspath(folder)).is_relative_to(os.path.abspath(project)):
                    check_is_inside(folder, project)
            except BadInput as error:
                self.problems.append(f"{folder}: {error}")
                continue
            for path in sorted(folder.glob(f"*/{_SKILL_FILE}"))[:_MAX_SKILLS]:
                self._add_skill(path, folder)

    def _add_skill(self, path: Path, folder: Path) -> None:
        try:
            skill = read_skill_header(path, folder)
        except (BadInput, BadPolicy, OSError) as error:
            self.problems.append(f"{path.parent.name}/{_SKILL_FILE}: {error}")
            return
        self.by_name.setdefault(skill.name, skill)

    def render_index(self, max_tokens: int = 1_000, counter: TokenCounter | None = None) -> str:
        """Return a line with name and description for each skill, as many as fit, and the number of the others."""
        counter = counter or TokenEstimator()
        lines = [f"- {skill.name}: {skill.description}" for skill in self.by_name.values()]
        lines_to_show: list[str] = []
        for place, line in enumerate(lines):
            rest = len(lines) - place - 1
            more = [f"[{rest} more: list them with the tool skills]"] if rest else []
            if counter.count_text("\n".join([*lines_to_show, line, *more])) > max_tokens:
                lines_to_show.append(f"[{rest + 1} more: list them with the tool skills]")
                break
            lines_to_show.append(line)
        return "\n".join(lines_to_show)

    def read_body(self, name: str) -> str:
        """Return the body of a skill."""
        skill = self.by_name.get(name)
        if skill is None:
            raise BadInput(f"There is no skill {name[:80]!r}.", suggest_name(name, list(self.by_name)))
        return clip_bytes(_split_header(_read_text(skill.path, skill.folder))[1].strip(), _MAX_BODY_BYTES).text


def read_skill_header(path: Path, folder: Path) -> Skill:
    head, _ = _split_header(_read_text(path, folder))
    fields = read_yaml(head, path.name).mapping("the head of a skill")
    if "description" not in fields:
        raise BadInput("It has no description.", "Write `description: ...` between the two lines of ---.")
    name = fields["name"].text("name") if "name" in fields else path.parent.name
    described = " ".join(fields["description"].text("description").split())
    described = clip_chars(described, _MAX_DESCRIPTION_CHARS, mode="head").text
    return Skill(" ".join(name.split())[:64], described, path, folder)


def _read_text(path: Path, folder: Path) -> str:
    data = read_project_file(path, folder, 4 * _MAX_BODY_BYTES)
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _split_header(text: str) -> Sequence[str]:
    """Return head and body."""
    if not text.startswith("---\n") or "\n---" not in text[3:]:
        raise BadInput("It does not begin with a head.", "Put `---`, name and description, `---` at its top.")
    head, _, body = text[4:].partition("\n---")
    return head, body.partition("\n")[2]
