"""The slash commands about the agent: its settings, its model, its policy, its skills and its hooks."""

from typing import Final, NamedTuple

from tidegate.agent.config.editor import ChangedSetting
from tidegate.agent.config.effective_settings import list_effective_settings
from tidegate.agent.config.launch import override_config
from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, resolve_target
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.agent.hook_types import Hook, describe_condition
from tidegate.agent.hooks.runner import hook_action_name
from tidegate.agent.provider_connection import check_key, find_provider_keys
from tidegate.agent.runtime import DEFAULT_SKILL_FOLDERS, find_skills
from tidegate.commands.actions import (
    AttachOutput,
    ChooseTheme,
    LaunchChange,
    PickModel,
    ReopenSession,
    SwitchModel,
    SwitchPolicy,
)
from tidegate.commands.operation_command import make_command
from tidegate.commands.operations.config import CONFIG
from tidegate.commands.operations.policies import POLICIES
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.text.terminal_text import clean_line
from tidegate.models.catalog import find_model
from tidegate.presets import preset_names

CONNECT_TEXT: Final = """\
To connect a model, leave and start again.
With a key:
 export ANTHROPIC_API_KEY=...
 tidegate chat --model anthropic/claude-sonnet-4-5
With Ollama:
 tidegate chat --model ollama/qwen3:8b
With any OpenAI-compatible server:
 export TIDEGATE_OPENAI_BASE_URL=http://HOST/v1
 tidegate chat --model openai/NAME"""
"""How a user without a configured model gets one. Each line fits the narrowest screen, so that it can be copied."""

# --- model and policy -------------------------------------------------------------------------------------------------


class ModelChoice(NamedTuple):
    """A model that can be switched to. Prices are dollars per million tokens; None if not known."""

    name: str
    window: int | None = None
    input: float | None = None
    output: float | None = None
    is_current: bool = False

    def __str__(self) -> str:
        window = f"{self.window:,} tokens" if self.window else "window not known"
        money = f", ${self.input:g} in, ${self.output:g} out" if self.input is not None else ""
        return f"{clean_line(self.name)}  {window}{money}{'  (this one)' if self.is_current else ''}"


def list_model_choices(context: CommandContext) -> list[ModelChoice]:
    """List the model in use, those the configuration names, and the embedded one."""
    options = context.require_launch_options()
    config = options.load_config().config
    models = [config.agent.model, *(each.model for each in config.settings.agents)]
    names = [
        f"{agent_model.provider or EMBEDDED_PROVIDER}/{agent_model.model}"
        for agent_model in models
        if agent_model.model
    ]
    names += [f"{config.agent.model.provider or EMBEDDED_PROVIDER}/{name}" for name in config.settings.models]
    current = f"{config.agent.model.provider or EMBEDDED_PROVIDER}/{context.session.model}"
    return [
        _make_choice(name, context, is_current=name == current)
        for name in dict.fromkeys([current, *names, EMBEDDED_PROVIDER])
    ]


def _make_choice(name: str, context: CommandContext, *, is_current: bool) -> ModelChoice:
    model = find_model(name.partition("/")[2], context.model_overrides)
    rates = model.prices[0] if model is not None and model.prices else None
    window = context.session.window if is_current else model.window if model is not None else None
    return ModelChoice(name, window, rates.input if rates else None, rates.output if rates else None, is_current)


async def run_model(context: CommandContext, arguments: str) -> CommandAnswer:
    options = context.require_launch_options()
    if not arguments:
        hosted = ", ".join(find_provider_keys(options.environment))
        hint = [f"There are keys for {hosted}: type /model PROVIDER/MODEL for any of their models."] if hosted else []
        hint += [CONNECT_TEXT] if context.require_agent().connection.is_embedded else []
        return CommandAnswer("\n".join([*map(str, list_model_choices(context)), *hint]), action=PickModel())
    context.require_idle()
    config = options._replace(model=arguments).load_config().config
    target = resolve_target(config.agent.model, config.settings.providers, options.environment)
    check_key(target)
    return CommandAnswer(
        f"{target.provider}/{target.model} answers from now on; the conversation continues.",
        action=SwitchModel(arguments),
    )


async def run_policy(context: CommandContext, arguments: str) -> CommandAnswer:
    if not arguments:
        return await _LIST_POLICIES.run(context, "")
    context.require_idle()
    config = context.require_launch_options().load_config().config
    policy = load_configured_policy(override_config(config, policy=arguments))
    return CommandAnswer(f"The policy {policy.name} is used from now on.", action=SwitchPolicy(arguments))


def _make_launch_change(context: CommandContext, change: object) -> LaunchChange | None:
    """The file is to win over a policy or a model that was switched to before the change."""
    if not isinstance(change, ChangedSetting):
        return None
    options = context.require_launch_options()
    if change.path[0] == "policy" and options.policy:
        return SwitchPolicy()
    return SwitchModel() if change.path[2:3] == ("model",) and options.model else ReopenSession()


def _list_setting_names(context: CommandContext | None) -> list[str]:
    if context is None or context.launch_options is None:
        return []
    config = context.launch_options.load_config().config
    settings = list_effective_settings(config, context.launch_options.environment)
    return [*load_configured_policy(config).settings, *(each.name for each in settings)]


# --- what the agent has -----------------------------------------------------------------------------------------------


async def run_skills(context: CommandContext, arguments: str) -> CommandAnswer:
    agent = context.require_agent()
    folders = agent.config.settings.skills or DEFAULT_SKILL_FOLDERS
    skills = find_skills(agent.config, agent.agent.context.workspace)
    if arguments:
        return CommandAnswer(skills.read_body(arguments))
    lines = [f"{each.name}: {each.description}" for each in skills.by_name.values()]
    return CommandAnswer("\n".join([*lines, *skills.problems]) or f"There are no skills in {', '.join(folders)}.")


async def run_hooks(context: CommandContext, arguments: str) -> CommandAnswer:
    agent = context.require_agent()
    hooks = list(agent.agent.hooks.hooks.values()) if agent.agent.hooks is not None else []
    automatic = agent.config.auto_compact_hook
    return CommandAnswer(
        "\n".join(map(_format_hook, [*hooks, *([automatic] if automatic is not None else [])])) or "There are no hooks."
    )


def _format_hook(hook: Hook) -> str:
    cooldown = f", then rests {hook.cooldown:g} s" if hook.cooldown else ""
    return f"{hook.id}: on {hook.on}, if {describe_condition(hook.condition)}: {hook_action_name(hook)}{cooldown}"


async def run_add(context: CommandContext, arguments: str) -> CommandAnswer:
    return CommandAnswer("", action=AttachOutput())


async def run_theme(context: CommandContext, arguments: str) -> CommandAnswer:
    return CommandAnswer("", action=ChooseTheme(arguments))


_LIST_POLICIES: Final = make_command(POLICIES, "how the window is managed; NAME switches")
CHAT_COMMANDS: Final = (
    make_command(
        CONFIG, "the settings and their sources; NAME VALUE changes one in its file", make_action=_make_launch_change
    )._replace(aliases=("set",), completions=_list_setting_names),
    Command("add", "put the output of the last !command into your next message", run_add),
    Command("theme", "the colors; NAME switches and is kept", run_theme, "[NAME]", ("themes",)),
    Command(
        "model",
        "the models; NAME switches, the conversation continues",
        run_model,
        "[NAME]",
        ("models",),
        lambda context: [each.name for each in list_model_choices(context)] if context is not None else [],
    ),
    _LIST_POLICIES._replace(name="policy", run=run_policy, aliases=("policies",), completions=lambda _: preset_names()),
    Command("skills", "the skills of this project, or one of them", run_skills, "[NAME]"),
    Command("hooks", "the hooks that run at the start and end of turns", run_hooks),
)
