"""The resolved configuration of one agent, and what it resolves to: a policy, provider targets, secrets."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from tidegate.agent.config.provider_target import ProviderTarget, resolve_target
from tidegate.agent.config.settings import (
    AgentModel,
    AgentSettings,
    ContextSettings,
    FileSettings,
    PolicySettings,
    list_setting_parts,
)
from tidegate.agent.hook_types import CompactContext, ContextPressure, Hook
from tidegate.agent.tools.approval import ApprovalRules
from tidegate.core.errors import BadPolicy
from tidegate.core.policy.policy import Policy, PolicyContext
from tidegate.core.text.secrets import SecretString
from tidegate.presets import DEFAULT_PRESET, list_context_presets, load

COMMON_CONTEXT_KEYS = frozenset({"max_tokens", "output_reserved", "summary_model"})
"""The keys of a context that the agent reads itself; the others need a policy that takes them over."""


class IgnoredValue(NamedTuple):
    """A value of the project's file that has no effect: the user's own file is stricter, or only it may set this."""

    name: str
    source: str
    reason: str


class UserLimits(msgspec.Struct, frozen=True):
    """The user's own file, as far as it limits a project's file (see `limits`).

    `approvals` are the rules for tools of the user's own file and of the project's file.
    """

    user_settings: FileSettings
    approvals: tuple[ApprovalRules, ...]
    ignored_values: tuple[IgnoredValue, ...]
    project_file: str


class ResolvedConfig(msgspec.Struct, frozen=True):
    """The settings of one agent, from all files.

    `context` is that of the agent's model, merged over that of the execution; `declared_context_keys` are its keys that
    a file gives. `sources` has the position of each setting that a file gives, by its path. Values of `hidden_paths`
    are shown masked. `user_limits` is None unless a project's file was combined with the user's own. `project_policy`
    is True if a project's file chose the policy. `unused_keys` are the keys of another system's file that have no
    meaning here.
    """

    settings: FileSettings
    agent: AgentSettings
    context: ContextSettings
    declared_context_keys: frozenset[str]
    sources: Mapping[str, str]
    hidden_paths: frozenset[str]
    user_limits: UserLimits | None = None
    project_policy: bool = False
    unused_keys: tuple[str, ...] = ()

    @property
    def policy_name(self) -> str:
        """The name a file gives; else a preset that takes over the declared context, if any; else the default."""
        keys = self.declared_context_keys - COMMON_CONTEXT_KEYS
        presets = list_context_presets(keys) if keys else ()
        return self.settings.policy.name or next(iter(presets), DEFAULT_PRESET)

    @property
    def policy_context(self) -> PolicyContext | None:
        """The part of the context that the policy takes over. `load_configured_policy` reports a bad policy."""
        try:
            return load(self.policy_name, import_stages=not self.project_policy).context
        except BadPolicy:
            return None

    @property
    def automatic_rule(self) -> str:
        """The id of the policy's rule that compacts automatically; "" if there is none or it is switched off."""
        context = self.policy_context
        compacts = any(isinstance(hook.action, CompactContext) for hook in self.hooks)
        return context.automatic_rule if context is not None and self.context.auto_compact and not compacts else ""

    @property
    def window(self) -> int | None:
        """The window in tokens that a file sets, else None: it is then learned from the provider or looked up."""
        windows = [_configured_window(self.settings, self.context, self.agent.model.model)]
        if self.user_limits is not None:
            own = self.user_limits.user_settings
            windows.append(_configured_window(own, own.execution.context, self.agent.model.model))
        return min((each for each in windows if each and isinstance(each, int)), default=None)

    @property
    def output_reserve(self) -> int | None:
        return self.context.output_reserved if "output_reserved" in self.declared_context_keys else None

    @property
    def summary_model(self) -> AgentModel:
        return self.context.summary_model or self.agent.model

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return self.settings.execution.hooks

    @property
    def auto_compact_hook(self) -> Hook | None:
        """The automatic rule as a hook, to show it. The policy runs it; it is not declared under `hooks`."""
        name = self.automatic_rule
        if not name:
            return None
        rules = load_configured_policy(self).moments.get("before_call", ())
        cooldown = next((rule.cooldown_seconds for rule in rules if rule.name == name), 0.0)
        context = self.context
        action = CompactContext(context.strategy, context.keep_recent, context.summary_max_tokens)
        return Hook(name, ContextPressure(context.compression_trigger), action, "turn_start", cooldown)


def _configured_window(settings: FileSettings, context: ContextSettings | None, model: str) -> int | None:
    own = settings.models.get(model)
    return (context.max_tokens if context else 0) or (own.window if own else None) or settings.window


def make_policy_settings(config: ResolvedConfig) -> dict[str, object]:
    """Return the settings of the policy: `policy.settings`, over the part of the context that the policy takes over."""
    settings: dict[str, object] = dict(config.settings.policy.settings)
    context = config.policy_context
    if context is None:
        return settings
    values = {**msgspec.structs.asdict(config.context), "auto_compact": bool(config.automatic_rule)}
    return {**{name: value for name, value in values.items() if name in context.settings}, **settings}


def load_configured_policy(config: ResolvedConfig) -> Policy:
    """Load the policy that a session is opened with. An error names the file and line of the setting."""
    settings, trusted = make_policy_settings(config), not config.project_policy
    try:
        return _keep_retention(config, load(config.policy_name, settings, import_stages=trusted))
    except BadPolicy as error:
        for name in config.settings.policy.settings:
            try:
                load(config.policy_name, {name: settings[name]}, import_stages=trusted)
            except BadPolicy as setting_error:
                source = config.sources.get(f"policy.settings.{name}", "policy.settings")
                raise BadPolicy(f"{source}: {setting_error.args[0]}", setting_error.remedy) from None
        if name_source := config.sources.get("policy.name"):
            raise BadPolicy(f"{name_source}: {error.args[0]}", error.remedy) from None
        raise


def _keep_retention(config: ResolvedConfig, policy: Policy) -> Policy:
    """Ignore the retention of a project's policy: a project's file must not delete sessions of the user."""
    return msgspec.structs.replace(policy, retention=_own_retention(config)) if config.project_policy else policy


def _own_retention(config: ResolvedConfig) -> int:
    """The days after which the policy of the user's own file removes a session; 0 is never."""
    own = config.user_limits.user_settings.policy if config.user_limits is not None else PolicySettings()
    return load(own.name, dict(own.settings)).retention if own.name else 0


def find_ignored_retention(config: ResolvedConfig) -> IgnoredValue | None:
    """Return the retention of a project's policy, which only the user's own file may set. None if it has no effect."""
    days = 0
    if config.project_policy:
        with suppress(BadPolicy):  # `load_configured_policy` reports it
            days = load(config.policy_name, make_policy_settings(config), import_stages=False).retention
    if not days or days == _own_retention(config):
        return None
    duration = f"{days:,} {'day' if days == 1 else 'days'}"
    reason = f"the retention of {duration} is ignored: a project's file cannot remove your sessions"
    return IgnoredValue("policy.name", config.sources.get("policy.name", ""), reason)


def resolve_model_target(config: ResolvedConfig, environment: Mapping[str, str]) -> ProviderTarget:
    return resolve_target(config.agent.model, config.settings.providers, environment)


def resolve_summary_target(config: ResolvedConfig, environment: Mapping[str, str]) -> ProviderTarget:
    return resolve_target(config.summary_model, config.settings.providers, environment)


def collect_secret_values(config: ResolvedConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return every key and header of this configuration, so that they can be masked in files."""
    targets = resolve_model_target(config, environment), resolve_summary_target(config, environment)
    own_settings = msgspec.structs.replace(config.settings, agents=(config.agent,))
    secrets = [
        *(target.api_key for target in targets),
        *_iterate_secrets(own_settings),
        *_iterate_secrets(config.context),
    ]
    return tuple(dict.fromkeys(key for key in secrets if key))


def _iterate_secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretString):
        yield str(value)
    for _, each in list_setting_parts(value) or ():
        yield from _iterate_secrets(each)
