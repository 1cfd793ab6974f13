"""Reads the project's `tidegate.yaml` and the user's own into one `ResolvedConfig`. `limits` combines the two."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tidegate.agent.config.foreign_file import adapt_foreign_file, list_unused_keys
from tidegate.agent.config.limits import ParsedConfigFile, combine_config_files, merge_nodes
from tidegate.agent.config.reader import SettingsReader
from tidegate.agent.config.resolved_config import COMMON_CONTEXT_KEYS, ResolvedConfig, UserLimits
from tidegate.agent.config.settings import EARLIER_KEYS, AgentSettings, ContextSettings, FileSettings
from tidegate.agent.hook_types import CompactContext, ModuleAction
from tidegate.agent.tools.modules import BUILTIN_TOOL_NAMES, MODULE_ACTIONS
from tidegate.core.config.conversion import node_id
from tidegate.core.config.values import SourcePosition, quote_value, suggest_name
from tidegate.core.config.yaml_tree import MAX_YAML_CHARS, YamlNode, read_yaml
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.text.secrets import SecretMask
from tidegate.disk.project_files import read_project_file
from tidegate.plugins import list_plugins
from tidegate.presets import list_context_presets, preset_names

CONFIG_FILE = "tidegate.yaml"
_NO_POSITION = SourcePosition("", 0)
_OWN_KEYS = {"allow_env": "the environment", "recall_earlier_sessions": "earlier sessions"}
"""Keys that only the user's own file may have, and what they allow to read."""
_PATHS_OF_EARLIER_KEYS = (("agents", "*"), ("agents", "*", "model", "context"), ("execution", "context"))
_MAX_RULES_CHARS = 8_000
"""The length of all `rules` together: they are sent with every request."""


class ConfigFiles(NamedTuple):
    """The paths of the two files. Neither has to exist, except a project file that the user named (`is_explicit`)."""

    project: Path
    user: Path
    is_explicit: bool = False


def locate_config_files(project: Path, environment: Mapping[str, str], explicit_file: str = "") -> ConfigFiles:
    """Return the paths of both files. `explicit_file`, which the user named, replaces the project's file."""
    home = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path(environment.get("HOME") or Path.home()) / ".config"
    return ConfigFiles(
        Path(explicit_file) if explicit_file else project / CONFIG_FILE,
        folder / "tidegate" / CONFIG_FILE,
        bool(explicit_file),
    )


class ConfigSources(NamedTuple):
    """The contents of both files. They are read once, so that what is checked for trust is what is used.

    `digest` is the SHA-256 of the project's file. `is_explicit` is True if the user named that file.
    """

    project: YamlNode | None
    user: YamlNode | None
    digest: str = ""
    is_explicit: bool = False


def read_config_sources(files: ConfigFiles) -> ConfigSources:
    """Read both files. The user's own file is never used as a project's file, even in its own folder."""
    data = None
    if files.is_explicit:
        data = _read_bytes(files.project, must_exist=True)
    elif not _is_same_file(files.project, files.user):
        data = read_project_config(files)
    digest = "" if data is None else hashlib.sha256(data).hexdigest()
    return ConfigSources(
        _parse_file(files.project, data), _parse_file(files.user, _read_bytes(files.user)), digest, files.is_explicit
    )


def read_project_config(files: ConfigFiles) -> bytes | None:
    """Read the project's file; None if there is none. BadInput if it is a link that leads out of the project."""
    try:
        return read_project_file(files.project, files.project.parent, MAX_YAML_CHARS + 1, hard_links=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _make_unreadable_error(files.project, error) from None
    except BadInput as error:
        raise BadInput(error.args[0], f"{error.remedy} Or name it with --config.") from None


def read_config(files: ConfigFiles, environment: Mapping[str, str], *, agent: str = "") -> ResolvedConfig:
    """Read both files and resolve them. `agent` is the id of one of several agents.

    Raise BadPolicy with file and line for any mistake.
    """
    return resolve_config(read_config_sources(files), environment, agent=agent)


def may_recall_earlier_sessions(files: ConfigFiles, environment: Mapping[str, str]) -> bool:
    """Whether the user's own file allows reading the earlier sessions of a project. No other file can allow it."""
    user = _parse_file(files.user, _read_bytes(files.user))
    return user is not None and _read_file_settings(user, environment).settings.recall_earlier_sessions


def parse_config(
    text: str, environment: Mapping[str, str], *, source: str = CONFIG_FILE, agent: str = ""
) -> ResolvedConfig:
    """Resolve a configuration from a text instead of files."""
    return resolve_config(
        ConfigSources(read_config_text(text, source), None, is_explicit=True), environment, agent=agent
    )


def resolve_config(sources: ConfigSources, environment: Mapping[str, str], *, agent: str = "") -> ResolvedConfig:
    """Resolve the settings of one agent. The whole files are checked, but only variables it uses must be set."""
    top, bounds = _combine_sources(sources, environment)
    reader = SettingsReader(environment)
    settings: FileSettings = reader.read(top, FileSettings, "")
    agent_settings = _pick_agent(settings.agents, agent)
    node = _context_node(top, agent_settings.id)
    context: ContextSettings = ContextSettings() if node is None else reader.read(node, ContextSettings, "context")
    reader.require_variables(lambda path: _is_shared(path) or path.startswith(f"agents.{agent_settings.id}."))
    config = ResolvedConfig(
        settings,
        agent_settings,
        context,
        frozenset(node.entries) if node is not None else frozenset(),
        reader.sources,
        frozenset(reader.hidden_paths),
        bounds,
        sources.project is not None and not sources.is_explicit and "policy" in sources.project.entries,
        list_unused_keys(sources.project) if sources.project is not None and sources.is_explicit else (),
    )
    _check_names(config)
    _check_context(config, node)
    return config


def _combine_sources(sources: ConfigSources, environment: Mapping[str, str]) -> tuple[YamlNode, UserLimits | None]:
    """Combine the files. A file that the user named wins; a project's file cannot loosen the user's own."""
    project, user = (None if node is None else _expand_policy(node) for node in (sources.project, sources.user))
    project = adapt_foreign_file(project) if project is not None and sources.is_explicit else project
    if project is not None and not sources.is_explicit:
        for key in _OWN_KEYS.keys() & project.entries.keys():
            raise project.entries[key].key.make_error(
                f"a project's file cannot allow itself to read {_OWN_KEYS[key]}.", f"Set {key} in your own file."
            )
    if project is None or user is None:
        return project or user or YamlNode(_NO_POSITION, {}, 0, _NO_POSITION), None
    if sources.is_explicit:
        return merge_nodes(project, user), None
    theirs, own = (_read_file_settings(node, environment) for node in (project, user))
    return combine_config_files(theirs, own, environment)


def _read_file_settings(top: YamlNode, environment: Mapping[str, str]) -> ParsedConfigFile:
    reader = SettingsReader(environment)
    settings: FileSettings = reader.read(top, FileSettings, "")
    reader.require_variables(_is_shared)
    return ParsedConfigFile(top, settings, reader.unset)


def _is_shared(path: str) -> bool:
    """Whether every agent uses the setting at a path: it is of no agent, and of no context."""
    return not path.startswith(("agents.", "execution.context."))


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read_bytes(path: Path, *, must_exist: bool = False) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_YAML_CHARS + 1)
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise BadInput(f"There is no file {path}.", f"Name a {CONFIG_FILE}, or leave it out.") from None
        return None
    except OSError as error:
        raise _make_unreadable_error(path, error) from None


def _make_unreadable_error(path: Path, error: OSError) -> BadPolicy:
    return BadPolicy(f"{path} cannot be read: {error.strerror}.", "Make it readable, or move it away.")


def _parse_file(path: Path, data: bytes | None) -> YamlNode | None:
    try:
        return None if data is None else read_config_text(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise BadPolicy(f"{path}: not UTF-8 text.", "Save the file as UTF-8.") from None


def read_config_text(text: str, source: str) -> YamlNode | None:
    """Parse a file; None if it has nothing but comments. Earlier names of keys become the current ones."""
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return None
    try:
        return _rename_earlier_keys(read_yaml(text, source))
    except BadPolicy as error:  # the parser may quote a secret
        raise BadPolicy(SecretMask()(error.args[0]), error.remedy) from None


def _rename_earlier_keys(node: YamlNode, path: tuple[str, ...] = ()) -> YamlNode:
    """Return a file with `model` and `summary_model` where it says `brain` and `summary_brain`."""
    if not any(each[: len(path)] == path for each in _PATHS_OF_EARLIER_KEYS):
        return node
    if isinstance(node.value, list):
        return node._replace(value=[_rename_earlier_keys(each, (*path, "*")) for each in node.value])
    if not isinstance(node.value, dict):
        return node
    renamed = EARLIER_KEYS if path in _PATHS_OF_EARLIER_KEYS else {}
    for earlier in renamed.keys() & node.value.keys():
        if renamed[earlier] in node.value:
            raise node.value[earlier].key.make_error(
                f'"{earlier}" and "{renamed[earlier]}" are the same key.', f"Leave out {earlier}."
            )
    names = {key: renamed.get(key, key) for key in node.value}
    return node._replace(
        value={name: _rename_earlier_keys(node.value[key], (*path, name)) for key, name in names.items()}
    )


def _expand_policy(top: YamlNode) -> YamlNode:
    """Expand `policy: NAME` to `policy: {name: NAME}`. A policy file is relative to the configuration file."""
    if not isinstance(top.value, dict) or "policy" not in top.value:
        return top
    node = top.value["policy"]
    fields = dict(node.value) if isinstance(node.value, dict) else {"name": node}
    name = fields.get("name")
    if name is not None and isinstance(name.value, str) and name.value not in preset_names() and "{{" not in name.value:
        fields["name"] = name._replace(value=str(Path(name.place.source).parent / name.value))
    if isinstance(node.value, list):
        return top
    return top._replace(value={**top.value, "policy": node._replace(value=fields)})


def _pick_agent(agents: tuple[AgentSettings, ...], ident: str) -> AgentSettings:
    """Return the agent of this id, else the first that is not a specialist, else one with default settings."""
    if ident:
        for each in agents:
            if each.id == ident:
                return each
        raise BadInput(f"There is no agent {quote_value(ident)}.", suggest_name(ident, [each.id for each in agents]))
    leading = [each for each in agents if each.role in ("assistant", "coordinator")]
    return (leading or list(agents) or [AgentSettings("assistant")])[0]


def _context_node(top: YamlNode, agent: str) -> YamlNode | None:
    """Return the context of the agent's model, merged over that of the execution."""
    agents = top.find("agents")
    items = agents.elements if agents is not None else []
    own = next((each.find("model", "context") for each in items if node_id(each) == agent), None)
    execution = top.find("execution", "context")
    if own is None or execution is None:
        return own or execution
    return merge_nodes(own, execution)


def _check_names(config: ResolvedConfig) -> None:
    """Check that the modules, actions and tools a file names exist, and that its servers and rules are well-formed."""
    settings, sources = config.settings, config.sources

    def require_known(name: str, names: Iterable[str], what: str, path: str) -> None:
        if name not in names:
            raise BadPolicy(f"{sources[path]}: unknown {what} {quote_value(name)}.", suggest_name(name, names))

    for name, module in (settings.modules or {}).items():
        require_known(name, MODULE_ACTIONS, "module", f"modules.{name}")
        constraints = module.constraints
        for key, actions in (
            ("allowed_actions", constraints.allowed_actions),
            ("denied_actions", constraints.denied_actions),
        ):
            for action in actions or ():
                require_known(action, MODULE_ACTIONS[name], f"action of {name}", f"modules.{name}.constraints.{key}")
    for hook in settings.execution.hooks:
        if isinstance(hook.action, ModuleAction):
            path = f"execution.hooks.{hook.id}.action"
            require_known(hook.action.module, MODULE_ACTIONS.keys() | settings.mcp, "module", f"{path}.module")
            module_actions = MODULE_ACTIONS.get(hook.action.module, (hook.action.action,))  # of servers, any
            require_known(hook.action.action, module_actions, "action", f"{path}.action")
    for name, server in settings.mcp.items():
        if bool(server.command) == bool(server.url):
            raise BadPolicy(
                f"{sources[f'mcp.{name}']}: the server {quote_value(name)} has {'both' if server.url else 'neither'} a"
                f" command {'and' if server.url else 'nor'} a url.",
                "Give one of them.",
            )
    if (size := sum(map(len, settings.rules))) > _MAX_RULES_CHARS:
        raise BadPolicy(
            f"{sources['rules']}: the rules have {size:,} characters.", f"Keep them to {_MAX_RULES_CHARS:,} in all."
        )
    all_actions = {f"{module}.{action}" for module, names in MODULE_ACTIONS.items() for action in names}
    references = [(name, f"capabilities.tools.{name}") for name in settings.capabilities.tools]
    references += [(name, f"agents.{config.agent.id}.tools") for name in config.agent.tools or ()]
    for name, path in references:
        if not any(sign in name for sign in ("*", "?", "[", "__")):  # tools of servers are known only when they run
            require_known(name, BUILTIN_TOOL_NAMES | all_actions | set(settings.tools), "tool", path)
    if settings.tools:
        installed = [plugin.name for plugin in list_plugins("tool")]
        for name in settings.tools:
            require_known(name, installed, "plugin tool", "tools")


def _check_context(config: ResolvedConfig, node: YamlNode | None) -> None:
    """Refuse keys of a context that would have no effect, because the policy does not take them over."""
    if node is None or not isinstance(node.value, dict) or node.value.keys() <= COMMON_CONTEXT_KEYS:
        return
    if any(isinstance(hook.action, CompactContext) for hook in config.settings.execution.hooks):
        return
    context = config.policy_context
    known_keys = COMMON_CONTEXT_KEYS if context is None else COMMON_CONTEXT_KEYS | context.settings
    for key, each in node.value.items():
        if key not in known_keys:
            presets = " or ".join(f"`policy: {name}`" for name in list_context_presets(frozenset({key})))
            raise each.key.make_error(
                f"{quote_value(key)} means nothing to the policy {quote_value(config.policy_name)}.",
                f"Leave it out, set {presets}, or give the policy's own settings under policy.settings.",
            )
