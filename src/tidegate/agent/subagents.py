"""Subagents: the tool `task` gives a task to an agent with its own session and window.

Only the conclusion enters the window of the agent that asked. A subagent has its own limits for steps and tokens,
may start subagents itself up to a depth, and ends with the turn that started it. If it fails, the result has what it
found so far.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import AgentSettings
from tidegate.agent.hooks.runner import HookRunner
from tidegate.agent.loop import Agent, ToolFinished, TurnEnded
from tidegate.agent.spending import MeteredProvider, SessionSpending, SpendMeter, SubagentMeter, TokenAllowance
from tidegate.agent.tools.approval import ApprovalRules, AskUser
from tidegate.agent.tools.tool import AgentTool, FunctionTool, ToolContext, ToolFailed, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.errors import TidegateError
from tidegate.core.events import MessageAdded
from tidegate.core.ledger.statements import SUBAGENT_TOOL, write_work_report
from tidegate.core.messages import Message, Tool, text_of, user_message
from tidegate.core.notes import SubagentReport
from tidegate.core.text.clip import clip_chars, clip_tokens
from tidegate.models.provider import Provider, Reply
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.session.summarizer import create_summarizer
from tidegate.wire.answers import parse_reply

TASK_TOOL_NAME: Final = SUBAGENT_TOOL
_RESULT_SHARE: Final = 8
"""A result takes at most one eighth of the room in the window of the agent that asked."""
SUMMARY_TIMEOUT_SECONDS: Final = 120.0

_DESCRIPTION = (
    "Give a piece of work to a subagent that works in a window of its own and answers with its conclusion."
    " It knows nothing but what the prompt says. Calls made together run at the same time."
)


class SubagentLimits(msgspec.Struct, frozen=True):
    """The limits of subagents: of each one, and of how many may be nested or run at the same time."""

    max_steps: int = 40
    max_tokens: int = 400_000
    max_result_tokens: int = 2_000
    max_depth: int = 2
    max_parallel: int = 4


class SubagentSession(NamedTuple):
    """The session of a subagent, its name, and the folder of its files if it is stored."""

    session: Session
    name: str
    folder: Path | None = None


class SubagentKind(NamedTuple):
    """A kind of subagent. `open_session` takes the name of the session that asks and the tools.

    `tools` do not include `task`, which it has if `may_delegate` is True. They are shown in discovery mode if
    `discovery` is True. `make_summarizer` takes the session and the meters of its calls; without it, the model of the
    subagent writes its summaries. `make_hooks` makes the hooks that run in its turn. `write_ahead` has
    state notes of its session written.
    """

    description: str
    provider: Provider
    tools: Sequence[AgentTool]
    open_session: Callable[[str, Sequence[Tool]], SubagentSession]
    discovery: bool = False
    may_delegate: bool = True
    make_summarizer: Callable[[Session, Sequence[SpendMeter]], AsyncSummarizer | None] | None = None
    make_hooks: Callable[[Toolbox, ToolContext], HookRunner] | None = None
    write_ahead: Callable[[Session, SessionSpending, Sequence[SpendMeter]], object] | None = None

    def limit_tools(self, asker: "SubagentKind") -> "SubagentKind":
        """The same kind without tools that the asker does not have."""
        return self._replace(tools=[tool for tool in self.tools if tool in asker.tools])


class TaskArguments(msgspec.Struct):
    prompt: Annotated[str, Meta(description="the work, with all it must know, and what to answer", min_length=1)]
    agent: Annotated[str, Meta(description="which kind of subagent")] = ""


class SubagentTool:
    """The tool `task`. The first of `kinds` is the default. `meters` count the usage of all subagents.

    A subagent that may use the tool itself passes on no more than its own tools.
    """

    runs_in_parallel = True

    def __init__(
        self,
        kinds: Mapping[str, SubagentKind],
        *,
        approval: ApprovalRules,
        ask: AskUser | None = None,
        meters: Sequence[SpendMeter] = (),
        limits: SubagentLimits | None = None,
        depth: int = 1,
    ) -> None:
        self.kinds = dict(kinds)
        self.limits = limits or SubagentLimits()
        self.depth = depth
        self._approval = approval
        self._ask = ask
        self._meters = tuple(meters)
        self._slots = asyncio.Semaphore(self.limits.max_parallel)
        descriptions = "".join(f" {name}: {kind.description}." for name, kind in kinds.items() if len(kinds) > 1)
        self._function_tool = FunctionTool(
            TASK_TOOL_NAME,
            _DESCRIPTION + (f" Kinds:{descriptions}" if descriptions else ""),
            TaskArguments,
            self._run_task,
        )

    @property
    def tool(self) -> Tool:
        return self._function_tool.tool

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self._function_tool(arguments, context)

    async def _run_task(self, task: TaskArguments, context: ToolContext) -> ToolResult:
        name = task.agent or next(iter(self.kinds))
        if name not in self.kinds:
            raise ToolFailed(f"There is no subagent {quote_value(name)}. {suggest_name(name, self.kinds)}")
        async with self._slots:
            kind, allowance = self.kinds[name], TokenAllowance(self.limits.max_tokens)
            toolbox = self._create_toolbox(kind)
            session = kind.open_session(context.session_name, toolbox.definitions())
            ending = "interrupted"
            await _note(context, f"{session.name} began: {clip_chars(task.prompt, 200).text}")
            try:
                work = await _run_subagent(self._create_agent(session, kind, toolbox, allowance, context), task.prompt)
                work = work._replace(report=write_work_report(session.name, _list_work(session.session)))
                ending = work.failure or "answered"
            finally:
                session.session.close()
                await _note(context, f"{session.name} ended: {clip_chars(ending, 500).text}")
        return self._format_result(work, allowance, session, context)

    def _create_toolbox(self, kind: SubagentKind) -> Toolbox:
        toolbox = Toolbox(kind.tools, approval=self._approval, ask=self._ask, discovery=kind.discovery)
        if kind.may_delegate and self.depth < self.limits.max_depth:
            inner = SubagentTool(
                {name: each.limit_tools(kind) for name, each in self.kinds.items()},
                approval=self._approval,
                ask=self._ask,
                meters=self._meters,
                limits=self.limits,
                depth=self.depth + 1,
            )
            toolbox.add(inner)
        return toolbox

    def _create_agent(
        self,
        subagent: SubagentSession,
        kind: SubagentKind,
        toolbox: Toolbox,
        allowance: TokenAllowance,
        asker: ToolContext,
    ) -> Agent:
        session = subagent.session
        spending = SessionSpending(session)
        others: list[SpendMeter] = [*map(SubagentMeter, self._meters), allowance]
        meters = [*others, spending]
        provider = MeteredProvider(kind.provider, meters, purpose="turn")
        if kind.write_ahead is not None:
            kind.write_ahead(session, spending, others)
        context = ToolContext(
            asker.workspace,
            session,
            session_folder=subagent.folder,
            session_name=subagent.name,
            data=asker.data,
            clock=asker.clock,
            environment=asker.environment,
        )
        return Agent(
            session,
            provider,
            toolbox,
            context,
            summarizer=(kind.make_summarizer or partial(_make_own_summarizer, kind))(session, meters),
            hooks=kind.make_hooks(toolbox, context) if kind.make_hooks is not None else None,
            max_steps=self.limits.max_steps,
        )

    def _format_result(
        self, work: "SubagentResult", allowance: TokenAllowance, subagent: SubagentSession, context: ToolContext
    ) -> ToolResult:
        """The answer, and a report of the work that the ledger of the asking session keeps."""
        asker = context.session
        limit = max(64, min(self.limits.max_result_tokens, asker.budget.room // _RESULT_SHARE))
        report = clip_tokens(work.report, limit // 4, asker.counter, mode="head", notice="").text
        text = clip_tokens(work.text, limit - asker.counter.count_text(report), asker.counter).text
        ending = f"[{subagent.name}: {work.steps} tool calls, {allowance.spent_tokens:,} tokens"
        if work.failure:
            ending += f"; not finished: {clip_chars(work.failure, 500).text}"
        whole = f"{text}\n{report}\n{ending}]" if report else f"{text}\n{ending}]"
        return ToolResult(whole.lstrip(), is_error=bool(work.failure))


async def _note(context: ToolContext, text: str) -> None:
    """Add a note to the session that asked. The results of other subagents may be added to it at this time."""
    await context.session.call_async(context.session.history.append_note, SubagentReport(text))


def _make_own_summarizer(kind: SubagentKind, session: Session, meters: Sequence[SpendMeter]) -> AsyncSummarizer:
    return create_summarizer(
        MeteredProvider(kind.provider, meters),
        window=session.window,
        counter=session.counter,
        timeout=SUMMARY_TIMEOUT_SECONDS,
        conversation=session,
    )


class SubagentResult(NamedTuple):
    """`text` is the answer; if there is a `failure`, it is all text written before it. `report` is its work."""

    text: str
    failure: str
    steps: int
    report: str = ""


def _list_work(session: Session) -> list[Message]:
    """The messages of a subagent, without the answer, which the result has anyway."""
    payloads = (event.payload for event in session.log.read())
    messages = [payload.message for payload in payloads if isinstance(payload, MessageAdded)]
    return messages[:-1] if messages and messages[-1].role == "assistant" else messages


async def _run_subagent(agent: Agent, prompt: str) -> SubagentResult:
    """Run one turn. Text written before an error is kept."""
    texts: list[str] = []
    steps, failure = 0, "it ended without an answer"
    try:
        async with aclosing(agent.run_turn(user_message(prompt, typed=False))) as turn:
            async for each in turn:
                if isinstance(each, Reply):
                    texts += [text for text in map(text_of, parse_reply(agent.provider.wire, each)) if text.strip()]
                elif isinstance(each, ToolFinished):
                    steps += 1
                elif isinstance(each, TurnEnded):
                    failure = "" if each.reason in ("end", "unknown") and texts else f"it stopped: {each.reason}"
    except TidegateError as error:
        failure = str(error)
    return SubagentResult("\n\n".join(texts) if failure else texts[-1], failure, steps)


# --- kinds -----------------------------------------------------------------------------------------------------------
# Those that are shipped, and those that a program registers with `open_agent(config, subagents=[AgentSettings(...)])`
# or a project as an agent with the role `specialist` in its `tidegate.yaml`.


EXPLORER: Final = AgentSettings(
    "explore",
    "specialist",
    "finds things out in source code and other files, and changes nothing; use it instead of reading many files",
    system_prompt=(
        "You explore source code and other files for somebody who will not see them. Find the files with list and grep,"
        " read the parts that matter, and follow the calls until you can answer. Answer with what was asked: paths with"
        " line numbers, names, and short quotations. Say what you did not find."
    ),
    tools=("read", "list", "grep", "recall"),
)
"""General exploration of sources, so that what is read for it never enters the window of the agent that asks."""
SHIPPED_SUBAGENTS: Final = (EXPLORER,)


def list_registered_subagents(config: ResolvedConfig, registered: Sequence[AgentSettings]) -> list[ResolvedConfig]:
    """Return the configurations of the shipped and the registered subagents of this agent."""
    return [_make_subagent_config(config, each) for each in (*SHIPPED_SUBAGENTS, *registered)]


def _make_subagent_config(config: ResolvedConfig, agent: AgentSettings) -> ResolvedConfig:
    """Return the configuration of the agent which uses the subagent, with the settings of the subagent.

    Of the context of its model, the window (`max_tokens`) is used; the policy is that of the agent.
    """
    own = agent.model.context
    window = own.max_tokens if own is not None else 0
    context = msgspec.structs.replace(config.context, max_tokens=window or config.context.max_tokens)
    return msgspec.structs.replace(config, agent=agent, context=context)
