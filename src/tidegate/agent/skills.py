"""Skills: folders with a `SKILL.md`. The prompt names them; a body enters only when the agent reads it.

skills/
  release/
    SKILL.md      ---
                  name: release
                  description: How to cut a release of this project
                  ---
                  1. ...
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tidegate.core.clip import clip_bytes, clip_chars
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.estimate import Estimate
from tidegate.core.expression import nearest
from tidegate.core.tokens import Counter
from tidegate.core.yaml_nodes import read_yaml

FILE = "SKILL.md"
MAX_SKILLS = 500
MAX_DESCRIPTION = 1_024
MAX_BODY = 64 * 1024


class Skill(msgspec.Struct, frozen=True):
    name: str
    description: str
    path: Path


class Skills:
    """The skills of some folders; of two with one name the first is taken. `problems` says which could not be read."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self.found: dict[str, Skill] = {}
        self.problems: list[str] = []
        for folder in folders:
            for path in sorted(folder.glob(f"*/{FILE}"))[:MAX_SKILLS]:
                self._take(path, folder)

    def _take(self, path: Path, folder: Path) -> None:
        if not path.resolve().is_relative_to(folder.resolve()):
            self.problems.append(
                f"{path.parent.name}/{FILE}: is a link that leads out of {folder.name}, and is not read."
            )
            return
        try:
            skill = read_head(path)
        except (BadInput, BadPolicy, OSError) as bad:
            self.problems.append(f"{path.parent.name}/{FILE}: {bad}")
            return
        self.found.setdefault(skill.name, skill)

    def index(self, max_tokens: int = 1_000, counter: Counter | None = None) -> str:
        """Name and description of each, as many whole lines as fit; then how many more there are."""
        counter = counter or Estimate()
        lines = [f"- {skill.name}: {skill.description}" for skill in self.found.values()]
        kept: list[str] = []
        for place, line in enumerate(lines):
            rest = len(lines) - place - 1
            more = [f"[{rest} more: list them with the tool skills]"] if rest else []
            if counter.text("\n".join([*kept, line, *more])) > max_tokens:
                kept.append(f"[{rest + 1} more: list them with the tool skills]")
                break
            kept.append(line)
        return "\n".join(kept)

    def read(self, name: str) -> str:
        """The body of a skill."""
        skill = self.found.get(name)
        if skill is None:
            raise BadInput(f"There is no skill {name[:80]!r}.", nearest(name, list(self.found)))
        return clip_bytes(_split(_text(skill.path))[1].strip(), MAX_BODY).text


def read_head(path: Path) -> Skill:
    head, _ = _split(_text(path))
    fields = read_yaml(head, path.name).mapping("the head of a skill")
    if "description" not in fields:
        raise BadInput("It has no description.", "Write `description: ...` between the two lines of ---.")
    name = fields["name"].text("name") if "name" in fields else path.parent.name
    described = " ".join(fields["description"].text("description").split())
    return Skill(" ".join(name.split())[:64], clip_chars(described, MAX_DESCRIPTION, mode="head").text, path)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(4 * MAX_BODY)
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _split(text: str) -> Sequence[str]:
    """Head and body."""
    if not text.startswith("---\n") or "\n---" not in text[3:]:
        raise BadInput("It does not begin with a head.", "Put `---`, name and description, `---` at its top.")
    head, _, body = text[4:].partition("\n---")
    return head, body.partition("\n")[2]
