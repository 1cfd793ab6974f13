"""Builds the parts of an agent from its configuration: prompt, session, tools, kinds of subagents, summarizer."""

import asyncio
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.agent.config.resolved_config import (
    ResolvedConfig,
    collect_secret_values,
    load_configured_policy,
    resolve_model_target,
    resolve_summary_target,
)
from tidegate.agent.config.settings import AgentModel
from tidegate.agent.config.tool_access import is_tool_allowed, list_offered_tools, uses_discovery
from tidegate.agent.hooks.actions import make_action_runner
from tidegate.agent.hooks.runner import HookRunner
from tidegate.agent.provider_connection import ProviderConnection, connect_provider
from tidegate.agent.skills import Skills
from tidegate.agent.spending import DailySpending, SessionSpending
from tidegate.agent.subagents import TASK_TOOL_NAME, SubagentKind, SubagentSession
from tidegate.agent.summary_writer import SummaryWriter
from tidegate.agent.system_prompt import (
    AGENT_RULES,
    SHORT_AGENT_RULES,
    PromptSources,
    SystemPrompt,
    assemble_prompt,
)
from tidegate.agent.tools.context_tools import EARLIER_RECALL_TOOL, RECALL_TOOL
from tidegate.agent.tools.modules import HELLO_TOOL
from tidegate.agent.tools.plugin_tools import load_tool_plugin
from tidegate.agent.tools.tool import AgentTool, ToolContext
from tidegate.agent.tools.toolbox import Toolbox, list_standard_tools, shorten_definition
from tidegate.core.errors import BadInput
from tidegate.core.messages import Tool
from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.core.tokens.counting import TokenCounter, count_tools
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.earlier_sessions import EarlierSessions
from tidegate.models.provider import Provider
from tidegate.models.window import ResolvedWindow
from tidegate.plugins import find_plugin
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.wire.limits import MAX_TOOLS

_SMALL_WINDOW: Final = 4_096
"""Tokens. A smaller window gets the short rules."""
_FULL_DESCRIPTIONS_DIVISOR: Final = 16
MAX_TOOLS_DIVISOR: Final = 4
"""Tools are described in full in up to a sixteenth of the window, and never take more than a quarter of it."""
_TOOL_PRIORITY: Final = (
    "recall read list grep edit write shell task memory_search memory_write skills compact hello".split()
)
"""The order in which tools are offered if not all fit."""
_SUBAGENT_INSTRUCTIONS: Final = (
    "You are asked by another agent, which sees nothing of your work but your last message: put the answer there."
)


class AgentBuilder(NamedTuple):
    """Builds the parts of an agent. Everything it opens is closed with `stack`.

    `summary_connections` are those of summary models: the agent and its subagents share them.
    """

    data: DataFolder | None
    workspace: Path
    environment: Mapping[str, str]
    stack: AsyncExitStack
    summary_connections: list[tuple[AgentModel, ProviderConnection]]

    def extend_mask(self, config: ResolvedConfig) -> SecretMask:
        """Add the secrets of the configuration and of the environment to the mask of the data folder, and return it."""
        mask = SecretMask() if self.data is None else self.data.mask
        mask.add([*keys_of(self.environment), *collect_secret_values(config, self.environment)])
        return mask

    @property
    def clock(self) -> Callable[[], float]:
        return time.time if self.data is None else self.data.clock

    async def connect(self, config: ResolvedConfig, provider: Provider | None = None) -> ProviderConnection:
        self.extend_mask(config)
        agent_model = config.agent.model
        window = config.window or load_configured_policy(config).window or None
        return await connect_provider(
            config, agent_model, self.environment, self.data, stack=self.stack, window=window, provider=provider
        )

    def build_prompt(
        self, config: ResolvedConfig, connection: ProviderConnection, skills: Skills, *, domain: str = ""
    ) -> SystemPrompt:
        window = connection.window.tokens
        sources = PromptSources(
            rules=SHORT_AGENT_RULES if window is not None and window < _SMALL_WINDOW else AGENT_RULES,
            domain_prompt=f"{config.agent.system_prompt}\n{domain}",
            project_folder=self.workspace,
            skills=skills if connection.supports_tools else None,
            notes=self.data.notes if self.data is not None and connection.supports_tools else None,
            user_rules=config.settings.rules,
            facts={
                "date": datetime.fromtimestamp(self.clock(), UTC).date().isoformat(),
                "folder": str(self.workspace),
                "system": platform.system(),
            },
        )
        room = 8_000 if window is None else min(8_000, window // MAX_TOOLS_DIVISOR)
        return assemble_prompt(sources, max_tokens=room, counter=connection.counter)

    def open_session(
        self,
        config: ResolvedConfig,
        connection: ProviderConnection,
        name: str,
        system: str,
        *,
        restore: bool = True,
        keep_empty: bool = True,
    ) -> Session:
        agent_model, policy, window = config.agent.model, load_configured_policy(config), connection.window
        options: dict[str, Any] = {
            "policy": policy,
            "window": window.tokens
            if window.source == "setting" or window.tokens is None
            else policy.choose_window(window.tokens),
            "wire": connection.provider.wire,
            "system": system,
            "count": connection.counter,
            "reserve": config.output_reserve if config.output_reserve is not None else agent_model.max_output,
            "max_tokens": connection.max_output_tokens,
            "cache": True,
            "request_options": {"temperature": agent_model.temperature, "top_p": agent_model.top_p},
            "clock": self.clock,
            "prices": connection.model_overrides,
        }
        model = connection.provider.model
        if self.data is None:
            return Session(model, **options)
        content = config.settings.trace.content
        return self.data.open(name, model, restore=restore, trace_content=content, keep_empty=keep_empty, **options)

    def build_tool_context(self, config: ResolvedConfig, session: Session, name: str) -> ToolContext:
        may_recall = self.data is not None and config.settings.recall_earlier_sessions
        return ToolContext(
            self.workspace,
            session,
            session_folder=self.data.session_files(name).root if self.data is not None else None,
            session_name=name,
            data=self.data,
            clock=self.clock,
            earlier_sessions=EarlierSessions(self.data, self.workspace) if self.data and may_recall else None,
        )

    def build_spending(
        self, config: ResolvedConfig, connection: ProviderConnection, session: Session
    ) -> SessionSpending:
        days = DailySpending(self.data.spending_folder, self.data.clock) if self.data is not None else None
        return SessionSpending(session, config.settings.spend, days=days, model_overrides=connection.model_overrides)

    def build_hooks(self, config: ResolvedConfig, toolbox: Toolbox, context: ToolContext) -> HookRunner:
        run_module = make_action_runner(config, toolbox, context)
        return HookRunner(config.hooks, context=config.context, run_module=run_module, clock=self.clock)

    async def load_tools(self, config: ResolvedConfig, skills: Skills) -> "LoadedTools":
        offered = list_offered_tools(config)
        agent_tools: list[AgentTool] = [*list_standard_tools(skills, memory=self.data is not None), HELLO_TOOL]
        if config.settings.recall_earlier_sessions and self.data is not None:
            agent_tools = [EARLIER_RECALL_TOOL if tool is RECALL_TOOL else tool for tool in agent_tools]
        tools = [each for each in agent_tools if each.tool.name in offered]
        plugin_tools, mcp_tools = self._load_plugin_tools(config), await self._load_mcp_tools(config)
        for each in (plugin_tools, mcp_tools):
            each.tools[:] = [tool for tool in each.tools if is_tool_allowed(config.agent, tool.tool.name)]
        tools += plugin_tools.tools
        room = MAX_TOOLS - len(tools) - 1  # one for `task`
        if len(mcp_tools.tools) > room and not uses_discovery(config, len(tools) + len(mcp_tools.tools) + 1):
            left_out = len(mcp_tools.tools) - room
            remark = f"{left_out:,} tools of MCP servers are left out: a model is offered at most {MAX_TOOLS} tools."
            mcp_tools = LoadedTools(
                mcp_tools.tools[:room], [*mcp_tools.problems, f"{remark} Set execution.tool_mode to auto to offer all."]
            )
        return LoadedTools([*tools, *mcp_tools.tools], [*plugin_tools.problems, *mcp_tools.problems])

    def _load_plugin_tools(self, config: ResolvedConfig) -> "LoadedTools":
        """Load the tools of installed packages that the configuration names. One that is broken is left out."""
        loaded = LoadedTools([], [])
        for name in dict.fromkeys(config.settings.tools):
            try:
                plugin = find_plugin("tool", name)
                if plugin is not None:
                    loaded.tools.append(load_tool_plugin(plugin))
            except BadInput as broken:
                loaded.problems.append(str(broken))
        return loaded

    async def _load_mcp_tools(self, config: ResolvedConfig) -> "LoadedTools":
        """Load the tools of all MCP servers. They start at the same time: one that hangs does not delay the others."""
        if not config.settings.mcp:
            return LoadedTools([], [])
        try:
            from tidegate.agent.tools.mcp.source import McpServer, McpSource  # noqa: PLC0415 - an extra
        except ImportError as missing:
            names = ", ".join(config.settings.mcp)
            return LoadedTools([], [f"These servers cannot be used: {names}: {missing}. Install 'tidegate[mcp]'."])
        sources = [
            McpSource(
                McpServer(name, (each.command, *each.args) if each.command else (), each.env, each.url, each.headers)
            )
            for name, each in config.settings.mcp.items()
        ]
        for source in sources:
            self.stack.push_async_callback(source.close)
        all_tools = [tool for tools in await asyncio.gather(*(each.start() for each in sources)) for tool in tools]
        by_name = {tool.tool.name: tool for tool in reversed(all_tools)}  # of two with one name the first is used
        return LoadedTools(
            [by_name[name] for name in reversed(by_name)], [each.problem for each in sources if each.problem]
        )

    async def build_subagent_kinds(
        self,
        config: ResolvedConfig,
        connection: ProviderConnection,
        specialists: Sequence[ResolvedConfig],
        tools: Sequence[AgentTool],
        skills: Skills,
    ) -> dict[str, SubagentKind]:
        """Build the kind `general`, which is like the agent itself, and one kind for each specialist.

        A specialist without a model of its own has that of the agent.
        """
        kinds = {
            "general": await self._build_subagent_kind(
                config, connection, tools, skills, "the same model and tools as yours"
            )
        }
        for each in specialists:
            about = each.agent.description or each.agent.role
            agent_model = each.agent.model
            own = (
                await self.connect(each)
                if agent_model.model or agent_model.provider
                else _narrow_window(connection, each.window)
            )
            allowed = [tool for tool in tools if is_tool_allowed(each.agent, tool.tool.name)]
            kinds[each.agent.id] = await self._build_subagent_kind(each, own, allowed, skills, about)
        return kinds

    async def _build_subagent_kind(
        self,
        config: ResolvedConfig,
        connection: ProviderConnection,
        tools: Sequence[AgentTool],
        skills: Skills,
        about: str,
    ) -> SubagentKind:
        system = self.build_prompt(config, connection, skills, domain=_SUBAGENT_INSTRUCTIONS).text
        numbers: dict[str, int] = {}

        def open_session(asker: str, definitions: Sequence[Tool]) -> SubagentSession:
            number = numbers.get(asker, 0) + 1
            while self.data is not None and self.data.store.head(f"{asker}.task-{number}"):
                number += 1
            numbers[asker] = number
            name = f"{asker}.task-{number}"
            session = self.open_session(config, connection, name, system)
            session.set_tools(describe_tools(definitions, connection, session.counter))
            return SubagentSession(session, name, self.data.session_files(name).root if self.data is not None else None)

        offered = tools if connection.supports_tools else ()
        discovery, may_delegate = uses_discovery(config, len(offered)), is_tool_allowed(config.agent, TASK_TOOL_NAME)
        writer = await self._connect_summary(config, connection)
        return SubagentKind(
            about,
            connection.provider,
            offered,
            open_session,
            discovery,
            may_delegate,
            lambda session, meters: None if writer is None else writer.make_summarizer(session, meters),
            partial(self.build_hooks, config),
            None if writer is None else partial(writer.write_ahead, config.settings.execution),
        )

    async def build_summarizer(
        self, config: ResolvedConfig, connection: ProviderConnection, session: Session, spending: SessionSpending
    ) -> AsyncSummarizer | None:
        """Build the summarizer of the summary model, else of the agent's model, for compactions on demand.

        If nothing is written ahead, calls wait for it, too.
        None for an embedded model, unless it was named as the summary model: a digest without a model is better.
        """
        writer = await self._connect_summary(config, connection)
        return None if writer is None else writer.make_summarizer(session, [spending])

    async def start_state_notes(
        self, config: ResolvedConfig, connection: ProviderConnection, session: Session, spending: SessionSpending
    ) -> None:
        """Have state notes, or the summaries of the policy, written beside the calls of the conversation."""
        writer = await self._connect_summary(config, connection)
        started = None if writer is None else writer.write_ahead(config.settings.execution, session, spending)
        if started is not None:
            self.stack.push_async_callback(started.close)

    async def _connect_summary(self, config: ResolvedConfig, connection: ProviderConnection) -> SummaryWriter | None:
        agent_model = config.context.summary_model
        if agent_model is None:
            return None if connection.is_embedded else SummaryWriter(connection, config.agent.model, connection)
        own = next((each for model, each in self.summary_connections if model == agent_model), None)
        if own is None:
            own = await connect_provider(config, agent_model, self.environment, self.data, stack=self.stack)
            self.summary_connections.append((agent_model, own))
        return SummaryWriter(own, agent_model, connection, self._choose_summary_mask(config), own.max_output_tokens)

    def _choose_summary_mask(self, config: ResolvedConfig) -> Callable[[str], str] | None:
        """Return the mask for texts sent to the summary model.

        A model on this machine or at the provider of the agent's model may see secrets: `str` masks nothing. None if
        it is the agent's own model.
        """
        own, other = (each(config, self.environment) for each in (resolve_model_target, resolve_summary_target))
        if other.is_embedded or (own.provider, own.base_url) == (other.provider, other.base_url):
            return None if (own.model, own.wire) == (other.model, other.wire) else str
        return self.extend_mask(config)


class LoadedTools(NamedTuple):
    tools: list[AgentTool]
    problems: list[str]


class ToolSelection(NamedTuple):
    """The offered tools and the definitions that the model sees: in discovery mode those of the meta-tools."""

    tools: list[AgentTool]
    definitions: list[Tool]
    discovery: bool = False


def offer_tools(
    config: ResolvedConfig, tools: Sequence[AgentTool], connection: ProviderConnection, counter: TokenCounter
) -> ToolSelection:
    """Offer all tools in discovery mode, or else those that fit."""
    if not uses_discovery(config, len(tools)) or not connection.supports_tools:
        return select_tools(tools, connection, counter)
    definitions = Toolbox(tools, discovery=True).definitions()
    return ToolSelection(list(tools), describe_tools(definitions, connection, counter), discovery=True)


def _narrow_window(connection: ProviderConnection, window: int | None) -> ProviderConnection:
    """Return the same connection for a subagent with a window of its own, which can only be smaller."""
    tokens = connection.window.tokens
    if not window or (tokens is not None and window >= tokens):
        return connection
    explanation = f"The subagent has a window of {window:,} tokens."
    return msgspec.structs.replace(connection, window=ResolvedWindow(window, "setting", explanation))


def describe_tools(tools: Sequence[Tool], connection: ProviderConnection, counter: TokenCounter) -> list[Tool]:
    """Return the definitions of the tools, in the short form for a small window."""
    if not connection.supports_tools:
        return []
    window = connection.window.tokens
    if window is None or count_tools(tuple(tools), counter) * _FULL_DESCRIPTIONS_DIVISOR <= window:
        return list(tools)
    return [shorten_definition(tool) for tool in tools]


def select_tools(tools: Sequence[AgentTool], connection: ProviderConnection, counter: TokenCounter) -> ToolSelection:
    """Select the tools to offer. If even the short definitions are too many, keep those with the highest priority."""
    definitions, window = describe_tools([each.tool for each in tools], connection, counter), connection.window.tokens
    if not definitions or window is None or count_tools(tuple(definitions), counter) * MAX_TOOLS_DIVISOR <= window:
        return ToolSelection(list(tools) if definitions else [], definitions)
    selection = ToolSelection([], [])
    for each, definition in sorted(zip(tools, definitions, strict=True), key=_tool_rank):
        if count_tools((*selection.definitions, definition), counter) * MAX_TOOLS_DIVISOR <= window:
            selection.tools.append(each)
            selection.definitions.append(definition)
    return selection


def _tool_rank(pair: tuple[AgentTool, Tool]) -> int:
    name = pair[1].name
    return _TOOL_PRIORITY.index(name) if name in _TOOL_PRIORITY else len(_TOOL_PRIORITY)
