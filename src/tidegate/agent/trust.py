"""A project's `tidegate.yaml` comes with the project, perhaps from a stranger: it may name a server that the user's key
would go to, let tools run unasked, start programs, or read the user's environment into a prompt. What it says of such
things holds only once the user has read it.

The user's own file, and a file that was named on the command line, need no such word. A file that was changed needs it
again. Trust does not lift the limits of the user's own file: see `limits`.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidegate.agent.brains import EMBEDDED
from tidegate.agent.config import PRICES, Execution
from tidegate.agent.config_file import Files, Sources
from tidegate.agent.config_reading import variables_in
from tidegate.core.errors import BadInput
from tidegate.core.yaml_nodes import MAX_SIZE, Node
from tidegate.disk.writing import make_folder, write_whole

TRUSTED = "trusted.json"
RISKY = ("capabilities", "mcp", "providers", "skills")
"""Keys of a file, each with what it can do to whoever runs it: see `agent/config.py`."""


def risks_of(top: Node) -> list[str]:
    """The keys in a file that want the user's word, by their paths."""
    keys = _mapping(top)
    brains = list(_brains(top))
    execution = _mapping(keys.get("execution"))
    steps = execution.get("max_steps")
    found = [key for key in RISKY if key in keys]
    found += ["agents[].brain.config"] if any("config" in brain for brain in brains) else []
    found += ["agents[].brain.model (a file of weights)"] if any(map(_loads_weights, brains)) else []
    found += ["execution.hooks"] if _items(execution.get("hooks")) else []
    found += ["execution.max_steps"] if steps is not None and _raises(steps, Execution().max_steps) else []
    priced = any(price in _mapping(model) for model in _mapping(keys.get("models")).values() for price in PRICES)
    return [*found, "prices under models"] if priced else found


def variables_of(node: Node) -> Iterator[str]:
    """The variables of the environment that a file asks for, wherever it does."""
    if isinstance(node.value, str):
        yield from variables_in(node.value)
    for each in [*_items(node), *_mapping(node).values()]:
        yield from variables_of(each)


def _brains(node: Node) -> Iterator[dict[str, Node]]:
    """All brains in a file, also those that write summaries."""
    for key, each in _mapping(node).items():
        if key in ("brain", "summary_brain"):
            yield _mapping(each)
        yield from _brains(each)
    for each in _items(node):
        yield from _brains(each)


def _loads_weights(brain: dict[str, Node]) -> bool:
    """The embedded model is a file that native code reads."""
    provider, model = brain.get("provider"), brain.get("model")
    return model is not None and bool(model.value) and (provider is None or provider.value in (None, "", EMBEDDED))


def _raises(node: Node, default: int) -> bool:
    return not isinstance(node.value, int) or node.value > default


def _items(node: Node | None) -> list[Node]:
    return node.value if node is not None and isinstance(node.value, list) else []


def _mapping(node: Node | None) -> dict[str, Node]:
    return node.value if node is not None and isinstance(node.value, dict) else {}


def check_trust(files: Files, sources: Sources) -> None:
    """BadInput if the project's file says something that the user has not agreed to."""
    if sources.named or sources.project is None or _known(files).get(str(files.project.resolve())) == sources.digest:
        return
    allowed = [each.value for each in _items(_mapping(sources.user).get("allow_env"))]
    variables = sorted({name for name in variables_of(sources.project) if name not in allowed})
    risks = risks_of(sources.project)
    if not risks and not variables:
        return
    told = [f"sets {', '.join(risks)}"] if risks else []
    told += [f"reads the environment variables {', '.join(variables)}"] if variables else []
    remedy = "Read it; then say `tidegate config --trust`, or name it with --config."
    if variables:
        remedy += f" To let every project read a variable, list it under allow_env in {files.user}."
    raise BadInput(
        f"{files.project.name} of this project {' and '.join(told)}, and you have not said that you trust it.", remedy
    )


def trust(files: Files) -> bool:
    """The user has read the project's file as it is now. False if there is none."""
    data = _data(files.project)
    if data is None:
        return False
    known = {**_known(files), str(files.project.resolve()): hashlib.sha256(data).hexdigest()}
    make_folder(files.user.parent)
    write_whole(files.user.parent / TRUSTED, msgspec.json.format(msgspec.json.encode(known)))
    return True


def _known(files: Files) -> dict[str, str]:
    try:
        return msgspec.json.decode((files.user.parent / TRUSTED).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def _data(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIZE + 1)
    except OSError:
        return None
