"""Combines a project's `tidegate.yaml` with the user's own: the project's value wins, except for limits.

Spending, approvals, commands, tools, network and paths are limits: if the user's own file says something about
one of them, the stricter of the two values wins. Where it says nothing, the project's file may set it. So a project's
file can only tighten what the user's own file says. Every value of the project's file that was ignored is recorded.

The two files are combined as nodes, so that every value still knows its file and line.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.agent.config.reader import SettingsReader
from tidegate.agent.config.resolved_config import IgnoredValue, UserLimits
from tidegate.agent.config.settings import PRICE_KEYS, FileSettings
from tidegate.agent.config.tool_access import make_approval_rules, resolve_tool_name
from tidegate.agent.tools.approval import VERDICTS_BY_STRICTNESS, ApprovalRules, ApprovalVerdict, decide_approval
from tidegate.agent.tools.command_rules import intersect_command_rules
from tidegate.core.config.conversion import node_id
from tidegate.core.config.values import quote_value
from tidegate.core.config.yaml_tree import YamlNode

UNMERGED_KEYS: Final = frozenset({"model", "summary_model", "policy"})
"""Not merged key by key: a model of one file with the provider of another makes no sense."""
_DEFAULT_POLICIES: Final = ("allow", "auto", "ask", "deny")
"""The values of `default_policy`, from the loosest to the strictest."""
_STRICTER_REASON: Final = "is ignored: your own file is stricter"

_SettingPath = tuple[str, ...]


class ParsedConfigFile(NamedTuple):
    """A file: its nodes, the settings read from them, and the paths whose variables are not set."""

    top: YamlNode
    settings: FileSettings
    unset: Collection[str]


class CombinedConfig(NamedTuple):
    top: YamlNode
    bounds: UserLimits


def combine_config_files(
    project: ParsedConfigFile, own: ParsedConfigFile, environment: Mapping[str, str]
) -> CombinedConfig:
    """Combine a project's file with the user's own."""
    approval = make_approval_rules(own.settings.capabilities, _list_capability_keys(own.top))
    combiner = _FileCombiner(project, own, approval)
    addressed = combiner.drop_addresses((), project.top, SettingsReader(environment))
    top = combiner.combine((), addressed, own.top)
    tools = ApprovalRules(make_approval_rules(project.settings.capabilities, ()).verdicts, default_verdict=None)
    return CombinedConfig(
        top,
        UserLimits(own.settings, (approval, tools), tuple(combiner.ignored), project_file=project.top.place.source),
    )


def merge_nodes(over: YamlNode, under: YamlNode) -> YamlNode:
    """Merge two nodes: mappings by key, lists by the ids of their items. Otherwise `over` wins."""
    if isinstance(over.value, dict) and isinstance(under.value, dict):
        both = dict(over.value)
        for key, node in under.value.items():
            both[key] = node if key not in both else both[key] if key in UNMERGED_KEYS else merge_nodes(both[key], node)
        return over._replace(value=both)
    if isinstance(over.value, list) and isinstance(under.value, list):
        ids = {node_id(each) for each in over.value}
        if "" not in ids and all(map(node_id, under.value)):
            return over._replace(value=[*over.value, *(each for each in under.value if node_id(each) not in ids)])
    return under if over.value is None else over


class _FileCombiner:
    """Combines two files. A method for a kind of limit takes its path and both nodes, which are not null."""

    def __init__(self, project: ParsedConfigFile, own: ParsedConfigFile, approval: ApprovalRules) -> None:
        self._project, self._own = project.settings, own.settings
        self._own_unset, self._unset = own.unset, {*project.unset, *own.unset}
        self._approval = approval
        self.ignored: list[IgnoredValue] = []

    def combine(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        if project.value is None or own.value is None:
            return own if project.value is None else project
        for pattern, rule in _LIMIT_RULES.items():
            if len(pattern) == len(path) and all(word in ("*", key) for word, key in zip(pattern, path, strict=True)):
                return rule(self, path, project, own)
        if isinstance(project.value, dict) and isinstance(own.value, dict):
            both = dict(project.value)
            for key, node in own.value.items():
                if key not in both:
                    both[key] = node
                elif key not in UNMERGED_KEYS:
                    both[key] = self.combine((*path, key), both[key], node)
            return project._replace(value=both)
        return merge_nodes(project, own)

    def take_smaller(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        """Take the smaller number. Null means no limit, and so does 0, except for spending."""
        theirs, ours = self._values(path)
        if ".".join(path) in self._unset:  # a variable of a context: an error once it is used
            return own if ".".join(path) in self._own_unset else project
        bounds = [each for each in (theirs, ours) if each is not None and (each or path[0] == "spend")]
        if not bounds or theirs == min(bounds):
            return project
        self._ignore(path, project)
        return own

    def take_larger(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        if theirs >= ours:
            return project
        self._ignore(path, project)
        return own

    def take_own(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        if theirs != ours:
            self._ignore(path, project, "is ignored: your own file decides this")
        return own

    def add_entries(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        """Combine entries by name: the project's file may add entries, but not change those of the user."""
        entries = dict(own.entries)
        for name, node in project.entries.items():
            if name in entries:
                self.take_own((*path, name), node, entries[name])
        return own._replace(value={**entries, **{n: e for n, e in project.entries.items() if n not in entries}})

    def add_hooks(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        ids = {node_id(each) for each in own.elements}
        for each in project.elements:
            if node_id(each) in ids:
                self._ignore((*path, node_id(each)), each, "is ignored: your own file has a hook with this id")
        return own._replace(value=[*own.elements, *(each for each in project.elements if node_id(each) not in ids)])

    def unite(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        new = [node for node, value in zip(project.elements, theirs, strict=True) if value not in ours]
        return own._replace(value=[*own.elements, *new])

    def intersect(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        for node, value in zip(project.elements, theirs, strict=True):
            if value not in ours:
                self._ignore(path, node)
        return own._replace(
            value=[node for node, value in zip(own.elements, ours, strict=True) if value in theirs],
        )

    def intersect_modules(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = project.entries, own.entries
        for name in theirs:
            if name not in ours:
                self._ignore((*path, name), theirs[name], "is ignored: your own file does not name this module")
        both = {name: self.combine((*path, name), theirs[name], ours[name]) for name in ours if name in theirs}
        return own._replace(value=both)

    def combine_capabilities(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        """Combine capabilities. Verdicts of different patterns are not compared here but by `ApprovalRules.bounds`."""
        theirs, ours = dict(project.entries), dict(own.entries)
        tools = theirs.pop("tools", None)
        if tools is not None and isinstance(tools.value, dict):
            strict_tools = {name: node for name, node in tools.value.items() if self._strict_enough(name, node)}
            own_tools = ours["tools"].entries if "tools" in ours else {}
            theirs["tools"] = tools._replace(value={**own_tools, **strict_tools})
            ours.pop("tools", None)
        commands = theirs.get("allow_commands")
        if commands is not None and "allow_commands" not in ours and self._own_verdict("shell") != "allow":
            for node in theirs.pop("allow_commands").elements:
                self._ignore((*path, "allow_commands"), node)
        for key, node in ours.items():
            theirs[key] = self.combine((*path, key), theirs[key], node) if key in theirs else node
        return project._replace(value=theirs)

    def intersect_commands(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        both = intersect_command_rules(ours, theirs)
        for node, value in zip(project.elements, theirs, strict=True):
            if value not in both:
                self._ignore(path, node, "is ignored: no rule of your own file allows it")
        common = [node for node, value in zip(own.elements, ours, strict=True) if value in both]
        new = [node for node, value in zip(project.elements, theirs, strict=True) if value in both - set(ours)]
        return own._replace(value=[*common, *new])

    def take_stricter_default(self, path: _SettingPath, project: YamlNode, own: YamlNode) -> YamlNode:
        theirs, ours = self._values(path)
        if _DEFAULT_POLICIES.index(theirs) >= _DEFAULT_POLICIES.index(ours):
            return project
        self._ignore(path, project)
        return own

    def drop_addresses(self, path: _SettingPath, node: YamlNode, reader: SettingsReader) -> YamlNode:
        """Remove address and headers of a model whose provider is set in the user's own file."""
        if isinstance(node.value, list):
            items = [self.drop_addresses((*path, node_id(each)), each, reader) for each in node.value]
            return node._replace(value=items)
        if not isinstance(node.value, dict):
            return node
        entries = {key: self.drop_addresses((*path, key), each, reader) for key, each in node.value.items()}
        if path and path[-1] in ("model", "summary_model") and "provider" in entries and "config" in entries:
            provider = reader.read(entries["provider"], str, "provider")
            if provider in self._own.providers:
                entries["config"] = self._without_address((*path, "config"), entries["config"], provider)
        return node._replace(value=entries)

    def _without_address(self, path: _SettingPath, config: YamlNode, provider: str) -> YamlNode:
        entries = dict(config.entries)
        for key in ("base_url", "headers"):
            if key in entries:
                self._ignore((*path, key), entries.pop(key), f"is ignored: your own file sets providers.{provider}")
        return config._replace(value=entries)

    def _strict_enough(self, name: str, node: YamlNode) -> bool:
        verdict = self._project.capabilities.tools[name]
        own = self._own_verdict(resolve_tool_name(name))
        if VERDICTS_BY_STRICTNESS.index(verdict) >= VERDICTS_BY_STRICTNESS.index(own):
            return True
        self._ignore(("capabilities", "tools", name), node)
        return False

    def _own_verdict(self, tool: str) -> ApprovalVerdict:
        """Return the verdict of the user's own file on a tool; `allow` if it has none."""
        return decide_approval(ApprovalRules(default_verdict="allow", bounds=(self._approval,)), tool, {}).verdict

    def _values(self, path: _SettingPath) -> tuple[Any, Any]:
        return _value(self._project, path), _value(self._own, path)

    def _ignore(self, path: _SettingPath, node: YamlNode, why: str = _STRICTER_REASON) -> None:
        value = f"{quote_value(node.value)} " if not isinstance(node.value, list | dict) else ""
        self.ignored.append(IgnoredValue(".".join(path), f"{node.key.source}:{node.key.line}", f"{value}{why}"))


_LIMIT_RULES: Final[Mapping[_SettingPath, Callable[[_FileCombiner, _SettingPath, YamlNode, YamlNode], YamlNode]]] = {
    ("spend", "*", "*"): _FileCombiner.take_smaller,
    ("execution", "max_turns"): _FileCombiner.take_smaller,
    ("execution", "max_steps"): _FileCombiner.take_smaller,
    ("execution", "timeout"): _FileCombiner.take_smaller,
    ("execution", "hooks"): _FileCombiner.add_hooks,
    ("execution", "context", "max_tokens"): _FileCombiner.take_smaller,
    ("window",): _FileCombiner.take_smaller,
    ("models", "*", "window"): _FileCombiner.take_smaller,
    ("models", "*", "max_output"): _FileCombiner.take_smaller,
    ("models", "*", "images"): _FileCombiner.take_own,
    **{("models", "*", name): _FileCombiner.take_larger for name in PRICE_KEYS},
    ("capabilities",): _FileCombiner.combine_capabilities,
    ("capabilities", "default_policy"): _FileCombiner.take_stricter_default,
    ("capabilities", "allow_commands"): _FileCombiner.intersect_commands,
    ("capabilities", "deny_commands"): _FileCombiner.unite,
    ("modules",): _FileCombiner.intersect_modules,
    ("modules", "*", "constraints", "allowed_actions"): _FileCombiner.intersect,
    ("modules", "*", "constraints", "denied_actions"): _FileCombiner.unite,
    ("providers",): _FileCombiner.add_entries,
    ("mcp",): _FileCombiner.add_entries,
    ("tools",): _FileCombiner.unite,
    ("skills",): _FileCombiner.take_own,
    ("rules",): _FileCombiner.unite,
}
"""Every limit by its path, where `*` is any key. For all other paths the project's value wins."""


def _list_capability_keys(top: YamlNode) -> frozenset[str]:
    """Return the keys of `capabilities` that have a value in a file."""
    capabilities = top.find("capabilities")
    entries = capabilities.entries.items() if capabilities is not None else ()
    return frozenset(key for key, node in entries if node.value is not None)


def _value(settings: FileSettings, path: _SettingPath) -> Any:
    value: Any = settings
    for key in path:
        fields = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
        value = fields.get(key) if isinstance(fields, dict) else None
    return value
