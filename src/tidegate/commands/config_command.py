"""`/config`: show the settings of the agent and where they come from, or change one in its file."""

from collections.abc import Iterator
from typing import Final

from tidegate.agent.config.editor import ChangedSetting, change_setting
from tidegate.agent.config.effective_settings import list_effective_settings
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.commands.actions import LaunchChange, ReopenSession, SwitchModel, SwitchPolicy
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.policy.policy import Policy


async def run_config(context: CommandContext, arguments: str) -> CommandAnswer:
    options = context.require_launch_options()
    name, _, value = arguments.partition(" ")
    if value.strip():
        context.require_idle()
        changed = change_setting(options, name, " ".join(value.split()))
        also = f", with policy.name {changed.written_policy}" if changed.written_policy else ""
        text = f"{changed.name} is {changed.value} from now on, in {changed.file}{also}."
        return CommandAnswer(text, action=_launch_change(options, changed))
    config = options.load_config().config
    settings = list_effective_settings(config, options.environment)
    matching = [each for each in settings if name in each.name]
    if not matching:
        return CommandAnswer(
            f"No setting has {quote_value(name)} in its name. {suggest_name(name, [each.name for each in settings])}",
            True,
        )
    width = max(len(each.name) for each in matching)
    policy_lines = [] if name else _list_policy_settings(load_configured_policy(config))
    return CommandAnswer("\n".join([*(f"{each.name:{width}}  {each}" for each in matching), *policy_lines]))


def _launch_change(options: LaunchOptions, changed: ChangedSetting) -> LaunchChange:
    """The file is to win over a policy or a model that was switched to before the change."""
    if changed.path[0] == "policy" and options.policy:
        return SwitchPolicy()
    return SwitchModel() if changed.path[2:3] == ("model",) and options.model else ReopenSession()


def _list_policy_settings(policy: Policy) -> Iterator[str]:
    """List the settings of the policy that no file gives: these can be set by their names, too."""
    yield f"settings of the policy {policy.name}:"
    yield from (f"  {name}  {value}" for name, value in policy.settings.items())


def _list_setting_names(context: CommandContext | None) -> list[str]:
    if context is None or context.launch_options is None:
        return []
    config = context.launch_options.load_config().config
    settings = list_effective_settings(config, context.launch_options.environment)
    return [*load_configured_policy(config).settings, *(each.name for each in settings)]


CONFIG_COMMAND: Final = Command(
    "config",
    "the settings and their sources; NAME VALUE changes one in its file",
    run_config,
    "[NAME [VALUE]]",
    ("set",),
    _list_setting_names,
)
