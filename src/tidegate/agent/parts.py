"""The parts of an agent, each made from its configuration: prompt, session, tools, kinds of subagents, summariser."""

import asyncio
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate.agent.chosen import Config, brain_target, offered_tools, policy_of, secret_values, summary_target
from tidegate.agent.modules import HELLO
from tidegate.agent.prompt import RULES, SHORT_RULES, Prompt, Sources, assemble
from tidegate.agent.reach import Reached, reach
from tidegate.agent.skills import Skills
from tidegate.agent.spend import Metered, Spending
from tidegate.agent.subagents import PATIENCE, Kind, Opened
from tidegate.agent.tools.tool import AgentTool, Context
from tidegate.agent.tools.toolbox import compacted, standard_tools
from tidegate.core.messages import Tool
from tidegate.core.secrets import Mask, keys_of
from tidegate.core.tokens import Counter, count_tools
from tidegate.keep.data import DataFolder
from tidegate.models.provider import Provider
from tidegate.session.background import Ahead
from tidegate.session.drive import SummariseAsync
from tidegate.session.session import Session
from tidegate.session.settle import summariser
from tidegate.wire.limits import MAX_TOOLS

SMALL: Final = 4_096
"""Below this window the rules are the short ones."""
WHOLE: Final = 16
FEW: Final = 4
"""Tools are described in full in up to a sixteenth of the window, and never take more than a quarter of it."""
FIRST: Final = "recall read list grep edit write shell task memory_search memory_write skills compact hello".split()
"""Which tools stay where not all fit."""
_ASKED: Final = (
    "You are asked by another agent, which sees nothing of your work but your last message: put the answer there."
)


class Parts(NamedTuple):
    """Where an agent works: what every part is made from. What is opened is closed with `stack`."""

    data: DataFolder | None
    workspace: Path
    environment: Mapping[str, str]
    stack: AsyncExitStack

    def hide(self, config: Config) -> Mask:
        """The mask for what this agent writes, with the keys of the configuration and of the environment."""
        mask = Mask() if self.data is None else self.data.mask
        mask.add([*keys_of(self.environment), *secret_values(config, self.environment)])
        return mask

    @property
    def clock(self) -> Callable[[], float]:
        return time.time if self.data is None else self.data.clock

    async def reach(self, config: Config, provider: Provider | None = None) -> Reached:
        self.hide(config)
        folder = self.data.folder if self.data is not None else None
        brain = config.agent.brain
        return await reach(
            config, brain, self.environment, folder, stack=self.stack, window=config.window, provider=provider
        )

    def prompt(self, config: Config, reached: Reached, skills: Skills, *, domain: str = "") -> Prompt:
        window = reached.window.tokens
        sources = Sources(
            rules=SHORT_RULES if window is not None and window < SMALL else RULES,
            domain=f"{config.agent.system_prompt}\n{domain}",
            project=self.workspace,
            skills=skills if reached.tools else None,
            notes=self.data.notes if self.data is not None and reached.tools else None,
            pinned=config.settings.rules,
            facts={
                "date": datetime.fromtimestamp(self.clock(), UTC).date().isoformat(),
                "folder": str(self.workspace),
                "system": platform.system(),
            },
        )
        room = 8_000 if window is None else min(8_000, window // FEW)
        return assemble(sources, room=room, counter=reached.counter)

    def session(self, config: Config, reached: Reached, name: str, system: str, *, restore: bool = True) -> Session:
        brain = config.agent.brain
        options: dict[str, Any] = {
            "policy": policy_of(config),
            "window": reached.window.tokens,
            "wire": reached.provider.wire,
            "system": system,
            "count": reached.counter,
            "reserve": config.reserve if config.reserve is not None else brain.max_output,
            "max_tokens": reached.max_tokens,
            "cache": True,
            "temperature": brain.temperature,
            "top_p": brain.top_p,
            "clock": self.clock,
            "prices": reached.prices,
        }
        model = reached.provider.model
        if self.data is None:
            return Session(model, **options)
        return self.data.open(name, model, restore=restore, **options)

    def context(self, session: Session, name: str) -> Context:
        folder = self.data.files(name).root if self.data is not None else None
        return Context(
            self.workspace, session, session_folder=folder, session_name=name, data=self.data, clock=self.clock
        )

    async def tools(self, config: Config, skills: Skills) -> "Found":
        offered = offered_tools(config)
        built: list[AgentTool] = [*standard_tools(skills, memory=self.data is not None), HELLO]
        tools = [each for each in built if each.tool.name in offered]
        served = await self._served(config)
        room = MAX_TOOLS - len(tools) - 1  # one for `task`
        if len(served.tools) > room:
            left_out = len(served.tools) - room
            remark = f"{left_out:,} tools of MCP servers are left out: a model is offered at most {MAX_TOOLS} tools."
            served = Found(served.tools[:room], [*served.faults, f"{remark} Use fewer servers (mcp) in one agent."])
        return Found([*tools, *served.tools], served.faults)

    async def _served(self, config: Config) -> "Found":
        """The tools of all MCP servers, started at the same time: one that hangs makes nobody else late."""
        if not config.settings.mcp:
            return Found([], [])
        try:
            from tidegate.agent.tools.mcp import McpServer, McpSource  # noqa: PLC0415 - an extra
        except ImportError as missing:
            names = ", ".join(config.settings.mcp)
            return Found([], [f"These servers cannot be used: {names}: {missing}. Install 'tidegate[mcp]'."])
        sources = [
            McpSource(
                McpServer(name, (each.command, *each.args) if each.command else (), each.env, each.url, each.headers)
            )
            for name, each in config.settings.mcp.items()
        ]
        for source in sources:
            self.stack.push_async_callback(source.close)
        found = [tool for tools in await asyncio.gather(*(each.start() for each in sources)) for tool in tools]
        named = {tool.tool.name: tool for tool in reversed(found)}  # of two by one name the first is meant
        return Found([named[name] for name in reversed(named)], [each.fault for each in sources if each.fault])

    async def kinds(
        self,
        config: Config,
        reached: Reached,
        specialists: Sequence[Config],
        tools: Sequence[AgentTool],
        skills: Skills,
    ) -> dict[str, Kind]:
        """The agent itself under another hat, and one kind for each specialist."""
        kinds = {"general": self._kind(config, reached, tools, skills, "the same model and tools as yours")}
        for each in specialists:
            about = each.agent.description or each.agent.role
            kinds[each.agent.id] = self._kind(each, await self.reach(each), tools, skills, about)
        return kinds

    def _kind(self, config: Config, reached: Reached, tools: Sequence[AgentTool], skills: Skills, about: str) -> Kind:
        system = self.prompt(config, reached, skills, domain=_ASKED).text
        numbers: dict[str, int] = {}

        def opened(asker: str, shown: Sequence[Tool]) -> Opened:
            number = numbers.get(asker, 0) + 1
            while self.data is not None and self.data.store.head(f"{asker}.task-{number}"):
                number += 1
            numbers[asker] = number
            name = f"{asker}.task-{number}"
            session = self.session(config, reached, name, system)
            session.set_tools(described(shown, reached, session.counter))
            return Opened(session, name, self.data.files(name).root if self.data is not None else None)

        return Kind(about, reached.provider, tools if reached.tools else (), opened)

    async def summarise(
        self, config: Config, reached: Reached, session: Session, spending: Spending
    ) -> SummariseAsync | None:
        """By the summary brain or the main one; never by an embedded one unasked: the digest is better, and at once."""
        brain, own, mask = config.context.summary_brain, reached, None
        if brain is None and reached.embedded:
            return None
        if brain is not None:
            mask = self._mask_from(config)
            folder = self.data.folder if self.data is not None else None
            own = await reach(config, brain, self.environment, folder, stack=self.stack)
        summarise = summariser(
            Metered(own.provider, [spending]),
            window=own.window.tokens,
            counter=own.counter,
            timeout=(brain or config.agent.brain).timeout or PATIENCE,
            conversation=session,
            mask=mask,
        )
        if config.settings.execution.background:
            ahead = Ahead(session, summarise)
        elif session.policy.settings.get("background"):  # its own rules say when
            ahead = Ahead(session, summarise, margin=0.0, moments=("turn_end",))
        else:
            return summarise
        self.stack.push_async_callback(ahead.close)
        return ahead

    def _mask_from(self, config: Config) -> Callable[[str], str] | None:
        """What hides secrets from the summary brain. One that runs here, or at the same provider, may see them."""
        own, other = (each(config, self.environment) for each in (brain_target, summary_target))
        if other.embedded or (own.provider, own.base_url) == (other.provider, other.base_url):
            return None if (own.model, own.wire) == (other.model, other.wire) else str
        return self.hide(config)


class Found(NamedTuple):
    tools: list[AgentTool]
    faults: list[str]


class Suited(NamedTuple):
    """The tools that are offered, and what the model is told of them."""

    tools: list[AgentTool]
    shown: list[Tool]


def described(tools: Sequence[Tool], reached: Reached, counter: Counter) -> list[Tool]:
    """What a model is told of its tools: in a small window in few words."""
    if not reached.tools:
        return []
    window = reached.window.tokens
    if window is None or count_tools(tuple(tools), counter) * WHOLE <= window:
        return list(tools)
    return [compacted(tool) for tool in tools]


def fitting(tools: Sequence[AgentTool], reached: Reached, counter: Counter) -> Suited:
    """Where even few words for each are too many, only the first tools stay."""
    shown, window = described([each.tool for each in tools], reached, counter), reached.window.tokens
    if not shown or window is None or count_tools(tuple(shown), counter) * FEW <= window:
        return Suited(list(tools) if shown else [], shown)
    kept = Suited([], [])
    for each, told in sorted(zip(tools, shown, strict=True), key=_rank):
        if count_tools((*kept.shown, told), counter) * FEW <= window:
            kept.tools.append(each)
            kept.shown.append(told)
    return kept


def _rank(pair: tuple[AgentTool, Tool]) -> int:
    name = pair[1].name
    return FIRST.index(name) if name in FIRST else len(FIRST)
