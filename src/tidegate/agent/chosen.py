"""What one agent runs with: the settings of its files, its own among them, made into what a session is opened with."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidegate.agent.brains import Target, target_of
from tidegate.agent.config import AgentSettings, Brain, Context, Settings
from tidegate.agent.config_reading import Secret
from tidegate.agent.hook_types import CompactContext, ContextPressure, Hook, ModuleAction
from tidegate.agent.modules import KEPT, MODULES, TOOLS
from tidegate.agent.tools.approval import STANDARD, Approval, Verdict
from tidegate.core.errors import BadPolicy
from tidegate.core.expression import nearest, quoted
from tidegate.core.policy import Policy
from tidegate.core.secrets import MASKED, Mask
from tidegate.presets import load

AUTO_COMPACT = "_auto_compact"
COOLDOWN = 30.0
MAX_RULES = 8_000
"""Characters of the user's own rules in all: they are sent with every request."""
CONTEXT_EVERYWHERE = frozenset({"max_tokens", "output_reserved", "summary_brain"})
"""What a context may say under any policy; the rest are settings of the policy `digitorn`."""


class Config(msgspec.Struct, frozen=True):
    """`context` is the brain's over the execution's; `declared` names the keys of it that a file gives.

    `sources` tells for each path that a file gives where it stands; `hidden` paths are shown masked.
    """

    settings: Settings
    agent: AgentSettings
    context: Context
    declared: frozenset[str]
    sources: Mapping[str, str]
    hidden: frozenset[str]

    @property
    def policy_name(self) -> str:
        """A file with a context means the policy these settings are of."""
        return self.settings.policy.name or ("digitorn" if self.declared - CONTEXT_EVERYWHERE else "default")

    @property
    def window(self) -> int | None:
        """The window someone set, else None: it is then learned, asked or looked up."""
        model = self.settings.models.get(self.agent.brain.model)
        return self.context.max_tokens or (model.window if model else None) or self.settings.window

    @property
    def reserve(self) -> int | None:
        return self.context.output_reserved if "output_reserved" in self.declared else None

    @property
    def summary_brain(self) -> Brain:
        return self.context.summary_brain or self.agent.brain

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return self.settings.execution.hooks

    @property
    def auto_compact(self) -> Hook | None:
        """The hook that is there without being declared; the policy's rule of the same name is what runs it."""
        compacts = any(isinstance(hook.action, CompactContext) for hook in self.hooks)
        if self.policy_name != "digitorn" or compacts or not self.context.auto_compact:
            return None
        return Hook(
            AUTO_COMPACT,
            ContextPressure(self.context.compression_trigger),
            CompactContext(self.context.strategy, self.context.keep_recent, self.context.summary_max_tokens),
            "turn_start",
            COOLDOWN,
        )


def policy_settings(config: Config) -> dict[str, object]:
    """The context as settings of the policy, and over them what stands under `policy.settings`."""
    given: dict[str, object] = dict(config.settings.policy.settings)
    if config.policy_name != "digitorn":
        return given
    fields = msgspec.structs.asdict(config.context)
    del fields["summary_brain"]
    return {**fields, "auto_compact": config.auto_compact is not None, **given}


def policy_of(config: Config) -> Policy:
    """The policy a session is opened with. A setting it does not know is named with its file and line."""
    settings = policy_settings(config)
    try:
        return load(config.policy_name, settings)
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


def brain_target(config: Config, environment: Mapping[str, str]) -> Target:
    return target_of(config.agent.brain, config.settings.providers, environment)


def summary_target(config: Config, environment: Mapping[str, str]) -> Target:
    return target_of(config.summary_brain, config.settings.providers, environment)


def secret_values(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Every key and header of this configuration, for whoever masks what is written to files."""
    targets = brain_target(config, environment), summary_target(config, environment)
    used = msgspec.structs.replace(config.settings, agents=(config.agent,))
    found = [*(target.key for target in targets), *_secrets(used), *_secrets(config.context)]
    return tuple(dict.fromkeys(key for key in found if key))


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield str(value)
    for _, each in _inner(value) or ():
        yield from _secrets(each)


def tool_of(config: Config, module: str, action: str) -> str | None:
    """The tool behind an action, if the modules of this configuration offer it."""
    tool = MODULES.get(module, {}).get(action)
    modules = config.settings.modules
    if tool is None or modules is None:
        return tool
    if module not in modules:
        return None
    bounds = modules[module].constraints
    allowed = bounds.allowed_actions is None or action in bounds.allowed_actions
    return tool if allowed and action not in bounds.denied_actions else None


def offered_tools(config: Config) -> frozenset[str]:
    """The built-in tools this agent has. MCP servers bring their own."""
    if config.settings.modules is None:
        return TOOLS - {"hello"}
    named = {tool_of(config, module, action) for module, actions in MODULES.items() for action in actions}
    return frozenset(tool for tool in named if tool is not None) | KEPT


def approval_of(config: Config) -> Approval:
    given = config.settings.capabilities
    tools: dict[str, Verdict] = {}
    default: Verdict = "ask"
    if given.default_policy == "auto":
        tools = {**STANDARD.tools, "hello": "allow"}
    else:
        default = given.default_policy
    for name, verdict in given.tools.items():
        module, _, action = name.partition(".")
        tools[MODULES.get(module, {}).get(action, name)] = verdict
    return Approval(tools, given.allow_commands, given.deny_commands, default)


def check_names(config: Config) -> None:
    """Modules, actions and tools that a file names must exist."""
    settings, sources = config.settings, config.sources

    def known(name: str, names: Iterable[str], what: str, path: str) -> None:
        if name not in names:
            raise BadPolicy(f"{sources[path]}: unknown {what} {quoted(name)}.", nearest(name, names))

    for name, module in (settings.modules or {}).items():
        known(name, MODULES, "module", f"modules.{name}")
        for key in ("allowed_actions", "denied_actions"):
            for action in getattr(module.constraints, key) or ():
                known(action, MODULES[name], f"action of {name}", f"modules.{name}.constraints.{key}")
    for hook in settings.execution.hooks:
        if isinstance(hook.action, ModuleAction):
            path = f"execution.hooks.{hook.id}.action"
            known(hook.action.module, MODULES, "module", f"{path}.module")
            known(hook.action.action, MODULES[hook.action.module], "action", f"{path}.action")
    for name, server in settings.mcp.items():
        if bool(server.command) == bool(server.url):
            raise BadPolicy(
                f"{sources[f'mcp.{name}']}: the server {quoted(name)} has {'both' if server.url else 'neither'} a"
                f" command {'and' if server.url else 'nor'} a url.",
                "Give one of them.",
            )
    if (size := sum(map(len, settings.rules))) > MAX_RULES:
        raise BadPolicy(
            f"{sources['rules']}: the rules have {size:,} characters.", f"Keep them to {MAX_RULES:,} in all."
        )
    actions = {f"{module}.{action}" for module, found in MODULES.items() for action in found}
    for name in settings.capabilities.tools:
        if not any(sign in name for sign in ("*", "?", "[", "__")):  # tools of servers are known only when they run
            known(name, TOOLS | actions, "tool", f"capabilities.tools.{name}")


class Setting(NamedTuple):
    """One line of `tidegate config`. `value` is never a secret; `source` is file:line, a variable or `default`."""

    name: str
    value: str
    source: str


def effective(config: Config, environment: Mapping[str, str]) -> list[Setting]:
    """Every value this agent runs with, and where it comes from."""
    kept = msgspec.structs.replace(config.settings, agents=())
    found = list(_lines(config, kept, "", skip=frozenset({"agents", "execution.context", "policy.name"})))
    agent = f"agents.{config.agent.id}"
    found += _lines(config, config.agent, agent, skip=frozenset({f"{agent}.brain.context"}))
    found += _lines(config, config.context, "context", skip=frozenset())
    if config.auto_compact is not None:
        found.append(Setting(f"execution.hooks.{AUTO_COMPACT}", "true", "context.auto_compact"))
    because = "context" if config.policy_name == "digitorn" else "default"
    found.append(Setting("policy.name", config.policy_name, config.sources.get("policy.name", because)))
    found += _reached(config, "brain", brain_target(config, environment), f"{agent}.brain")
    if config.context.summary_brain is not None:
        found += _reached(config, "summary", summary_target(config, environment), "context.summary_brain")
    return found


def _reached(config: Config, name: str, target: Target, path: str) -> list[Setting]:
    """Where the requests of a brain really go."""

    def stands(source: str) -> str:
        return config.sources.get(source) or config.sources.get(f"{path}.{source}") or source

    address = Mask()(target.base_url) or "the provider's own"
    return [
        Setting(f"{name}.base_url", address, stands(target.base_url_source)),
        Setting(f"{name}.key", MASKED if target.key else "none", stands(target.key_source)),
        Setting(f"{name}.wire", target.wire, config.sources.get(f"{path}.backend", "default")),
    ]


def _lines(config: Config, value: object, path: str, *, skip: frozenset[str]) -> Iterable[Setting]:
    if path in skip:
        return
    inner = _inner(value)
    if inner is None:
        plain = isinstance(value, str) and value and value.isprintable()
        text = str(value) if plain else msgspec.json.encode(value).decode()
        shown = MASKED if path in config.hidden and value else Mask()(text)
        yield Setting(path, shown, config.sources.get(path, "default"))
        return
    for name, each in inner:
        yield from _lines(config, each, f"{path}.{name}" if path else name, skip=skip)


def _inner(value: object) -> list[tuple[str, object]] | None:
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
