"""`tidegate.yaml`: the project's file and the user's own, read into one `Config`. `limits` combines the two."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.agent.chosen import CONTEXT_EVERYWHERE, Bounds, Config, check_names
from tidegate.agent.config import AgentSettings, Context, Settings
from tidegate.agent.config_reading import Reader, id_of
from tidegate.agent.hook_types import CompactContext
from tidegate.agent.limits import Source, combine_files, merge_nodes
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.expression import Place, nearest, quoted
from tidegate.core.secrets import Mask
from tidegate.core.yaml_nodes import MAX_SIZE, Node, read_yaml
from tidegate.presets import names

FILE = "tidegate.yaml"
_NOWHERE = Place("", 0)


class Files(NamedTuple):
    """Where a configuration is looked for. Neither need be there, unless it was asked for."""

    project: Path
    user: Path
    asked: bool = False


def files_of(project: Path, environment: Mapping[str, str], asked: str = "") -> Files:
    """`asked` is a file someone named: it stands in for the project's."""
    home = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path(environment.get("HOME") or Path.home()) / ".config"
    return Files(Path(asked) if asked else project / FILE, folder / "tidegate" / FILE, bool(asked))


class Sources(NamedTuple):
    """Both files as they were read, once: what is checked for trust is what is used.

    `digest` is the SHA-256 of the project's file. `named`: the project's file is one the user named.
    """

    project: Node | None
    user: Node | None
    digest: str = ""
    named: bool = False


def read_sources(files: Files) -> Sources:
    """The user's own file is never taken for a project's, also not in its own folder."""
    data = None
    if files.asked or not _same(files.project, files.user):
        data = _bytes(files.project, needed=files.asked)
    digest = "" if data is None else hashlib.sha256(data).hexdigest()
    return Sources(_node(files.project, data), _node(files.user, _bytes(files.user)), digest, files.asked)


def read_config(files: Files, environment: Mapping[str, str], *, agent: str = "") -> Config:
    """Both files, combined; `agent` picks one of several. Whatever is wrong is a BadPolicy with file and line."""
    return config_of(read_sources(files), environment, agent=agent)


def parse_config(text: str, environment: Mapping[str, str], *, source: str = FILE, agent: str = "") -> Config:
    """The same from a text, for those who keep it elsewhere."""
    return config_of(Sources(_parsed(text, source), None, named=True), environment, agent=agent)


def config_of(sources: Sources, environment: Mapping[str, str], *, agent: str = "") -> Config:
    """All of it is checked, but only what the picked agent uses must find its variables in the environment."""
    top, bounds = _joined(sources, environment)
    whole, settings, reader = _settings(top, environment)
    ident = _pick(whole.agents, agent).id
    own = _picked(top, ident)
    picked = AgentSettings(ident) if own is None else reader.read(own, AgentSettings, f"agents.{ident}")
    node = _context(top, own)
    context: Context = Context() if node is None else reader.read(node, Context, "context")
    declared = frozenset(node.value) if node is not None and isinstance(node.value, dict) else frozenset[str]()
    config = Config(
        settings,
        picked,
        context,
        declared,
        reader.sources,
        frozenset(reader.hidden),
        bounds,
        _project_sets_policy(sources),
    )
    check_names(config)
    _check_context(config, node)
    return config


def _project_sets_policy(sources: Sources) -> bool:
    if sources.project is None or sources.named:
        return False
    return isinstance(sources.project.value, dict) and "policy" in sources.project.value


def _joined(sources: Sources, environment: Mapping[str, str]) -> tuple[Node, Bounds | None]:
    """One file over the other. A file the user named wins; of a project's file only what tightens the user's own."""
    project, user = (None if node is None else _long_form(node) for node in (sources.project, sources.user))
    if project is not None and not sources.named and isinstance(project.value, dict) and "allow_env" in project.value:
        raise project.value["allow_env"].key.fault(
            "a project's file cannot allow itself to read the environment.", "Set allow_env in your own file."
        )
    if project is None or user is None:
        return project or user or Node(_NOWHERE, {}, 0, _NOWHERE), None
    if sources.named:
        return merge_nodes(project, user), None
    theirs, own = (Source(node, _settings(node, environment).used) for node in (project, user))
    return combine_files(theirs, own, environment)


class _Read(NamedTuple):
    """`whole` has variables that are not set as they are written; `used` has them only in agents and contexts."""

    whole: Settings
    used: Settings
    reader: Reader


def _settings(top: Node, environment: Mapping[str, str]) -> _Read:
    whole: Settings = Reader(environment, lenient=True).read(top, Settings, "")
    reader = Reader(environment)
    used: Settings = reader.read(_used(top), Settings, "")
    execution = msgspec.structs.replace(used.execution, context=whole.execution.context)
    return _Read(whole, msgspec.structs.replace(used, agents=whole.agents, execution=execution), reader)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _bytes(path: Path, *, needed: bool = False) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            raise BadInput(f"There is no file {path}.", f"Name a {FILE}, or leave it out.") from None
        return None
    except OSError as bad:
        raise BadPolicy(f"{path} cannot be read: {bad.strerror}.", "Make it readable, or move it away.") from None


def _node(path: Path, data: bytes | None) -> Node | None:
    try:
        return None if data is None else _parsed(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise BadPolicy(f"{path}: not UTF-8 text.", "Save the file as UTF-8.") from None


def _parsed(text: str, source: str) -> Node | None:
    """A file in which everything is commented out says nothing, which is fine."""
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return None
    try:
        return read_yaml(text, source)
    except BadPolicy as bad:  # the parser may repeat what it could not read
        raise BadPolicy(Mask()(bad.args[0]), bad.remedy) from None


def _long_form(top: Node) -> Node:
    """`policy: NAME` as `policy: {name: NAME}`; a file is meant from where the one that names it stands."""
    if not isinstance(top.value, dict) or "policy" not in top.value:
        return top
    node = top.value["policy"]
    fields = dict(node.value) if isinstance(node.value, dict) else {"name": node}
    name = fields.get("name")
    if name is not None and isinstance(name.value, str) and name.value not in names() and "{{" not in name.value:
        fields["name"] = name._replace(value=str(Path(name.place.source).parent / name.value))
    if isinstance(node.value, list):
        return top
    return top._replace(value={**top.value, "policy": node._replace(value=fields)})


def _pick(agents: tuple[AgentSettings, ...], wanted: str) -> AgentSettings:
    """The agent of this id, else the first that is there to begin with, else one with no settings."""
    if wanted:
        for each in agents:
            if each.id == wanted:
                return each
        raise BadInput(f"There is no agent {quoted(wanted)}.", nearest(wanted, [each.id for each in agents]))
    leading = [each for each in agents if each.role in ("assistant", "coordinator")]
    return (leading or list(agents) or [AgentSettings("assistant")])[0]


def _picked(top: Node, ident: str) -> Node | None:
    agents = _within(top, "agents")
    items = agents.value if agents is not None and isinstance(agents.value, list) else []
    return next((each for each in items if id_of(each) == ident), None)


def _used(top: Node) -> Node:
    """What is used whoever is picked: without the agents, and without the context, which a brain may replace."""
    assert isinstance(top.value, dict)
    kept = {key: node for key, node in top.value.items() if key != "agents"}
    execution = kept.get("execution")
    if execution is not None and isinstance(execution.value, dict):
        inner = {key: node for key, node in execution.value.items() if key != "context"}
        kept["execution"] = execution._replace(value=inner)
    return top._replace(value=kept)


def _context(top: Node, agent: Node | None) -> Node | None:
    """The context of the picked brain over that of the execution."""
    brain, execution = _within(agent, "brain", "context"), _within(top, "execution", "context")
    if brain is None or execution is None:
        return brain or execution
    return merge_nodes(brain, execution)


def _within(node: Node | None, *keys: str) -> Node | None:
    for key in keys:
        node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
    return node


def _check_context(config: Config, node: Node | None) -> None:
    """Settings of a context that the chosen policy knows nothing of would be ignored in silence."""
    if node is None or config.policy_name == "digitorn" or not isinstance(node.value, dict):
        return
    if any(isinstance(hook.action, CompactContext) for hook in config.settings.execution.hooks):
        return
    for key, each in node.value.items():
        if key not in CONTEXT_EVERYWHERE:
            raise each.key.fault(
                f"{quoted(key)} means nothing to the policy {quoted(config.policy_name)}.",
                "Leave it out, set `policy: digitorn`, or give the policy's own settings under policy.settings.",
            )
