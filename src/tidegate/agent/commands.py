"""All commands of a chat with an agent: those of what is kept, and those of the agent itself."""

from typing import Final, NamedTuple

from tidegate.agent.brains import EMBEDDED, KNOWN, target_of
from tidegate.agent.chosen import policy_of
from tidegate.agent.commands_config import config, names, opening_of
from tidegate.agent.commands_opening import Opening, overridden
from tidegate.agent.config import Cap
from tidegate.agent.hooks import action_name
from tidegate.agent.open import SKILLS, OpenAgent
from tidegate.agent.reach import hosted_keys
from tidegate.agent.skills import Skills
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line
from tidegate.keep.commands import Answer, Command, Place, Registry
from tidegate.keep.commands_kept import KEPT
from tidegate.keep.commands_kept import cost as session_cost
from tidegate.keep.data import DataFolder
from tidegate.models.catalog import model_of
from tidegate.presets import load
from tidegate.presets import names as presets


def registry() -> Registry:
    return Registry(COMMANDS)


def place_of(
    agent: OpenAgent, data: DataFolder | None, opening: Opening | None = None, *, busy: bool | None = None
) -> Place:
    """Where a command is given in a chat with this agent. It tells of this moment: make it anew for each command."""
    return Place(
        agent.session,
        agent.name,
        data,
        summarise=agent.agent.summarise,
        parts={each.name: each.tokens for each in agent.prompt.measured(agent.session.counter)},
        prices=agent.reached.prices,
        busy=agent.busy if busy is None else busy,
        agent=agent,
        opening=opening,
        rules=agent.config.settings.rules,
    )


def _agent(place: Place) -> OpenAgent:
    if not isinstance(place.agent, OpenAgent):
        raise BadInput("There is no agent here.", "Start with `tidegate chat`.")
    return place.agent


# --- model and policy -------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """A model that can be asked here. Prices are dollars for a million tokens; None: not known."""

    name: str
    window: int | None = None
    input: float | None = None
    output: float | None = None
    here: bool = False

    def __str__(self) -> str:
        window = f"{self.window:,} tokens" if self.window else "window not known"
        money = f", ${self.input:g} in, ${self.output:g} out" if self.input is not None else ""
        return f"{clean_line(self.name)}  {window}{money}{'  (this one)' if self.here else ''}"


def models(place: Place) -> list[Choice]:
    """The model in use, those the configuration names, and the embedded one."""
    opening = opening_of(place)
    found = opening.read().config
    brains = [found.agent.brain, *(each.brain for each in found.settings.agents)]
    named = [f"{brain.provider or EMBEDDED}/{brain.model}" for brain in brains if brain.model]
    named += [f"{found.agent.brain.provider or EMBEDDED}/{name}" for name in found.settings.models]
    now = f"{found.agent.brain.provider or EMBEDDED}/{place.session.model}"
    return [_choice(name, place, here=name == now) for name in dict.fromkeys([now, *named, EMBEDDED])]


def _choice(name: str, place: Place, *, here: bool) -> Choice:
    known = model_of(name.partition("/")[2], place.prices)
    rates = known.prices[0] if known is not None and known.prices else None
    window = place.session.window if here else known.window if known is not None else None
    return Choice(name, window, rates.input if rates else None, rates.output if rates else None, here)


async def model(place: Place, rest: str) -> Answer:
    opening = opening_of(place)
    if not rest:
        hosted = ", ".join(hosted_keys(opening.environment))
        hint = [f"There are keys for {hosted}: say PROVIDER/MODEL for any model of theirs."] if hosted else []
        return Answer("\n".join([*map(str, models(place)), *hint]), act="pick-model")
    place.still()
    read = opening._replace(model=rest).read().config
    target = target_of(read.agent.brain, read.settings.providers, opening.environment)
    known = KNOWN.get(target.provider)
    if known is not None and known.key_env and not target.key and target.base_url_source == "default":
        raise BadInput(f"There is no key for {target.provider}.", f"Set ${known.key_env}, and start again.")
    return Answer(
        f"{target.provider}/{target.model} answers from here on; the conversation goes on.", act=f"model {rest}"
    )


async def policy(place: Place, rest: str) -> Answer:
    if not rest:
        now = place.session.policy.name
        shown = [f"{name}{'  (this one)' * (name == now)}\n    {load(name).about.strip()}" for name in presets()]
        return Answer("\n".join(shown))
    place.still()
    found = policy_of(overridden(opening_of(place).read().config, policy=rest))
    return Answer(f"The policy {found.name} holds from here on.", act=f"policy {rest}")


# --- what the agent has -----------------------------------------------------------------------------------------------


async def skills(place: Place, rest: str) -> Answer:
    agent = _agent(place)
    folders = agent.config.settings.skills or SKILLS
    found = Skills(agent.agent.context.workspace / each for each in folders)
    if rest:
        return Answer(found.read(rest))
    lines = [f"{each.name}: {each.description}" for each in found.found.values()]
    return Answer("\n".join([*lines, *found.problems]) or f"There are no skills in {', '.join(folders)}.")


async def hooks(place: Place, rest: str) -> Answer:
    agent = _agent(place)
    found = list(agent.agent.hooks.hooks.values()) if agent.agent.hooks is not None else []
    own = agent.config.auto_compact
    lines = []
    for hook in [*found, *([own] if own is not None else [])]:
        condition = str(hook.condition.__struct_config__.tag)
        bounds = " ".join(str(getattr(hook.condition, name)) for name in hook.condition.__struct_fields__)
        rests = f", then rests {hook.cooldown:g} s" if hook.cooldown else ""
        lines.append(f"{hook.id}: on {hook.on}, if {condition} {bounds}".rstrip() + f": {action_name(hook)}{rests}")
    return Answer("\n".join(lines) or "There are no hooks.")


async def cost(place: Place, rest: str) -> Answer:
    """With the day and the caps, where an agent keeps them."""
    told = await session_cost(place, rest)
    if not isinstance(place.agent, OpenAgent):
        return told
    spending = place.agent.spending
    caps = [("session", spending.caps.session), ("day", spending.caps.day)]
    lines = [f"cap of the {name}: {_cap(cap)}" for name, cap in caps if cap != Cap()]
    today = spending.day_sum
    lines.insert(0, f"today, all sessions: {today.tokens:,} tokens, ${today.dollars:,.4f}")
    return told._replace(text="\n".join([told.text, *lines]))


def _cap(cap: Cap) -> str:
    told = [f"${cap.dollars:,.2f}"] if cap.dollars is not None else []
    return ", ".join([*told, *([f"{cap.tokens:,} tokens"] if cap.tokens is not None else [])])


COMMANDS: Final[tuple[Command, ...]] = (
    *(each._replace(run=cost) if each.name == "cost" else each for each in KEPT[:-1]),
    Command(
        "config",
        "the settings and where they stand; NAME VALUE sets one for good",
        config,
        "[NAME [VALUE]]",
        ("set",),
        names,
    ),
    Command(
        "model",
        "which model answers; NAME switches, the conversation goes on",
        model,
        "[NAME]",
        ("models",),
        lambda place: [each.name for each in models(place)] if place is not None else [],
    ),
    Command("policy", "how the window is kept; NAME switches", policy, "[NAME]", ("policies",), lambda _: presets()),
    Command("skills", "the skills of this project, or one of them", skills, "[NAME]"),
    Command("hooks", "what happens by itself at the start and end of turns", hooks),
    KEPT[-1],
)
