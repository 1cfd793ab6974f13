"""The app of `tidegate chat`: conversation, input, status bar. The agent runs in its own thread (`agent_thread.py`)."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, assert_never

from rich.segment import Segment
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor
from textual.message import Message
from textual.widgets import TextArea

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.runtime import UnchosenModel
from tidegate.commands.actions import (
    AttachOutput,
    ChooseTheme,
    LaunchChange,
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
from tidegate.commands.agent_commands import CONNECT_TEXT
from tidegate.commands.registry import CommandAnswer
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import strip_controls
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_names import make_session_name
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
from tidegate.tui.composer.input_frame import InputFrame
from tidegate.tui.composer.input_history import InputHistory
from tidegate.tui.conversation.conversation import Conversation
from tidegate.tui.conversation.log_pages import LogPager
from tidegate.tui.key_bindings import CHAT_BINDINGS, CONVERSATION_ACTIONS, KEY_HELP, WELCOME_TEXT
from tidegate.tui.paste_filter import make_driver_class
from tidegate.tui.screens.chat_pickers import ChatPickers
from tidegate.tui.screens.context_pane import ContextPane
from tidegate.tui.status.activity_line import ActivityLine
from tidegate.tui.status.status_bar import StatusBar
from tidegate.tui.status.status_figures import StatusFigures
from tidegate.tui.themes import DARK_THEME, LIGHT_THEME, find_theme, read_saved_theme, save_theme
from tidegate.tui.turn_state import TurnState
from tidegate.tui.user_shell import NO_OUTPUT_HINT, UserShell


def _describe_embedded(unchosen: UnchosenModel | None) -> str:
    answering = unchosen.answering if unchosen is not None else "A small model on this machine answers."
    keys = unchosen.known_keys if unchosen is not None else ""
    return " ".join(filter(None, (answering, "It gets no tools.", keys)))


class ChatApp(App[int]):
    TITLE = "tidegate"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = str(Path(__file__).with_name("chat.tcss"))
    BINDINGS: ClassVar[list[BindingType]] = [*CHAT_BINDINGS]
    AUTO_FOCUS = "#composer"  # from the first key on

    class EventsArrived(Message):
        """The agent's thread has sent events."""

    def __init__(
        self,
        data: DataFolder,
        opening: LaunchOptions,
        workspace: Path,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        theme: str = "",
        offer: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`theme` is a name; "" is the last one. `offer` is shown below the welcome. `clock` gives seconds."""
        super().__init__(driver_class=make_driver_class())
        self.data = data
        self.workspace = workspace
        self.sanitizer = TextSanitizer(data.mask)
        self.turn_state = TurnState(clock)
        self.session_name = opening.session_name
        self.agent_ready = False
        self._launch_options = opening
        self._welcome_text = f"{WELCOME_TEXT}\n{offer}".rstrip()
        self._pending_events: deque[ThreadEvent] = deque()
        self._leaving = self._escape_pressed = self._has_opened = False
        self._control_filter = ControlFilter()
        self.agent_thread = AgentThread(data, workspace, self._receive_event, provider_for=provider_for)
        self.pickers = ChatPickers(self, data, workspace, self.agent_thread, self.sanitizer)
        self.user_shell = UserShell(self.agent_thread, self.turn_state, opening.environment)
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        self.theme = find_theme(theme) if theme else read_saved_theme(data)

    def _fatal_error(self) -> None:
        """Close without a traceback: it would show the values of variables. The caller raises `failure`."""
        self._close_messages_no_wait()

    @property
    def failure(self) -> Exception | None:
        return self._exception

    def get_line_filters(self) -> list[LineFilter]:
        """With NO_COLOR no color at all is sent; Textual would send shades of gray."""
        filters = [NoColor() if isinstance(each, Monochrome) else each for each in super().get_line_filters()]
        return [*filters, self._control_filter]

    # --- the screen -----------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Conversation(self._make_log_pager(self.session_name), self.sanitizer, id="conversation")
        yield ActivityLine(self.turn_state, self.sanitizer, id="waiting")
        yield ApprovalPrompt(self.sanitizer, id="prompt")
        yield CompletionMenu(id="menu")
        yield InputFrame(self.workspace, id="input")
        yield StatusBar(id="status")

    def on_mount(self) -> None:
        """Keep references to the widgets: a later query would search the screen on top."""
        self.conversation = self.query_one(Conversation)
        self.status = self.query_one(StatusBar)
        self._activity_line = self.query_one(ActivityLine)
        self._input_frame = self.query_one(InputFrame)
        self.composer = self.query_one(Composer)
        self.approvals = ApprovalQueue(self.query_one(ApprovalPrompt), self.composer)
        self.completion = InputCompletion(
            self.composer, self.query_one(CompletionMenu), self.agent_thread, self.workspace
        )
        self.composer.placeholder = "Say something.  / commands, @ files, ! shell, F1 help"
        self.composer.input_history = InputHistory(self.data, self.session_name)
        self._update_title()
        self.composer.focus()
        self.theme_changed_signal.subscribe(self, lambda _: self.conversation.redraw())
        self.call_after_refresh(self._start_agent)

    def _start_agent(self) -> None:
        self.agent_thread.start()
        self.agent_thread.open(self._launch_options)

    def _make_log_pager(self, name: str) -> LogPager:
        return LogPager(lambda: self.data.open_log(name))

    def _update_title(self) -> None:
        self._input_frame.show_place(self.sanitizer.sanitize_line(self.session_name), self.conversation.position)

    def on_conversation_moved(self) -> None:
        self._update_title()

    # --- news -----------------------------------------------------------------------------------------------------

    def _receive_event(self, news: ThreadEvent) -> None:
        """Queue an event. Called in the agent's thread; one message announces all events until they are read."""
        self._pending_events.append(news)
        if len(self._pending_events) == 1:
            self.post_message(self.EventsArrived())

    def on_chat_app_events_arrived(self) -> None:
        if not self._pending_events:
            return
        while self._pending_events:
            self._handle_event(self._pending_events.popleft())
        self._show_live_blocks()
        self._update_waiting()

    def _show_live_blocks(self) -> None:
        """Show new remarks and the text being streamed."""
        self.conversation.add_remarks(self.turn_state.take_remarks())
        self.conversation.set_live_blocks(self.turn_state.live_blocks)

    def _handle_event(self, news: ThreadEvent) -> None:
        self.turn_state.handle_event(news)
        match news:
            case EventLogged(event):
                self.conversation.add_event(event)
            case StatusFigures():
                self.status.figures = news
            case AgentOpened():
                self._handle_opened(news)
            case AgentProblem(problem, _):
                self.turn_state.add_remark(problem, problem=True)
            case ApprovalRequested():
                self.approvals.add_request(news)
            case TurnFinished():
                self._handle_turn_finished(news)

    def _handle_opened(self, news: AgentOpened) -> None:
        is_changed = news.session_name != self.session_name
        is_other = is_changed or not self._has_opened
        self.session_name, self.agent_ready, self._has_opened = news.session_name, True, True
        if is_changed:
            self.approvals.reset_grants()
            self.composer.input_history = InputHistory(self.data, self.session_name)
            self.conversation.show_session(self._make_log_pager(self.session_name), self.sanitizer)
        self._update_title()
        if news.greeting or news.is_new:
            self.turn_state.add_remark(news.greeting or self._welcome_text)
        elif is_other and news.title:
            self.turn_state.add_remark(f"Continuing: {news.title}")
        if is_other and news.is_embedded:
            self.turn_state.add_remark(f"{_describe_embedded(news.unchosen)}\n{CONNECT_TEXT}")
        self._send_next()

    def _handle_turn_finished(self, over: TurnFinished) -> None:
        self.approvals.deny_all()
        if self.turn_state.take_long_end():
            self.bell()
        if over.agent_finished:
            self.exit(0)
        elif not over.was_interrupted and not over.problem:
            self._send_next()

    # --- sending --------------------------------------------------------------------------------------------------

    def on_composer_sent(self, event: Composer.Sent) -> None:
        draft = event.draft
        self._escape_pressed = False
        if draft.text.startswith("/"):
            self._command(draft.text)
        elif draft.text.startswith("!"):
            self._start_shell(draft)
        elif draft.text.strip():
            self.turn_state.queue_draft(draft)
            self.conversation.show_end()
            if not self.turn_state.is_busy:
                self._send_next()
        elif self.turn_state.queue and self.turn_state.is_busy:
            self._send_message(self.turn_state.queue.pop(0), steer=True)
        elif self.turn_state.queue:
            self._send_next()
        self._update_waiting()

    def _send_next(self) -> None:
        if self.agent_ready and self.turn_state.queue and not self.turn_state.is_busy:
            self.turn_state.start_turn()
            self._send_message(self.turn_state.queue.pop(0), steer=False)
            self._update_waiting()

    @work(group="out")
    async def _send_message(self, draft: MessageDraft, *, steer: bool) -> None:
        """Send a message. Its files are read in another thread: they may be large, or on a slow disk."""
        message, problems = await asyncio.to_thread(compose_message, draft, self.workspace)
        for problem in problems:
            self.turn_state.add_remark(problem, problem=True)
        self._show_live_blocks()
        (self.agent_thread.steer if steer else self.agent_thread.send)(message)

    def on_composer_queue_recalled(self) -> None:
        """Take a queued message back into the input."""
        if self.turn_state.queue:
            self.composer.replace_text(self.turn_state.recall_draft(self.composer.full_draft))
            self.composer.recalled_text = self.composer.text
            self._update_waiting()

    def _update_waiting(self) -> None:
        self.composer.has_queued_messages = bool(self.turn_state.queue)
        self.turn_state.set_asking(self.approvals.is_open)
        self._activity_line.agent_ready = self.agent_ready
        self._activity_line.update_lines()

    # --- commands of the user's shell -----------------------------------------------------------------------------

    def _start_shell(self, draft: MessageDraft) -> None:
        refusal = self.user_shell.find_refusal(draft)
        if refusal:
            self.turn_state.add_remark(refusal, problem=True)
            self._show_live_blocks()
        elif command := draft.text[1:].strip():
            self._run_shell(command)

    @work(group="shell")
    async def _run_shell(self, command: str) -> None:
        running = asyncio.ensure_future(self.user_shell.run(command))
        await asyncio.sleep(0)
        self._update_waiting()
        text = await running
        self._update_waiting()
        self._show_answer(f"!{command}", text)

    def _attach_output(self) -> None:
        text, command = self.user_shell.attachment, self.sanitizer.sanitize_line(self.user_shell.last_command)
        if text:
            self.composer.insert_block(text, f"output of {command}:")
        else:
            self._show_answer("/add", NO_OUTPUT_HINT)

    # --- what is typed --------------------------------------------------------------------------------------------

    @on(TextArea.Changed, "#composer")
    def _follow_typing(self) -> None:
        self._escape_pressed = False
        self._suggest()

    @work(group="suggest", exclusive=True)
    async def _suggest(self) -> None:
        await self.completion.suggest()

    def on_composer_menu_key_pressed(self, event: Composer.MenuKeyPressed) -> None:
        self.completion.handle_key(event.key)

    def on_approval_prompt_answered(self, event: ApprovalPrompt.Answered) -> None:
        self.approvals.answer_first(event.verdict)
        self._update_waiting()

    def on_approval_prompt_other_key_typed(self, event: ApprovalPrompt.OtherKeyTyped) -> None:
        self.composer.focus()
        self.composer.insert(event.text)

    # --- commands -------------------------------------------------------------------------------------------------

    @work(group="command")
    async def _command(self, line: str) -> None:
        await self._run_command(line)

    async def _run_command(self, line: str) -> None:
        answer = await asyncio.wrap_future(self.agent_thread.run_command(line))
        await self._handle_answer(line, answer)

    async def _handle_answer(self, line: str, answer: CommandAnswer) -> None:
        match answer.action:
            case PickSession():
                self.action_sessions()
                return
            case PickModel():
                self.action_models()
                return
            case AttachOutput():
                self._attach_output()
            case SetPlanMode(on):
                self.agent_thread.set_plan_mode(on)
                self.turn_state.plan_mode = on
                self._update_waiting()
            case ChooseTheme(name):
                self._choose_theme(name)
            case Quit():
                self.exit(0)
            case ResumeSession() | SwitchModel() | SwitchPolicy() | ReopenSession() as change:
                self.reopen(change)
            case None:
                pass
            case unknown:
                assert_never(unknown)
        if answer.text:
            self._show_answer(line, answer.text, error=answer.error)

    def _show_answer(self, line: str, text: str, *, error: bool = False) -> None:
        self.conversation.show_end()
        key = self.turn_state.add_command_answer(line, text, error=error)
        self._show_live_blocks()
        self.conversation.show_head(key)

    def reopen(self, change: LaunchChange) -> None:
        """Open the same conversation again with another model or policy, or open another session."""
        if self.agent_thread.launch_options is not None:
            self.agent_ready = False
            self.agent_thread.open(apply_change(self.agent_thread.launch_options, change))
            self._update_waiting()

    # --- keys -----------------------------------------------------------------------------------------------------

    def action_approve(self, key: str) -> None:
        self.query_one(ApprovalPrompt).answer(key)

    def action_interrupt(self) -> None:
        """Stop what is running, else clear the selection, else on the second press go back to an earlier message."""
        if self._stop_running():
            return
        if self.conversation.selected_key:
            self.conversation.selected_key = ""
        elif self._escape_pressed:
            self._escape_pressed = False
            self._go_back()
        else:
            self._escape_pressed = True

    def _stop_running(self) -> bool:
        """Stop the command of the user, or else the turn. Return whether anything was running."""
        if self.user_shell.stop():
            return True
        if self.turn_state.is_busy:
            self.agent_thread.interrupt()
        return self.turn_state.is_busy

    def action_stop(self) -> None:
        """Copy the selection; else interrupt the turn; else clear the input; else leave, on the second press."""
        if self.composer.selected_text:
            self.copy_to_clipboard(self.composer.selected_text)
        elif (selected := self.screen.get_selected_text()) is not None and selected:
            self.copy_to_clipboard(selected)
        elif self._stop_running():
            return
        elif self.composer.text:
            self.turn_state.forget_recalled()
            self.composer.replace_text(MessageDraft())
        elif self._leaving:
            self.exit(0)
        else:
            self._leaving = True
            self.notify("Press ctrl+c again to leave.", timeout=3, markup=False)
            self.set_timer(3, self._cancel_leaving)

    def _cancel_leaving(self) -> None:
        self._leaving = False

    def action_cards(self) -> None:
        self.conversation.toggle(self.conversation.selected_key)

    def action_card(self, step: int) -> None:
        self.conversation.choose(step)

    def action_page(self, step: int) -> None:
        self.conversation.page(step)

    def action_start(self) -> None:
        self.conversation.show_start()

    def action_end(self) -> None:
        self.conversation.show_end()

    def action_theme(self) -> None:
        self._use_theme(LIGHT_THEME.name if self.current_theme.dark else DARK_THEME.name)

    def _use_theme(self, name: str) -> None:
        self.theme = name
        save_theme(self.data, name)

    @work(group="pick", exclusive=True)
    async def _choose_theme(self, name: str) -> None:
        try:
            theme = find_theme(name) if name else await self.pickers.pick_theme()
        except BadInput as bad:
            self._show_answer(f"/theme {name}", str(bad), error=True)
            return
        if theme:
            self._use_theme(theme)

    def action_help(self) -> None:
        self._show_answer("/help", f"{KEY_HELP}\n\n{self.agent_thread.commands.help()}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the conversation's actions while another screen is on top, and answers while nothing is asked."""
        if action == "approve" and not self.query_one(ApprovalPrompt).find_verdict(str(parameters[0])):
            return False
        return len(self.screen_stack) == 1 or action not in CONVERSATION_ACTIONS

    def action_context(self) -> None:
        _ = self.push_screen(ContextPane(self.agent_thread, self.sanitizer), self._from_pane)

    def _from_pane(self, line: str | None) -> None:
        if line:
            self._command(line)

    @work(group="pick", exclusive=True)
    async def action_sessions(self) -> None:
        if name := await self.pickers.pick_session(self.session_name):
            self.reopen(ResumeSession(name))

    @work(group="pick", exclusive=True)
    async def action_history(self) -> None:
        """Search the earlier inputs and take one into the input."""
        history = self.composer.input_history
        if history is not None and (text := await self.pickers.pick_input(history)):
            self.composer.replace_text(MessageDraft().with_text(text), walking=True)

    @work(group="pick", exclusive=True)
    async def _go_back(self) -> None:
        """Let the user pick one of their messages; continue before it in a copy of the session, to write it again."""
        request = await self.pickers.pick_request(self.session_name)
        if request is None:
            return
        if request.seq > 1:
            await self._run_command(f"/fork at {request.seq - 1}")
        else:
            self.reopen(ResumeSession(make_session_name(self.session_name)))
        self.composer.replace_text(MessageDraft().with_text(request.text), walking=True)

    @work(group="pick", exclusive=True)
    async def action_models(self) -> None:
        if name := await self.pickers.pick_model():
            self.reopen(SwitchModel(name))

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.agent_thread.close)


class ControlFilter(LineFilter):
    """The last check before the terminal: no control character that a widget draws passes."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(" ".join(strip_controls(segment.text).replace("\t", " ").split("\n")), segment.style)
            for segment in segments
        ]
