"""The settings an agent runs with, one by one, with their sources: the lines of `tidegate config`."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.agent.config.resolved_config import (
    IgnoredValue,
    ResolvedConfig,
    find_ignored_retention,
    resolve_model_target,
    resolve_summary_target,
)
from tidegate.agent.config.settings import list_setting_parts
from tidegate.agent.tools.command_rules import describe_command_rule
from tidegate.core.text.secrets import MASKED, SecretMask


class EffectiveSetting(NamedTuple):
    """One line of `tidegate config`.

    `value` is never a secret. `source` is file:line, a variable or `default`. `note` is a remark, for example that a
    value of the project's file was ignored.
    """

    name: str
    value: str
    source: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.value}  ({'; '.join(filter(None, (self.source, self.note)))})"


def list_effective_settings(config: ResolvedConfig, environment: Mapping[str, str]) -> list[EffectiveSetting]:
    """List every value this agent runs with, and where it comes from."""
    settings = msgspec.structs.replace(config.settings, agents=())
    rows = list(_flatten_settings(config, settings, "", skip=frozenset({"agents", "execution.context", "policy.name"})))
    agent = f"agents.{config.agent.id}"
    rows += _flatten_settings(config, config.agent, agent, skip=frozenset({f"{agent}.model.context"}))
    rows += _flatten_settings(config, config.context, "context", skip=frozenset())
    if config.automatic_rule:
        rows.append(EffectiveSetting(f"execution.hooks.{config.automatic_rule}", "true", "context.auto_compact"))
    source = "default" if config.policy_context is None else "context"
    rows.append(EffectiveSetting("policy.name", config.policy_name, config.sources.get("policy.name", source)))
    rows += _list_target_settings(config, "model", resolve_model_target(config, environment), f"{agent}.model")
    if config.context.summary_model is not None:
        rows += _list_target_settings(
            config, "summary", resolve_summary_target(config, environment), "context.summary_model"
        )
    return _add_notes(config, rows)


def _add_notes(config: ResolvedConfig, settings: list[EffectiveSetting]) -> list[EffectiveSetting]:
    """Add notes about the meaning of command rules and about ignored values, with a new line for a value that
    has none.
    """
    notes: dict[str, str] = {}
    for number, rule in enumerate(config.settings.capabilities.allow_commands, 1):
        notes[f"capabilities.allow_commands.{number}"] = describe_command_rule(rule)
    ignored: dict[str, list[IgnoredValue]] = {}
    values = config.user_limits.ignored_values if config.user_limits is not None else ()
    retention = find_ignored_retention(config)
    for each in values if retention is None else (*values, retention):
        ignored.setdefault(each.name, []).append(each)
    for name, entries in ignored.items():
        notes[name] = "; ".join(f"{each.source}: {SecretMask()(each.reason)}" for each in entries)
    names = {each.name for each in settings}
    more = [
        EffectiveSetting(name, "ignored", entries[0].source, notes[name])
        for name, entries in ignored.items()
        if name not in names
    ]
    return [*(each._replace(note=notes.get(each.name, "")) for each in settings), *more]


def _list_target_settings(
    config: ResolvedConfig, name: str, target: ProviderTarget, path: str
) -> list[EffectiveSetting]:
    """List where the requests to a model go."""

    def describe_source(source: str) -> str:
        return config.sources.get(source) or config.sources.get(f"{path}.{source}") or source

    address = SecretMask()(target.base_url) or "the provider's own"
    return [
        EffectiveSetting(f"{name}.base_url", address, describe_source(target.base_url_source)),
        EffectiveSetting(f"{name}.key", MASKED if target.api_key else "none", describe_source(target.key_source)),
        EffectiveSetting(f"{name}.wire", target.wire, config.sources.get(f"{path}.backend", "default")),
    ]


def _flatten_settings(
    config: ResolvedConfig, value: object, path: str, *, skip: frozenset[str]
) -> Iterable[EffectiveSetting]:
    if path in skip:
        return
    parts = list_setting_parts(value)
    if parts is None:
        plain = isinstance(value, str) and value and value.isprintable()
        text = str(value) if plain else msgspec.json.encode(value, enc_hook=str).decode()
        value_text = MASKED if path in config.hidden_paths and value else SecretMask()(text)
        yield EffectiveSetting(path, value_text, config.sources.get(path, "default"))
        return
    for name, each in parts:
        yield from _flatten_settings(config, each, f"{path}.{name}" if path else name, skip=skip)
