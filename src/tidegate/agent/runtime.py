"""Opening an agent: `open_agent` builds it from its configuration, `OpenAgent` runs its turns.

    async with open_agent(config, data=data, name="build-fix", workspace=Path(".")) as agent:
        async for event in agent.run_turn("Why is the build slow?"):
            show(event)

Commands of the `shell` tool can read the environment of this process through `/proc`. The command line prevents that; a
program that calls `open_agent` itself should call `tidegate.agent.environment.hide_environment` at its start.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.agent.attachments import attach_images
from tidegate.agent.builder import AgentBuilder, offer_tools
from tidegate.agent.config.resolved_config import ResolvedConfig, find_ignored_retention
from tidegate.agent.config.rule_notice import make_rule_notice
from tidegate.agent.config.settings import AgentSettings, ExecutionSettings, SpendCap
from tidegate.agent.config.tool_access import list_offered_tools, resolve_approval
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, TurnEnded, UserSteered
from tidegate.agent.provider_connection import ProviderConnection, find_provider_keys
from tidegate.agent.session_model import format_agent_model
from tidegate.agent.skills import Skills
from tidegate.agent.spending import MeteredProvider, SessionSpending
from tidegate.agent.subagents import SubagentTool, list_registered_subagents
from tidegate.agent.system_prompt import SystemPrompt, list_refused_instructions
from tidegate.agent.tools.approval import AskUser, ask_one_at_a_time
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import BadInput, GiveUp
from tidegate.core.events import UsageReported
from tidegate.core.messages import Image, Message
from tidegate.core.policy.policy import Policy
from tidegate.core.text.plural import format_count
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.workspaces import note_workspace
from tidegate.models.catalog import accepts_images
from tidegate.models.provider import Provider
from tidegate.models.usage_checks import MAX_USAGE_REPORTS, UsageReport, find_usage_problem
from tidegate.presets import load
from tidegate.store.deferred_log import call_when_stored

DEFAULT_SKILL_FOLDERS: Final = (".tidegate/skills", ".claude/skills")
"""The folders of a project's skills, if the configuration names none."""


class UserNotice(NamedTuple):
    """Something the user should know."""

    text: str


class UnchosenModel(NamedTuple):
    """What a user should know who has not chosen a model. `known_keys`: the keys of others that are set, in words."""

    answering: str
    known_keys: str

    def __str__(self) -> str:
        other = "To use another one: --model PROVIDER/MODEL, or a model in tidegate.yaml (docs/agent.md)."
        return f"{self.answering} {self.known_keys or other}"


class OpenAgent:
    """An agent that is ready for turns, within the limits of its configuration.

    `unchosen_model` is shown when the agent is opened, or with the notices. `notices` are yielded at the next turn, and
    `on_notices_shown` is called then. `is_finished` is True after the only turn of an agent with
    `execution.mode: one_shot`.
    """

    def __init__(
        self,
        agent: Agent,
        config: ResolvedConfig,
        *,
        name: str,
        prompt: SystemPrompt,
        connection: ProviderConnection,
        spending: SessionSpending,
        notices: Sequence[str | UnchosenModel] = (),
        on_notices_shown: Callable[[], None] = lambda: None,
    ) -> None:
        self.agent = agent
        self.session = agent.session
        self.config = config
        self.session_name = name
        self.prompt = prompt
        self.connection = connection
        self.window = connection.window
        self.spending = spending
        self.unchosen_model = next((each for each in notices if isinstance(each, UnchosenModel)), None)
        self.notices = [str(each) for each in notices if each]
        self._on_notices_shown = on_notices_shown
        self.is_finished = False
        self._shown_notices: set[str] = set()
        self._usage_reports: list[UsageReport] = []
        self._read_seq = self.session.log.head

    @property
    def greeting(self) -> str:
        """The text to show to the user before the first turn of a session. The model never sees it."""
        return "" if self.session.view.total_turns else self.config.settings.execution.greeting

    @property
    def is_busy(self) -> bool:
        return self.agent.is_busy

    @property
    def accepts_images(self) -> bool | None:
        """Whether the model takes images; None if not known. The setting models.NAME.images overrides the catalog."""
        by_catalog = accepts_images(self.connection.provider.model, self.connection.model_overrides)
        return by_catalog if self.session.dialect.capabilities.user_images else False

    def steer(self, user_input: str | Message, images: Sequence[Image] = ()) -> None:
        """Add a user message in the middle of a turn, see `Agent.steer`."""
        self._check_turn_limit()
        self.agent.steer(self._make_message(user_input, images))

    async def run_turn(
        self, user_input: str | Message, images: Sequence[Image] = ()
    ) -> AsyncGenerator[AgentEvent | UserNotice, None]:
        """Run one turn, see `Agent.run_turn`. Raise GiveUp if it takes too long or the session has no turns left."""
        execution = self.config.settings.execution
        if self.is_finished:
            raise GiveUp("This agent runs one turn only.", "Set execution.mode to conversation, or open it again.")
        self._check_turn_limit()
        message = self._make_message(user_input, images)
        for notice in self._take_notices():
            yield notice
        clock = asyncio.get_running_loop().time
        until = clock() + execution.timeout if execution.timeout else None
        async with AsyncExitStack() as stack:
            stack.callback(self.spending.settle)
            stream = await stack.enter_async_context(aclosing(self.agent.run_turn(message)))
            while (each := await self._next_event(stream, until)) is not None:
                if isinstance(each, RequestSent):
                    failed = [one for one in each.decisions if one.failed]
                    self.notices += [f"The rule {one.rule} failed. {one.reason}" for one in failed]
                if isinstance(each, RequestRefused):
                    self.window = self.connection.learn_window(each.error) or self.window
                if isinstance(each, UserSteered):
                    until = clock() + execution.timeout if execution.timeout else None
                if isinstance(each, TurnEnded):
                    self.is_finished = execution.mode == "one_shot"
                    await self._query_window_again()
                    self._review_turn()
                    for notice in self._take_notices():
                        yield notice
                yield each

    def _check_turn_limit(self) -> None:
        most = self.config.settings.execution.max_turns
        if most and self.session.view.total_turns >= most:
            raise GiveUp(
                f"This session has reached its limit of {format_count(most, 'turn')}.",
                "Raise execution.max_turns, or start a new session.",
            )

    def _make_message(self, user_input: str | Message, images: Sequence[Image]) -> Message:
        message = attach_images(user_input, images)
        if self.accepts_images is False and any(isinstance(part, Image) for part in message.parts):
            model = self.connection.provider.model
            raise BadInput(
                f"{model} does not accept pictures.",
                f"Leave them out, or use a model that does; if it does, set models.{model}.images to true.",
            )
        return message

    async def _next_event(self, stream: AsyncGenerator[AgentEvent, None], until: float | None) -> AgentEvent | None:
        limited = asyncio.timeout_at(until)
        try:
            async with limited:
                return await anext(stream, None)
        except TimeoutError:
            limit = self.config.settings.execution.timeout
            if not limited.expired():
                raise
            raise GiveUp(
                f"The turn took longer than {limit:g} s.",
                "Raise execution.timeout; the session is intact and can continue.",
            ) from None

    async def _query_window_again(self) -> None:
        """Ask the server for the window again: some servers know it only after the first request loaded the model."""
        if self.connection.window_resolver is None or self.window.is_final:
            return
        self.window = await self.connection.window_resolver.query_server()
        if self.window.source == "server" and self.window.tokens:
            self._plan_with_window(self.window.tokens)

    def _plan_with_window(self, tokens: int | None) -> None:
        """Make the session use the window of the model, or the one that its policy chooses for such a model."""
        window = self.session.policy.choose_window(tokens) if tokens else None
        if window:
            self.session.recovery.set_window(window)

    def _review_turn(self) -> None:
        """After a turn, check the reported usage."""
        for event in self.session.log.read(self._read_seq + 1):
            self._read_seq = event.seq
            if isinstance(event.payload, UsageReported):
                self._update_window(event.payload)
                problem = find_usage_problem(
                    event.payload.counted_tokens, event.payload.input_tokens, self._usage_reports
                )
                self.notices += [problem] if problem else []
                self._usage_reports = [
                    *self._usage_reports[-MAX_USAGE_REPORTS:],
                    UsageReport(event.payload.counted_tokens, event.payload.input_tokens),
                ]
        self.notices += [self.spending.problem] if self.spending.problem else []

    def _update_window(self, report: UsageReported) -> None:
        """Raise a learned window that is smaller than what the provider has just accepted."""
        window = (
            self.connection.confirm_tokens(report.input_tokens)
            if report.model == self.connection.provider.model
            else None
        )
        if window is not None and self.connection.window_resolver is not None:
            self.window = window
            self._plan_with_window(window.tokens)
            self.notices.append(self.connection.window_resolver.forgotten_notice)

    def take_unchosen_model(self) -> UnchosenModel | None:
        """Return what there is to know of a model that nobody chose, and leave it out of the notices."""
        model, self.unchosen_model = self.unchosen_model, None
        self.notices = [text for text in self.notices if text != str(model)]
        return model

    def _take_notices(self) -> list[UserNotice]:
        """Return each new notice once. Notices that differ only in numbers are the same."""
        news = {"".join(filter(str.isalpha, text)): text for text in self.notices}
        fresh = [UserNotice(text) for words, text in news.items() if words not in self._shown_notices]
        self._shown_notices |= news.keys()
        self.notices = []
        if fresh:
            self._on_notices_shown()
        return fresh


@asynccontextmanager
async def open_agent(  # noqa: PLR0913 - keyword arguments
    config: ResolvedConfig,
    *,
    data: DataFolder | None,
    name: str,
    workspace: Path,
    ask: AskUser | None = None,
    provider: Provider | None = None,
    specialists: Sequence[ResolvedConfig] = (),
    subagents: Sequence[AgentSettings] = (),
    environment: Mapping[str, str] | None = None,
    restore: bool = True,
) -> AsyncIterator[OpenAgent]:
    """Open an agent on a stored session, or a new one, which is stored with its first message, unless `data` is None.

    `provider` replaces that of the model. `specialists` are the configuration's kinds of subagents; `subagents` adds
    more. `restore=False` skips the rules for a restored session, as for a change of the model of an open session."""
    async with AsyncExitStack() as stack:
        builder = AgentBuilder(data, workspace, os.environ if environment is None else environment, stack, [])
        connection = await builder.connect(config, provider)
        skills = find_skills(config, workspace)
        prompt = builder.build_prompt(config, connection, skills)
        session = builder.open_session(config, connection, name, prompt.text, restore=restore, keep_empty=False)
        stack.callback(session.close)
        if data is not None:
            call_when_stored(session.log, partial(_note_use, data, name, workspace, config))
        spending = builder.build_spending(config, connection, session)
        approval, asking = resolve_approval(config), ask_one_at_a_time(ask) if ask is not None else None
        tools, faults = await builder.load_tools(config, skills)
        if "task" in list_offered_tools(config):
            offered_tools = offer_tools(config, tools, connection, session.counter).tools
            others = [*list_registered_subagents(config, subagents), *specialists]
            kinds = await builder.build_subagent_kinds(config, connection, others, offered_tools, skills)
            tools.append(SubagentTool(kinds, approval=approval, ask=asking, meters=[spending]))
        suited = offer_tools(config, tools, connection, session.counter)
        session.set_tools(suited.definitions)
        toolbox = Toolbox(suited.tools, approval=approval, ask=asking, discovery=suited.discovery)
        context = builder.build_tool_context(config, session, name)
        agent = Agent(
            session,
            MeteredProvider(connection.provider, [spending], purpose="turn", estimate_tokens=lambda _: session.tokens),
            toolbox,
            context,
            summarizer=await builder.build_summarizer(config, connection, session, spending),
            hooks=builder.build_hooks(config, toolbox, context),
            max_steps=_choose_max_steps(config, session.policy),
        )
        await builder.start_state_notes(config, connection, session, spending)
        rules = make_rule_notice(config, data.root if data is not None else None)
        notices = [*_list_opening_notices(config, connection, builder), *faults, *skills.problems, rules.text]
        yield OpenAgent(
            agent,
            config,
            name=name,
            prompt=prompt,
            connection=connection,
            spending=spending,
            notices=[*notices, spending.unpriced_notice(connection.provider.model)],
            on_notices_shown=rules.mark_shown,
        )


def _note_use(data: DataFolder, name: str, workspace: Path, config: ResolvedConfig) -> None:
    note_workspace(data, name, workspace, format_agent_model(config.agent.model))


def find_skills(config: ResolvedConfig, workspace: Path) -> Skills:
    """Return the skills of the configured folders, else of the usual folders of the project."""
    return Skills((workspace / each for each in config.settings.skills or DEFAULT_SKILL_FOLDERS), project=workspace)


def _choose_max_steps(config: ResolvedConfig, policy: Policy) -> int:
    """Return the limit of tool calls in a turn: the configured one, else that of the policy if it is smaller.

    A project's file can raise neither.
    """
    steps = config.settings.execution.max_steps
    if "execution.max_steps" not in config.sources:
        steps = _fewer_steps(steps, policy)
    own = config.user_limits.user_settings if config.user_limits is not None else None
    if own is not None and own.policy.name and own.execution.max_steps == ExecutionSettings().max_steps:
        steps = _fewer_steps(steps, load(own.policy.name, dict(own.policy.settings)))
    return steps


def _fewer_steps(steps: int, policy: Policy) -> int:
    own = policy.settings.get("max_steps")
    return min(steps, own) if isinstance(own, int) and own > 0 else steps


def _name_file(config: ResolvedConfig) -> str:
    """Return the file that chooses the policy, without the line."""
    return config.sources.get("policy.name", "").rpartition(":")[0]


def _find_unchosen_model(
    config: ResolvedConfig, connection: ProviderConnection, environment: Mapping[str, str]
) -> UnchosenModel | None:
    """Return what to say of the embedded model if it answers because no model was chosen."""
    if not connection.is_embedded or config.agent.model.provider:
        return None
    keys = find_provider_keys(environment)
    hints = " ".join(f"${key} is set: try --model {name}/MODEL." for name, key in keys.items())
    place = f"No model is set in {_name_file(config)}." if config.unused_keys else "You have not chosen a model."
    return UnchosenModel(f"{place} {connection.window.explanation}", hints)


def _list_opening_notices(
    config: ResolvedConfig, connection: ProviderConnection, builder: AgentBuilder
) -> list[str | UnchosenModel]:
    """List what the user should know before the first turn."""
    unchosen = _find_unchosen_model(config, connection, builder.environment)
    remarks: list[str | UnchosenModel] = [unchosen] if unchosen is not None else []
    if config.unused_keys:
        remarks.append(f"{_name_file(config)}: these keys are not used: {', '.join(config.unused_keys)}.")
    if connection.window.tokens is None:
        where = f"In tidegate.yaml: models.{connection.provider.model}.window, or max_tokens in the model's context."
        remarks.append(f"{connection.window.explanation} {where}")
    remarks += (
        [connection.window_resolver.forgotten_notice]
        if connection.window_resolver is not None and connection.window_resolver.forgotten_notice
        else []
    )
    if builder.data is None and config.settings.spend.day != SpendCap():
        remarks.append(
            "The cap of the day (spend.day) is not enforced: without a data folder the day's spending is not counted."
        )
    retention = find_ignored_retention(config)
    if retention is not None:
        remarks.append(f"{retention.source}: {retention.reason}. Choose the policy in your own file, or with --policy.")
    return [*remarks, *list_refused_instructions(builder.workspace)]
