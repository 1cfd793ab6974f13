"""`tidegate chat --plain`: lines in, lines out, for pipes, scripts and screen readers; no escape code is ever printed.

It uses the same agent thread as the app. Standard output gets the conversation: the answers, a line for each tool, the
answers of commands. Standard error gets notices and problems. A line is read only when the agent is idle, so input that
arrives meanwhile waits in its pipe.
"""

import asyncio
import json
import signal
import sys
import textwrap
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar, assert_never

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.loop import AgentEvent, RequestRefused, ToolFinished, ToolStarted, TurnEnded
from tidegate.agent.runtime import UserNotice
from tidegate.agent.tools.files.file_change import compare_lines
from tidegate.commands.actions import (
    AttachOutput,
    ChooseTheme,
    CommandAction,
    PickModel,
    PickSession,
    Quit,
    ReopenSession,
    ResumeSession,
    SetPlanMode,
    SwitchModel,
    SwitchPolicy,
    apply_change,
)
from tidegate.commands.registry import CommandAnswer
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import TextSanitizer
from tidegate.terminal.signals import run_until_signal
from tidegate.terminal.stream_masker import StreamMasker
from tidegate.tui.agent_thread import (
    AgentActivity,
    AgentOpened,
    AgentProblem,
    AgentThread,
    ApprovalRequested,
    EventLogged,
    ProviderFactory,
    ThreadEvent,
    ThreadListener,
    TurnFinished,
    use_configured_provider,
)
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.file_mentions import compose_message
from tidegate.tui.conversation.diff_lines import describe_change, sanitize_change
from tidegate.tui.conversation.transcript_blocks import build_blocks, find_call_subject, format_call_arguments
from tidegate.tui.plain.chat_streams import ChatInput, ChatOutput, TypedInput
from tidegate.tui.plain.line_reader import LineReader
from tidegate.tui.session_grants import SessionGrants, explain_no_always
from tidegate.tui.turn_state import TurnState
from tidegate.tui.user_shell import NO_OUTPUT_HINT, UserShell

_T = TypeVar("_T")
_MAX_SUBJECT_CHARS: Final = 160
"""Characters of what a tool is called with, in its line."""


def run_plain_chat(
    data: DataFolder, opening: LaunchOptions, workspace: Path, *, format_hint: Callable[[str, LaunchOptions], str]
) -> int:
    """Run the chat and return its exit status (`PlainChat.exit_code`). If no agent can be opened, raise the error.

    `format_hint` says how to continue the session, which was last open with these options.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    asks = sys.stdin is not None and sys.stdin.isatty()
    lines = TypedInput(LineReader(sys.stdin.fileno() if sys.stdin is not None else -1), asks=asks)
    plain = PlainChat(data, opening, workspace, lines)
    status = asyncio.run(run_until_signal(plain.run()))
    if plain.opening_error is not None:
        raise plain.opening_error
    if plain.has_opened:
        print(format_hint(plain.session_name, plain.agent_thread.launch_options or opening))
    return status


def _ignore_event(_: ThreadEvent) -> None: ...


class PlainChat:
    """A chat over lines. Questions are denied if `lines` cannot answer them.

    `listen` is called with every event, in the agent's thread.
    """

    def __init__(
        self,
        data: DataFolder,
        opening: LaunchOptions,
        workspace: Path,
        lines: ChatInput,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        listen: ThreadListener = _ignore_event,
    ) -> None:
        self.session_name = opening.session_name
        self.has_failed = False
        self.opening_error: TidegateError | None = None
        self.was_interrupted = False
        self._launch_options = opening
        self._workspace = workspace
        self._input = lines
        self._listener = listen
        self._sanitizer = TextSanitizer(data.mask)
        self._output = ChatOutput(self._sanitizer)
        self._stream_masker = StreamMasker(self._sanitizer)
        self._turn_state = TurnState()
        self._grants = SessionGrants()
        self._pending_events: deque[ThreadEvent] = deque()
        self._arrived = asyncio.Event()
        self.has_opened = self._leaving = self._stop_requested = False
        self._turn_done: asyncio.Future[TurnFinished] | None = None
        self._command_answer: asyncio.Future[CommandAnswer] | None = None
        self._attached_output = ""
        self._approval_answer: asyncio.Future[str | None] | None = None
        self._main_task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.agent_thread = AgentThread(
            data, workspace, self.receive_event, provider_for=provider_for, asks=lines.can_ask
        )
        self._user_shell = UserShell(self.agent_thread, self._turn_state, opening.environment)

    @property
    def exit_code(self) -> int:
        """The exit status. A person has seen a failure; a script needs the status."""
        if self.was_interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if not self.has_opened or (self.has_failed and not self._input.can_ask) else EXIT_OK

    def receive_event(self, news: ThreadEvent) -> None:
        """Queue an event. Called in the agent's thread."""
        self._listener(news)
        self._pending_events.append(news)
        if self._loop is not None:
            with suppress(RuntimeError):  # at the very end nobody listens
                self._loop.call_soon_threadsafe(self._arrived.set)

    # --- the conversation -----------------------------------------------------------------------------------------

    async def run(self) -> int:
        self._loop, self._main_task = asyncio.get_running_loop(), asyncio.current_task()
        heeds = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if heeds:
            self._loop.add_signal_handler(signal.SIGINT, self._handle_interrupt)
        self.agent_thread.start()
        try:
            await self._open_session(self._launch_options)
            while self.has_opened and not self._leaving:
                await self._handle_next_message()
        except asyncio.CancelledError:
            if not self.was_interrupted:
                raise
        finally:
            await asyncio.to_thread(self.agent_thread.close)
            if heeds:
                self._loop.remove_signal_handler(signal.SIGINT)
            self._output.end_line()
        return self.exit_code

    async def _handle_next_message(self) -> None:
        message = (
            await self._show_events_until(asyncio.ensure_future(self._input.read_message(self._output)))
        ).result()
        self._stop_requested = self._stop_requested and not self._input.can_ask
        if message is None:
            self._leaving = True
        elif message.startswith("/"):
            await self._run_command(message)
        elif message.startswith("!") and self._input.can_ask:  # a pipe may bring anything: its lines are never run
            await self._run_shell(message[1:].strip())
        elif message.strip():
            await self._run_turn(message)

    async def _show_events_until(self, waited: "asyncio.Future[_T]") -> "asyncio.Future[_T]":
        """Show events until this future is done, however it ends."""
        waited.add_done_callback(lambda _: self._arrived.set())
        try:
            while True:
                while self._pending_events:
                    await self._handle_event(self._pending_events.popleft())
                if waited.done():
                    return waited
                await self._arrived.wait()
                self._arrived.clear()
        finally:
            waited.cancel()

    async def _open_session(self, opening: LaunchOptions) -> None:
        (await self._show_events_until(asyncio.wrap_future(self.agent_thread.open(opening)))).result()

    async def _run_turn(self, text: str) -> None:
        draft = (
            MessageDraft(text) if self._input.can_ask else MessageDraft.from_pasted(text)
        )  # a pipe may bring anything
        draft, self._attached_output = draft.replace_range(0, 0, self._attached_output), ""
        message, problems = await asyncio.to_thread(compose_message, draft, self._workspace)
        for problem in problems:
            self._output.write_notice(problem)
        self._turn_done = asyncio.get_running_loop().create_future()
        self._stream_masker = StreamMasker(self._sanitizer)
        self.agent_thread.send(message)
        over = (await self._show_events_until(self._turn_done)).result()
        self._turn_done = None
        self._leaving = self._leaving or over.agent_finished

    async def _run_shell(self, command: str) -> None:
        if command:
            running = asyncio.ensure_future(self._user_shell.run(command))
            self._output.write_line((await self._show_events_until(running)).result())

    def _attach_output(self) -> None:
        self._attached_output = self._user_shell.attachment
        self._output.write_notice(
            "The output goes with your next message." if self._attached_output else NO_OUTPUT_HINT
        )

    async def _run_command(self, line: str) -> None:
        self._command_answer = asyncio.wrap_future(self.agent_thread.run_command(line))
        answer_future = await self._show_events_until(self._command_answer)
        self._command_answer = None
        if answer_future.cancelled():
            self._output.write_notice("Interrupted.")
            return
        answer = answer_future.result()
        if answer.error:
            self.has_failed = True
            self._output.write_notice(answer.text)
        elif answer.text:
            self._output.write_line(answer.text)
        await self._handle_action(answer.action)

    async def _handle_action(self, action: CommandAction | None) -> None:
        match action:
            case PickSession():
                self._output.write_line("Go on with one by /resume NAME.")
            case PickModel():
                self._output.write_line("Choose one by /model NAME.")
            case AttachOutput():
                self._attach_output()
            case SetPlanMode(on):
                self.agent_thread.set_plan_mode(on)
            case ChooseTheme():
                self._output.write_notice("There are no colors here.")
            case Quit():
                self._leaving = True
            case ResumeSession() | SwitchModel() | SwitchPolicy() | ReopenSession() as change:
                if self.agent_thread.launch_options is not None:
                    await self._open_session(apply_change(self.agent_thread.launch_options, change))
            case None:
                pass
            case unknown:
                assert_never(unknown)

    # --- what happens ---------------------------------------------------------------------------------------------

    async def _handle_event(self, news: ThreadEvent) -> None:
        match news:
            case AgentActivity(what):
                self._print_activity(what)
            case EventLogged(event):
                self._print_logged(event)
            case AgentOpened():
                self._handle_opened(news)
            case AgentProblem(problem, error):
                self.has_failed = True
                if self.has_opened or error is None:
                    self._output.write_notice(problem)
                else:
                    self.opening_error = error
            case ApprovalRequested():
                await self._ask_approval(news)
            case TurnFinished():
                self._end_answer()
        self._turn_state.handle_event(news)
        for block in self._turn_state.take_remarks():
            self._output.write_notice(block.text)
        if isinstance(news, TurnFinished):
            self.has_failed = self.has_failed or news.was_interrupted or bool(news.problem)
            if self._turn_done is not None and not self._turn_done.done():
                self._turn_done.set_result(news)

    def _print_activity(self, what: AgentEvent | UserNotice) -> None:
        match what:
            case Delta(kind="text", text=text):
                self._output.write(self._stream_masker.feed(text))
            case Reply() | RequestRefused():
                self._end_answer()
            case ToolStarted(call):
                about = self._sanitizer.sanitize_line(find_call_subject(call.arguments)[:4000])[:_MAX_SUBJECT_CHARS]
                self._output.write_line(f"* {self._sanitizer.sanitize_line(call.name)[:80]} {about}".rstrip())
            case ToolFinished(call, result) if result.is_error:
                why = f"denied by {result.denied_by}" if result.denied_by else f"failed: {result.text[:4000]}"
                subject = self._sanitizer.sanitize_line(why)[:_MAX_SUBJECT_CHARS]
                self._output.write_line(f"* {self._sanitizer.sanitize_line(call.name)[:80]} {subject}")
            case TurnEnded(why):
                self.has_failed = self.has_failed or why not in ("end", "unknown")

    def _end_answer(self) -> None:
        self._output.write(self._stream_masker.flush())
        self._output.end_line()

    def _print_logged(self, event: Event) -> None:
        for block in build_blocks(event):
            if block.kind == "edit":
                self._output.write_notice(f"{block.label}: {block.title}")
            elif block.kind == "note" and not block.denied_by:
                self._output.write_notice(block.text)

    def _handle_opened(self, news: AgentOpened) -> None:
        if self.session_name != news.session_name:
            self._grants = SessionGrants()
            if news.unchosen is not None:
                self._output.write_notice(str(news.unchosen))
        self.session_name, self.has_opened = news.session_name, True
        if news.greeting:
            self._output.write_line(news.greeting)
        if sys.stderr.isatty():
            title = f" ({news.title})" if news.title else ""
            self._output.write_notice(f"session {news.session_name}{title}, model {news.model}")

    # --- questions ------------------------------------------------------------------------------------------------

    async def _ask_approval(self, asking: ApprovalRequested) -> None:
        question = asking.question
        if self._grants.allows(question):
            asking.answer(True)
            return
        self._end_answer()
        self._output.write_line(f"May {self._sanitizer.sanitize_line(question.tool)[:80]} run? ({question.reason})")
        if asking.change is None:
            text = format_call_arguments(json.dumps(question.arguments))
        else:
            change = sanitize_change(asking.change, self._sanitizer)
            diff = compare_lines(change)
            text = "\n".join([describe_change(change, diff), *(f"{mark} {line}" for mark, line in diff.lines)])
        self._output.write_line(textwrap.indent(text, "  "))
        why_not = explain_no_always(question)
        if why_not:
            self._output.write_line(why_not)
        prompt = "y yes, n no: " if why_not else "y yes, a always, n no: "
        answers = ("y", "yes", "n", "no", *(() if why_not else ("a", "always")))
        answer = ""
        while answer not in answers:
            self._approval_answer = asyncio.ensure_future(self._input.read_answer(self._output, prompt))
            await asyncio.wait([self._approval_answer])
            read = None if self._approval_answer.cancelled() else self._approval_answer.result()
            answer = "n" if read is None else read.strip().casefold()
        self._approval_answer = None
        if answer in ("a", "always"):
            self._grants.grant(question)
        asking.answer(answer not in ("n", "no"))

    # --- Ctrl-C ---------------------------------------------------------------------------------------------------

    def _handle_interrupt(self) -> None:
        """End the turn on the first interrupt; end the chat on the second in a row."""
        if self._stop_requested:
            self.was_interrupted = True
            if self._main_task is not None:
                self._main_task.cancel()
            return
        self._stop_requested = True
        if self._approval_answer is not None:
            self._approval_answer.cancel()
        if self._turn_done is not None:
            self.agent_thread.interrupt()
        elif self._command_answer is not None:
            self._command_answer.cancel()
        else:
            self._user_shell.stop()
        self._output.write_notice("Press Ctrl-C again to leave.")
