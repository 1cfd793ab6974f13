"""`tidegate chat --plain`: lines in, lines out. For pipes, scripts and screen readers; no escape code is ever printed.

It is another face of the agent that the terminal app has, over the same backstage. On standard output stands what was
said: the answers, a line for each tool, what commands say. On the other stand notices and problems. Lines are read
only when the agent is idle, so what comes meanwhile waits in its pipe.
"""

import asyncio
import json
import signal
import sys
import textwrap
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tidegate.agent.loop import AgentEvent, RequestRefused, ToolFinished, ToolStarted, TurnEnded
from tidegate.agent.runtime import UserNotice
from tidegate.cli.run import run_until_signal
from tidegate.commands.agent_launch import LaunchOptions
from tidegate.commands.registry import CommandAnswer
from tidegate.core.events import Event
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import TextSanitizer
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
)
from tidegate.tui.agent_thread import use_configured_provider as own
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.file_mentions import compose_message
from tidegate.tui.conversation.transcript_blocks import build_blocks, find_call_subject, format_call_arguments
from tidegate.tui.plain.chat_streams import ChatInput, ChatOutput, TypedInput, format_resume_hint
from tidegate.tui.plain.line_reader import LineReader
from tidegate.tui.session_grants import SessionGrants
from tidegate.tui.turn_state import TurnState

_T = TypeVar("_T")
_MAX_SUBJECT_CHARS: Final = 160
"""Characters of what a tool is called with, in its line."""
_PICK_HINTS: Final = {"pick-session": "Go on with one by /resume NAME.", "pick-model": "Choose one by /model NAME."}


def run_plain_chat(data: DataFolder, opening: LaunchOptions, workspace: Path, *, secrets: Iterable[str] = ()) -> int:
    """The status to exit with: see `Plain.status`."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    asks = sys.stdin is not None and sys.stdin.isatty()
    lines = TypedInput(LineReader(sys.stdin.fileno() if sys.stdin is not None else -1), asks=asks)
    spaced = any(sign.isspace() for secret in secrets for sign in secret)
    plain = PlainChat(data, opening, workspace, lines, whole=spaced)
    status = asyncio.run(run_until_signal(plain.run()))
    if plain.opened:
        print(format_resume_hint(plain.name))
    return status


def _ignore_event(_: ThreadEvent) -> None: ...


class PlainChat:
    """The face. `lines` gives what is said; whoever cannot be asked is not, and what would be asked is denied.

    `listen` hears all that happens, in the agent's thread.
    """

    def __init__(
        self,
        data: DataFolder,
        opening: LaunchOptions,
        workspace: Path,
        lines: ChatInput,
        *,
        whole: bool = False,
        provider_for: ProviderFactory = own,
        listen: ThreadListener = _ignore_event,
    ) -> None:
        self.name = opening.name
        self.failed = False
        self.interrupted = False
        self._opening = opening
        self._workspace = workspace
        self._lines = lines
        self._listen = listen
        self._whole = whole
        self._shown = TextSanitizer(data.mask)
        self._out = ChatOutput(self._shown)
        self._flow = StreamMasker(self._shown, whole=whole)
        self._talk = TurnState()
        self._grants = SessionGrants()
        self._news: deque[ThreadEvent] = deque()
        self._arrived = asyncio.Event()
        self.opened = self._leaving = self._pressed = False
        self._turning: asyncio.Future[TurnFinished] | None = None
        self._commanding: asyncio.Future[CommandAnswer] | None = None
        self._answering: asyncio.Future[str | None] | None = None
        self._main: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.backstage = AgentThread(data, workspace, self.tell, provider_for=provider_for, asks=lines.asks)

    @property
    def status(self) -> int:
        """A person has seen what failed; a script has not."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if not self.opened or (self.failed and not self._lines.asks) else EXIT_OK

    def tell(self, news: ThreadEvent) -> None:
        """Called in the agent's thread."""
        self._listen(news)
        self._news.append(news)
        if self._loop is not None:
            with suppress(RuntimeError):  # at the very end nobody listens
                self._loop.call_soon_threadsafe(self._arrived.set)

    # --- the conversation -----------------------------------------------------------------------------------------

    async def run(self) -> int:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        heeds = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if heeds:
            self._loop.add_signal_handler(signal.SIGINT, self._stop)
        self.backstage.start()
        try:
            await self._go_to(self._opening)
            while self.opened and not self._leaving:
                await self._next()
        except asyncio.CancelledError:
            if not self.interrupted:
                raise
        finally:
            await asyncio.to_thread(self.backstage.close)
            if heeds:
                self._loop.remove_signal_handler(signal.SIGINT)
            self._out.end()
        return self.status

    async def _next(self) -> None:
        said = (await self._until(asyncio.ensure_future(self._lines.message(self._out)))).result()
        self._pressed = self._pressed and not self._lines.asks
        if said is None:
            self._leaving = True
        elif said.startswith("/"):
            await self._command(said)
        elif said.strip():
            await self._turn(said)

    async def _until(self, waited: "asyncio.Future[_T]") -> "asyncio.Future[_T]":
        """Show what happens until this is done, in whichever way."""
        waited.add_done_callback(lambda _: self._arrived.set())
        try:
            while True:
                while self._news:
                    await self._take(self._news.popleft())
                if waited.done():
                    return waited
                await self._arrived.wait()
                self._arrived.clear()
        finally:
            waited.cancel()

    async def _go_to(self, opening: LaunchOptions) -> None:
        (await self._until(asyncio.wrap_future(self.backstage.open(opening)))).result()

    async def _turn(self, said: str) -> None:
        draft = MessageDraft(said) if self._lines.asks else MessageDraft.of_block(said)  # a pipe may bring anything
        message, problems = await asyncio.to_thread(compose_message, draft, self._workspace)
        for problem in problems:
            self._out.aside(problem)
        self._turning = asyncio.get_running_loop().create_future()
        self._flow = StreamMasker(self._shown, whole=self._whole)
        self.backstage.send(message)
        over = (await self._until(self._turning)).result()
        self._turning = None
        self._leaving = self._leaving or over.done

    async def _command(self, line: str) -> None:
        self._commanding = asyncio.wrap_future(self.backstage.command(line))
        done = await self._until(self._commanding)
        self._commanding = None
        if done.cancelled():
            self._out.aside("Interrupted.")
            return
        answer = done.result()
        if answer.error:
            self.failed = True
            self._out.aside(answer.text)
        elif answer.text:
            self._out.line(answer.text)
        verb = answer.act.partition(" ")[0]
        self._leaving = verb == "quit"
        if verb in _PICK_HINTS:
            self._out.line(_PICK_HINTS[verb])
        elif verb and not self._leaving and self.backstage.opening is not None:
            await self._go_to(self.backstage.opening.after(answer.act))

    # --- what happens ---------------------------------------------------------------------------------------------

    async def _take(self, news: ThreadEvent) -> None:
        match news:
            case AgentActivity(what):
                self._happened(what)
            case EventLogged(event):
                self._logged(event)
            case AgentOpened():
                self._entered(news)
            case AgentProblem(problem):
                self.failed = True
                self._out.aside(problem)
            case ApprovalRequested():
                await self._asked(news)
            case TurnFinished():
                self._end_flow()
        self._talk.take(news)
        for block in self._talk.fresh():
            self._out.aside(block.text)
        if isinstance(news, TurnFinished):
            self.failed = self.failed or news.interrupted or bool(news.problem)
            if self._turning is not None and not self._turning.done():
                self._turning.set_result(news)

    def _happened(self, what: AgentEvent | UserNotice) -> None:
        match what:
            case Delta(kind="text", text=text):
                self._out.flow(self._flow.take(text))
            case Reply() | RequestRefused():
                self._end_flow()
            case ToolStarted(call):
                about = self._shown.line(find_call_subject(call.arguments)[:4000])[:_MAX_SUBJECT_CHARS]
                self._out.line(f"* {self._shown.line(call.name)[:80]} {about}".rstrip())
            case ToolFinished(call, result) if result.error:
                why = self._shown.line(result.text[:4000])[:_MAX_SUBJECT_CHARS]
                self._out.line(f"* {self._shown.line(call.name)[:80]} failed: {why}")
            case TurnEnded(why):
                self.failed = self.failed or why not in ("end", "unknown")

    def _end_flow(self) -> None:
        self._out.flow(self._flow.end())
        self._out.end()

    def _logged(self, event: Event) -> None:
        for block in build_blocks(event):
            if block.kind == "edit":
                self._out.aside(f"compacted: {block.title}")
            elif block.kind == "note":
                self._out.aside(block.text)

    def _entered(self, news: AgentOpened) -> None:
        if self.name != news.name:
            self._grants = SessionGrants()
        self.name, self.opened = news.name, True
        if news.greeting:
            self._out.line(news.greeting)
        if sys.stderr.isatty():
            self._out.aside(f"session {news.name}, model {news.model}")

    # --- questions ------------------------------------------------------------------------------------------------

    async def _asked(self, asking: ApprovalRequested) -> None:
        question = asking.question
        if self._grants.covers(question):
            asking.answer(True)
            return
        self._end_flow()
        self._out.line(f"May {self._shown.line(question.tool)[:80]} run? ({question.why})")
        self._out.line(textwrap.indent(format_call_arguments(json.dumps(question.arguments)), "  "))
        said = ""
        while said not in ("y", "yes", "a", "always", "n", "no"):
            self._answering = asyncio.ensure_future(self._lines.answer(self._out, "y yes, a always, n no: "))
            await asyncio.wait([self._answering])
            read = None if self._answering.cancelled() else self._answering.result()
            said = "n" if read is None else read.strip().casefold()
        self._answering = None
        if said in ("a", "always"):
            self._grants.add(question)
        asking.answer(said not in ("n", "no"))

    # --- Ctrl-C ---------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Once: what goes on ends. Twice, with nothing said between: all ends."""
        if self._pressed:
            self.interrupted = True
            if self._main is not None:
                self._main.cancel()
            return
        self._pressed = True
        if self._answering is not None:
            self._answering.cancel()
        if self._turning is not None:
            self.backstage.interrupt()
        elif self._commanding is not None:
            self._commanding.cancel()
        self._out.aside("Ctrl-C once more leaves.")
