"""The state of the current turn: whether one is running, its tools and streamed text, the queued messages."""

import time
from collections.abc import Callable
from typing import NamedTuple

from tidegate.agent.hooks.runner import HookReport
from tidegate.agent.loop import RequestRefused, ToolFinished, ToolStarted, TurnEnded
from tidegate.agent.runtime import UserNotice
from tidegate.core.events import MessageAdded
from tidegate.models.provider import Delta, Reply
from tidegate.tui.agent_thread import AgentActivity, EventLogged, ThreadEvent, TurnFinished
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock, find_call_subject

_END_REASON_TEXTS = {
    "steps": "The turn reached its step limit; send a message to continue.",
    "refused": "The model refused to answer. Rephrase it, or switch models with /model.",
    "filtered": "The provider filtered the answer. Rephrase it, or switch models with /model.",
    "length": "The answer reached its maximum length and was cut. Ask it to continue.",
    "empty": "The model answered with nothing. Send the message again, or switch models with /model.",
}

_LONG_TURN_SECONDS = 20
"""The end of a turn that takes longer is announced: the user may be elsewhere."""


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class RunningTask(NamedTuple):
    """A tool or a command of the user that is running. `since` is a time of the clock of `TurnState`."""

    name: str
    subject: str
    since: float


class TurnState:
    """`live_blocks` are shown after the log; remarks belong to no log: notices, problems, answers of commands.

    `clock` returns seconds; only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.is_busy = False
        self.turn_since = 0.0
        self.running_tools: dict[str, RunningTask] = {}
        self.running_command: RunningTask | None = None
        self.is_asking = False
        self.was_long = False
        self.plan_mode = False
        self.live_blocks: list[TranscriptBlock] = []
        self.pending_remarks: list[TranscriptBlock] = []
        self.queue: list[MessageDraft] = []
        self._recalled_index: int | None = None
        self._count = 0

    def take_remarks(self) -> list[TranscriptBlock]:
        """Return the new remarks, each once."""
        remarks, self.pending_remarks = self.pending_remarks, []
        return remarks

    def start_turn(self) -> None:
        self.is_busy, self.turn_since = True, self.clock()

    def take_long_end(self) -> bool:
        """Return whether a long turn has ended, once."""
        was_long, self.was_long = self.was_long, False
        return was_long

    def set_asking(self, asking: bool) -> None:
        """Note whether the user is being asked. The time that a tool waited for the answer does not count."""
        if self.is_asking and not asking:
            now = self.clock()
            self.running_tools = {key: task._replace(since=now) for key, task in self.running_tools.items()}
        self.is_asking = asking

    def queue_draft(self, draft: MessageDraft) -> None:
        """Queue a message. One that was taken back to be edited returns to its place."""
        place = len(self.queue) if self._recalled_index is None else min(self._recalled_index, len(self.queue))
        self.queue.insert(place, draft)
        self._recalled_index = None

    def recall_draft(self, current: MessageDraft) -> MessageDraft:
        """Take a queued message out to be edited: the newest, then the one before. `current` is the one taken out
        last, which returns to its place."""
        place = len(self.queue) - 1 if self._recalled_index is None else self._recalled_index - 1
        if current.text.strip():
            self.queue_draft(current)
        self._recalled_index = place if 0 <= place < len(self.queue) else len(self.queue) - 1
        return self.queue.pop(self._recalled_index)

    def forget_recalled(self) -> None:
        """The message that was taken out was deleted."""
        self._recalled_index = None

    def add_remark(self, text: str, *, problem: bool = False) -> None:
        self._count += 1
        self.pending_remarks.append(TranscriptBlock(f"r{self._count}", "problem" if problem else "note", text))

    def add_command_answer(self, line: str, text: str, *, error: bool = False) -> str:
        """Add the answer of a command and return the key of its block. It is not part of the conversation."""
        self._count += 1
        self.pending_remarks.append(TranscriptBlock(f"r{self._count}", "problem" if error else "answer", text, line))
        return self.pending_remarks[-1].key

    def handle_event(self, event: ThreadEvent) -> None:
        if isinstance(event, EventLogged):
            if isinstance(event.event.payload, MessageAdded) and event.event.payload.message.role == "assistant":
                self.live_blocks = []
        elif isinstance(event, AgentActivity):
            self._handle_activity(event)
        elif isinstance(event, TurnFinished):
            elapsed = self.clock() - self.turn_since
            if self.is_busy and elapsed >= _LONG_TURN_SECONDS and not event.was_interrupted:
                self.was_long = True
                self.add_remark(f"The turn ended after {format_duration(elapsed)}.")
            self.is_busy, self.live_blocks, self.running_tools = False, [], {}
            if event.problem:
                self.add_remark(event.problem, problem=True)
            elif event.was_interrupted:
                self.add_remark("Interrupted. The answer so far is kept.")

    def _handle_activity(self, event: AgentActivity) -> None:
        match event.event:
            case Delta(kind="text", text=text):
                self._append_live_text("said", text)
            case Delta(kind="thinking", text=text):
                self._append_live_text("thinking", text)
            case Reply():
                self.live_blocks = []
            case ToolStarted(call):
                self.running_tools[call.id] = RunningTask(call.name, find_call_subject(call.arguments), self.clock())
            case ToolFinished(call, _):
                self.running_tools.pop(call.id, None)
            case RequestRefused(fault):
                self.live_blocks = []
                self.add_remark(f"The provider refused the request ({fault.kind}); it is changed and sent again.")
            case TurnEnded(why) if why in _END_REASON_TEXTS:
                self.add_remark(_END_REASON_TEXTS[why])
            case UserNotice(text):
                self.add_remark(text)
            case HookReport(hook, action, text, error) if error or action == "log":
                self.add_remark(f"hook {hook}: {text}", problem=bool(error))

    def _append_live_text(self, kind: str, text: str) -> None:
        if not self.live_blocks or self.live_blocks[-1].kind != kind:
            self._count += 1
            self.live_blocks.append(TranscriptBlock(f"l{self._count}", "thinking" if kind == "thinking" else "said"))
        self.live_blocks[-1].text += text
