"""Subagents: the tool `task` gives a piece of work to an agent in a window of its own.

What it read and tried stays in its own session; the one who asked pays for the conclusion only. It has its own steps
and tokens, may itself give work away up to a depth, and ends with the turn that began it. Whatever becomes of it is a
result: of one that ran out of something, what it had found so far.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.agent.loop import Agent, Ended, Stopped
from tidegate.agent.spend import Allowance, Meter, Metered
from tidegate.agent.tools.approval import Approval, Ask, Question
from tidegate.agent.tools.tool import AgentTool, Built, Context, Failed, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.clip import clip_chars, clip_tokens
from tidegate.core.errors import TidegateError
from tidegate.core.expression import nearest, quoted
from tidegate.core.messages import Tool, text_of, user
from tidegate.models.provider import Provider, Reply
from tidegate.session.session import Session
from tidegate.session.settle import summariser

TASK: Final = "task"
"""The tool, and the topic of the notes that say which subagents were begun and how they ended."""
SHARE: Final = 8
"""A result takes at most this part of the asker's room."""
PATIENCE: Final = 120.0

_ABOUT = (
    "Give a piece of work to a subagent that works in a window of its own and answers with its conclusion."
    " It knows nothing but what the prompt says. Calls made together run at the same time."
)


class Bounds(msgspec.Struct, frozen=True):
    """What one subagent may use, and how deep and how wide they may go. `result` is in tokens."""

    steps: int = 40
    tokens: int = 400_000
    result: int = 2_000
    nested: int = 2
    together: int = 4


class Opened(NamedTuple):
    """The session of a subagent, the name it is known by, and the folder of its files if it is kept."""

    session: Session
    name: str
    folder: Path | None = None


class Kind(NamedTuple):
    """A kind of subagent. `sessions` opens a new session for one, by the name of the session that asks for it.

    The tools are without `task`.
    """

    description: str
    provider: Provider
    tools: Sequence[AgentTool]
    sessions: Callable[[str, Sequence[Tool]], Opened]


class Task(msgspec.Struct):
    prompt: Annotated[str, Meta(description="the work, with all it must know, and what to answer", min_length=1)]
    agent: Annotated[str, Meta(description="which kind of subagent")] = ""


class Subagents:
    """The tool. `kinds` by name, the first is meant where none is named; `meters` are told of all that is spent.

    `ask` puts questions of a subagent's tools to a person, one at a time.
    """

    together = True

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        *,
        approval: Approval,
        ask: Ask | None = None,
        meters: Sequence[Meter] = (),
        bounds: Bounds | None = None,
        depth: int = 1,
    ) -> None:
        self.kinds = dict(kinds)
        self.bounds = bounds or Bounds()
        self.depth = depth
        self._approval = approval
        self._ask = ask
        self._meters = tuple(meters)
        self._places = asyncio.Semaphore(self.bounds.together)
        named = "".join(f" {name}: {kind.description}." for name, kind in kinds.items() if len(kinds) > 1)
        self._built = Built(TASK, _ABOUT + (f" Kinds:{named}" if named else ""), Task, self._act)

    @property
    def tool(self) -> Tool:
        return self._built.tool

    async def __call__(self, arguments: Mapping[str, Any], context: Context) -> ToolResult:
        return await self._built(arguments, context)

    async def _act(self, task: Task, context: Context) -> ToolResult:
        name = task.agent or next(iter(self.kinds))
        if name not in self.kinds:
            raise Failed(f"There is no subagent {quoted(name)}. {nearest(name, self.kinds)}")
        async with self._places:
            kind, allowance = self.kinds[name], Allowance(self.bounds.tokens)
            toolbox = self._toolbox(kind)
            opened = kind.sessions(context.session_name, toolbox.definitions())
            ended = "interrupted"
            context.session.note(TASK, f"{opened.name} began: {clip_chars(task.prompt, 200).text}")
            try:
                work = await _worked(self._agent(opened, kind, toolbox, allowance, context), task.prompt)
                ended = work.why or "answered"
            finally:
                opened.session.close()
                context.session.note(TASK, f"{opened.name} ended: {clip_chars(ended, 500).text}")
        return self._result(work, allowance, opened.name, context)

    def _toolbox(self, kind: Kind) -> Toolbox:
        toolbox = Toolbox(kind.tools, approval=self._approval, ask=self._ask)
        if self.depth < self.bounds.nested:
            inner = Subagents(
                self.kinds,
                approval=self._approval,
                ask=self._ask,
                meters=self._meters,
                bounds=self.bounds,
                depth=self.depth + 1,
            )
            toolbox.add(inner)
        return toolbox

    def _agent(self, opened: Opened, kind: Kind, toolbox: Toolbox, allowance: Allowance, asker: Context) -> Agent:
        session = opened.session
        provider = Metered(kind.provider, [*self._meters, allowance])
        context = Context(
            asker.workspace,
            session,
            session_folder=opened.folder,
            session_name=opened.name,
            data=asker.data,
            clock=asker.clock,
            environment=asker.environment,
        )
        summarise = summariser(
            provider, window=session.window, counter=session.counter, timeout=PATIENCE, conversation=session
        )
        return Agent(session, provider, toolbox, context, summarise=summarise, max_steps=self.bounds.steps)

    def _result(self, work: "Work", allowance: Allowance, name: str, context: Context) -> ToolResult:
        asker = context.session
        limit = max(64, min(self.bounds.result, asker.budget().room // SHARE))
        text = clip_tokens(work.text, limit, asker.counter).text
        ending = f"[{name}: {work.steps} tool calls, {allowance.spent:,} tokens"
        if not work.why:
            return ToolResult(f"{text}\n{ending}]")
        return ToolResult(f"{text}\n{ending}; not finished: {clip_chars(work.why, 500).text}]".lstrip(), error=True)


class Work(NamedTuple):
    """`text` is the answer; where `why` says that there is none, all that was said on the way."""

    text: str
    why: str
    steps: int


async def _worked(agent: Agent, prompt: str) -> Work:
    """One turn. What fails on the way does not take along what was found before."""
    said: list[str] = []
    steps, why = 0, "it ended without an answer"
    try:
        async with aclosing(agent.turn(user(prompt, typed=False))) as turn:
            async for each in turn:
                if isinstance(each, Reply):
                    said += [text for text in map(text_of, each.said(agent.provider.wire)) if text.strip()]
                elif isinstance(each, Ended):
                    steps += 1
                elif isinstance(each, Stopped):
                    why = "" if each.why in ("end", "unknown") and said else f"it stopped: {each.why}"
    except TidegateError as failure:
        why = str(failure)
    return Work("\n\n".join(said) if why else said[-1], why, steps)


def one_at_a_time(ask: Ask) -> Ask:
    """A person who is asked by several at once cannot tell what they agree to."""
    turn = asyncio.Lock()

    async def asked(question: Question) -> bool:
        async with turn:
            return await ask(question)

    return asked
