"""Trust in a project's `tidegate.yaml`: risky settings need the user's consent.

The file comes with the project, perhaps from a stranger. It may send the user's key to another server, let tools run
without asking, start programs, or read the user's environment into a prompt. Such a file is refused until the user says
that they trust it, and again after each change of it. Trust belongs to the folder of the project and the content of the
file: the same file in another folder, where its paths lead elsewhere, is not trusted.

The user's own file, and a file that was named on the command line, are trusted. Trust does not lift the limits of the
user's own file, see `limits`.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from tidegate.agent.config.files import ConfigFiles, ConfigSources, read_project_config
from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, is_path_of_weights
from tidegate.agent.config.reader import find_variables
from tidegate.agent.config.settings import PRICE_KEYS, ExecutionSettings
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadInput
from tidegate.disk.atomic_files import make_folder, write_atomically

_TRUSTED_FILE = "trusted.json"
_RISKY_KEYS = ("capabilities", "gateway", "mcp", "providers", "skills", "tools", "trace")
"""Keys that need trust as a whole; `agent/config/settings.py` describes them."""


def find_risky_keys(top: YamlNode) -> list[str]:
    """Return the paths of the settings in a file that need trust."""
    keys = top.entries
    models = list(_iterate_models(top))
    hooks, steps = top.find("execution", "hooks"), top.find("execution", "max_steps")
    risks = [key for key in _RISKY_KEYS if key in keys]
    risks += ["agents[].model.config"] if any("config" in each for each in models) else []
    risks += ["agents[].model.model (a file of weights)"] if any(map(_loads_weights, models)) else []
    risks += ["execution.hooks"] if hooks is not None and hooks.elements else []
    risks += ["execution.max_steps"] if steps is not None and _is_above(steps, ExecutionSettings().max_steps) else []
    catalog = keys["models"].entries.values() if "models" in keys else ()
    priced = any(price in model.entries for model in catalog for price in PRICE_KEYS)
    return [*risks, "prices under models"] if priced else risks


def find_environment_variables(node: YamlNode) -> Iterator[str]:
    """Yield the names of the environment variables that a file reads."""
    if isinstance(node.value, str):
        yield from find_variables(node.value)
    for each in [*node.elements, *node.entries.values()]:
        yield from find_environment_variables(each)


def _iterate_models(node: YamlNode) -> Iterator[dict[str, YamlNode]]:
    """Yield all models of agents in a file, including those for summaries."""
    for key, each in node.entries.items():
        if key in ("model", "summary_model"):
            yield each.entries
        yield from _iterate_models(each)
    for each in node.elements:
        yield from _iterate_models(each)


def _loads_weights(agent_model: dict[str, YamlNode]) -> bool:
    """Return whether a model is a file of weights, which native code would read. A variable may name one."""
    provider, model = (
        node.value if node is not None else None for node in (agent_model.get("provider"), agent_model.get("model"))
    )
    if not isinstance(model, str) or not model:
        return False
    return provider == EMBEDDED_PROVIDER or (provider in (None, "") and ("{{" in model or is_path_of_weights(model)))


def _is_above(node: YamlNode, default: int) -> bool:
    return not isinstance(node.value, int) or node.value > default


def check_trust(files: ConfigFiles, sources: ConfigSources) -> None:
    """Raise BadInput if the project's file needs trust and the user has not given it."""
    if sources.is_explicit or sources.project is None or _read_trusted(files).get(_trust_key(files)) == sources.digest:
        return
    allow_env = sources.user.find("allow_env") if sources.user is not None else None
    allowed = [each.value for each in allow_env.elements] if allow_env is not None else []
    variables = sorted({name for name in find_environment_variables(sources.project) if name not in allowed})
    risks = find_risky_keys(sources.project)
    if not risks and not variables:
        return
    reasons = [f"sets {', '.join(risks)}"] if risks else []
    reasons += [f"reads the environment variables {', '.join(variables)}"] if variables else []
    remedy = "Read it; then run `tidegate config --trust`, or name it with --config."
    if variables:
        remedy += f" To let every project read a variable, list it under allow_env in {files.user}."
    raise BadInput(
        f"{files.project.name} of this project {' and '.join(reasons)}, and you have not said that you trust it.",
        remedy,
    )


def trust_project_file(files: ConfigFiles) -> bool:
    """Store that the user trusts the project's file as it is now. Return False if there is none."""
    data = read_project_config(files)
    if data is None:
        return False
    entries = {**_read_trusted(files), _trust_key(files): hashlib.sha256(data).hexdigest()}
    make_folder(files.user.parent)
    write_atomically(files.user.parent / _TRUSTED_FILE, msgspec.json.format(msgspec.json.encode(entries)))
    return True


def _trust_key(files: ConfigFiles) -> str:
    """The place of the project's file, without following the file itself if it is a link."""
    return str(files.project.parent.resolve() / files.project.name)


def _read_trusted(files: ConfigFiles) -> dict[str, str]:
    try:
        return msgspec.json.decode((files.user.parent / _TRUSTED_FILE).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
