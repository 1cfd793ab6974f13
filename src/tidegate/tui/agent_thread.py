"""Where the agent lives: a thread with an event loop of its own. Nothing it does can keep a key from being heard.

Counting tokens, fitting the window, writing to the log, running a model in this process: all of that happens here. The
screen is told what happened by `tell`, and asks by `do`. Only this thread ever touches the session.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidegate.agent.loop import AgentEvent
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.commands.agent_commands import create_command_registry, make_command_context
from tidegate.commands.agent_launch import LaunchOptions
from tidegate.commands.registry import CommandAnswer, CommandContext
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.messages import Message
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.provider import Provider
from tidegate.tui.status.status_figures import StatusFigures, StatusWatcher

_T = TypeVar("_T")


class AgentOpened(NamedTuple):
    """An agent is there and can be spoken to."""

    name: str
    model: str
    greeting: str
    fresh: bool


class EventLogged(NamedTuple):
    event: Event


class AgentActivity(NamedTuple):
    what: AgentEvent | UserNotice


class TurnFinished(NamedTuple):
    """The turn ended: in its own time, or because it was interrupted or something went wrong (`problem`).

    `done`: the agent was there for this turn alone.
    """

    interrupted: bool = False
    problem: str = ""
    done: bool = False


class AgentProblem(NamedTuple):
    """The agent could not be opened. If another was open, it still is."""

    problem: str


class ApprovalRequested(NamedTuple):
    """A question to the person; `answer` may be called once, from any thread."""

    question: ApprovalQuestion
    answer: Callable[[bool], None]


ThreadEvent = (
    AgentOpened | EventLogged | AgentActivity | TurnFinished | AgentProblem | ApprovalRequested | StatusFigures
)
ThreadListener = Callable[[ThreadEvent], None]
ProviderFactory = Callable[[LaunchOptions], Provider | None]


def use_configured_provider(_: LaunchOptions) -> Provider | None:
    return None


class AgentThread:
    """`provider_for` stands in for the brains' own providers. Without `asks` nobody is there to answer questions."""

    def __init__(
        self,
        data: DataFolder,
        workspace: Path,
        tell: ThreadListener,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        asks: bool = True,
    ) -> None:
        self._data = data
        self._workspace = workspace
        self._tell = tell
        self._provider_for = provider_for
        self._asks = asks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="tidegate-agent", daemon=True)
        self._agent: OpenAgent | None = None
        self._watching: StatusWatcher | None = None
        self._leave: asyncio.Event | None = None
        self._stay: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Future[bool]] = set()
        self.opening: LaunchOptions | None = None
        self.commands = create_command_registry()

    def start(self) -> None:
        self._thread.start()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def do(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> "Future[_T]":
        """Run this with the agent, in its thread."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def close(self) -> None:
        """End what is under way and close the session. Waits for it."""
        if self._thread.is_alive():
            with suppress(Exception):
                self.do(self._close).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _close(self) -> None:
        await self._interrupted()
        await self._left()

    # --- opening --------------------------------------------------------------------------------------------------

    def open(self, opening: LaunchOptions) -> "Future[None]":
        return self.do(lambda: self._open(opening))

    async def _open(self, opening: LaunchOptions) -> None:
        """What was open is closed first: two may not write for one person in one session. If the new one cannot be
        opened, the old one is opened again."""
        try:
            opening.read()  # most of what can be wrong is seen here, before anything is closed
        except TidegateError as bad:
            self._tell(AgentProblem(str(bad)))
            return
        await self._interrupted()
        before = self.opening
        await self._left()
        problem = await self._entered(opening)
        if problem:
            self._tell(AgentProblem(problem))
            if before is not None:
                await self._entered(before)

    async def _left(self) -> None:
        if self._watching is not None:
            self._watching.stop()
        if self._leave is not None and self._stay is not None:
            self._leave.set()
            await asyncio.wait([self._stay])
        self._leave = self._stay = self._agent = self._watching = None

    async def _entered(self, opening: LaunchOptions) -> str:
        """An agent is opened and closed by one task: what it holds open wants it so."""
        leave = self._leave = asyncio.Event()
        ready: asyncio.Future[str] = self._loop.create_future()
        self._stay = self._loop.create_task(self._stayed(opening, leave, ready))
        return await ready

    async def _stayed(self, opening: LaunchOptions, leave: asyncio.Event, ready: "asyncio.Future[str]") -> None:
        try:
            read = opening.read()
            async with open_agent(
                read.config,
                data=self._data,
                name=opening.name,
                workspace=self._workspace,
                ask=self._ask if self._asks else None,
                provider=self._provider_for(opening),
                specialists=read.specialists,
                environment=opening.environment,
            ) as agent:
                agent.notices += read.problems
                self._enter(opening, agent)
                ready.set_result("")
                await leave.wait()
        except Exception as bad:  # noqa: BLE001 - whatever it is, the person is told and the app stays
            told = str(bad) if isinstance(bad, TidegateError) else f"{type(bad).__name__}: {bad}"
            if ready.done():
                self._tell(TurnFinished(problem=told))
            else:
                ready.set_result(told)

    def _enter(self, opening: LaunchOptions, agent: OpenAgent) -> None:
        self._agent, self.opening = agent, opening
        session = agent.session
        before = session.watch

        def watch(event: Event) -> None:
            before(event)
            self._tell(EventLogged(event))
            watching.take(event)

        watching = self._watching = StatusWatcher(agent, self._tell)
        session.watch = watch
        self._tell(AgentOpened(agent.name, session.model, agent.greeting, not session.view.turn_count))
        self._watching.look()

    # --- turns ----------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self._loop.call_soon_threadsafe(self._begin, message)

    def _begin(self, message: Message) -> None:
        self._turn = self._loop.create_task(self._ran(message))

    async def _ran(self, message: Message) -> None:
        over = TurnFinished()
        try:
            if self._agent is None:
                over = TurnFinished(problem="No agent is open.")
                return
            async with aclosing(self._agent.turn(message)) as turn:
                async for each in turn:
                    self._tell(AgentActivity(each))
                    self._look()
            over = TurnFinished(done=self._agent.over)
        except asyncio.CancelledError:
            over = TurnFinished(interrupted=True)
        except TidegateError as bad:
            over = TurnFinished(problem=str(bad))
        except Exception as bad:  # noqa: BLE001 - a turn that fails must not end the app
            over = TurnFinished(problem=f"{type(bad).__name__}: {bad}")
        finally:
            self._turn = None
            self._look()
            self._tell(over)

    def _look(self) -> None:
        if self._watching is not None:
            self._watching.look()

    def steer(self, message: Message) -> None:
        """Say it in the middle of the turn; where none is under way any more, it begins one."""

        def say() -> None:
            if self._turn is None or self._agent is None:
                self._begin(message)
                return
            try:
                self._agent.steer(message)
            except TidegateError as bad:
                self._tell(AgentProblem(str(bad)))

        self._loop.call_soon_threadsafe(say)

    def interrupt(self) -> None:
        self.do(self._interrupted)

    async def _interrupted(self) -> None:
        for answer in list(self._asked):
            if not answer.done():
                answer.cancel()
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait([self._turn])

    # --- questions ------------------------------------------------------------------------------------------------

    async def _ask(self, question: ApprovalQuestion) -> bool:
        answer: asyncio.Future[bool] = self._loop.create_future()

        def settle(agreed: bool) -> None:
            if not answer.done():
                answer.set_result(agreed)

        self._asked.add(answer)
        self._tell(ApprovalRequested(question, lambda agreed: _call_soon(self._loop, settle, agreed)))
        try:
            return await answer
        finally:
            self._asked.discard(answer)

    # --- commands and figures -------------------------------------------------------------------------------------

    def command(self, line: str) -> "Future[CommandAnswer]":
        return self.do(lambda: self._commanded(line))

    async def _commanded(self, line: str) -> CommandAnswer:
        place = self._place()
        if place is None:
            return CommandAnswer("No agent is open yet.", error=True)
        try:
            return await self.commands.answer(line, place)
        finally:
            self._look()

    def complete(self, prefix: str) -> "Future[list[str]]":
        async def completed() -> list[str]:
            return self.commands.complete(prefix, self._place())

        return self.do(completed)

    def ask(self, work: Callable[[CommandContext], Awaitable[_T]]) -> "Future[_T]":
        """Have something read or done where the session is."""

        async def asked() -> _T:
            place = self._place()
            if place is None:
                raise TidegateError("No agent is open yet.", "Wait a moment.")
            try:
                return await work(place)
            finally:
                self._look()

        return self.do(asked)

    def _place(self) -> CommandContext | None:
        if self._agent is None:
            return None
        return make_command_context(self._agent, self._data, self.opening, busy=self._turn is not None)


def _call_soon(loop: asyncio.AbstractEventLoop, settle: Callable[[bool], None], agreed: bool) -> None:
    """The answer may come when everything is closed already."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, agreed)
