"""What one agent runs with: the settings of its files, its own among them, made into what a session is opened with."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from tidegate.agent.config.provider_target import ProviderTarget, resolve_target
from tidegate.agent.config.reader import SecretString
from tidegate.agent.config.settings import (
    AgentSettings,
    BrainSettings,
    CapabilitySettings,
    ContextSettings,
    FileSettings,
    PolicySettings,
)
from tidegate.agent.hooks.types import CompactContext, ContextPressure, Hook, ModuleAction
from tidegate.agent.tools.approval import STANDARD_APPROVAL, ApprovalRules, ApprovalVerdict
from tidegate.agent.tools.command_rules import describe_command_rule
from tidegate.agent.tools.modules import ALWAYS_OFFERED_TOOLS, BUILTIN_TOOL_NAMES, MODULE_ACTIONS
from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.errors import BadPolicy
from tidegate.core.policy.policy import Policy
from tidegate.core.text.secrets import MASKED, SecretMask
from tidegate.presets import load

AUTO_COMPACT_RULE = "_auto_compact"
_AUTO_COMPACT_COOLDOWN = 30.0
_MAX_RULES_CHARS = 8_000
"""Characters of the user's own rules in all: they are sent with every request."""
COMMON_CONTEXT_KEYS = frozenset({"max_tokens", "output_reserved", "summary_brain"})
"""What a context may say under any policy; the rest are settings of the policy `digitorn`."""


class IgnoredValue(NamedTuple):
    """A value of the project's file that has no effect, because the user's own file is stricter."""

    name: str
    source: str
    reason: str


class UserLimits(msgspec.Struct, frozen=True):
    """What the user's own file says, where a project's file was combined with it (see `limits`).

    `approvals` bound the verdicts on tools; `project` is the path of the project's file.
    """

    user_settings: FileSettings
    approvals: tuple[ApprovalRules, ...]
    ignored_values: tuple[IgnoredValue, ...]
    project_file: str


class ResolvedConfig(msgspec.Struct, frozen=True):
    """`context` is the brain's over the execution's; `declared` names the keys of it that a file gives.

    `sources` tells for each path that a file gives where it stands; `hidden` paths are shown masked. `bounds` is None
    unless the settings come from a project's file and the user's own. `project_policy`: a project's file
    chose the policy.
    """

    settings: FileSettings
    agent: AgentSettings
    context: ContextSettings
    declared_context_keys: frozenset[str]
    sources: Mapping[str, str]
    hidden_paths: frozenset[str]
    user_limits: UserLimits | None = None
    project_policy: bool = False

    @property
    def policy_name(self) -> str:
        """A file with a context means the policy these settings are of."""
        return self.settings.policy.name or (
            "digitorn" if self.declared_context_keys - COMMON_CONTEXT_KEYS else "default"
        )

    @property
    def window(self) -> int | None:
        """The window someone set, else None: it is then learned, asked or looked up."""
        found = [_configured_window(self.settings, self.context, self.agent.brain.model)]
        if self.user_limits is not None:
            own = self.user_limits.user_settings
            found.append(_configured_window(own, own.execution.context, self.agent.brain.model))
        return min((each for each in found if each and isinstance(each, int)), default=None)

    @property
    def output_reserve(self) -> int | None:
        return self.context.output_reserved if "output_reserved" in self.declared_context_keys else None

    @property
    def summary_brain(self) -> BrainSettings:
        return self.context.summary_brain or self.agent.brain

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return self.settings.execution.hooks

    @property
    def auto_compact_hook(self) -> Hook | None:
        """The hook that is there without being declared; the policy's rule of the same name is what runs it."""
        compacts = any(isinstance(hook.action, CompactContext) for hook in self.hooks)
        if self.policy_name != "digitorn" or compacts or not self.context.auto_compact:
            return None
        return Hook(
            AUTO_COMPACT_RULE,
            ContextPressure(self.context.compression_trigger),
            CompactContext(self.context.strategy, self.context.keep_recent, self.context.summary_max_tokens),
            "turn_start",
            _AUTO_COMPACT_COOLDOWN,
        )


def _configured_window(settings: FileSettings, context: ContextSettings | None, model: str) -> int | None:
    own = settings.models.get(model)
    return (context.max_tokens if context else 0) or (own.window if own else None) or settings.window


def make_policy_settings(config: ResolvedConfig) -> dict[str, object]:
    """The context as settings of the policy, and over them what stands under `policy.settings`."""
    given: dict[str, object] = dict(config.settings.policy.settings)
    if config.policy_name != "digitorn":
        return given
    fields = msgspec.structs.asdict(config.context)
    del fields["summary_brain"]
    return {**fields, "auto_compact": config.auto_compact_hook is not None, **given}


def load_configured_policy(config: ResolvedConfig) -> Policy:
    """The policy a session is opened with. A setting it does not know is named with its file and line."""
    settings = make_policy_settings(config)
    try:
        return _keep_retention(config, load(config.policy_name, settings))
    except BadPolicy as bad:
        for name in config.settings.policy.settings:
            try:
                load(config.policy_name, {name: settings[name]})
            except BadPolicy as own:
                source = config.sources.get(f"policy.settings.{name}", "policy.settings")
                raise BadPolicy(f"{source}: {own.args[0]}", own.remedy) from None
        if named := config.sources.get("policy.name"):
            raise BadPolicy(f"{named}: {bad.args[0]}", bad.remedy) from None
        raise


def _keep_retention(config: ResolvedConfig, policy: Policy) -> Policy:
    """A project's file cannot shorten how long sessions are kept: that deletes data of the user."""
    if not config.project_policy:
        return policy
    own = config.user_limits.user_settings.policy if config.user_limits is not None else PolicySettings()
    kept = load(own.name, dict(own.settings)).retention if own.name else 0
    return msgspec.structs.replace(policy, retention=kept)


def resolve_brain_target(config: ResolvedConfig, environment: Mapping[str, str]) -> ProviderTarget:
    return resolve_target(config.agent.brain, config.settings.providers, environment)


def resolve_summary_target(config: ResolvedConfig, environment: Mapping[str, str]) -> ProviderTarget:
    return resolve_target(config.summary_brain, config.settings.providers, environment)


def collect_secret_values(config: ResolvedConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Every key and header of this configuration, for whoever masks what is written to files."""
    targets = resolve_brain_target(config, environment), resolve_summary_target(config, environment)
    used = msgspec.structs.replace(config.settings, agents=(config.agent,))
    found = [*(target.api_key for target in targets), *_iterate_secrets(used), *_iterate_secrets(config.context)]
    return tuple(dict.fromkeys(key for key in found if key))


def _iterate_secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretString):
        yield str(value)
    for _, each in _named_parts(value) or ():
        yield from _iterate_secrets(each)


def find_module_tool(config: ResolvedConfig, module: str, action: str) -> str | None:
    """The tool behind an action, if the modules of this configuration offer it."""
    tool = MODULE_ACTIONS.get(module, {}).get(action)
    modules = config.settings.modules
    if tool is None or modules is None:
        return tool
    if module not in modules:
        return None
    bounds = modules[module].constraints
    allowed = bounds.allowed_actions is None or action in bounds.allowed_actions
    return tool if allowed and action not in bounds.denied_actions else None


def list_offered_tools(config: ResolvedConfig) -> frozenset[str]:
    """The built-in tools this agent has. MCP servers bring their own."""
    if config.settings.modules is None:
        return BUILTIN_TOOL_NAMES - {"hello"}
    named = {
        find_module_tool(config, module, action) for module, actions in MODULE_ACTIONS.items() for action in actions
    }
    return frozenset(tool for tool in named if tool is not None) | ALWAYS_OFFERED_TOOLS


def resolve_approval(config: ResolvedConfig) -> ApprovalRules:
    rules = make_approval_rules(config.settings.capabilities)
    if config.user_limits is None:
        return rules
    own, project = config.user_limits.approvals
    project = msgspec.structs.replace(project, allow_commands=rules.allow_commands)
    return msgspec.structs.replace(rules, bounds=(own, project))


def make_approval_rules(
    given: CapabilitySettings, said: Collection[str] = CapabilitySettings.__struct_fields__
) -> ApprovalRules:
    """The rules for tools in a file. `said` are the keys it gives; about everything else these rules say nothing.

    A file that lists commands says of the shell that every other command is asked.
    """
    tools: dict[str, ApprovalVerdict] = {}
    default: ApprovalVerdict | None = None
    if "default_policy" in said:
        tools = {**STANDARD_APPROVAL.verdicts, "hello": "allow"} if given.default_policy == "auto" else {}
        default = "ask" if given.default_policy == "auto" else given.default_policy
    tools |= {resolve_tool_name(name): verdict for name, verdict in given.tools.items()}
    if default is None and "allow_commands" in said and not any(fnmatchcase("shell", name) for name in tools):
        tools["shell"] = "ask"
    return ApprovalRules(tools, given.allow_commands, given.deny_commands, default)


def resolve_tool_name(name: str) -> str:
    """The tool or pattern that a key of `capabilities.tools` means."""
    module, _, action = name.partition(".")
    return MODULE_ACTIONS.get(module, {}).get(action, name)


def check_configured_names(config: ResolvedConfig) -> None:
    """Modules, actions and tools that a file names must exist."""
    settings, sources = config.settings, config.sources

    def known(name: str, names: Iterable[str], what: str, path: str) -> None:
        if name not in names:
            raise BadPolicy(f"{sources[path]}: unknown {what} {quote_value(name)}.", suggest_name(name, names))

    for name, module in (settings.modules or {}).items():
        known(name, MODULE_ACTIONS, "module", f"modules.{name}")
        for key in ("allowed_actions", "denied_actions"):
            for action in getattr(module.constraints, key) or ():
                known(action, MODULE_ACTIONS[name], f"action of {name}", f"modules.{name}.constraints.{key}")
    for hook in settings.execution.hooks:
        if isinstance(hook.action, ModuleAction):
            path = f"execution.hooks.{hook.id}.action"
            known(hook.action.module, MODULE_ACTIONS, "module", f"{path}.module")
            known(hook.action.action, MODULE_ACTIONS[hook.action.module], "action", f"{path}.action")
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
    actions = {f"{module}.{action}" for module, found in MODULE_ACTIONS.items() for action in found}
    for name in settings.capabilities.tools:
        if not any(sign in name for sign in ("*", "?", "[", "__")):  # tools of servers are known only when they run
            known(name, BUILTIN_TOOL_NAMES | actions, "tool", f"capabilities.tools.{name}")


class EffectiveSetting(NamedTuple):
    """One line of `tidegate config`. `value` is never a secret; `source` is file:line, a variable or `default`.

    `note` says what else is to be known of it, such as that a value of the project's file was ignored.
    """

    name: str
    value: str
    source: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.value}  ({'; '.join(filter(None, (self.source, self.note)))})"


def list_effective_settings(config: ResolvedConfig, environment: Mapping[str, str]) -> list[EffectiveSetting]:
    """Every value this agent runs with, and where it comes from."""
    kept = msgspec.structs.replace(config.settings, agents=())
    found = list(_flatten_settings(config, kept, "", skip=frozenset({"agents", "execution.context", "policy.name"})))
    agent = f"agents.{config.agent.id}"
    found += _flatten_settings(config, config.agent, agent, skip=frozenset({f"{agent}.brain.context"}))
    found += _flatten_settings(config, config.context, "context", skip=frozenset())
    if config.auto_compact_hook is not None:
        found.append(EffectiveSetting(f"execution.hooks.{AUTO_COMPACT_RULE}", "true", "context.auto_compact"))
    because = "context" if config.policy_name == "digitorn" else "default"
    found.append(EffectiveSetting("policy.name", config.policy_name, config.sources.get("policy.name", because)))
    found += _list_target_settings(config, "brain", resolve_brain_target(config, environment), f"{agent}.brain")
    if config.context.summary_brain is not None:
        found += _list_target_settings(
            config, "summary", resolve_summary_target(config, environment), "context.summary_brain"
        )
    return _add_notes(config, found)


def _add_notes(config: ResolvedConfig, settings: list[EffectiveSetting]) -> list[EffectiveSetting]:
    """With what the rules for commands mean, and with what was ignored: beside its setting, or on a line of its own."""
    notes: dict[str, str] = {}
    for number, rule in enumerate(config.settings.capabilities.allow_commands, 1):
        notes[f"capabilities.allow_commands.{number}"] = describe_command_rule(rule)
    ignored: dict[str, list[IgnoredValue]] = {}
    for each in config.user_limits.ignored_values if config.user_limits is not None else ():
        ignored.setdefault(each.name, []).append(each)
    for name, found in ignored.items():
        notes[name] = "; ".join(f"{each.source}: {SecretMask()(each.reason)}" for each in found)
    names = {each.name for each in settings}
    more = [
        EffectiveSetting(name, "ignored", found[0].source, notes[name])
        for name, found in ignored.items()
        if name not in names
    ]
    return [*(each._replace(note=notes.get(each.name, "")) for each in settings), *more]


def _list_target_settings(
    config: ResolvedConfig, name: str, target: ProviderTarget, path: str
) -> list[EffectiveSetting]:
    """Where the requests of a brain really go."""

    def stands(source: str) -> str:
        return config.sources.get(source) or config.sources.get(f"{path}.{source}") or source

    address = SecretMask()(target.base_url) or "the provider's own"
    return [
        EffectiveSetting(f"{name}.base_url", address, stands(target.base_url_source)),
        EffectiveSetting(f"{name}.key", MASKED if target.api_key else "none", stands(target.key_source)),
        EffectiveSetting(f"{name}.wire", target.wire, config.sources.get(f"{path}.backend", "default")),
    ]


def _flatten_settings(
    config: ResolvedConfig, value: object, path: str, *, skip: frozenset[str]
) -> Iterable[EffectiveSetting]:
    if path in skip:
        return
    inner = _named_parts(value)
    if inner is None:
        plain = isinstance(value, str) and value and value.isprintable()
        text = str(value) if plain else msgspec.json.encode(value).decode()
        shown = MASKED if path in config.hidden_paths and value else SecretMask()(text)
        yield EffectiveSetting(path, shown, config.sources.get(path, "default"))
        return
    for name, each in inner:
        yield from _flatten_settings(config, each, f"{path}.{name}" if path else name, skip=skip)


def _named_parts(value: object) -> list[tuple[str, object]] | None:
    """The named parts of a value that has some."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        own: list[tuple[str, object]] = [] if tag is None else [("type", tag)]
        return own + list(msgspec.structs.asdict(value).items())
    if isinstance(value, dict) and value:
        return [(str(key), each) for key, each in value.items()]
    if isinstance(value, tuple | list) and value:
        return [(str(getattr(each, "id", number)), each) for number, each in enumerate(value, 1)]
    return None
