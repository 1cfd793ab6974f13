"""`tidegate chat`: the conversation, the input, the figures. The app only shows and asks; the agent is backstage."""

import asyncio
from collections import deque
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter
from textual.message import Message
from textual.widgets import Static, TextArea

from tidegate.commands.agent_launch import LaunchOptions
from tidegate.commands.registry import CommandAnswer
from tidegate.datafolder.data_folder import DataFolder
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import (
    AgentOpened,
    AgentProblem,
    AgentThread,
    ApprovalRequested,
    EventLogged,
    ProviderFactory,
    ThreadEvent,
    TurnFinished,
    use_configured_provider,
)
from tidegate.tui.approval_prompt import ApprovalPrompt, ApprovalQueue
from tidegate.tui.composer.completion import InputCompletion
from tidegate.tui.composer.completion_menu import CompletionMenu
from tidegate.tui.composer.composer import Composer
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.file_mentions import compose_message
from tidegate.tui.composer.input_history import InputHistory
from tidegate.tui.control_filter import ControlFilter
from tidegate.tui.conversation.conversation import Conversation
from tidegate.tui.conversation.log_pages import LogPager
from tidegate.tui.key_bindings import CONVERSATION_ACTIONS, KEY_HELP, WELCOME_TEXT
from tidegate.tui.paste_filter import make_driver_class
from tidegate.tui.screens.context_pane import ContextPane
from tidegate.tui.screens.picker import Picker
from tidegate.tui.screens.picker_choices import (
    NEW_SESSION,
    create_model_source,
    create_session_source,
    make_next_session_name,
)
from tidegate.tui.status.activity_line import ActivityLine
from tidegate.tui.status.status_bar import StatusBar
from tidegate.tui.status.status_figures import StatusFigures
from tidegate.tui.themes import DARK_THEME, LIGHT_THEME
from tidegate.tui.turn_state import TurnState


class ChatApp(App[int]):
    TITLE = "tidegate"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = str(Path(__file__).with_name("chat.tcss"))
    BINDINGS: ClassVar[list[BindingType]] = [*BINDINGS]

    class Arrived(Message):
        """There is news from backstage."""

    def __init__(
        self,
        data: DataFolder,
        opening: LaunchOptions,
        workspace: Path,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        dark: bool = True,
    ) -> None:
        super().__init__(driver_class=make_driver_class())
        self.data = data
        self.workspace = workspace
        self.shown = TextSanitizer(data.mask)
        self.talk = TurnState()
        self.session = opening.name
        self.ready = False
        self._opening = opening
        self._news: deque[ThreadEvent] = deque()
        self._leaving = False
        self._control_filter = ControlFilter()
        self.backstage = AgentThread(data, workspace, self._tell, provider_for=provider_for)
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        self.theme = DARK_THEME.name if dark else LIGHT_THEME.name

    def _fatal_error(self) -> None:
        """No traceback on the terminal: it would show what is in variables. Whoever ran the app raises it."""
        self._close_messages_no_wait()

    @property
    def failure(self) -> Exception | None:
        return self._exception

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), self._control_filter]

    # --- the screen -----------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Conversation(self._paging(self.session), self.shown, id="conversation")
        yield ActivityLine(self.talk, self.shown, id="waiting")
        yield ApprovalPrompt(self.shown, id="prompt")
        yield CompletionMenu(id="menu")
        with Vertical(id="input"), Horizontal(id="line"):
            yield Static("›", id="sign", markup=False)
            yield Composer(id="composer")
        yield StatusBar(id="status")

    def on_mount(self) -> None:
        """Kept by name: a query would look on whichever screen is on top."""
        self.conversation = self.query_one(Conversation)
        self.status = self.query_one(StatusBar)
        self._line = self.query_one(ActivityLine)
        self._frame = self.query_one("#input")
        self.composer = self.query_one(Composer)
        self.questions = ApprovalQueue(self.query_one(ApprovalPrompt), self.composer)
        self.completing = InputCompletion(self.composer, self.query_one(CompletionMenu), self.backstage, self.workspace)
        self.composer.placeholder = "Say something.  / for commands, @ for a file"
        self.composer.before = InputHistory(self.data, self.session)
        self._titled()
        self.composer.focus()
        self.theme_changed_signal.subscribe(self, lambda _: self.conversation.redraw())
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.backstage.start()
        self.backstage.open(self._opening)

    def _paging(self, name: str) -> LogPager:
        return LogPager(lambda: self.data.log(name))

    def _titled(self) -> None:
        """Which session, and where in it the screen is if not at its end."""
        position = self.conversation.position
        place = f"↑ at {position}% · ctrl+end · " if position is not None else ""
        self._frame.border_title = place + self.shown.line(self.session).replace("[", "(")

    def on_conversation_moved(self) -> None:
        self._titled()

    # --- news -----------------------------------------------------------------------------------------------------

    def _tell(self, news: ThreadEvent) -> None:
        """Called in the agent's thread. One message carries all that came until it is read."""
        self._news.append(news)
        if len(self._news) == 1:
            self.post_message(self.Arrived())

    def on_chat_app_arrived(self) -> None:
        if not self._news:
            return
        while self._news:
            self._take(self._news.popleft())
        self._flow()
        self._waits()

    def _flow(self) -> None:
        """What is to be seen behind the log, seen."""
        self.conversation.remark(self.talk.fresh())
        self.conversation.grow(self.talk.saying)

    def _take(self, news: ThreadEvent) -> None:
        self.talk.take(news)
        match news:
            case EventLogged(event):
                self.conversation.say(event)
            case StatusFigures():
                self.status.standing = news
            case AgentOpened():
                self._opened(news)
            case AgentProblem(problem):
                self.talk.remark(problem, problem=True)
            case ApprovalRequested():
                self.questions.put(news)
            case TurnFinished():
                self._over(news)

    def _opened(self, news: AgentOpened) -> None:
        changed = news.name != self.session
        self.session, self.ready = news.name, True
        if changed:
            self.questions.forget()
            self.composer.before = InputHistory(self.data, self.session)
            self.conversation.turn_to(self._paging(self.session), self.shown)
        self._titled()
        if news.greeting or news.fresh:
            self.talk.remark(news.greeting or WELCOME_TEXT)
        self._send_next()

    def _over(self, over: TurnFinished) -> None:
        self.questions.drop()
        if over.done:
            self.exit(0)
        elif not over.interrupted and not over.problem:
            self._send_next()

    # --- sending --------------------------------------------------------------------------------------------------

    def on_composer_sent(self, event: Composer.Sent) -> None:
        draft = event.draft
        if draft.text.startswith("/"):
            self._command(draft.text)
        elif draft.text.strip():
            self.talk.queue.append(draft)
            self.conversation.show_end()
            if not self.talk.busy:
                self._send_next()
        elif self.talk.queue and self.talk.busy:
            self._out(self.talk.queue.pop(0), steer=True)
        elif self.talk.queue:
            self._send_next()
        self._waits()

    def _send_next(self) -> None:
        if self.ready and self.talk.queue and not self.talk.busy:
            self.talk.begin()
            self._out(self.talk.queue.pop(0), steer=False)
            self._waits()

    @work(group="out")
    async def _out(self, draft: MessageDraft, *, steer: bool) -> None:
        """The files it names are read elsewhere: they may be large, or on a slow disk."""
        message, problems = await asyncio.to_thread(compose_message, draft, self.workspace)
        for problem in problems:
            self.talk.remark(problem, problem=True)
        self._flow()
        (self.backstage.steer if steer else self.backstage.send)(message)

    def on_composer_recalled(self) -> None:
        """The newest that waits is taken back into the input."""
        if self.talk.queue:
            self.composer.put(self.talk.queue.pop())
            self._waits()

    def _waits(self) -> None:
        self.composer.waiting = bool(self.talk.queue)
        self._line.ready = self.ready
        self._line.look()

    # --- what is typed --------------------------------------------------------------------------------------------

    @on(TextArea.Changed, "#composer")
    def _typed(self) -> None:
        self._suggest()

    @work(group="suggest", exclusive=True)
    async def _suggest(self) -> None:
        await self.completing.suggest()

    def on_composer_menu(self, event: Composer.Menu) -> None:
        self.completing.key(event.key)

    def on_prompt_answered(self, event: ApprovalPrompt.Answered) -> None:
        self.questions.settle(event.verdict)

    def on_prompt_typed(self, event: ApprovalPrompt.Typed) -> None:
        self.composer.focus()
        self.composer.insert(event.text)

    # --- commands -------------------------------------------------------------------------------------------------

    @work(group="command")
    async def _command(self, line: str) -> None:
        answer = await asyncio.wrap_future(self.backstage.command(line))
        await self._answered(line, answer)

    async def _answered(self, line: str, answer: CommandAnswer) -> None:
        verb = answer.act.partition(" ")[0]
        if verb == "quit":
            self.exit(0)
        elif verb == "pick-session":
            self.action_sessions()
        elif verb == "pick-model":
            self.action_models()
        elif verb and self.backstage.opening is not None:
            self.reopen(answer.act)
        if answer.text and not verb.startswith("pick-"):
            self._tell_answer(line, answer.text, error=answer.error)

    def _tell_answer(self, line: str, text: str, *, error: bool = False) -> None:
        self.conversation.show_end()
        key = self.talk.answer(line, text, error=error)
        self._flow()
        self.conversation.show_head(key)

    def reopen(self, act: str) -> None:
        """Another model, policy or session: the same conversation is opened anew, or another one."""
        if self.backstage.opening is not None:
            self.ready = False
            self.backstage.open(self.backstage.opening.after(act))
            self._waits()

    # --- keys -----------------------------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        if self.talk.busy:
            self.backstage.interrupt()
        else:
            self.conversation.chosen = ""

    def action_stop(self) -> None:
        """Copy what is selected; else stop what goes on; else empty the input; else leave, if it is said twice."""
        if self.composer.selected_text:
            self.copy_to_clipboard(self.composer.selected_text)
        elif (selected := self.screen.get_selected_text()) is not None and selected:
            self.copy_to_clipboard(selected)
        elif self.talk.busy:
            self.backstage.interrupt()
        elif self.composer.text:
            self.composer.put(MessageDraft())
        elif self._leaving:
            self.exit(0)
        else:
            self._leaving = True
            self.notify("Once more to leave.", timeout=3, markup=False)
            self.set_timer(3, self._stay)

    def _stay(self) -> None:
        self._leaving = False

    def action_cards(self) -> None:
        self.conversation.toggle(self.conversation.chosen)

    def action_card(self, step: int) -> None:
        self.conversation.choose(step)

    def action_page(self, step: int) -> None:
        self.conversation.page(step)

    def action_start(self) -> None:
        self.conversation.show_start()

    def action_end(self) -> None:
        self.conversation.show_end()

    def action_theme(self) -> None:
        self.theme = LIGHT_THEME.name if self.current_theme.dark else DARK_THEME.name

    def action_help(self) -> None:
        self._tell_answer("/help", f"{KEY_HELP}\n\n{self.backstage.commands.help()}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On top of the conversation another screen has the keys, but those that are good anywhere."""
        return len(self.screen_stack) == 1 or action not in CONVERSATION_ACTIONS

    def action_context(self) -> None:
        _ = self.push_screen(ContextPane(self.backstage, self.shown), self._from_pane)

    def _from_pane(self, line: str | None) -> None:
        if line:
            self._command(line)

    @work(group="pick", exclusive=True)
    async def action_sessions(self) -> None:
        name = await self.push_screen_wait(
            Picker("sessions", create_session_source(self.data, self.shown, self.session))
        )
        if name and name != self.session:
            self.reopen(f"resume {make_next_session_name(self.session) if name == NEW_SESSION else name}")

    @work(group="pick", exclusive=True)
    async def action_models(self) -> None:
        name = await self.push_screen_wait(Picker("models", create_model_source(self.backstage, self.shown), free=True))
        if name:
            self.reopen(f"model {name}")

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.backstage.close)
