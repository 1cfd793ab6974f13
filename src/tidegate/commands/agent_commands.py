"""All commands of a chat with an agent: those of what is kept, and those of the agent itself."""

from typing import Final, NamedTuple

from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, KNOWN_PROVIDERS, resolve_target
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.agent.config.settings import SpendCap
from tidegate.agent.hooks.runner import hook_action_name
from tidegate.agent.provider_connection import find_provider_keys
from tidegate.agent.runtime import DEFAULT_SKILL_FOLDERS, OpenAgent
from tidegate.agent.skills import Skills
from tidegate.commands.agent_launch import LaunchOptions, override_config
from tidegate.commands.config_command import complete_setting_names, require_launch_options, run_config
from tidegate.commands.registry import Command, CommandAnswer, CommandContext, CommandRegistry
from tidegate.commands.sessions import SESSION_COMMANDS
from tidegate.commands.sessions import run_session_cost as session_cost
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.catalog import find_model
from tidegate.presets import load
from tidegate.presets import preset_names as presets


def create_command_registry() -> CommandRegistry:
    return CommandRegistry(CHAT_COMMANDS)


def make_command_context(
    agent: OpenAgent, data: DataFolder | None, opening: LaunchOptions | None = None, *, busy: bool | None = None
) -> CommandContext:
    """Where a command is given in a chat with this agent. It tells of this moment: make it anew for each command."""
    return CommandContext(
        agent.session,
        agent.session_name,
        data,
        summarizer=agent.agent.summarizer,
        prompt_parts={each.name: each.tokens for each in agent.prompt.measure_parts(agent.session.counter)},
        model_overrides=agent.connection.model_overrides,
        is_busy=agent.is_busy if busy is None else busy,
        agent=agent,
        launch_options=opening,
        rules=agent.config.settings.rules,
    )


def _require_agent(place: CommandContext) -> OpenAgent:
    if not isinstance(place.agent, OpenAgent):
        raise BadInput("There is no agent here.", "Start with `tidegate chat`.")
    return place.agent


# --- model and policy -------------------------------------------------------------------------------------------------


class ModelChoice(NamedTuple):
    """A model that can be asked here. Prices are dollars for a million tokens; None: not known."""

    name: str
    window: int | None = None
    input: float | None = None
    output: float | None = None
    is_current: bool = False

    def __str__(self) -> str:
        window = f"{self.window:,} tokens" if self.window else "window not known"
        money = f", ${self.input:g} in, ${self.output:g} out" if self.input is not None else ""
        return f"{clean_line(self.name)}  {window}{money}{'  (this one)' if self.is_current else ''}"


def list_model_choices(place: CommandContext) -> list[ModelChoice]:
    """The model in use, those the configuration names, and the embedded one."""
    opening = require_launch_options(place)
    found = opening.load_config().config
    brains = [found.agent.brain, *(each.brain for each in found.settings.agents)]
    named = [f"{brain.provider or EMBEDDED_PROVIDER}/{brain.model}" for brain in brains if brain.model]
    named += [f"{found.agent.brain.provider or EMBEDDED_PROVIDER}/{name}" for name in found.settings.models]
    now = f"{found.agent.brain.provider or EMBEDDED_PROVIDER}/{place.session.model}"
    return [_make_choice(name, place, here=name == now) for name in dict.fromkeys([now, *named, EMBEDDED_PROVIDER])]


def _make_choice(name: str, place: CommandContext, *, here: bool) -> ModelChoice:
    known = find_model(name.partition("/")[2], place.model_overrides)
    rates = known.prices[0] if known is not None and known.prices else None
    window = place.session.window if here else known.window if known is not None else None
    return ModelChoice(name, window, rates.input if rates else None, rates.output if rates else None, here)


async def run_model(place: CommandContext, rest: str) -> CommandAnswer:
    opening = require_launch_options(place)
    if not rest:
        hosted = ", ".join(find_provider_keys(opening.environment))
        hint = [f"There are keys for {hosted}: say PROVIDER/MODEL for any model of theirs."] if hosted else []
        return CommandAnswer("\n".join([*map(str, list_model_choices(place)), *hint]), action="pick-model")
    place.require_idle()
    read = opening._replace(model=rest).load_config().config
    target = resolve_target(read.agent.brain, read.settings.providers, opening.environment)
    known = KNOWN_PROVIDERS.get(target.provider)
    if known is not None and known.key_env and not target.api_key and target.base_url_source == "default":
        raise BadInput(f"There is no key for {target.provider}.", f"Set ${known.key_env}, and start again.")
    return CommandAnswer(
        f"{target.provider}/{target.model} answers from here on; the conversation goes on.", action=f"model {rest}"
    )


async def run_policy(place: CommandContext, rest: str) -> CommandAnswer:
    if not rest:
        now = place.session.policy.name
        shown = [f"{name}{'  (this one)' * (name == now)}\n    {load(name).about.strip()}" for name in presets()]
        return CommandAnswer("\n".join(shown))
    place.require_idle()
    found = load_configured_policy(override_config(require_launch_options(place).load_config().config, policy=rest))
    return CommandAnswer(f"The policy {found.name} holds from here on.", action=f"policy {rest}")


# --- what the agent has -----------------------------------------------------------------------------------------------


async def run_skills(place: CommandContext, rest: str) -> CommandAnswer:
    agent = _require_agent(place)
    folders = agent.config.settings.skills or DEFAULT_SKILL_FOLDERS
    found = Skills(agent.agent.context.workspace / each for each in folders)
    if rest:
        return CommandAnswer(found.read_body(rest))
    lines = [f"{each.name}: {each.description}" for each in found.by_name.values()]
    return CommandAnswer("\n".join([*lines, *found.problems]) or f"There are no skills in {', '.join(folders)}.")


async def run_hooks(place: CommandContext, rest: str) -> CommandAnswer:
    agent = _require_agent(place)
    found = list(agent.agent.hooks.hooks.values()) if agent.agent.hooks is not None else []
    own = agent.config.auto_compact_hook
    lines = []
    for hook in [*found, *([own] if own is not None else [])]:
        condition = str(hook.condition.__struct_config__.tag)
        bounds = " ".join(str(getattr(hook.condition, name)) for name in hook.condition.__struct_fields__)
        rests = f", then rests {hook.cooldown:g} s" if hook.cooldown else ""
        lines.append(
            f"{hook.id}: on {hook.on}, if {condition} {bounds}".rstrip() + f": {hook_action_name(hook)}{rests}"
        )
    return CommandAnswer("\n".join(lines) or "There are no hooks.")


async def run_cost(place: CommandContext, rest: str) -> CommandAnswer:
    """With the day and the caps, where an agent keeps them."""
    told = await session_cost(place, rest)
    if not isinstance(place.agent, OpenAgent):
        return told
    spending = place.agent.spending
    caps = [("session", spending.caps.session), ("day", spending.caps.day)]
    lines = [f"cap of the {name}: {_format_cap(cap)}" for name, cap in caps if cap != SpendCap()]
    today = spending.day_total
    lines.insert(0, f"today, all sessions: {today.tokens:,} tokens, ${today.dollars:,.4f}")
    return told._replace(text="\n".join([told.text, *lines]))


def _format_cap(cap: SpendCap) -> str:
    told = [f"${cap.dollars:,.2f}"] if cap.dollars is not None else []
    return ", ".join([*told, *([f"{cap.tokens:,} tokens"] if cap.tokens is not None else [])])


CHAT_COMMANDS: Final[tuple[Command, ...]] = (
    *(each._replace(run=run_cost) if each.name == "cost" else each for each in SESSION_COMMANDS[:-1]),
    Command(
        "config",
        "the settings and where they stand; NAME VALUE sets one for good",
        run_config,
        "[NAME [VALUE]]",
        ("set",),
        complete_setting_names,
    ),
    Command(
        "model",
        "which model answers; NAME switches, the conversation goes on",
        run_model,
        "[NAME]",
        ("models",),
        lambda place: [each.name for each in list_model_choices(place)] if place is not None else [],
    ),
    Command(
        "policy", "how the window is kept; NAME switches", run_policy, "[NAME]", ("policies",), lambda _: presets()
    ),
    Command("skills", "the skills of this project, or one of them", run_skills, "[NAME]"),
    Command("hooks", "what happens by itself at the start and end of turns", run_hooks),
    SESSION_COMMANDS[-1],
)
