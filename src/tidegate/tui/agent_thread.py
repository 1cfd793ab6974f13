"""The thread that runs the agent, with its own event loop, so that the screen always reacts to keys.

Counting tokens, fitting the window, writing to the log and running the embedded model all happen here. The thread
reports through a listener; the screen asks through `submit`. Only this thread touches the session.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.environment import allowed_environment
from tidegate.agent.loop import AgentEvent
from tidegate.agent.runtime import OpenAgent, UnchosenModel, UserNotice, open_agent
from tidegate.agent.session_model import use_session_model
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.agent.tools.files.file_change import FileChange, find_file_change, read_text_before
from tidegate.agent.tools.shell.shell_tool import run_shell_command
from tidegate.agent.tools.tool import ToolResult, bound_result
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandAnswer, CommandContext, make_command_context
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.messages import Message
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_names import read_session_title
from tidegate.models.provider import Provider
from tidegate.tui.status.status_figures import StatusFigures, StatusWatcher

_T = TypeVar("_T")


class AgentOpened(NamedTuple):
    """An agent was opened and accepts messages. `title` is the first request of a session that continues.
    `is_embedded`: the small model on this machine answers. `unchosen`: why, if the user chose no model."""

    session_name: str
    model: str
    greeting: str
    is_new: bool
    title: str = ""
    is_embedded: bool = False
    unchosen: UnchosenModel | None = None


class EventLogged(NamedTuple):
    event: Event


class AgentActivity(NamedTuple):
    event: AgentEvent | UserNotice


class TurnFinished(NamedTuple):
    """The turn ended: by itself, or because it was interrupted, or because something failed (`problem`).

    `agent_finished`: the agent existed for this turn only.
    """

    was_interrupted: bool = False
    problem: str = ""
    agent_finished: bool = False


class AgentProblem(NamedTuple):
    """The agent could not be opened. If another was open, it still is. `error` is None for one that is not ours."""

    problem: str
    error: TidegateError | None = None


class ApprovalRequested(NamedTuple):
    """A question to the user. `answer` may be called once, from any thread. `change` is what the call would do to a
    file, if it is an edit."""

    question: ApprovalQuestion
    answer: Callable[[bool], None]
    change: FileChange | None = None


ThreadEvent = (
    AgentOpened | EventLogged | AgentActivity | TurnFinished | AgentProblem | ApprovalRequested | StatusFigures
)
ThreadListener = Callable[[ThreadEvent], None]
ProviderFactory = Callable[[LaunchOptions], Provider | None]


def use_configured_provider(_: LaunchOptions) -> Provider | None:
    return None


class AgentThread:
    """Runs one agent at a time. `provider_for` replaces the configured providers; without `asks` every question is
    denied."""

    def __init__(
        self,
        data: DataFolder,
        workspace: Path,
        listener: ThreadListener,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        asks: bool = True,
    ) -> None:
        self._data = data
        self._workspace = workspace
        self._listener = listener
        self._provider_for = provider_for
        self._can_ask = asks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="tidegate-agent", daemon=True)
        self.agent: OpenAgent | None = None
        self._status_watcher: StatusWatcher | None = None
        self._close_requested: asyncio.Event | None = None
        self._agent_task: asyncio.Task[None] | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._open_questions: set[asyncio.Future[bool]] = set()
        self._shell_tasks: set[asyncio.Task[ToolResult]] = set()
        self._switching = asyncio.Lock()
        self.launch_options: LaunchOptions | None = None
        self.plan_mode = False
        self.commands = create_command_registry()

    def start(self) -> None:
        self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def submit(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> "Future[_T]":
        """Run this with the agent, in its thread."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def close(self) -> None:
        """End the turn that is running, close the session, and wait for both."""
        if self._thread.is_alive():
            with suppress(Exception):
                self.submit(self._close).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _close(self) -> None:
        for task in self._shell_tasks:
            task.cancel()
        if self._shell_tasks:
            await asyncio.wait(self._shell_tasks)
        await self._interrupt_turn()
        await self._close_agent()

    # --- opening --------------------------------------------------------------------------------------------------

    def open(self, launch: LaunchOptions) -> "Future[None]":
        return self.submit(lambda: self._switch_agent(launch))

    async def _switch_agent(self, launch: LaunchOptions) -> None:
        """Open another agent. The old one is closed first, because two agents may not write to one session. If the new
        one cannot be opened, the old one is opened again. Commands wait until this is done."""
        async with self._switching:
            await self._replace_agent(launch)

    async def _replace_agent(self, launch: LaunchOptions) -> None:
        try:
            if self.launch_options is not None and launch.session_name != self.launch_options.session_name:
                launch = use_session_model(launch, self._data)
            launch.load_config()  # most faults show here, before anything is closed
        except TidegateError as bad:
            self._listener(AgentProblem(str(bad), bad))
            return
        await self._interrupt_turn()
        before = self.launch_options
        await self._close_agent()
        problem = await self._start_agent(launch)
        if problem is not None:
            self._listener(problem)
            if before is not None:
                await self._start_agent(before)

    async def _close_agent(self) -> None:
        if self._status_watcher is not None:
            self._status_watcher.stop()
        if self._close_requested is not None and self._agent_task is not None:
            self._close_requested.set()
            await asyncio.wait([self._agent_task])
        self._close_requested = self._agent_task = self.agent = self._status_watcher = None

    async def _start_agent(self, launch: LaunchOptions) -> AgentProblem | None:
        """Open and close the agent in one task: the connections it holds require that."""
        leave = self._close_requested = asyncio.Event()
        ready: asyncio.Future[AgentProblem | None] = self._loop.create_future()
        self._agent_task = self._loop.create_task(self._hold_agent(launch, leave, ready))
        return await ready

    async def _hold_agent(
        self, launch: LaunchOptions, leave: asyncio.Event, ready: "asyncio.Future[AgentProblem | None]"
    ) -> None:
        try:
            loaded = launch.load_config()
            async with open_agent(
                loaded.config,
                data=self._data,
                name=launch.session_name,
                workspace=self._workspace,
                ask=self._ask_user if self._can_ask else None,
                provider=self._provider_for(launch),
                specialists=loaded.specialists,
                environment=launch.environment,
            ) as agent:
                agent.notices += [*([launch.notice] if launch.notice else []), *loaded.problems]
                self._attach_agent(launch, agent)
                ready.set_result(None)
                await leave.wait()
        except Exception as bad:  # noqa: BLE001 - any error is shown to the user, and the app stays open
            error = bad if isinstance(bad, TidegateError) else None
            problem = f"{type(bad).__name__}: {bad}" if error is None else str(error)
            if ready.done():
                self._listener(TurnFinished(problem=problem))
            else:
                ready.set_result(AgentProblem(problem, error))

    def _attach_agent(self, launch: LaunchOptions, agent: OpenAgent) -> None:
        self.agent, self.launch_options = agent, launch
        agent.agent.toolbox.plan_mode = self.plan_mode
        session = agent.session
        self._status_watcher = StatusWatcher(agent, self._listener)
        session.history.observe(lambda event: self._listener(EventLogged(event)))
        session.history.observe(self._follow_event)
        is_new = not session.view.total_turns
        title = "" if is_new else read_session_title(self._data, agent.session_name)
        is_embedded, unchosen = agent.connection.is_embedded, agent.take_unchosen_model()
        self._listener(
            AgentOpened(agent.session_name, session.model, agent.greeting, is_new, title, is_embedded, unchosen)
        )
        self._status_watcher.update()

    def _follow_event(self, event: Event) -> None:
        """Events may be appended in any thread; the status is read in the thread of the agent's loop."""
        if self._status_watcher is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._status_watcher.handle_event, event)

    # --- turns ----------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self._loop.call_soon_threadsafe(self._start_turn, message)

    def _start_turn(self, message: Message) -> None:
        self._turn_task = self._loop.create_task(self._run_turn(message))

    async def _run_turn(self, message: Message) -> None:
        finished = TurnFinished()
        try:
            if self.agent is None:
                finished = TurnFinished(problem="No agent is open.")
                return
            async with aclosing(self.agent.run_turn(message)) as turn:
                async for each in turn:
                    self._listener(AgentActivity(each))
                    self._update_status()
            finished = TurnFinished(agent_finished=self.agent.is_finished)
        except asyncio.CancelledError:
            finished = TurnFinished(was_interrupted=True)
        except TidegateError as bad:
            finished = TurnFinished(problem=str(bad))
        except Exception as bad:  # noqa: BLE001 - a turn that fails must not end the app
            finished = TurnFinished(problem=f"{type(bad).__name__}: {bad}")
        finally:
            self._turn_task = None
            self._update_status()
            self._listener(finished)

    def _update_status(self) -> None:
        if self._status_watcher is not None:
            self._status_watcher.update()

    def steer(self, message: Message) -> None:
        """Send a message into the running turn, or start one if none is running."""

        def say() -> None:
            if self._turn_task is None or self.agent is None:
                self._start_turn(message)
                return
            try:
                self.agent.steer(message)
            except TidegateError as bad:
                self._listener(AgentProblem(str(bad)))

        self._loop.call_soon_threadsafe(say)

    def interrupt(self) -> None:
        self.submit(self._interrupt_turn)

    async def _interrupt_turn(self) -> None:
        for answer in list(self._open_questions):
            if not answer.done():
                answer.cancel()
        if self._turn_task is not None:
            self._turn_task.cancel()
            await asyncio.wait([self._turn_task])

    # --- questions ------------------------------------------------------------------------------------------------

    async def _ask_user(self, question: ApprovalQuestion) -> bool:
        answer: asyncio.Future[bool] = self._loop.create_future()
        change = find_file_change(question.tool, question.arguments)
        if change is not None:
            change = await asyncio.to_thread(read_text_before, change, self._workspace)

        def settle(agreed: bool) -> None:
            if not answer.done():
                answer.set_result(agreed)

        self._open_questions.add(answer)
        self._listener(ApprovalRequested(question, lambda agreed: _call_soon(self._loop, settle, agreed), change))
        try:
            return await answer
        finally:
            self._open_questions.discard(answer)

    # --- commands and figures -------------------------------------------------------------------------------------

    def run_command(self, line: str) -> "Future[CommandAnswer]":
        return self.submit(lambda: self._answer_command(line))

    async def _answer_command(self, line: str) -> CommandAnswer:
        async with self._switching:
            context = self._make_context()
        if context is None:
            return CommandAnswer("No agent is open.", error=True)
        try:
            return await self.commands.answer(line, context)
        finally:
            self._update_status()

    def set_plan_mode(self, on: bool) -> None:
        """Switch the plan mode of this agent and of those that are opened later."""

        def switch() -> None:
            self.plan_mode = on
            if self.agent is not None:
                self.agent.agent.toolbox.plan_mode = on

        self._loop.call_soon_threadsafe(switch)

    def run_shell(self, command: str, environment: Mapping[str, str]) -> "Future[ToolResult]":
        """Run a command that the user typed, with the variables that a command of the agent sees. Cancel the future to
        stop it. The result is not in the log."""

        async def run() -> ToolResult:
            work = run_shell_command(command, self._workspace, allowed_environment(environment))
            task = self._loop.create_task(work)
            self._shell_tasks.add(task)
            try:
                return bound_result(await task)
            finally:
                self._shell_tasks.discard(task)

        return self.submit(run)

    def complete_command(self, prefix: str) -> "Future[list[str]]":
        async def complete() -> list[str]:
            return self.commands.complete(prefix, self._make_context())

        return self.submit(complete)

    def run_with_context(self, work: Callable[[CommandContext], Awaitable[_T]]) -> "Future[_T]":
        """Run a function where the session lives, with the context of commands."""

        async def run() -> _T:
            context = self._make_context()
            if context is None:
                raise TidegateError("No agent is open yet.", "Wait a moment.")
            try:
                return await work(context)
            finally:
                self._update_status()

        return self.submit(run)

    def _make_context(self) -> CommandContext | None:
        if self.agent is None:
            return None
        return make_command_context(self.agent, self._data, self.launch_options, busy=self._turn_task is not None)


def _call_soon(loop: asyncio.AbstractEventLoop, settle: Callable[[bool], None], agreed: bool) -> None:
    """Call in the loop, unless it is closed already."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, agreed)
