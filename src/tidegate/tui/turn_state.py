"""What goes on right now: is a turn under way, what is being said, what waits to be sent. No screen, no session."""

from tidegate.agent.hooks.runner import HookReport
from tidegate.agent.loop import RequestRefused, TurnEnded
from tidegate.agent.runtime import UserNotice
from tidegate.core.events import MessageAdded
from tidegate.models.provider import Delta, Reply
from tidegate.tui.agent_thread import AgentActivity, EventLogged, ThreadEvent, TurnFinished
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock

_END_REASON_TEXTS = {
    "steps": "The turn ended after its last allowed step; say something to go on.",
    "refused": "The model refused to answer.",
    "filtered": "The provider filtered the answer.",
    "length": "The answer was cut at its longest.",
    "empty": "The model answered with nothing.",
}


class TurnState:
    """`saying` is what is shown behind the log, `remarks` what belongs to no log: notices, problems, answers."""

    def __init__(self) -> None:
        self.busy = False
        self.saying: list[TranscriptBlock] = []
        self.remarks: list[TranscriptBlock] = []
        self.queue: list[MessageDraft] = []
        self._count = 0

    def fresh(self) -> list[TranscriptBlock]:
        """The remarks that were not asked for yet."""
        remarks, self.remarks = self.remarks, []
        return remarks

    def begin(self) -> None:
        self.busy = True

    def remark(self, text: str, *, problem: bool = False) -> None:
        self._count += 1
        self.remarks.append(TranscriptBlock(f"r{self._count}", "problem" if problem else "note", text))

    def answer(self, line: str, text: str, *, error: bool = False) -> str:
        """What a command said: no part of the conversation. The key of its block."""
        self._count += 1
        self.remarks.append(TranscriptBlock(f"r{self._count}", "problem" if error else "answer", text, line))
        return self.remarks[-1].key

    def take(self, news: ThreadEvent) -> None:
        if isinstance(news, EventLogged):
            if isinstance(news.event.what, MessageAdded) and news.event.what.message.role == "assistant":
                self.saying = []
        elif isinstance(news, AgentActivity):
            self._happened(news)
        elif isinstance(news, TurnFinished):
            self.busy, self.saying = False, []
            if news.problem:
                self.remark(news.problem, problem=True)
            elif news.interrupted:
                self.remark("Interrupted. What was said so far is kept.")

    def _happened(self, news: AgentActivity) -> None:
        match news.what:
            case Delta(kind="text", text=text):
                self._grow("said", text)
            case Delta(kind="thinking", text=text):
                self._grow("thinking", text)
            case Reply():
                self.saying = []
            case RequestRefused(fault):
                self.saying = []
                self.remark(f"The provider refused the request ({fault.kind}); it is sent again, changed.")
            case TurnEnded(why) if why in _END_REASON_TEXTS:
                self.remark(_END_REASON_TEXTS[why])
            case UserNotice(text):
                self.remark(text)
            case HookReport(hook, action, text, error) if error or action == "log":
                self.remark(f"hook {hook}: {text}", problem=bool(error))

    def _grow(self, kind: str, text: str) -> None:
        if not self.saying or self.saying[-1].kind != kind:
            self._count += 1
            self.saying.append(TranscriptBlock(f"l{self._count}", "thinking" if kind == "thinking" else "said"))
        self.saying[-1].text += text
