"""A project's `tidegate.yaml` comes with the project, perhaps from a stranger: it may name a server that the user's key
would go to, let tools run unasked, or start programs. What it says of such things holds only once the user has read it.

The user's own file, and a file that was named on the command line, need no such word. A file that was changed needs it
again.
"""

import hashlib
from pathlib import Path

import msgspec

from tidegate.agent.config_file import Files
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.yaml_nodes import MAX_SIZE, Node, read_yaml
from tidegate.disk.writing import make_folder, write_whole

TRUSTED = "trusted.json"
RISKY = ("capabilities", "mcp", "providers", "skills")
"""Keys of a file, each with what it can do to whoever runs it: see `agent/config.py`."""


def risks_of(text: str) -> list[str]:
    """The keys in a file that want the user's word, by their paths."""
    top = read_yaml(text, "tidegate.yaml").value
    if not isinstance(top, dict):
        return []
    found = [key for key in RISKY if key in top]
    found += ["agents[].brain.config"] if any(_configures(agent) for agent in _items(top.get("agents"))) else []
    execution = top["execution"].value if "execution" in top else None
    found += ["execution.hooks"] if isinstance(execution, dict) and _items(execution.get("hooks")) else []
    return found


def _items(node: Node | None) -> list[Node]:
    return node.value if node is not None and isinstance(node.value, list) else []


def _configures(node: Node) -> bool:
    """Anywhere in an agent, also in the brain that writes its summaries."""
    if isinstance(node.value, dict):
        return "config" in node.value or any(map(_configures, node.value.values()))
    return any(map(_configures, _items(node)))


def check_trust(files: Files) -> None:
    """BadInput if the project's file says something that the user has not agreed to."""
    text = _text(files.project)
    if files.asked or text is None:
        return
    try:
        risks = risks_of(text)
    except BadPolicy:
        return  # whoever reads it says what is wrong with it
    if risks and _known(files).get(str(files.project.resolve())) != _sum(text):
        raise BadInput(
            f"{files.project.name} of this project sets {', '.join(risks)}, and you have not said that you trust it.",
            "Read it; then say `tidegate config --trust`, or name it with --config.",
        )


def trust(files: Files) -> bool:
    """The user has read the project's file as it is now. False if there is none."""
    text = _text(files.project)
    if text is None:
        return False
    known = {**_known(files), str(files.project.resolve()): _sum(text)}
    make_folder(files.user.parent)
    write_whole(files.user.parent / TRUSTED, msgspec.json.format(msgspec.json.encode(known)))
    return True


def _known(files: Files) -> dict[str, str]:
    try:
        return msgspec.json.decode((files.user.parent / TRUSTED).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIZE + 1).decode("utf-8", "replace")
    except OSError:
        return None


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
